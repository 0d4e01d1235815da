package console

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

const (
	// failingRead is how many failing destinations are read: all that the API returns.
	failingRead = 500
	// namesShown limits the names on the card of a cause.
	namesShown = 6
	// triedAtOnce is how many destinations one job may name.
	triedAtOnce = 100
	// triedRate is the rate of a job that attempts the deliveries of mended receivers, as usualRate.
	triedRate = "50/s"
	// changedAtOnce is how many destinations are paused side by side.
	changedAtOnce = 8
)

// cause is a way in which destinations fail now: the class and the status of their last failed
// attempts.
type cause struct {
	Key     string // in URLs and forms
	Title   string
	Code    int    // 0: no response
	Error   string // of the destination with the most waiting deliveries that has one
	Answer  string // the first line of such a response
	Since   wire.Time
	Waiting int
	Lanes   []wire.LaneState // most waiting first
}

// Shown returns the destinations whose names are on the card, and Rest the number of the others.
func (c *cause) Shown() []wire.LaneState { return c.Lanes[:min(len(c.Lanes), namesShown)] }

// Rest returns how many destinations are not on the card.
func (c *cause) Rest() int { return len(c.Lanes) - len(c.Shown()) }

// What names the destinations of a cause with their number.
func (c *cause) What() string { return destinations(c.Lanes) }

// destinations returns the number of lanes in words.
func destinations(lanes []wire.LaneState) string {
	if slices.ContainsFunc(lanes, func(l wire.LaneState) bool { return l.Endpoint == "" }) {
		return manyThings(len(lanes), "destination")
	}
	return manyThings(len(lanes), "endpoint")
}

// fails reports whether the attempts of a destination fail now, by its state and its first failed
// attempt without a success since. Operators and merchants are told the same.
func fails(state string, since wire.Time) bool {
	switch state {
	case "open", "failing":
		return true
	case "active", "limited":
		return !since.IsZero()
	}
	return false
}

// shownState returns the state of a destination as all pages and both kinds of visitors see it: an active one
// whose attempts fail is failing.
func shownState(state string, since wire.Time) string {
	if state == "active" && fails(state, since) {
		return "failing"
	}
	return state
}

// causesOf groups the lanes that fail, the cause of the most lanes first.
func causesOf(lanes []wire.LaneState) []cause {
	at := map[string]int{} // index of a key
	var list []cause
	for _, l := range lanes {
		if !fails(l.State, l.FailingSince) {
			continue
		}
		last := wire.LaneFailure{}
		if l.LastFailure != nil {
			last = *l.LastFailure
		}
		key := last.Class
		if last.StatusCode > 0 {
			key += "-" + strconv.Itoa(last.StatusCode)
		}
		i, ok := at[key]
		if !ok {
			i = len(list)
			at[key] = i
			list = append(list, cause{Key: key, Code: last.StatusCode, Title: causeTitle(last)})
		}
		list[i].add(l, last)
	}
	slices.SortStableFunc(list, func(a, b cause) int {
		return cmp.Or(cmp.Compare(len(b.Lanes), len(a.Lanes)), cmp.Compare(b.Waiting, a.Waiting))
	})
	return list
}

func (c *cause) add(l wire.LaneState, last wire.LaneFailure) {
	c.Lanes = append(c.Lanes, l)
	c.Waiting += l.Waiting
	c.Error = cmp.Or(c.Error, last.Error)
	c.Answer = cmp.Or(c.Answer, firstLine(last.ResponseExcerpt))
	if !l.FailingSince.IsZero() && (c.Since.IsZero() || l.FailingSince.Before(c.Since.Time)) {
		c.Since = l.FailingSince
	}
}

// causeTitle describes a failed attempt in a few words.
func causeTitle(f wire.LaneFailure) string {
	switch {
	case f.Class == "":
		return "its last failure is not kept any more"
	case f.Class == string(dispatcher.ClassStatus):
		return fmt.Sprintf("answered %d", f.StatusCode)
	}
	return dispatcher.Class(f.Class).Means()
}

// firstLine returns the first line of a response that says something, in one row of a page.
func firstLine(text string) string {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			return capped(line)
		}
	}
	return ""
}

// lead is the first sentence of the page: how many destinations fail, since when, and whether with the
// same error.
type lead struct {
	What    string // 92 endpoints fail; empty: none does
	Since   wire.Time
	How     string
	Waiting int
	N       int
	Most    bool // there may be more
}

