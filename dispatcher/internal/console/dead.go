package console

import (
	"cmp"
	"net/http"
	"net/url"

	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// deadPage counts dead deliveries by destination and reason.
type deadPage struct {
	Groups   []deadRow
	Total    int64 // of the groups on the page
	Reasons  []choice
	Chips    []filterChip
	Clear    string
	Older    string
	Newest   string
	Filtered bool
}

// deadRow is one group.
type deadRow struct {
	Group wire.DeadGroup
	ID    string
	Name  string
	Value string // of its checkbox
	List  string // URL of the list of its deliveries
	Last  string // the last error of the newest one
}

// dead serves GET /dead.
func dead(v *visit) (pageAnswer, error) {
	f, path := filterOf(v.r.URL.Query(), v.srv.Now()), v.base+"/dead"
	f.query.Del("status") // all of them are dead
	cursor := v.r.FormValue("cursor")
	page, err := v.Dead(v.ctx, client.DeadFilter{
		Tenants: f.query["tenant"], Destinations: f.query["destination"], Reasons: f.query["dead_reason"], Limit: rowsAtOnce, Cursor: cursor,
	})
	if err != nil {
		return pageAnswer{}, err
	}
	p := deadPage{Chips: f.chips(path, false), Clear: path, Filtered: !f.empty()}
	for _, g := range page.Data {
		list := deliveryFilter{query: url.Values{"status": {"dead"}, "destination": {g.Destination}, "dead_reason": {g.Reason}}}
		r := deadRow{
			Group: g, ID: "g-" + g.Destination + "-" + g.Reason, Name: cmp.Or(g.UID, hostOf(g.URL), g.Destination),
			Value: g.Destination + " " + g.Reason, List: list.url(v.base + "/deliveries"), Last: g.LastError,
		}
		if text := http.StatusText(g.LastStatusCode); text != "" {
			r.Last = text
		}
		p.Groups, p.Total = append(p.Groups, r), p.Total+g.Count
	}
	for _, reason := range deadReasons {
		one := f.without("dead_reason", reason)
		on := len(one.query["dead_reason"]) != len(f.query["dead_reason"])
		if !on {
			one.query.Add("dead_reason", reason)
		}
		p.Reasons = append(p.Reasons, choice{Word: reason, URL: one.url(path), On: on})
	}
	if page.NextCursor != nil {
		p.Older = f.url(path, "cursor", *page.NextCursor)
	}
	if cursor != "" {
		p.Newest = f.url(path)
	}
	return pageAnswer{template: "dead", title: "Dead", section: "dead", body: p}, nil
}
