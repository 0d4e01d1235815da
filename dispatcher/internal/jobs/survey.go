package jobs

import (
	"context"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// How long it is looked what a job would change: as the contract says, and before
// a job begins, to find out whether there is anything.
const (
	surveyTime = 10 * time.Second
	firstTime  = 2 * time.Second
)

// sampleMost is how many deliveries a survey shows.
const sampleMost = 10

// SurveyJob tells what a job would change, as far as can be read in ten seconds.
func (s *Jobs) SurveyJob(ctx context.Context, kind dispatcher.JobKind, f dispatcher.Filter) (dispatcher.Survey, error) {
	j := dispatcher.Job{Kind: kind, Filter: withStatuses(kind, f)}
	return s.survey(ctx, &j, surveyTime, 0)
}

// survey looks for so long, or until it found so many; 0: for all.
func (s *Jobs) survey(ctx context.Context, j *dispatcher.Job, most time.Duration, enough int) (dispatcher.Survey, error) {
	v := surveyor{enough: enough, until: time.Now().Add(most)}
	v.ByReason = map[dispatcher.DeadReason]int{}
	err := s.surveyAll(ctx, j, &v)
	return v.Survey, err
}

// surveyor counts what is found.
type surveyor struct {
	dispatcher.Survey
	enough int
	until  time.Time
}

// over reports that it may look no further.
func (v *surveyor) over() bool {
	return v.enough > 0 && v.Matched >= v.enough || time.Now().After(v.until)
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
			page, err := s.store.Page(ctx, j, at, nil, v.enough == 0 && len(v.Sample) < sampleMost)
			if err != nil {
				return err
			}
			for i := range page.Deliveries {
				v.add(&page.Deliveries[i], page.Deliveries[i].Ended)
			}
			at.Cursor, more = page.Cursor, page.More
		}
	}
	v.Complete = true
	return nil
}

// listPage is how many deliveries are listed at a time.
const listPage = 256

// surveyList counts what is unfinished.
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

// add counts a delivery that ended, or is due, at a time; zero: it has none.
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
