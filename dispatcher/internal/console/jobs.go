package console

import (
	"context"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

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
	Percent  int
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
	return pageAnswer{template: "job", title: kinds[j.Kind].Title + " " + j.ID, section: "dead", body: rowOf(v, j)}, nil
}

func rowOf(v *visit, j wire.Job) jobRow {
	f := ofJob(j.Filter)
	if len(f.query["status"]) == 0 && j.Kind != client.JobCancel {
		f.query.Set("status", "dead")
	}
	r := jobRow{Job: j, Title: kinds[j.Kind].Title, Chips: f.chips(v.base+"/deliveries", true), List: f.url(v.base + "/deliveries")}
	r.Ended, r.Resume = !slices.Contains([]string{"running", "waiting"}, j.State), j.State == "stopped" || j.State == "failed"
	if j.Kind == client.JobRetry {
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
		r.Percent = 100 * past / r.Whole
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
