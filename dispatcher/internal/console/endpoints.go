package console

import (
	"cmp"
	"context"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// endpointsShown is the page length of the list.
const endpointsShown = 50

// endpointsPage is the list of endpoints, newest first.
type endpointsPage struct {
	Late   missing // parts: lanes, bars
	Tenant string
	All    bool // of all tenants
	Rows   []endpointRow
	Wrong  string
	Pages  listPages
	May    bool // the visitor may create an endpoint here
}

// endpointRow is an endpoint with its state and its success rate.
type endpointRow struct {
	wire.EndpointView
	Name string // its name for people
	Lane wire.LaneState
	Bars []dispatcher.Bar
	Rate successRate
}

// successRate is the sum of bars.
type successRate struct {
	Delivered, Failed int64
	P95               time.Duration // 0: no responses
	More              bool          // the real value is above P95
}

// Percent returns the delivered share, with enough digits that it is not rounded to 100 %.
func (s successRate) Percent() string { return percent(s.Delivered, s.Delivered+s.Failed) }

// Low reports whether the failed share is so large that an operator should act.
func (s successRate) Low() bool { return s.Failed*10 > s.Delivered+s.Failed }

// successOf adds up bars.
func successOf(bars []dispatcher.Bar) (s successRate) {
	var took dispatcher.Durations
	for _, b := range bars {
		s.Delivered += b.Delivered
		s.Failed += b.Failed.Total()
		for i, n := range b.Took {
			took[i] += n
		}
	}
	s.P95, s.More = took.Quantile(0.95)
	return s
}

// State returns the state of the endpoint, or the state of its lane if that says more.
func (r endpointRow) State() string {
	if r.EndpointView.State == "active" || r.EndpointView.State == "open" {
		return cmp.Or(r.Lane.State, r.EndpointView.State)
	}
	return r.EndpointView.State
}

// Since returns when that state began.
func (r endpointRow) Since() wire.Time {
	switch {
	case r.State() == "active":
		return wire.Time{}
	case r.EndpointView.State == "disabled":
		return r.DisabledAt
	case r.Lane.Since.IsZero():
		return r.FailingSince
	}
	return r.Lane.Since
}

// endpoints serves GET …/endpoints.
func endpoints(v *visit) (pageAnswer, error) {
	q := v.r.URL.Query()
	page := endpointsPage{Tenant: q.Get("tenant"), All: q.Get("tenant") == "", May: v.mayAdd()}
	f := client.EndpointFilter{Limit: endpointsShown, Cursor: q.Get("cursor")}
	if !page.All {
		f.Tenants = []string{page.Tenant}
	}
	list, err := v.Endpoints(v.ctx, f)
	if page.Wrong, err = refusal(err); err != nil {
		return pageAnswer{}, err
	}
	if page.Rows, page.Late, err = v.rows(list.Data); err != nil {
		return pageAnswer{}, err
	}
	page.Pages = pagesOf(v.base+"/endpoints", q, f.Cursor, list.NextCursor)
	return pageAnswer{template: "endpoints", title: "Endpoints", section: "endpoints", body: page}, nil
}

// mayAdd reports whether the visitor can create an endpoint. A link to a single endpoint
// can't.
func (v *visit) mayAdd() bool {
	return v.May("create-endpoint") && (v.Link == nil || v.Link.Endpoint == "")
}

// mayConfigure reports whether the visitor can set all fields of an endpoint. A link can set only
// a few.
func (v *visit) mayConfigure() bool { return v.Link == nil && v.May("patch-endpoint") }

// rows reads the states (part lanes) and success rates (part bars) of endpoints.
func (v *visit) rows(list []wire.EndpointView) ([]endpointRow, missing, error) {
	if len(list) == 0 {
		return nil, nil, nil
	}
	names := make([]string, len(list))
	for i, e := range list {
		names[i] = e.ID
	}
	var lanes wire.LanePage
	var bars map[dispatcher.Lane][]dispatcher.Bar
	read := parts{v: v}
	read.add("list", func() error { return nil })
	read.add("lanes", func() (err error) { lanes, err = v.LanesOf(v.ctx, "", names...); return err })
	read.add("bars", func() (err error) { bars, err = v.srv.bars(v.ctx, names); return err })
	late, err := read.wait()
	if err != nil {
		return nil, nil, err
	}
	rows := make([]endpointRow, len(list))
	for i, e := range list {
		rows[i] = endpointRow{EndpointView: e, Name: EndpointName(e), Bars: bars[dispatcher.Lane(e.ID)], Rate: successOf(bars[dispatcher.Lane(e.ID)])}
		for _, l := range lanes.Data {
			if l.Lane == e.ID {
				rows[i].Lane = l
			}
		}
	}
	return rows, late, nil
}

// bars reads the half hours of the last day of lanes.
func (s *server) bars(ctx context.Context, lanes []string) (map[dispatcher.Lane][]dispatcher.Bar, error) {
	if s.Bars == nil {
		return nil, nil
	}
	all := make([]dispatcher.Lane, len(lanes))
	for i, l := range lanes {
		all[i] = dispatcher.Lane(l)
	}
	since := s.Now().Truncate(dispatcher.HalfHour).Add(-(dispatcher.KeptBars - 1) * dispatcher.HalfHour)
	return within(ctx, func() (map[dispatcher.Lane][]dispatcher.Bar, error) { return s.Bars(ctx, all, since) })
}
