package dispatcher_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

const (
	ownURL   = "https://shop.example/hook"
	otherURL = "https://other.example/hook"
	thirdURL = "https://third.example/hook"
)

// changedBy is an endpoint after a change by a link or by an operator.
func changedBy(e *dispatcher.Endpoint, link bool, change func(*dispatcher.Endpoint)) *dispatcher.Endpoint {
	next := e.Clone()
	change(next)
	next.NoteSetter(e, link)
	return next
}

func TestHeadersBelongToTheURLThatAnOperatorSetThemFor(t *testing.T) {
	const link, operator = true, false
	type step struct {
		link bool
		do   func(*dispatcher.Endpoint)
	}
	url := func(to string) func(*dispatcher.Endpoint) { return func(e *dispatcher.Endpoint) { e.URL = to } }
	described := func(e *dispatcher.Endpoint) { e.Description = "new" }
	resumed := func(e *dispatcher.Endpoint) { e.Paused, e.Disabled, e.Unverified = false, false, false }
	valued := func(names string, named bool) func(*dispatcher.Endpoint) { // as a patch does that gives values
		return func(e *dispatcher.Endpoint) {
			for _, name := range strings.Fields(names) {
				isNew := !slices.ContainsFunc(e.Headers, func(h dispatcher.Header) bool { return strings.EqualFold(h.Name, name) })
				if e.NoteHeader(name, isNew, named); isNew {
					e.Headers = append(e.Headers, dispatcher.Header{Name: name, Value: "new"})
				}
			}
		}
	}
	const seen, unseen = true, false
	removed := func(e *dispatcher.Endpoint) { e.Headers = e.Headers[1:] }
	for name, c := range map[string]struct {
		steps  []step
		held   string
		linked bool
	}{
		"nothing happened":                            {nil, "", false},
		"a link sets another URL":                     {[]step{{link, url(otherURL)}}, "X-Token X-Key", true},
		"a link sets the same URL":                    {[]step{{link, url(ownURL)}}, "", false},
		"a link sets another path":                    {[]step{{link, url(ownURL + "/")}}, "X-Token X-Key", true},
		"a link sets another query":                   {[]step{{link, url(ownURL + "?a")}}, "X-Token X-Key", true},
		"a link changes something else":               {[]step{{link, described}}, "", false},
		"a link moves on":                             {[]step{{link, url(otherURL)}, {link, url(thirdURL)}}, "X-Token X-Key", true},
		"a link puts it back":                         {[]step{{link, url(otherURL)}, {link, url(ownURL)}}, "", true},
		"a link puts it back and moves on":            {[]step{{link, url(otherURL)}, {link, url(ownURL)}, {link, url(thirdURL)}}, "X-Token X-Key", true},
		"a link can't give a value":                   {[]step{{link, url(otherURL)}, {link, valued("x-token", seen)}}, "X-Token X-Key", true},
		"a link can't confirm at once":                {[]step{{link, func(e *dispatcher.Endpoint) { url(otherURL)(e); e.Confirm() }}}, "X-Token X-Key", true},
		"the operator changes something else":         {[]step{{link, url(otherURL)}, {operator, described}}, "X-Token X-Key", true},
		"the operator resumes it":                     {[]step{{link, url(otherURL)}, {operator, resumed}}, "X-Token X-Key", true},
		"the operator repeats the URL":                {[]step{{link, url(otherURL)}, {operator, url(otherURL)}}, "X-Token X-Key", true},
		"the operator sets a third URL":               {[]step{{link, url(otherURL)}, {operator, url(thirdURL)}}, "X-Token X-Key", false},
		"the operator puts it back":                   {[]step{{link, url(otherURL)}, {operator, url(ownURL)}}, "", false},
		"the operator gives a value and the URL":      {[]step{{link, url(otherURL)}, {operator, valued("x-token", seen)}}, "X-Key", true},
		"the operator gives a value only":             {[]step{{link, url(otherURL)}, {operator, valued("x-token", unseen)}}, "X-Token X-Key", true},
		"the operator adds a header and the URL":      {[]step{{link, url(otherURL)}, {operator, valued("x-new", seen)}}, "X-Token X-Key", true},
		"the operator adds a header only":             {[]step{{link, url(otherURL)}, {operator, valued("x-new", unseen)}}, "X-Token X-Key x-new", true},
		"a header for no URL is for none":             {[]step{{link, url(otherURL)}, {operator, valued("x-new", unseen)}, {link, url(ownURL)}}, "x-new", true},
		"a header for no URL follows no operator":     {[]step{{link, url(otherURL)}, {operator, valued("x-new", unseen)}, {operator, url(thirdURL)}}, "X-Token X-Key x-new", false},
		"the operator adds a header to his own URL":   {[]step{{operator, valued("x-new", unseen)}}, "", false},
		"the operator rotates one that is sent":       {[]step{{link, url(otherURL)}, {link, url(ownURL)}, {operator, valued("x-token", unseen)}}, "", true},
		"each header is for a URL of its own":         {[]step{{link, url(otherURL)}, {operator, valued("x-token", seen)}, {link, url(ownURL)}}, "X-Token", true},
		"each header is sent to a URL of its own":     {[]step{{link, url(otherURL)}, {operator, valued("x-token", seen)}, {link, url(ownURL)}, {link, url(otherURL)}}, "X-Key", true},
		"and to no third one":                         {[]step{{link, url(otherURL)}, {operator, valued("x-token", seen)}, {link, url(thirdURL)}}, "X-Token X-Key", true},
		"the operator confirms":                       {[]step{{link, url(otherURL)}, {operator, (*dispatcher.Endpoint).Confirm}}, "", false},
		"the operator confirms one for no URL":        {[]step{{link, url(otherURL)}, {operator, valued("x-new", unseen)}, {operator, (*dispatcher.Endpoint).Confirm}}, "", false},
		"a link moves what was confirmed":             {[]step{{link, url(otherURL)}, {operator, (*dispatcher.Endpoint).Confirm}, {link, url(ownURL)}}, "X-Token X-Key", true},
		"the operator moves it":                       {[]step{{operator, url(otherURL)}}, "", false},
		"the operator removes a header":               {[]step{{link, url(otherURL)}, {operator, removed}}, "X-Key", true},
		"a link moves what the operator removed from": {[]step{{link, url(otherURL)}, {operator, removed}, {operator, removed}}, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			e := &dispatcher.Endpoint{URL: ownURL, Headers: []dispatcher.Header{{Name: "X-Token", Value: "t"}, {Name: "X-Key", Value: "k"}}}
			e.NoteCreator(false)
			for _, s := range c.steps {
				before, was := e, maps.Clone(e.HeadersFor)
				e = changedBy(e, s.link, s.do)
				require.Equal(t, was, before.HeadersFor, "a reader of the former one sees no change")
			}
			require.Equal(t, c.held, strings.Join(e.HeldHeaders(), " "))
			require.Equal(t, c.linked, e.Linked)
			require.Len(t, e.HeadersFor, len(e.HeldHeaders()), "it names only what is held")
			require.Len(t, e.SentHeaders(), len(e.Headers)-len(e.HeldHeaders()))
		})
	}
}

