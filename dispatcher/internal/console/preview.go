package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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

const (
	// previewFor is the timeout of a preview. The API counts for less than a second, or for ten if the
	// page counts on, four parts at once.
	previewFor = 60 * time.Second
	// partsAtOnce is how many jobs one preview starts, one for each destination.
	partsAtOnce = 20
	// mostQuery limits the query of a redirect, because proxies accept lines of 8 KiB.
	mostQuery = 4 << 10
	// usualRate is the default rate of a preview, in deliveries a second. A receiver that
	// was just repaired can take it.
	usualRate = 50
)

// sendNow is the title of a job that attempts what waits for its time.
const sendNow = "Send now"

// kinds are the words of jobs for a title, a button and an effect.
var kinds = map[client.JobKind]struct{ Title, Verb, Effect string }{
	client.JobRetry:  {"Replay", "Replay", "Each starts a new ladder, and carries hookladder-resend: true. Deliveries that die in the meantime stay."},
	client.JobCancel: {"Cancel", "Cancel", "Nothing new is attempted of them. An attempt under way can't be recalled."},
	client.JobPurge:  {"Forget", "Forget", "They can't be sent again. Their ids stay known, so that a repeat is not taken for another message."},
}

// previewPage is the data of a preview: the effect of a job.
type previewPage struct {
	Kind                client.JobKind
	Title, Verb, Effect string
	Parts               []previewPart
	Matched             int
	Complete            bool   // Matched is exact
	CountOn             string // the URL of the same page that counts for longer; empty: it has done so
	Rate                string
	Seconds             int
	Fields              []filterChip // hidden fields of the form
	Back                string
	Wrong               string
	Sure                bool // a second confirmation is needed
	Waiting             bool // it sends deliveries that wait for their next attempt
}

// previewPart is one job of a preview.
type previewPart struct {
	Chips  []filterChip
	Survey wire.Survey
	Read   bool // all of it was read, and not only counted
	Sample []deliveryRow
	By     []reasonCount
}

type reasonCount struct {
	Reason string
	N      int
}

// wanted returns the filters of the jobs in a form or a URL: the selected groups of dead
// deliveries, or one filter.
func wanted(v *visit) (list []deliveryFilter, wrong string) {
	_ = v.r.ParseForm()
	at := map[string]int{} // index of a lane in the list
	for _, group := range v.r.Form["group"] {
		lane, reason, _ := strings.Cut(group, " ")
		i, ok := at[lane]
		if !ok {
			i = len(list)
			at[lane] = i
			list = append(list, deliveryFilter{query: url.Values{"status": {"dead"}, "destination": {lane}}})
		}
		list[i].query.Add("dead_reason", reason)
	}
	if len(list) > partsAtOnce {
		return list[:partsAtOnce], fmt.Sprintf("These are of %d destinations, and %d at once are the most: here are the first.", len(list), partsAtOnce)
	}
	if len(list) > 0 {
		return list, ""
	}
	f := filterOf(v.r.Form, v.srv.Now())
	return []deliveryFilter{f}, f.wrong
}

// newJob serves GET /jobs/new: the preview of a job.
func newJob(v *visit) (pageAnswer, error) {
	list, wrong := wanted(v)
	return preview(v, list, wrong)
}

func preview(v *visit, list []deliveryFilter, wrong string) (pageAnswer, error) {
	p := previewOf(v, list)
	p.Wrong = wrong
	answer := pageAnswer{template: "preview", title: p.Title, section: "deliveries"}
	if p.Wrong != "" && len(list) == 1 {
		answer.status, answer.body = http.StatusUnprocessableEntity, p
		return answer, nil
	}
	whole := v.r.FormValue("count") == "all"
	err := p.survey(v, list, whole)
	var problem *client.Problem
	if errors.As(err, &problem) && problem.Status == http.StatusUnprocessableEntity {
		p.Wrong, answer.status, err = problem.Problem.Error(), problem.Status, nil
	}
	for i := range p.Parts {
		p.Parts[i].finish(v)
		p.Matched += p.Parts[i].Survey.Matched
		p.Complete = p.Complete && p.Parts[i].Survey.Complete
	}
	if !p.Complete && !whole {
		p.CountOn = countOn(v)
	}
	if rate, err := strconv.Atoi(p.Rate); err == nil && rate > 0 {
		p.Seconds = (p.Matched + rate - 1) / rate
	}
	answer.body = p
	return answer, err
}

// countOn returns the URL of a preview that counts for longer; empty: it would be too long.
func countOn(v *visit) string {
	q := maps.Clone(v.r.Form)
	delete(q, "sure")
	q.Set("count", "all")
	if text := q.Encode(); len(text) < mostQuery {
		return v.base + "/jobs/new?" + text
	}
	return ""
}

// previewOf returns a preview without counts.
func previewOf(v *visit, list []deliveryFilter) previewPage {
	kind := client.JobKind(v.r.FormValue("kind"))
	if kinds[kind].Verb == "" {
		kind = client.JobRetry
	}
	words := kinds[kind]
	p := previewPage{
		Kind: kind, Title: words.Title, Verb: words.Verb, Effect: words.Effect, Complete: true, Sure: kind != client.JobRetry,
		Rate: cmp.Or(v.r.FormValue("rate"), strconv.Itoa(usualRate)), Back: list[0].url(v.base + "/deliveries"), Parts: make([]previewPart, len(list)),
	}
	if p.Waiting = kind == client.JobRetry && waitsOnly(list); p.Waiting {
		p.Title, p.Verb = sendNow, "Send"
		p.Effect = "Each gets one attempt now beside its ladder. If that fails, it waits until the same time as before."
	}
	for i, f := range list {
		p.Parts[i].Chips = f.chips(v.base+"/deliveries", true)
		if v.r.Form["group"] == nil {
			p.Fields = f.hidden()
			continue
		}
		p.Back = v.base + "/dead"
		for _, reason := range f.query["dead_reason"] {
			p.Fields = append(p.Fields, filterChip{Name: "group", Value: f.query.Get("destination") + " " + reason})
		}
	}
	return p
}

