package console

import (
	"cmp"
	"context"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// failuresShown limits the failures on a job's page. The API returns 1,000.
const failuresShown = 100

// outcomesFor is how long after a job's end its outcomes may change.
const outcomesFor = 24 * time.Hour

// jobRow is a job in a list and on its own page.
type jobRow struct {
	Job      wire.Job
	Title    string
	Chips    []filterChip
	List     string // URL of its deliveries
	Attempts string // URL of the attempts that it caused; empty: it makes none
	Progress template.HTML
	Whole    int  // how many it has to change, or has found so far
	Known    bool // all were counted
	Retrying int  // sent and not ended
	Taken    int  // sent again by another caller
	Failures []jobFailure
	More     int // failures that are not shown
	Ended    bool
	GoesOn   bool // what the page shows can still change
	Resume   bool
}

type jobFailure struct{ Message, Link, Why string }

const (
	// sentShown is how many of its attempts a job's page shows, and firstsShown how many destinations.
	sentShown, firstsShown = 20, 20
	// firstFor is how long the first attempts of a job may take. Then it leaves the rest.
	firstFor = time.Hour
)

// jobPage is the data of a job's page.
type jobPage struct {
	jobRow
	Missing    missing // parts: firsts, sent
	Endpoint   string  // of a job about one endpoint alone
	Firsts     []firstAttempt
	FirstsMore int // destinations that are not shown
	Works      int // destinations that work
	Sent       []wire.LoggedAttempt
	MoreSent   bool
}

// firstAttempt is a destination at which a job tries one delivery first.
type firstAttempt struct {
	wire.LaneState
	Name  string
	Works bool
	Text  string
	Last  *wire.LaneFailure // of an attempt since the job began; nil: none failed
}

// firstAttemptOf returns what came of the first attempt at a destination.
func firstAttemptOf(j wire.Job, l wire.LaneState) firstAttempt {
	works := !fails(l.State, l.FailingSince)
	l.State = shownState(l.State, l.FailingSince)
	f := firstAttempt{LaneState: l, Name: cmp.Or(l.UID, l.URL, l.Lane), Text: "One delivery is being attempted first."}
	failed := l.LastFailure != nil && !l.LastFailure.At.Before(j.StartedAt.Time)
	switch {
	case l.State == "paused" || l.State == "unverified" || l.State == "disabled":
		f.Text = "Nothing is sent: it is " + l.State + "."
	case works:
		f.Works, f.Text = true, "It works. What waits is sent now, as fast as the receiver takes it."
		if j.State == "done" && l.Waiting > l.Ready { // the job had read its list when these failed
			f.Text = "It works. Some failed after this had begun, and wait for their next attempt: try again to send them now."
		}
	case failed:
		f.Last, f.Text = l.LastFailure, "The attempt failed, so the others were not sent."
		if !l.Until.IsZero() {
			f.Text = "The attempt failed, so the others wait for the next one."
		}
	}
	return f
}

// firsts reads what came of the first attempts. Those that failed come first.
func (p *jobPage) firsts(v *visit) error {
	page, err := v.LanesOf(v.ctx, "", p.Job.Filter.Destination...)
	if err != nil {
		return err
	}
	for _, l := range page.Data {
		l.TokenAt = wire.Time{} // it changes with the clock
		f := firstAttemptOf(p.Job, l)
		if f.Works {
			p.Works++
		}
		p.Firsts = append(p.Firsts, f)
		p.GoesOn = p.GoesOn || l.Waiting > 0 && v.srv.Now().Sub(p.Job.StartedAt.Time) < firstFor
	}
	rank := func(f firstAttempt) int {
		switch {
		case f.Last != nil:
			return 0
		case !f.Works:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(p.Firsts, func(a, b firstAttempt) int { return cmp.Compare(rank(a), rank(b)) })
	if p.FirstsMore = len(p.Firsts) - firstsShown; p.FirstsMore > 0 {
		p.Firsts = p.Firsts[:firstsShown]
	}
	return nil
}

// jobsPage is the list of jobs.
type jobsPage struct {
	Rows  []jobRow
	Pages listPages
}

// jobs serves GET /jobs.
func jobs(v *visit) (pageAnswer, error) {
	cursor := v.r.FormValue("cursor")
	page, err := v.Jobs(v.ctx, rowsAtOnce, cursor)
	if err != nil {
		return pageAnswer{}, err
	}
	p := jobsPage{Pages: pagesOf(v.base+"/jobs", nil, cursor, page.NextCursor)}
	for _, j := range page.Data {
		p.Rows = append(p.Rows, rowOf(v, j))
	}
	return pageAnswer{template: "jobs", title: "Jobs", section: "dead", body: p}, nil
}

// job serves GET /jobs/{id}.
func job(v *visit) (pageAnswer, error) {
	j, err := v.Job(v.ctx, v.r.PathValue("id"))
	if err != nil {
		return pageAnswer{}, err
	}
	p := jobPage{jobRow: rowOf(v, j)}
	read := parts{v: v}
	if to := j.Filter.Destination; j.Probe && len(to) > 0 {
		read.add("firsts", func() error { return p.firsts(v) })
		if len(to) == 1 && dispatcher.Lane(to[0]).IsEndpoint() {
			p.Endpoint = to[0]
		}
	}
	if client.JobKind(j.Kind) == client.JobRetry {
		read.add("sent", func() error {
			log, err := v.Client.Attempts(v.ctx, client.AttemptFilter{Jobs: []string{j.ID}, Limit: sentShown})
			p.Sent, p.MoreSent = log.Data, log.NextCursor != nil
			return err
		})
	}
	if p.Missing, err = read.wait(); err != nil {
		return pageAnswer{}, err
	}
	section := "dead"
	if v.Link != nil {
		section = "endpoints"
	}
	return pageAnswer{template: "job", title: p.Title + " " + j.ID, section: section, body: p}, nil
}

func rowOf(v *visit, j wire.Job) jobRow {
	f := ofJob(j.Filter)
	if len(f.query["status"]) == 0 && client.JobKind(j.Kind) != client.JobCancel {
		f.query.Set("status", "dead")
	}
	r := jobRow{Job: j, Title: kinds[client.JobKind(j.Kind)].Title, Chips: f.chips(v.base+"/deliveries", true), List: f.url(v.base + "/deliveries")}
	r.Ended, r.Resume = !slices.Contains([]string{"running", "waiting"}, j.State), j.State == "stopped" || j.State == "failed"
	if client.JobKind(j.Kind) == client.JobRetry && waitsOnly([]deliveryFilter{f}) {
		r.Title = sendNow
	}
	if client.JobKind(j.Kind) == client.JobRetry && v.May("list-jobs") {
		r.Attempts = v.base + "/tail?" + url.Values{"job": {j.ID}}.Encode()
	}
	if j.Retrying != nil && j.TakenOver != nil {
		r.Retrying, r.Taken = *j.Retrying, *j.TakenOver
	}
	r.GoesOn = !r.Ended || r.Retrying > 0 && v.srv.Now().Sub(j.EndedAt.Time) < outcomesFor
	past := j.Done + j.Failed + j.Left
	r.Whole, r.Known = max(j.Matched, past), j.Expected != nil || j.State == "done"
	if j.Expected != nil {
		r.Whole = max(*j.Expected, past)
	}
	if r.Known && r.Whole > 0 {
		r.Progress = ProgressBar(j.Done, j.Failed, r.Whole)
	}
	for i, failure := range j.Failures {
		if i == failuresShown {
			r.More = len(j.Failures) - failuresShown
			break
		}
		lane, id, _ := strings.Cut(failure.ID, ":")
		r.Failures = append(r.Failures, jobFailure{Message: id, Link: v.base + "/messages/" + url.PathEscape(id) + anchor(lane), Why: failure.Why})
	}
	r.Job.Failures = nil
	return r
}

// stopJob serves POST /jobs/{id}/stop.
func stopJob(v *visit) (pageAnswer, error) {
	id := v.r.PathValue("id")
	_, err := v.StopJob(v.ctx, id)
	return pageAnswer{to: v.base + "/jobs/" + url.PathEscape(id), result: "job-stopped"}, err
}

// resumeJob serves POST /jobs/{id}/resume.
func resumeJob(v *visit) (pageAnswer, error) {
	id := v.r.PathValue("id")
	_, err := v.ResumeJob(v.ctx, id)
	return pageAnswer{to: v.base + "/jobs/" + url.PathEscape(id), result: "job-resumed"}, err
}

// pickedPage is the result for the selected rows.
type pickedPage struct {
	Verb    string
	Done    int
	Results []pickedRow
	Back    string
}

type pickedRow struct{ Message, Link, Destination, Text string }

// picked serves POST /deliveries/picked: it acts on each selected row.
func picked(v *visit) (pageAnswer, error) {
	_ = v.r.ParseForm()
	list, back := v.r.PostForm["pick"], v.r.PostFormValue("back")
	if !strings.HasPrefix(back, v.base+"/deliveries") {
		back = v.base + "/deliveries"
	}
	if len(list) == 0 {
		return pageAnswer{to: back, result: "picked-none"}, nil
	}
	if len(list) > rowsAtOnce {
		list = list[:rowsAtOnce]
	}
	v.at = back
	ends := v.r.PostFormValue("do") == "cancel"
	p := pickedPage{Verb: "due now", Results: make([]pickedRow, len(list)), Back: back}
	if ends {
		p.Verb = "cancelled"
	}
	group, ctx := errgroup.WithContext(v.ctx)
	group.SetLimit(8)
	done := make([]bool, len(list))
	for i, one := range list {
		group.Go(func() (err error) {
			lane, id, _ := strings.Cut(one, ":")
			p.Results[i] = pickedRow{Message: id, Destination: lane, Link: v.base + "/messages/" + url.PathEscape(id) + anchor(lane)}
			done[i], p.Results[i].Text, err = change(ctx, v, id, lane, ends)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return pageAnswer{}, err
	}
	for _, ok := range done {
		if ok {
			p.Done++
		}
	}
	return pageAnswer{template: "picked", title: "Selected", section: "deliveries", body: p}, nil
}

// change attempts or cancels one delivery and returns the result. It returns an error only
// if the error concerns all rows.
func change(ctx context.Context, v *visit, id, lane string, ends bool) (done bool, text string, err error) {
	if ends {
		var list []wire.Delivery
		if list, err = v.Cancel(ctx, id, lane); err == nil {
			i := slices.IndexFunc(list, func(d wire.Delivery) bool { return d.Destination == lane })
			if i >= 0 && list[i].Status != "cancelled" && list[i].Status != "in_flight" {
				return false, "It is " + strings.ReplaceAll(list[i].Status, "_", " ") + " already.", nil
			}
			return true, results["cancelled"], nil
		}
	} else {
		var list []wire.RetriedDelivery
		if list, err = v.Retry(ctx, id, lane); err == nil {
			word := retriedWord(list)
			return word == "retried", results[word], nil
		}
	}
	var p *client.Problem
	var spent *SpentError
	switch {
	case errors.As(err, &spent):
		return false, sentence(spent), nil
	case errors.As(err, &p) && p.Status == http.StatusConflict && len(p.Deliveries) > 0:
		return false, results[retriedWord(p.Deliveries)], nil
	case notThere(err), p != nil && p.Status == http.StatusConflict:
		return false, capital(strings.TrimPrefix(err.Error(), "retry "+id+": ")), nil
	}
	return false, "", err
}
