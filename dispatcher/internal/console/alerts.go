package console

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

// Alert is one problem.
type Alert struct {
	Lost  bool   // data is lost, or may be
	Icon  string // the state that gives its shape and colour
	Title string
	Text  string
	Since wire.Time // zero: unknown
	Word  string    // the text before the time
	Link  string    // below the base path; empty: there is no page

	weight int
}

// AlertsFrom has the data in which problems are found.
type AlertsFrom struct {
	Stats     wire.Stats
	Endpoints []wire.EndpointView
	Jobs      []wire.Job
	Archive   *AlertsArchive // nil: there is none, or it works
}

// AlertsArchive is an archive that does not respond.
type AlertsArchive struct {
	Since wire.Time
	Error string
}

// AlertsOf returns the problems in f, most urgent first. Destinations that fail are none of them, because
// a page shows them by their causes.
func AlertsOf(f AlertsFrom) []Alert {
	var list []Alert
	list = append(list, store(f.Stats.Store)...)
	if f.Archive != nil {
		list = append(list, Alert{
			Icon: "failing", Title: "The archive is away", Word: "since", Since: f.Archive.Since, Link: "/system", weight: 1,
			Text: "Deliveries continue. Redis keeps finished ones until the archive is back. " + f.Archive.Error,
		})
	}
	seen := map[string]bool{}
	for _, lanes := range [][]wire.LaneState{f.Stats.Paused, f.Stats.Lanes} {
		for _, l := range lanes {
			if n, ok := laneAlert(l); ok && !seen[l.Lane] {
				seen[l.Lane] = true
				list = append(list, n)
			}
		}
	}
	for _, e := range f.Endpoints {
		if n, ok := endpointAlert(e); ok && !seen[e.ID] {
			seen[e.ID] = true
			list = append(list, n)
		}
	}
	for _, j := range f.Jobs {
		if n, ok := jobAlert(j); ok {
			list = append(list, n)
		}
	}
	slices.SortStableFunc(list, func(a, b Alert) int { return cmp.Compare(a.weight, b.weight) })
	return list
}

// store returns the problems of Redis.
func store(s wire.Store) (list []Alert) {
	if s.Durable == "no" {
		list = append(list, Alert{
			Lost: true, Icon: "failing", Title: "Redis does not keep what DURABILITY promises", Text: "Nothing is accepted until it does: " + s.Durability + ".", Link: "/system", weight: 0,
		})
	}
	for _, c := range s.Checks {
		if c.Needed && c.Holds == "no" {
			list = append(list, Alert{Lost: true, Icon: "failing", Title: "Redis is not as it should be: " + c.Name, Text: capped(c.Detail) + ".", Link: "/system", weight: 0})
		}
	}
	return list
}

// laneAlert returns the problem of a lane.
func laneAlert(l wire.LaneState) (Alert, bool) {
	n := Alert{Icon: l.State, Since: l.Since, Word: "for", Link: laneLink(l)}
	name := cmp.Or(l.UID, alertHost(l.URL), l.Queue, l.Lane)
	if l.Why == "unverified" { // it is paused like any other
		n.Icon, l.State = l.Why, l.Why
	}
	switch l.State {
	case "paused":
		n.Title, n.Text, n.weight = name+" is paused", nWait(l.Waiting)+" and "+isAre(l.Waiting)+" kept"+by(l.By)+".", 6
		if l.Lane == "*" {
			n.Title, n.Text, n.weight = "Everything is paused", "Nothing is sent at all until it is resumed"+by(l.By)+".", 0
		}
	case "unverified":
		n.Title, n.weight = name+" is not verified", 5
		n.Text = "A link set its URL; a test that succeeds lets it go on. " + nWait(l.Waiting) + "."
	case "disabled":
		n.Title, n.Text, n.weight = name+" is disabled", disabledAlert(l.Why)+by(l.By)+".", 2
	default:
		switch l.Why {
		case "sealed":
			n.Icon, n.weight = "failing", 1
			n.Title, n.Text = name+" can't be opened", "An instance lacks the ENCRYPTION_KEY with which it was stored. "+nWait(l.Waiting)+"."
		case "missing":
			n.Icon, n.weight = "failing", 1
			n.Title, n.Text = name+" is missing", "Its endpoint is not in the store and was not deleted. "+nWait(l.Waiting)+"."
		default:
			return n, false
		}
	}
	return n, true
}

// endpointAlert returns the problem of an endpoint without waiting deliveries, because such an
// endpoint is not among the lanes with the most waiting.
func endpointAlert(e wire.EndpointView) (Alert, bool) {
	l := wire.LaneState{Lane: e.ID, Endpoint: e.ID, UID: e.UID, URL: e.URL, State: e.State, Waiting: e.Waiting}
	if e.State == "disabled" {
		l.Why, l.Since = e.DisabledReason, e.DisabledAt
	}
	return laneAlert(l)
}

// jobAlert returns a job that is running or failed.
func jobAlert(j wire.Job) (Alert, bool) {
	words := map[string]string{"retry": "Replay", "cancel": "Cancellation", "purge": "Purge"}
	n := Alert{Icon: j.State, Since: j.StartedAt, Word: "for", Link: "/jobs/" + url.PathEscape(j.ID)}
	text := fmt.Sprintf("%d of %d done", j.Done, j.Matched)
	if j.Failed > 0 {
		text += fmt.Sprintf(", %d could not be", j.Failed)
	}
	switch j.State {
	case "running":
		n.Title, n.Text, n.weight = words[j.Kind]+" is running", text+".", 8
	case "waiting":
		n.Title, n.Text, n.weight = words[j.Kind]+" waits", text+"; the rest belongs to destinations that are stopped, paused or full.", 7
	case "failed":
		n.Title, n.Text, n.weight, n.Since, n.Word = words[j.Kind]+" failed", capped(cmp.Or(j.Error, text))+".", 2, j.EndedAt, "ended"
	default:
		return n, false
	}
	return n, true
}

func laneLink(l wire.LaneState) string {
	switch {
	case l.Lane == "*":
		return "/system"
	case l.Endpoint != "":
		return "/endpoints/" + url.PathEscape(l.Endpoint)
	}
	return "/lanes/" + url.PathEscape(l.Lane)
}

func disabledAlert(why string) string {
	switch why {
	case "gone":
		return "Its receiver answered " + fmt.Sprint(http.StatusGone) + ", so its deliveries die"
	case "failing":
		return "No attempt succeeded for too long, so its deliveries die"
	}
	return "A person disabled it, so its deliveries die"
}

func by(name string) string {
	if name == "" || name == "system" {
		return ""
	}
	return ", by " + name
}

// nWait returns how many wait.
func nWait(n int) string {
	if n == 1 {
		return "1 waits"
	}
	return fmt.Sprintf("%d wait", n)
}

func isAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// capped returns a sentence with a maximum length, without its full stop.
func capped(text string) string { return shortened(200, text) }

// shortened returns the first characters of a text.
func shortened(most int, text string) string {
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}

// alertHost returns the host of a URL, because the rest may contain a token.
func alertHost(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return u.Host
}