func TestAnEndpointNamesTheHeadersThatAChangeReleased(t *testing.T) {
	e := &dispatcher.Endpoint{URL: ownURL, Headers: []dispatcher.Header{{Name: "X-Token", Value: "t"}, {Name: "X-Key", Value: "k"}}}
	moved := changedBy(e, true, func(e *dispatcher.Endpoint) { e.URL = otherURL })
	require.Empty(t, moved.Released(e))
	one := changedBy(moved, false, func(e *dispatcher.Endpoint) { e.NoteHeader("x-token", false, true) })
	require.Equal(t, []string{"X-Token"}, one.Released(moved))
	confirmed := changedBy(one, false, (*dispatcher.Endpoint).Confirm)
	require.Equal(t, []string{"X-Key"}, confirmed.Released(one))
	require.Equal(t, []string{"X-Token", "X-Key"}, confirmed.Released(moved))
	gone := changedBy(moved, false, func(e *dispatcher.Endpoint) { e.Headers = nil })
	require.Empty(t, gone.Released(moved), "it is not sent either")
}

func TestAnEndpointThatALinkCreatedHasALinksURL(t *testing.T) {
	for link, want := range map[bool]bool{true: true, false: false} {
		e := &dispatcher.Endpoint{URL: ownURL, Linked: !want, HeadersFor: map[string]string{"x-token": otherURL}}
		e.NoteCreator(link)
		require.Equal(t, want, e.Linked)
		require.Equal(t, want, e.Unverified)
		require.Empty(t, e.HeadersFor)
	}
	pull := &dispatcher.Endpoint{Pull: true}
	pull.NoteCreator(true)
	require.False(t, pull.Linked)
}

