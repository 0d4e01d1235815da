package dispatcher_test

import (
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
	valued := func(e *dispatcher.Endpoint) { e.HeadersFor = "" } // as a patch does that gives a value
	removed := func(e *dispatcher.Endpoint) { e.Headers = nil }
	for name, c := range map[string]struct {
		steps        []step
		held, linked bool
	}{
		"nothing happened":                            {nil, false, false},
		"a link sets another URL":                     {[]step{{link, url(otherURL)}}, true, true},
		"a link sets the same URL":                    {[]step{{link, url(ownURL)}}, false, false},
		"a link sets another path":                    {[]step{{link, url(ownURL + "/")}}, true, true},
		"a link sets another query":                   {[]step{{link, url(ownURL + "?a")}}, true, true},
		"a link changes something else":               {[]step{{link, described}}, false, false},
		"a link moves on":                             {[]step{{link, url(otherURL)}, {link, url(thirdURL)}}, true, true},
		"a link puts it back":                         {[]step{{link, url(otherURL)}, {link, url(ownURL)}}, false, true},
		"a link puts it back and moves on":            {[]step{{link, url(otherURL)}, {link, url(ownURL)}, {link, url(thirdURL)}}, true, true},
		"a link can't confirm":                        {[]step{{link, url(otherURL)}, {link, valued}}, true, true},
		"a link can't confirm at once":                {[]step{{link, func(e *dispatcher.Endpoint) { url(otherURL)(e); e.Confirm() }}}, true, true},
		"the operator changes something else":         {[]step{{link, url(otherURL)}, {operator, described}}, true, true},
		"the operator repeats the URL":                {[]step{{link, url(otherURL)}, {operator, url(otherURL)}}, true, true},
		"the operator sets a third URL":               {[]step{{link, url(otherURL)}, {operator, url(thirdURL)}}, true, false},
		"the operator puts it back":                   {[]step{{link, url(otherURL)}, {operator, url(ownURL)}}, false, false},
		"the operator gives a value":                  {[]step{{link, url(otherURL)}, {operator, valued}}, false, true},
		"the operator gives a value and a link moves": {[]step{{link, url(otherURL)}, {operator, valued}, {link, url(ownURL)}}, true, true},
		"the operator confirms":                       {[]step{{link, url(otherURL)}, {operator, (*dispatcher.Endpoint).Confirm}}, false, false},
		"a link moves what was confirmed":             {[]step{{link, url(otherURL)}, {operator, (*dispatcher.Endpoint).Confirm}, {link, url(ownURL)}}, true, true},
		"the operator moves it":                       {[]step{{operator, url(otherURL)}}, false, false},
		"the operator removes the headers":            {[]step{{link, url(otherURL)}, {operator, removed}}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			e := &dispatcher.Endpoint{URL: ownURL, Headers: []dispatcher.Header{{Name: "X-Token", Value: "t"}}}
			e.NoteCreator(false)
			for _, s := range c.steps {
				e = changedBy(e, s.link, s.do)
			}
			require.Equal(t, c.held, e.HeadersHeld())
			require.Equal(t, c.linked, e.Linked)
			require.Equal(t, c.held, e.HeadersFor != "", "it names a URL only while they are held")
		})
	}
}

func TestAnEndpointThatALinkCreatedHasALinksURL(t *testing.T) {
	for link, want := range map[bool]bool{true: true, false: false} {
		e := &dispatcher.Endpoint{URL: ownURL, Linked: !want, HeadersFor: otherURL}
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
