package console

import (
	"cmp"
	"slices"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/health"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

const (
	// examplesShown is how many errors of an endpoint's newest deliveries a page shows.
	examplesShown = 3
	// clocksDiffer is by how much the clock of an instance may be ahead of the store's. An
	// endpoint that was made so little before the figures began is no older than they are.
	clocksDiffer = 5 * time.Second
)

// failures are the failed attempts of an endpoint in the last day, counted by what went
// wrong. They come from its own figures, whatever others do.
type failures struct {
	Uncounted bool           // there are no figures, so it is not known whether any failed
	Since     time.Time      // the figures begin then, later than a day ago; zero: they don't
	Unsure    bool           // when they begin is not known
	Mixed     bool           // in some half hours it may have been counted together with others
	Groups    []failureGroup // the most frequent first
	Examples  []failureExample
}

// failureGroup counts failed attempts of one kind.
type failureGroup struct {
	Count int64
	Text  string
}

// failureExample is what went wrong with one of the endpoint's newest deliveries.
type failureExample struct {
	Message string
	Code    int
	Text    string
}

// failuresOf counts what failed of an endpoint.
func (s *server) failuresOf(e *wire.EndpointView, bars []health.Bar) failures {
	if s.Bars == nil {
		return failures{Uncounted: true}
	}
	var f failures
	var sum health.Failures
	for _, b := range bars {
		sum.Merge(b.Failed)
		f.Mixed = f.Mixed || b.Unsure
	}
	f.Groups = groupsOf(sum)
	began := time.Time{}
	if s.FiguresSince != nil {
		began = s.FiguresSince(dispatcher.Lane(e.ID))
	}
	switch {
	case began.IsZero():
		f.Unsure = true
	case began.After(s.Now().Add(-health.KeptBars*health.Half)) && began.After(e.CreatedAt.Add(clocksDiffer)):
		f.Since = began
	}
	return f
}

// groupsOf are the kinds of failures that occurred.
func groupsOf(f health.Failures) []failureGroup {
	groups := []failureGroup{
		{f.TLS, "TLS: the certificate is not trusted, or the handshake failed"},
		{f.DNS, "DNS: the name was not found"},
		{f.Connect, "no connection, or one that broke"},
		{f.Timeout, "no answer in time"},
		{f.Server, "answered with a status 5xx"},
		{f.Refused, "answered with another status, or a body that is not a success"},
		{f.Internal, "not the receiver's fault, or taken and not settled"},
	}
	groups = slices.DeleteFunc(groups, func(g failureGroup) bool { return g.Count == 0 })
	slices.SortStableFunc(groups, func(a, b failureGroup) int { return cmp.Compare(b.Count, a.Count) })
	return groups
}

// examplesOf are the different errors of deliveries, in their order.
func examplesOf(lists ...[]wire.Delivery) (examples []failureExample) {
	for _, list := range lists {
		for i := range list {
			d := &list[i]
			same := func(x failureExample) bool { return x.Code == d.LastStatusCode && x.Text == d.LastError }
			if d.LastError == "" || slices.ContainsFunc(examples, same) {
				continue
			}
			if examples = append(examples, failureExample{Message: messageOf(d.ID), Code: d.LastStatusCode, Text: d.LastError}); len(examples) == examplesShown {
				return examples
			}
		}
	}
	return examples
}
