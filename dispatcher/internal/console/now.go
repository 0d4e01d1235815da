package console

import (
	"cmp"
	"fmt"
	"html/template"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

const (
	// alertsShown limits the list of problems on the page, and causesShown the cards of causes.
	alertsShown, causesShown = 10, 10
	// endpointsRead is how many endpoints are read to find disabled ones and ones that
	// wait for a test. Endpoints with many waiting deliveries are found by their lanes.
	endpointsRead = 100
	// instancesShown limits the list of instances on the page.
	instancesShown = 10
)

// nowPage is the data of the console's first page: the present state.
type nowPage struct {
	Died       int64   // deliveries, in the time of the chart
	Missing    missing // parts: stats, instances, endpoints, failing, jobs, minutes
	Lead       lead
	Causes     []cause
	CausesMore int
	Stats      wire.Stats
	Rates      rates
	Counted    bool // rates are known
	Permits    int
	Instances  []wire.Instance
	More       bool  // there are more instances
	Late       bool  // a delivery is due and was not attempted
	Held       int64 // deliveries that are due, and that a breaker, a pause or a limit delays
	Chart      template.HTML
	Spans      []choice
	Span       string
	Length     string // of the chart, as a word
	Alerts     []Alert
	AlertsMore int
	Backlog    template.HTML
	Stacked    []statusCount
	Lost       string // which data a crash of the store's host would lose
}

// Unread returns why not all problems are known; empty: they are.
func (p *nowPage) Unread() absence {
	return cmp.Or(p.Missing["stats"], p.Missing["endpoints"], p.Missing["failing"], p.Missing["jobs"])
}

// rates are numbers per second, as texts.
type rates struct{ Accepted, Delivered, Failed string }

// spans are the lengths of the chart.
var spans = []struct {
	word, title string
	length      time.Duration
}{{"3h", "Last three hours", 3 * time.Hour}, {"24h", "Last 24 hours", 24 * time.Hour}, {"72h", "Last three days", dispatcher.KeptMinutes}}

// lost are the values of would_lose in words.
var lost = map[string]string{
	"nothing": "nothing", "last_second": "the last second", "unreplicated": "what is not replicated yet", "since_snapshot": "what came since its last snapshot",
	"everything": "everything", "unknown": "that is not known",
}

// now serves GET /console/.
func now(v *visit) (pageAnswer, error) {
	span := spans[0]
	for _, one := range spans {
		if v.r.FormValue("span") == one.word {
			span = one
		}
	}
	present := v.srv.Now()
	var from AlertsFrom
	var p nowPage
	var instances wire.InstancePage
	var minutes []dispatcher.Minute
	read := parts{v: v}
	read.add("stats", func() (err error) { from.Stats, err = v.Stats(v.ctx); return err })
	read.add("instances", func() (err error) { instances, err = v.Instances(v.ctx, instancesShown, ""); return err })
	read.add("endpoints", func() error {
		page, err := v.Endpoints(v.ctx, client.EndpointFilter{Limit: endpointsRead})
		from.Endpoints = page.Data
		return err
	})
	read.add("failing", func() error {
		list, err := v.FailingLanes(v.ctx, failingRead)
		p.Causes = causesOf(list.Data)
		p.Lead = leadOf(p.Causes, len(list.Data) == failingRead)
		if p.CausesMore = len(p.Causes) - causesShown; p.CausesMore > 0 {
			p.Causes = p.Causes[:causesShown]
		}
		return err
	})
	read.add("jobs", func() error {
		page, err := v.Jobs(v.ctx, rowsAtOnce, "")
		from.Jobs = recent(page.Data, present)
		return err
	})
	if v.srv.Minutes != nil {
		read.add("minutes", func() (err error) {
			minutes, err = within(v.ctx, func() ([]dispatcher.Minute, error) {
				return v.srv.Minutes(v.ctx, present.Add(-span.length-2*time.Minute), present)
			})
			return err
		})
	}
	var err error
	if p.Missing, err = read.wait(); err != nil {
		return pageAnswer{}, err
	}
	if v.srv.Archive != nil {
		from.Archive = away(v.srv.Archive())
	}
	stats := from.Stats
	p.instances(instances)
	p.Counted = v.srv.Minutes != nil && p.Missing["minutes"] == ""
	if p.Missing["stats"] != "" {
		stats.Instances = 2 // perhaps: then minutes are drawn that all of them have counted
	}
	for _, m := range minutes {
		p.Died += m.Dead
	}
	p.draw(minutes, present, span.length, stats.Instances)
	for _, one := range spans {
		p.Spans = append(p.Spans, choice{Word: one.word, URL: v.base + "/?span=" + one.word, On: one == span})
	}
	p.Span, p.Length = span.title, span.word
	p.Alerts = AlertsOf(from)
	if p.AlertsMore = len(p.Alerts) - alertsShown; p.AlertsMore > 0 {
		p.Alerts = p.Alerts[:alertsShown]
	}
	p.describe(stats, present)
	a := pageAnswer{template: "now", title: "Now", section: "now", body: &p}
	if p.Missing["stats"] == "" {
		a.stats = &stats
	}
	return a, nil
}

// recent returns the jobs of the last day, because older failures were seen already.
func recent(list []wire.Job, present time.Time) (found []wire.Job) {
	for _, j := range list {
		if j.EndedAt.IsZero() || present.Sub(j.EndedAt.Time) < 24*time.Hour {
			found = append(found, j)
		}
	}
	return found
}

// away returns the problem of an archive that does not respond.
func away(s archive.Status) *AlertsArchive {
	if s.Up || s.Err == nil {
		return nil
	}
	return &AlertsArchive{Since: wire.Time{Time: s.Since}, Error: s.Err.Error()}
}

// instances sets the instances, without fields that change with each heartbeat.
func (p *nowPage) instances(page wire.InstancePage) {
	p.Instances, p.More = page.Data, page.NextCursor != nil
	for i := range p.Instances {
		p.Instances[i].SeenAt = wire.Time{}
		p.Permits += p.Instances[i].Permits
	}
}

// draw makes the chart and the rates of the last minute. A single instance also has the
// counts of the present minute, so a new user sees data at once. Several instances add
// their minutes later, so the last two are omitted.
func (p *nowPage) draw(minutes []dispatcher.Minute, present time.Time, length time.Duration, instances int) {
	begun := present.Truncate(time.Minute)
	until := begun.Add(-time.Minute)
	byStart := map[time.Time]dispatcher.Minute{}
	for _, m := range minutes {
		byStart[m.At.UTC()] = m
	}
	last := byStart[until.Add(-time.Minute).UTC()]
	second := func(n int64) string { return perSecond(float64(n) / 60) }
	p.Rates = rates{second(last.Accepted), second(last.Delivered), second(last.Failed)}
	if instances <= 1 {
		until = begun.Add(time.Minute)
		now, before := byStart[begun.UTC()], byStart[begun.Add(-time.Minute).UTC()]
		left := 1 - present.Sub(begun).Seconds()/60 // of the minute before, to complete a minute
		sliding := func(now, before int64) string { return perSecond((float64(now) + left*float64(before)) / 60) }
		p.Rates = rates{sliding(now.Accepted, before.Accepted), sliding(now.Delivered, before.Delivered), sliding(now.Failed, before.Failed)}
	}
	p.Chart = Chart(minutes, until, since(minutes, until, length))
}

// leastChart is the shortest time of the chart.
const leastChart = 30 * time.Minute

// since returns the length of a chart that begins with the first minute in which something happened, at
// most length.
func since(minutes []dispatcher.Minute, until time.Time, length time.Duration) time.Duration {
	shown := leastChart
	for _, m := range minutes {
		if m.Moved() {
			shown = max(shown, until.Sub(m.At))
		}
	}
	shown = min(shown, length)
	each, _ := steps(shown)
	return min((shown + each - 1).Truncate(each), length)
}

// describe sets the texts and pictures of the other counts.
func (p *nowPage) describe(stats wire.Stats, present time.Time) {
	p.Late = !stats.OldestDueAt.IsZero() && present.Sub(stats.OldestDueAt.Time) >= time.Second
	if !p.Late {
		p.Held = stats.Counts["ready"]
		stats.OldestDueAt = wire.Time{} // so that the page is unchanged while nothing is late
	}
	p.Lost = lost[stats.Store.WouldLose]
	var parts []StackPart
	for _, status := range statuses {
		if ended(status) {
			continue
		}
		n := stats.Counts[status]
		p.Stacked = append(p.Stacked, statusCount{Status: status, N: int(n)})
		parts = append(parts, StackPart{Class: status, N: n})
	}
	p.Backlog = Stack(parts...)
	if used := stats.Store.UsedBytes; used != nil { // it always changes
		rounded := *used &^ (1<<18 - 1)
		stats.Store.UsedBytes = &rounded
	}
	stats.Now, stats.Retention, stats.Lanes, stats.Paused = wire.Time{}, 0, nil, nil // they change with the clock, or are part of Alerts
	p.Stats = stats
}

func perSecond(x float64) string {
	switch {
	case x == 0:
		return "0"
	case x < 1:
		return fmt.Sprintf("%.2f", x)
	case x < 1000:
		return fmt.Sprintf("%.1f", x)
	}
	return count(int64(x))
}