func TestALinkOnlyNarrowsWhatTheOperatorGave(t *testing.T) {
	topics := func(all ...string) func(*dispatcher.Endpoint) {
		return func(e *dispatcher.Endpoint) { e.Topics = all }
	}
	e := &dispatcher.Endpoint{URL: ownURL, Topics: []string{"order.*"}}
	e.NoteCreator(false)
	require.Equal(t, []string{"order.*"}, e.AllowedTopics())
	e = changedBy(e, true, topics("order.paid"))
	require.Equal(t, []string{"order.*"}, e.AllowedTopics(), "it can go back")
	e = changedBy(e, true, topics())
	require.Equal(t, []string{"order.*"}, e.AllowedTopics())
	e = changedBy(e, false, topics("refund.*"))
	require.Equal(t, []string{"refund.*"}, e.AllowedTopics(), "the operator's last word")
	e = changedBy(e, false, func(e *dispatcher.Endpoint) { e.TopicsAllowed = []string{"*"} })
	require.Equal(t, []string{"*"}, e.AllowedTopics())
	e = changedBy(e, true, func(e *dispatcher.Endpoint) { e.TopicsAllowed = []string{"hookladder.*"} })
	require.Equal(t, []string{"*"}, e.AllowedTopics(), "the list is the operator's")
	e = changedBy(e, false, func(e *dispatcher.Endpoint) { e.TopicsAllowed = []string{} })
	require.Empty(t, e.AllowedTopics(), "an empty list allows nothing")

	made := &dispatcher.Endpoint{URL: ownURL, Topics: []string{"order.*"}}
	made.NoteCreator(true)
	require.Equal(t, []string{"*"}, made.AllowedTopics(), "no operator has set any")
}

func TestTheTopicsThatALinkMaySet(t *testing.T) {
	const single, all = true, false
	for _, c := range []struct {
		allowed []string
		topic   string
		single  bool
		want    bool
	}{
		{[]string{"order.*"}, "order.paid", single, true},
		{[]string{"order.*"}, "order.*", single, true},
		{[]string{"order.*"}, "order.paid.*", single, true},
		{[]string{"order.*"}, "order", single, false},
		{[]string{"order.*"}, "orders.paid", single, false},
		{[]string{"order.*"}, "*", single, false},
		{[]string{"order.paid"}, "order.*", single, false},
		{[]string{"order.paid", "order.made"}, "order.made", single, true},
		{[]string{"*"}, "order.paid", single, true},
		{[]string{"*"}, "*", single, true},
		{[]string{}, "order.paid", single, false},
		{nil, "*", all, true},
		{[]string{"order.*"}, "*", all, true},
		{nil, "hookladder.*", all, false},
		{[]string{"*"}, "hookladder.*", all, false},
		{[]string{"*"}, "hookladder.delivery.dead", single, false},
		{[]string{"hookladder.*"}, "hookladder.endpoint.failing", all, true},
		{[]string{"hookladder.*"}, "hookladder.*", single, true},
		{[]string{"hookladder.*"}, "hookladder.delivery.dead", single, false}, // the list does not take these either
		{[]string{"hookladder.delivery.dead"}, "hookladder.delivery.dead", all, true},
	} {
		wrong := dispatcher.CheckLinkTopics([]string{"order.none", c.topic}, append([]string{"order.none"}, c.allowed...), c.single)
		require.Equal(t, c.want, len(wrong) == 0, "%+v", c)
		if !c.want {
			require.Equal(t, "$.topics[1]", wrong[0].Path)
			require.Contains(t, wrong[0].Detail, "ask the operator")
		}
	}
}
