package console

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

const (
	// endpointsShown is the page length of the list.
	endpointsShown = 50
	// endpointsAtOnce is how many endpoints one call reads, and endpointsMost how many are sorted.
	endpointsAtOnce, endpointsMost = 500, 2000
)

// endpointsPage is the list of endpoints, the worst first.
type endpointsPage struct {
	Late     missing // parts: lanes, bars
	Tenant   string
	Like     string // part of a uid, tenant or host
	State    string // empty: any
	All      bool   // there is no filter
	Chips    []stateChip
	Rows     []endpointRow
	Matching int  // how many the filter selects
	Part     bool // there are more endpoints than were read
	Wrong    string
	Pages    listPages
	May      bool // the visitor may create an endpoint here
}

// stateChip is a state with the number of its endpoints.
type stateChip struct {
	Word string
	N    int
	URL  string
	On   bool
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
	if r.EndpointView.State != "active" && r.EndpointView.State != "open" {
		return r.EndpointView.State
	}
	return shownState(cmp.Or(r.Lane.State, r.EndpointView.State), r.FailingSince)
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

// endpoints serves GET …/endpoints: those that fail first, then the most waiting first.
func endpoints(v *visit) (pageAnswer, error) {
	q := v.r.URL.Query()
	page := endpointsPage{Tenant: q.Get("tenant"), Like: q.Get("like"), State: q.Get("state"), May: v.mayAdd()}
	page.All = !q.Has("tenant") && page.Like == "" && page.State == ""
	a := pageAnswer{template: "endpoints", title: "Endpoints", section: "endpoints"}
	if page.State != "" && stateWeight(page.State) == len(endpointStates) {
		page.Wrong = fmt.Sprintf("The filter state is wrong: there is no state %q.", page.State)
		a.status, a.body = http.StatusUnprocessableEntity, page
		return a, nil
	}
	f := client.EndpointFilter{Limit: endpointsAtOnce, Cursor: q.Get("cursor"), Like: page.Like}
	if page.Tenant != "" {
		f.Tenants = []string{page.Tenant}
	}
	list, next, err := v.allEndpoints(f)
	if page.Wrong, err = refusal(err); err != nil {
		return pageAnswer{}, err
	}
	if page.Wrong != "" {
		a.status = http.StatusUnprocessableEntity
	}
	list = page.chips(v, list)
	from, _ := strconv.Atoi(q.Get("from"))
	from = max(min(from, len(list)), 0)
	end := min(from+endpointsShown, len(list))
	page.Matching, page.Part = len(list), next != nil
	if page.Rows, page.Late, err = v.rows(list[from:end]); err != nil {
		return pageAnswer{}, err
	}
	page.Pages = endpointPages(v.base+"/endpoints", q, from, end, len(list), next)
	a.body = page
	return a, nil
}

// allEndpoints reads endpoints, at most endpointsMost. next continues; nil: these are all.
func (v *visit) allEndpoints(f client.EndpointFilter) (list []wire.EndpointView, next *string, err error) {
	for {
		page, err := v.Endpoints(v.ctx, f)
		if err != nil {
			return list, nil, err
		}
		list = append(list, page.Data...)
		if page.NextCursor == nil || len(list) >= endpointsMost {
			return list, page.NextCursor, nil
		}
		f.Cursor = *page.NextCursor
	}
}

// endpointStates are the states of the list, the one that needs a person most first.
var endpointStates = []string{"open", "failing", "disabled", "unverified", "paused", "active"}

// stateWeight returns the place of a state in endpointStates.
func stateWeight(state string) int {
	if i := slices.Index(endpointStates, state); i >= 0 {
		return i
	}
	return len(endpointStates)
}

// listedState returns the state of an endpoint in a list.
func listedState(e wire.EndpointView) string {
	return shownState(e.State, e.FailingSince)
}

// chips counts the endpoints by their states, and returns those of the chosen state, the worst first.
func (p *endpointsPage) chips(v *visit, list []wire.EndpointView) []wire.EndpointView {
	counts := map[string]int{}
	for _, e := range list {
		counts[listedState(e)]++
	}
	link := func(state string) string {
		q := v.r.URL.Query()
		q.Del("from")
		q.Del("state")
		if state != "" {
			q.Set("state", state)
		}
		return v.base + "/endpoints?" + q.Encode()
	}
	p.Chips = append(p.Chips, stateChip{Word: "all", N: len(list), URL: link(""), On: p.State == ""})
	for _, state := range endpointStates {
		if counts[state] > 0 || p.State == state {
			p.Chips = append(p.Chips, stateChip{Word: state, N: counts[state], URL: link(state), On: p.State == state})
		}
	}
	if p.State != "" {
		list = slices.DeleteFunc(list, func(e wire.EndpointView) bool { return listedState(e) != p.State })
	}
	slices.SortStableFunc(list, func(a, b wire.EndpointView) int {
		return cmp.Or(cmp.Compare(stateWeight(listedState(a)), stateWeight(listedState(b))), cmp.Compare(b.Waiting, a.Waiting))
	})
	return list
}

// endpointPages returns the links of a page of the list.
func endpointPages(path string, q url.Values, from, end, all int, next *string) (p listPages) {
	link := func(from int, cursor string) string {
		q := maps.Clone(q)
		q.Del("from")
		if from > 0 {
			q.Set("from", strconv.Itoa(from))
		}
		if cursor != "" {
			q.Set("cursor", cursor)
		}
		return path + "?" + q.Encode()
	}
	if from > 0 {
		p.Newest = link(0, "")
	}
	switch {
	case end < all:
		p.Older = link(end, "")
	case next != nil:
		p.Older = link(0, *next)
	}
	return p
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
