package console

import (
	"fmt"
	"slices"

	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

const (
	// homeEndpoints is how many endpoints a merchant's first page reads.
	homeEndpoints = 50
	// homeRows is the length of each of its lists.
	homeRows = 8
)

// homePage is the data of a merchant's first page.
type homePage struct {
	Missing   missing       // parts: endpoints, failures, newest
	Late      missing       // parts of Rows: lanes, bars
	Endpoints int           // how many were read
	Rows      []endpointRow // those with problems first
	More      bool          // there are more endpoints
	Troubles  []merchantNeed
	Waiting   int
	InFlight  int
	Failures  []deliveryRow
	Newest    []deliveryRow

	MoreFailures, MoreNewest bool // there are more than were read
}

// merchantNeed is an endpoint with a problem that its merchant should fix.
type merchantNeed struct {
	Endpoint wire.EndpointView
	Name     string
	State    string    // in a word
	Text     string    // the problem and its fix
	Since    wire.Time // zero: unknown
	weight   int       // the largest first
}

// home serves GET /link/.
func home(v *visit) (pageAnswer, error) {
	var p homePage
	read := parts{v: v}
	read.add("endpoints", func() error {
		page, err := v.Endpoints(v.ctx, client.EndpointFilter{Limit: homeEndpoints})
		if err != nil {
			return err
		}
		return p.endpoints(v, page)
	})
	list := func(rows *[]deliveryRow, more *bool, ids string, statuses ...string) {
		read.add(ids, func() error {
			page, err := v.Deliveries(v.ctx, client.Filter{Statuses: statuses, Limit: homeRows})
			*rows, *more = deliveryRows(v, page.Data), page.NextCursor != nil
			for i := range *rows {
				(*rows)[i].ID = ids + "-" + (*rows)[i].ID // one may be in both lists
			}
			return err
		})
	}
	list(&p.Failures, &p.MoreFailures, "failures", "retrying", "dead")
	list(&p.Newest, &p.MoreNewest, "newest")
	var err error
	if p.Missing, err = read.wait(); err != nil {
		return pageAnswer{}, err
	}
	return pageAnswer{template: "home", title: "Overview", section: "home", body: p}, nil
}

// endpoints sets what the page shows of endpoints.
func (p *homePage) endpoints(v *visit, page wire.EndpointPage) (err error) {
	all := page.Data
	p.Endpoints, p.More = len(all), page.NextCursor != nil
	for _, e := range all {
		p.Waiting += e.Waiting
		p.InFlight += e.InFlight
		if t, ok := needOf(e); ok {
			p.Troubles = append(p.Troubles, t)
		}
	}
	slices.SortStableFunc(p.Troubles, func(a, b merchantNeed) int { return b.weight - a.weight })
	needs := func(e wire.EndpointView) int {
		t, _ := needOf(e)
		return t.weight
	}
	slices.SortStableFunc(all, func(a, b wire.EndpointView) int { return needs(b) - needs(a) })
	p.Rows, p.Late, err = v.rows(all[:min(len(all), homeRows)])
	return err
}

// needOf describes the problem of an endpoint, in the words for its merchant.
func needOf(e wire.EndpointView) (t merchantNeed, ok bool) {
	t = merchantNeed{Endpoint: e, Name: EndpointName(e), State: listedState(e), Since: e.FailingSince}
	waiting := ""
	if e.Waiting > 0 {
		waiting = fmt.Sprintf(" %d wait meanwhile.", e.Waiting)
	}
	switch {
	case e.State == "disabled" && e.DisabledReason == "gone":
		t.Text, t.weight, t.Since = "Switched off: it answered 410, which means that it is gone. Nothing is sent to it. Resume it when it is back.", 5, e.DisabledAt
	case e.State == "disabled" && e.DisabledReason == "failing":
		t.Text, t.weight, t.Since = "Switched off, since nothing arrived there for too long. Mend it, test it, and resume it.", 5, e.DisabledAt
	case e.State == "disabled":
		t.Text, t.weight, t.Since = "Switched off by the operator. Nothing is sent to it. Ask them to switch it on.", 5, e.DisabledAt
	case e.State == "unverified":
		t.Text, t.weight, t.Since = "Its address is new and nothing is sent to it yet: run a test. Its deliveries wait until one succeeds."+waiting, 3, wire.Time{}
	case e.State == "paused":
		t.Text, t.weight, t.Since = "Paused. Its deliveries wait until it is resumed."+waiting, 2, wire.Time{}
	case fails(e.State, e.FailingSince) && e.State == "open":
		t.Text, t.weight = "It failed several times in a row, so it is tried with one attempt at a time."+waiting, 4
	case fails(e.State, e.FailingSince):
		t.Text, t.weight = "All attempts fail. It is tried again by itself."+waiting, 4
	default:
		return t, false
	}
	return t, true
}