// leadOf returns the sentence about the causes.
func leadOf(causes []cause, most bool) lead {
	l := lead{Most: most}
	var all []wire.LaneState
	for i := range causes {
		c := &causes[i]
		all = append(all, c.Lanes...)
		l.Waiting += c.Waiting
		if !c.Since.IsZero() && (l.Since.IsZero() || c.Since.Before(l.Since.Time)) {
			l.Since = c.Since
		}
	}
	l.N = len(all)
	switch n := l.N; {
	case n == 0:
		return l
	case n == 1:
		l.What, l.How = destinations(all)+" fails", causes[0].Title
	case len(causes) == 1:
		l.What, l.How = destinations(all)+" fail", "all with the same error"
	default:
		l.What, l.How = destinations(all)+" fail", fmt.Sprintf("with %d different errors", len(causes))
	}
	return l
}

// failing serves GET /failing: the destinations of one cause, or all that fail.
func failing(v *visit) (pageAnswer, error) {
	list, err := v.FailingLanes(v.ctx, failingRead)
	if err != nil {
		return pageAnswer{}, err
	}
	page := lanesPage{Cause: &cause{Title: "all errors"}}
	for _, c := range chosenCauses(v, list.Data) {
		if v.r.URL.Query().Has(causeParam) {
			page.Cause = &c
		}
		page.Lanes = append(page.Lanes, c.Lanes...)
	}
	page.turn(v)
	for i := range page.Lanes {
		page.Lanes[i].TokenAt = wire.Time{} // it changes with the clock
	}
	return pageAnswer{template: "lanes", title: "What fails", section: "now", body: page}, nil
}

// turn leaves the lanes of one page: those behind the one that the cursor names. If it fails no more,
// the first page is shown.
func (p *lanesPage) turn(v *visit) {
	query := v.r.URL.Query()
	cursor := query.Get("cursor")
	from := slices.IndexFunc(p.Lanes, func(l wire.LaneState) bool { return l.Lane == cursor }) + 1
	if from == 0 {
		cursor = ""
	}
	var next *string
	if p.Lanes = p.Lanes[from:]; len(p.Lanes) > rowsAtOnce {
		p.Lanes = p.Lanes[:rowsAtOnce]
		next = &p.Lanes[rowsAtOnce-1].Lane
	}
	p.Pages = pagesOf(v.base+"/failing", query, cursor, next)
}

// causeParam is the parameter and the form field with the key of a cause.
const causeParam = "cause"

// chosenCauses returns the causes that the visitor names: one, or all.
func chosenCauses(v *visit, lanes []wire.LaneState) []cause {
	_ = v.r.ParseForm()
	list := causesOf(lanes)
	if !v.r.Form.Has(causeParam) {
		return list
	}
	return slices.DeleteFunc(list, func(c cause) bool { return c.Key != v.r.Form.Get(causeParam) })
}

// chosenLanes returns the destinations of the chosen causes.
func (v *visit) chosenLanes() (lanes []wire.LaneState, err error) {
	list, err := v.FailingLanes(v.ctx, failingRead)
	for _, c := range chosenCauses(v, list.Data) {
		lanes = append(lanes, c.Lanes...)
	}
	return lanes, err
}

// changeLanes calls change for each lane, some side by side. It returns the first error.
func changeLanes(lanes []wire.LaneState, change func(name string) error) error {
	var group errgroup.Group
	group.SetLimit(changedAtOnce)
	for _, l := range lanes {
		group.Go(func() error { return change(l.Lane) })
	}
	return group.Wait()
}

// tryFailing serves POST /failing/try: everything that waits for the destinations of a cause is
// attempted now.
func tryFailing(v *visit) (pageAnswer, error) {
	lanes, err := v.chosenLanes()
	if err != nil {
		return pageAnswer{}, err
	}
	return v.tryNow(lanes, v.base+"/")
}

// pauseFailing serves POST /failing/pause.
func pauseFailing(v *visit) (pageAnswer, error) {
	lanes, err := v.chosenLanes()
	if err == nil {
		err = changeLanes(lanes, func(name string) error { _, err := v.PauseLane(v.ctx, name, ""); return err })
	}
	return pageAnswer{to: v.base + "/", result: "paused"}, err
}

// tryNow starts jobs that attempt what waits for some lanes, one delivery of each lane first. Then it shows
// the job.
func (v *visit) tryNow(lanes []wire.LaneState, back string) (pageAnswer, error) {
	a := pageAnswer{to: back, result: "tried"}
	if len(lanes) == 0 {
		a.result = "unchanged"
		return a, nil
	}
	var names []string
	for _, l := range lanes {
		names = append(names, l.Lane)
	}
	jobs := 0
	for some := range slices.Chunk(names, triedAtOnce) {
		r := deliveryFilter{query: url.Values{"status": {"retrying"}, "destination": some}}.job()
		r.Probe, r.Rate = true, triedRate
		j, err := v.StartJob(v.ctx, client.JobRetry, r)
		if err != nil {
			return a, err
		}
		a.to = v.base + "/jobs/" + url.PathEscape(j.ID)
		if jobs++; jobs > 1 {
			a.to = v.base + "/jobs"
		}
	}
	return a, nil
}
