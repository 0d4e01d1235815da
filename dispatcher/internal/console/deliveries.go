package console

import (
	"cmp"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// rowsAtOnce is the page length of a list of deliveries.
const rowsAtOnce = 50

// deliveriesPage is the data of a list of deliveries.
type deliveriesPage struct {
	Query    string // the typed search
	Looked   string // the kind of the search; empty: none
	Subject  string // the URL that searches for a subject instead; empty: none
	Topic    string // the URL that searches for a topic instead; empty: none
	Ends     string // the URL that searches for numbers with these last digits instead; empty: none
	Digits   string // of the typed number; empty: they are too few, or it has others
	Unread   bool   // numbers that end with Digits could not be read
	Statuses []choice
	Chips    []filterChip
	Hidden   []filterChip // of a form that adds a filter
	Reasons  []string
	Clear    string // the URL without a filter
	Wrong    string
	Rows     []deliveryRow
	Pages    listPages
	CSV      string // the URL of these rows as CSV
	LookedAt int
	Until    wire.Time // the list was read down to this time
	Short    bool      // the page is short, but the list continues
	Filtered bool
	Since    wire.Time // with an archive: the list is complete from then on
	Picked   string    // the URL for the selected rows
	Jobs     []choice  // actions for all matching deliveries
	Live     bool
}

// deliveryRow is one delivery in a list.
type deliveryRow struct {
	ID, Link               string
	Status, Message, Topic string
	Title                  string // the order's number: the subject, or else the message's id
	To                     string // its endpoint's uid, or else the host
	Place                  string // where it goes, in full
	Tenant                 string
	Code                   string // of the last response; empty: none yet
	Outcome                string
	Story                  string    // what happened, and why it waits
	At                     wire.Time // when it ended or is due
	Due                    bool
	Accepted               wire.Time
	Pick                   string
}

// deliveries serves GET /deliveries.
func deliveries(v *visit) (pageAnswer, error) {
	query := v.r.URL.Query()
	q := searched(v.r)
	p := deliveriesPage{Query: q, Clear: v.base + "/deliveries", Picked: v.base + "/deliveries/picked", Reasons: deadReasons}
	filter := filterOf(query, v.srv.Now())
	if v.Link != nil {
		filter.query.Del("tenant") // the endpoint has a tenant
	}
	if q != "" {
		to, err := p.search(v, q, &filter)
		if err != nil || to != "" {
			return pageAnswer{to: to}, err
		}
	}
	path := v.base + "/deliveries"
	cursor := query.Get("cursor")
	page, status, err := wire.Page{}, 0, error(nil)
	if p.Wrong = filter.wrong; p.Wrong == "" {
		page, err = p.find(v, &filter, cursor)
	} else {
		status = http.StatusUnprocessableEntity
	}
	p.describe(v, filter, path)
	var problem *client.Problem
	if errors.As(err, &problem) && !wrongCursor(problem) && (problem.Status == http.StatusUnprocessableEntity || problem.Status == http.StatusBadRequest) {
		p.Wrong, status, err = problem.Problem.Error(), problem.Status, nil
	}
	if errors.Is(err, client.ErrNotFound) { // only a link gets this
		p.Wrong, status, err = "There is no such endpoint.", http.StatusNotFound, nil
	}
	if err != nil {
		return pageAnswer{}, err
	}
	if q != "" && cursor == "" && page.NextCursor == nil && !p.Unread {
		if to := onlyMessage(v, page.Data); to != "" {
			return pageAnswer{to: to}, nil
		}
	}
	p.Rows = deliveryRows(v, page.Data)
	p.LookedAt, p.Until, p.Since = page.LookedAt, page.LookedUntil, page.CompleteSince
	p.Pages, p.CSV = pagesOf(path, filter.query, cursor, page.NextCursor), pageURL(path+"/rows.csv", filter.query, cursor)
	p.Short = page.NextCursor != nil && len(page.Data) < rowsAtOnce
	p.Live = cursor == "" && !p.Short && p.Wrong == "" // a slow search does not refresh by itself
	return pageAnswer{template: "deliveries", title: "Deliveries", section: "deliveries", status: status, body: p}, nil
}

// searched returns the text that a person typed into the search box. The key that leads there may be
// typed too.
func searched(r *http.Request) string {
	return strings.TrimSpace(strings.TrimLeft(r.URL.Query().Get("q"), "/ "))
}

// find reads the list. A search for a number also looks for numbers that end with its digits. A search
// that finds nothing looks for a topic, if the text has a dot as topics have.
func (p *deliveriesPage) find(v *visit, filter *deliveryFilter, cursor string) (wire.Page, error) {
	page, err := firstFound(v, *filter, cursor)
	switch {
	case err != nil || page.NextCursor != nil:
		return page, err
	case p.Digits != "":
		return p.ending(v, filter, page)
	case len(page.Data) == 0 && p.Topic != "" && strings.Contains(p.Query, "."):
		filter.query.Del("subject_like")
		filter.query.Add("topic", p.Query)
		p.Looked, p.Topic = p.Looked+"; and then as a topic", ""
		return firstFound(v, *filter, cursor)
	}
	return page, nil
}

// ending adds the deliveries of numbers that end with the typed digits to those of the whole number, which
// come first. It has a page of each at most.
func (p *deliveriesPage) ending(v *visit, filter *deliveryFilter, whole wire.Page) (wire.Page, error) {
	ends := *filter
	ends.query = maps.Clone(filter.query)
	ends.query.Del("subject_like")
	ends.query.Add("subject_ends", p.Digits)
	page, err := firstFound(v, ends, "")
	if err != nil && len(whole.Data) > 0 {
		p.Unread = true
		return whole, nil
	}
	*filter = ends
	p.Looked, p.Ends = p.Looked+"; and as the last digits of an order number, of messages that are kept here", ""
	page.LookedAt += whole.LookedAt
	page.Data = append(whole.Data, slices.DeleteFunc(page.Data, func(d wire.Delivery) bool {
		return slices.ContainsFunc(whole.Data, func(w wire.Delivery) bool { return w.ID == d.ID })
	})...)
	return page, err
}

// onlyMessage returns the URL of the message of all these deliveries; empty: there are several, or none.
func onlyMessage(v *visit, list []wire.Delivery) string {
	if len(list) == 0 {
		return ""
	}
	id, to := messageOf(list[0].ID), ""
	for _, d := range list {
		if messageOf(d.ID) != id {
			return ""
		}
	}
	if len(list) == 1 {
		to = anchor(list[0].Destination)
	}
	return v.base + "/messages/" + url.PathEscape(id) + to
}

// deliveriesCSV serves GET /deliveries/rows.csv: the rows that the list shows with the same filter and cursor.
func deliveriesCSV(v *visit) (pageAnswer, error) {
	filter := filterOf(v.r.URL.Query(), v.srv.Now())
	if v.Link != nil {
		filter.query.Del("tenant")
	}
	if filter.wrong != "" {
		return pageAnswer{to: pageURL(v.base+"/deliveries", filter.query, "")}, nil // it says what is wrong
	}
	page, err := firstFound(v, filter, v.r.URL.Query().Get("cursor"))
	if err != nil {
		return pageAnswer{}, err
	}
	h := v.w.Header()
	h.Set("Content-Type", "text/csv; charset=utf-8; header=present")
	h.Set("Content-Disposition", `attachment; filename="deliveries.csv"`)
	return pageAnswer{}, wire.WriteDeliveries(v.w, page.Data)
}

// An empty page continues with the next one, up to a limit of pages and time. A page of a
// link does not, because a stranger must not cause more work than one page.
const (
	searchPages  = 20
	searchWithin = 2 * time.Second
)

// firstFound reads pages until one has a delivery. Its result says how far all of them
// read.
func firstFound(v *visit, f deliveryFilter, cursor string) (page wire.Page, err error) {
	read, began := 0, time.Now()
	for n := 1; ; n++ {
		next, err := v.Deliveries(v.ctx, f.list(rowsAtOnce, cursor))
		if err != nil && n > 1 {
			return page, nil // its cursor continues
		}
		if page = next; err != nil {
			return page, err
		}
		read += page.LookedAt
		page.LookedAt = read
		if len(page.Data) > 0 || page.NextCursor == nil || v.Link != nil || n == searchPages || time.Since(began) > searchWithin {
			return page, nil
		}
		cursor = *page.NextCursor
	}
}

// search finds a typed text: a message, an endpoint, or else a subject. It returns a
// redirect, or adds to the filter.
func (p *deliveriesPage) search(v *visit, q string, filter *deliveryFilter) (to string, err error) {
	p.Subject = v.base + "/deliveries?" + url.Values{"subject_like": {q}}.Encode()
	id, lane := q, ""
	if before, after, ok := strings.Cut(q, ":"); ok && !strings.Contains(q, "://") { // the id of a delivery
		lane, id = before, after
	}
	switch {
	case strings.Contains(q, "://"):
		to, all, err := placed(v, q)
		if err != nil || to != "" {
			return to, err
		}
		filter.query.Set("destination", q)
		p.Looked = "as a URL, since no endpoint has it" + all
		return "", nil
	case strings.HasPrefix(q, "ep_") && lane == "":
		if _, err = v.Endpoint(v.ctx, q); err == nil {
			return v.base + "/endpoints/" + url.PathEscape(q), nil
		}
	default:
		if _, err = v.Message(v.ctx, id); err == nil {
			return v.base + "/messages/" + url.PathEscape(id) + anchor(lane), nil
		}
	}
	if !notThere(err) {
		return "", err
	}
	if lane != "" { // the uid of an endpoint may have a colon too
		if to, err := named(v, q); err != nil || to != "" {
			return to, err
		}
	}
	switch {
	case strings.HasPrefix(q, "ep_"):
		p.Looked = "as an endpoint: there is none with this id"
		filter.wrong = "There is no endpoint " + q + "."
	case strings.HasPrefix(q, "msg_") || strings.HasPrefix(q, "idk_") || lane != "":
		p.Looked = "as a message: there is none with this id, or it was forgotten"
		filter.wrong = "There is no message " + id + ". The id is wrong, or the message was deleted."
	default:
		if to, err := named(v, q); err != nil || to != "" {
			return to, err
		}
		to, all, err := placed(v, q)
		if err != nil || to != "" {
			return to, err
		}
		filter.query.Add("subject_like", q)
		p.Looked, p.Subject = "as a subject, since no message has this id, and no endpoint this uid or host"+all, ""
		if v.Link == nil {
			p.Looked = "as a subject, since no message has this id, and no endpoint this uid, tenant or host" + all
		}
		if number := dispatcher.SubjectToken(q); dispatcher.IsLastDigits(number) {
			p.Digits, p.Ends = number, v.base+"/deliveries?"+url.Values{"subject_ends": {number}}.Encode()
		}
		if dispatcher.ValidTopic(q) {
			p.Topic = v.base + "/deliveries?" + url.Values{"topic": {q}}.Encode()
		}
	}
	return "", nil
}

// named returns the page of the endpoint with a uid, or of the endpoints of a tenant; empty: neither
// exists.
func named(v *visit, q string) (to string, err error) {
	group, ctx := errgroup.WithContext(v.ctx) // without either answer it is not known that there is none
	var lanes wire.LanePage
	var of wire.EndpointPage
	allow := func(err error) error {
		if notThere(err) {
			return nil
		}
		return err
	}
	group.Go(func() (err error) {
		lanes, err = v.LanesOf(ctx, "", q)
		return allow(err)
	})
	if v.Link == nil {
		group.Go(func() (err error) {
			of, err = v.Endpoints(ctx, client.EndpointFilter{Tenants: []string{q}, Limit: 1})
			return allow(err)
		})
	}
	if err = group.Wait(); err != nil {
		return "", err
	}
	switch {
	case len(lanes.Data) == 1 && lanes.Data[0].UID == q && lanes.Data[0].Endpoint != "":
		return v.base + "/endpoints/" + url.PathEscape(lanes.Data[0].Endpoint), nil
	case len(of.Data) > 0:
		return v.base + "/endpoints?" + url.Values{"tenant": {q}}.Encode(), nil
	}
	return "", nil
}

// placesRead is how many endpoints one call returns in a search for a host. The API looks through some
// more of these pages until one matches.
const placesRead = 100

// placed returns the page of the only endpoint with a URL or a host, or of the endpoints with this host;
// empty: there is none, and all says among which, if not among all.
func placed(v *visit, q string) (to, all string, err error) {
	host, exact := strings.ToLower(q), false
	if strings.Contains(q, "://") {
		u, err := url.Parse(q)
		if err != nil || u.Host == "" {
			return "", "", nil
		}
		host, exact = strings.ToLower(u.Host), strings.Trim(u.Path, "/") != ""
	} else if !strings.Contains(q, ".") || strings.ContainsAny(q, " /@:") {
		return "", "", nil
	}
	page, err := v.Endpoints(v.ctx, client.EndpointFilter{Like: host, Limit: placesRead})
	if notThere(err) {
		return "", "", nil
	}
	if err != nil {
		return "", "", err
	}
	var found []wire.EndpointView
	for _, e := range page.Data {
		switch {
		case exact && e.URL == q:
			return v.base + "/endpoints/" + url.PathEscape(e.ID), "", nil
		case !exact && strings.Contains(strings.ToLower(hostOf(e.URL)), host):
			found = append(found, e)
		}
	}
	if page.NextCursor != nil {
		all = " among the newest"
	}
	switch {
	case len(found) == 1 && all == "":
		return v.base + "/endpoints/" + url.PathEscape(found[0].ID), "", nil
	case len(found) > 0:
		return v.base + "/endpoints?" + url.Values{"like": {host}}.Encode(), "", nil
	}
	return "", all, nil
}

// notThere reports whether an error says that a name does not exist or is invalid.
func notThere(err error) bool {
	var p *client.Problem
	return errors.As(err, &p) && (p.Status == http.StatusNotFound || p.Status == http.StatusUnprocessableEntity)
}

// describe sets the filter's chips and the links to other filters.
func (p *deliveriesPage) describe(v *visit, f deliveryFilter, path string) {
	p.Filtered = !f.empty()
	for _, status := range statuses {
		on := slices.Contains(f.query["status"], status)
		one := f.without("status", status)
		if !on {
			one.query.Add("status", status)
		}
		p.Statuses = append(p.Statuses, choice{Word: status, URL: one.url(path), On: on})
	}
	p.Chips, p.Hidden = f.chips(path, false), f.hidden()
	if f.empty() || !v.May("retry-deliveries") || len(f.query["subject_like"])+len(f.query["subject_ends"]) > 0 { // a job needs exact subjects
		return
	}
	only := func(allowed ...string) bool {
		return !slices.ContainsFunc(f.query["status"], func(s string) bool { return !slices.Contains(allowed, s) })
	}
	if len(f.query["status"]) > 0 && only("retrying", "scheduled") && f.query.Get("failed") == "" && f.query.Get("dead_reason") == "" {
		p.Jobs = append(p.Jobs, choice{Word: "Send all that match now…", URL: f.url(v.base+"/jobs/new", "kind", string(client.JobRetry))})
	}
	if only("dead", "delivered", "cancelled") && f.query.Get("failed") == "" {
		p.Jobs = append(p.Jobs, choice{Word: "Replay all that match…", URL: f.url(v.base+"/jobs/new", "kind", string(client.JobRetry))})
	}
	if only("scheduled", "ready", "in_flight", "retrying") && f.query.Get("dead_reason") == "" {
		p.Jobs = append(p.Jobs, choice{Word: "Cancel all that match…", URL: f.url(v.base+"/jobs/new", "kind", string(client.JobCancel))})
	}
}

// deadReasons are the reasons of a death.
var deadReasons = dispatcher.Texts(dispatcher.DeadReasons())

// deliveryRows returns the rows of a list.
func deliveryRows(v *visit, list []wire.Delivery) []deliveryRow {
	rows := make([]deliveryRow, 0, len(list))
	uids := v.uidsOf(list)
	for _, d := range list {
		_, id, _ := strings.Cut(d.ID, ":")
		r := deliveryRow{
			ID: "r-" + d.ID, Link: v.base + "/messages/" + url.PathEscape(id) + anchor(d.Destination), Status: d.Status, Message: id, Topic: d.Topic,
			Title: cmp.Or(d.Subject, id), To: cmp.Or(uids[d.Destination], hostOf(d.URL), d.Destination), Place: cmp.Or(d.URL, d.Destination),
			Story: DeliveryStory(d, v.Link != nil), At: d.EndedAt, Accepted: d.CreatedAt, Pick: d.ID,
		}
		if v.May("stats") {
			r.Tenant = d.Tenant
		}
		r.Code, r.Outcome = lastAnswer(d)
		if !ended(d.Status) {
			r.Due, r.At = true, d.NextAttemptAt
			if d.WaitingUntil.After(r.At.Time) {
				r.At = d.WaitingUntil
			}
		}
		rows = append(rows, r)
	}
	return rows
}

// uidsOf returns the uids of the endpoints to which deliveries go. If they can't be read in time, the
// hosts name them.
func (v *visit) uidsOf(list []wire.Delivery) map[string]string {
	var ids []string
	for _, d := range list {
		if strings.HasPrefix(d.Destination, "ep_") && !slices.Contains(ids, d.Destination) {
			ids = append(ids, d.Destination)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	lanes, err := v.LanesOf(v.ctx, "", ids...)
	if err != nil {
		return nil
	}
	uids := make(map[string]string, len(ids))
	for _, l := range lanes.Data {
		uids[l.Lane] = l.UID
	}
	return uids
}

// lastAnswer returns the code of the last response, and the class of its colour.
func lastAnswer(d wire.Delivery) (code, outcome string) {
	switch {
	case d.Attempts == 0:
		return "", ""
	case d.Status == "delivered" && d.LastStatusCode == 0:
		return "ok", "delivered"
	case d.LastStatusCode == 0:
		code = "none"
	default:
		code = strconv.Itoa(d.LastStatusCode)
	}
	switch d.Status {
	case "delivered", "dead":
		return code, d.Status
	}
	return code, "retry"
}

// deadPage counts dead deliveries by destination and reason.
type deadPage struct {
	Groups   []deadRow
	Total    int64 // of the groups on the page
	Reasons  []choice
	Chips    []filterChip
	Clear    string
	Pages    listPages
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
	groups := client.DeadFilter{Limit: rowsAtOnce, Cursor: cursor}
	fill(&groups, "query", f.query)
	page, err := v.Dead(v.ctx, groups)
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
	p.Pages = pagesOf(path, f.query, cursor, page.NextCursor)
	return pageAnswer{template: "dead", title: "Dead", section: "dead", body: p}, nil
}
