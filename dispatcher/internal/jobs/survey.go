package jobs

import (
	"context"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// The timeouts for counting a job's deliveries: in a survey, for which a person waits, in a survey
// that counts on or a job that begins without a count, and in the call that starts a job.
const (
	surveyTime = 800 * time.Millisecond
	expectTime = 10 * time.Second
	firstTime  = 2 * time.Second
)

// expect counts the deliveries of a job before it changes any, if the call that started the
// job had no time for it. After ten seconds the number stays unknown, because the job must not
// wait longer.
func (w *jobWorker) expect(ctx context.Context) error {
	if w.job.Expected != nil || w.job.Turn > 1 || w.sum() != (dispatcher.JobCounts{}) {
		return nil
	}
	found, err := w.jobs.survey(ctx, &w.job, expectTime)
	if err != nil || !found.Complete {
		return err
	}
	w.job.Expected = &found.Matched
	return w.change(ctx, func(j *dispatcher.Job) { j.Expected = &found.Matched })
}

// sampleMost is the number of deliveries that a survey returns.
const sampleMost = 10

// SurveyJob counts the deliveries that a job would change, for less than a second, or if whole for
// up to ten.
func (s *Jobs) SurveyJob(ctx context.Context, kind dispatcher.JobKind, f dispatcher.Filter, whole bool) (dispatcher.Survey, error) {
	j, most := dispatcher.Job{Kind: kind, Filter: withStatuses(kind, f)}, surveyTime
	if whole {
		most = expectTime
	}
	found, err := s.survey(ctx, &j, most)
	if err == nil {
		found.Sample, err = s.o.Show(ctx, found.Sample)
	}
	return found, err
}

// survey counts the deliveries of a job, for at most `most`.
func (s *Jobs) survey(ctx context.Context, j *dispatcher.Job, most time.Duration) (dispatcher.Survey, error) {
	v := surveyor{until: time.Now().Add(most)}
	v.ByReason = map[dispatcher.DeadReason]int{}
	err := s.surveyAll(ctx, j, &v)
	return v.Survey, err
}

// surveyor is a survey that is running.
type surveyor struct {
	dispatcher.Survey
	until time.Time
}

// over reports whether its time is over.
func (v *surveyor) over() bool {
	return time.Now().After(v.until)
}

func (s *Jobs) surveyAll(ctx context.Context, j *dispatcher.Job, v *surveyor) error {
	if j.Kind == dispatcher.JobCancel {
		return s.surveyList(ctx, j, v)
	}
	for _, n := range s.store.Parts(j.Filter) {
		for at, more := (dispatcher.JobAt{Part: n}), true; more; {
			if v.over() {
				return nil
			}
			page, err := s.store.Page(ctx, j, at, nil)
			if err != nil {
				return err
			}
			for i := range page.Deliveries {
				d := &page.Deliveries[i]
				at := d.Ended
				if at.IsZero() {
					at = d.Due
				}
				v.add(d, at)
			}
			at.Cursor, more = page.Cursor, page.More
		}
	}
	v.Complete = true
	return nil
}

// listPage is the number of deliveries in a page.
const listPage = 256

// surveyList counts unfinished deliveries.
func (s *Jobs) surveyList(ctx context.Context, j *dispatcher.Job, v *surveyor) error {
	f := j.Filter
	f.Limit = listPage
	for !v.over() {
		page, err := s.o.List(ctx, f)
		if err != nil {
			return err
		}
		for i := range page.Deliveries {
			v.add(&page.Deliveries[i], page.Deliveries[i].Due)
		}
		if f.Cursor = page.Next; f.Cursor == "" {
			v.Complete = true
			return nil
		}
	}
	return nil
}

// add counts a delivery that ended, or is due, at a time; zero: there is none.
func (v *surveyor) add(d *dispatcher.Delivery, at time.Time) {
	v.Matched++
	if d.Reason != "" {
		v.ByReason[d.Reason]++
	}
	if !at.IsZero() && (v.Oldest.IsZero() || at.Before(v.Oldest)) {
		v.Oldest = at
	}
	if at.After(v.Newest) {
		v.Newest = at
	}
	if len(v.Sample) < sampleMost {
		v.Sample = append(v.Sample, *d)
	}
}
