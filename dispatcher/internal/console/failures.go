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
	// clocksDiffer is how much the clock of an instance may be ahead of the store's. An
	// endpoint is not older than its figures if it was created that shortly before they
	// began.
	clocksDiffer = 5 * time.Second
)

// failures are the failed attempts of an endpoint in the last day, counted by cause. They
// come from its own figures only.
type failures struct {
	Uncounted bool           // there are no figures, so it is unknown whether any failed
	Since     time.Time      // the figures begin then, less than a day ago; zero: earlier
	Unsure    bool           // their beginning is unknown
	Mixed     bool           // some half hours may be counted together with other endpoints
	Groups    []failureGroup // most frequent first
	Examples  []failureExample
}

// failureGroup counts failed attempts with one cause.
type failureGroup struct {
	Count int64
	Text  string
}

// failureExample is the error of one of the endpoint's newest deliveries.
type failureExample struct {
	Message string
	Code    int
	Text    string
}

// failuresOf counts the failed attempts of an endpoint.
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

// groupsOf returns the causes that occurred.
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

// examplesOf returns the different errors of deliveries, in their order.
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