// waitsOnly reports whether a preview selects only deliveries that wait for their time.
func waitsOnly(list []deliveryFilter) bool {
	for _, f := range list {
		statuses := f.query["status"]
		if len(statuses) == 0 || slices.ContainsFunc(statuses, func(s string) bool { return s != "retrying" && s != "scheduled" }) {
			return false
		}
	}
	return true
}

// survey counts the deliveries of each part. A store that hangs is reported at once, as on
// any page, although counting may take long. Where the counters of the queue know the number, it is
// exact although not all was read.
func (p *previewPage) survey(v *visit, list []deliveryFilter, whole bool) error {
	stats, err := v.Stats(v.ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(v.r.Context(), previewFor)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(4)
	for i, f := range list {
		group.Go(func() (err error) {
			r := f.job()
			r.CountAll = whole
			part := &p.Parts[i]
			if part.Survey, err = v.SurveyJob(ctx, p.Kind, r); err != nil || part.Survey.Complete {
				part.Read = true
				return err
			}
			part.Survey.Matched, part.Survey.Complete = counted(ctx, v, stats, p.Kind, f.query, part.Survey.Matched)
			return nil
		})
	}
	err = group.Wait()
	v.ctx = v.r.Context() // the page's timeout may be over
	return err
}

// counted returns how many deliveries a job would change, if the counters of the queue or of what is
// dead know it; else the number that was found.
func counted(ctx context.Context, v *visit, stats wire.Stats, kind client.JobKind, q url.Values, found int) (n int, exact bool) {
	statuses, reasons, others := q["status"], q["dead_reason"], maps.Clone(q)
	delete(others, "status")
	delete(others, "dead_reason")
	if len(statuses) == 0 {
		_, usual := dispatcher.JobKind(kind).Statuses()
		statuses = dispatcher.Texts(usual)
	}
	dead := slices.Equal(statuses, []string{"dead"})
	switch {
	case len(others) == 0 && len(reasons) == 0:
		for _, status := range statuses {
			n += int(stats.Counts[status])
		}
	case len(others) == 0 && dead:
		for _, reason := range reasons {
			n += int(stats.Dead[reason])
		}
	case len(others) == 1 && dead && len(q["destination"]) > 0:
		page, err := v.Dead(ctx, client.DeadFilter{Destinations: q["destination"], Reasons: reasons, Limit: rowsAtOnce})
		if err != nil || page.NextCursor != nil {
			return found, false
		}
		for _, g := range page.Data {
			n += int(g.Count)
		}
	default:
		return found, false
	}
	return max(n, found), n >= found
}

func (p *previewPart) finish(v *visit) {
	p.Sample = deliveryRows(v, p.Survey.Sample)
	p.Survey.Sample = nil
	for _, reason := range deadReasons {
		if n := p.Survey.ByReason[reason]; n > 0 {
			p.By = append(p.By, reasonCount{reason, n})
		}
	}
}

// startJob serves POST /jobs.
func startJob(v *visit) (pageAnswer, error) {
	kind := client.JobKind(v.r.PostFormValue("kind"))
	list, wrong := wanted(v)
	if kinds[kind].Verb == "" {
		return pageAnswer{to: v.base + "/jobs"}, nil
	}
	if wrong == "" && kind != client.JobRetry && v.r.PostFormValue("sure") == "" {
		wrong = "Say that you are sure: tick the box."
	}
	if wrong != "" {
		return again(v, list, wrong)
	}
	id := ""
	for _, f := range list {
		r := f.job()
		r.Probe = v.r.PostFormValue("probe") != ""
		r.Rate = rateOf(v.r.PostFormValue("rate"))
		job, err := v.StartJob(v.ctx, kind, r)
		var problem *client.Problem
		if errors.As(err, &problem) && problem.Status == http.StatusUnprocessableEntity && id == "" {
			return again(v, list, problem.Problem.Error())
		}
		if err != nil {
			return pageAnswer{}, err
		}
		id = job.ID
	}
	if len(list) > 1 {
		return pageAnswer{to: v.base + "/jobs", result: "jobs-started"}, nil
	}
	return pageAnswer{to: v.base + "/jobs/" + url.PathEscape(id), result: "job-started"}, nil
}

// rateOf parses a typed rate. A number without a unit is per second.
func rateOf(text string) string {
	text = strings.TrimSpace(text)
	if _, err := strconv.Atoi(text); err == nil {
		return text + "/s"
	}
	return text
}

// again shows a preview with the errors of its form.
func again(v *visit, list []deliveryFilter, wrong string) (pageAnswer, error) {
	typed := maps.Clone(v.r.PostForm)
	delete(typed, "sure") // it has to be confirmed each time
	if q := typed.Encode(); len(q) < mostQuery {
		v.at = v.base + "/jobs/new?" + q
	}
	a, err := preview(v, list, "")
	if p, ok := a.body.(previewPage); ok {
		p.Wrong = wrong
		a.body, a.status = p, http.StatusUnprocessableEntity
	}
	return a, err
}
