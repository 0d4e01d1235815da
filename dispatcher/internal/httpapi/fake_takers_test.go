package httpapi_test

import (
	"context"
	"sync"

	"github.com/hookladder/hookladder/dispatcher"
)

func (f *Fake) StartJob(ctx context.Context, j dispatcher.Job) (dispatcher.Job, error) {
	kind, filter, rate := j.Kind, j.Filter, j.Rate
	f.called("start job")
	f.OneJob.Number = 7
	f.OneJob.Kind, f.OneJob.Filter, f.OneJob.Rate, f.OneJob.By = kind, filter, rate, dispatcher.CallerOf(ctx)
	return f.OneJob, f.Err
}

func (f *Fake) RetryLane(ctx context.Context, lane dispatcher.Lane) (dispatcher.Job, error) {
	f.called("retry lane")
	f.OneJob.Number = 7
	f.OneJob.Kind, f.OneJob.Filter.Lanes, f.OneJob.By = dispatcher.JobRetry, []dispatcher.Lane{lane}, dispatcher.CallerOf(ctx)
	return f.OneJob, f.Err
}

func (f *Fake) SurveyJob(_ context.Context, kind dispatcher.JobKind, filter dispatcher.Filter, whole bool) (dispatcher.Survey, error) {
	f.called("survey job")
	if whole {
		f.called("for longer")
	}
	f.jobKind, f.Filter = kind, filter
	return f.Survey, f.Err
}

func (f *Fake) Job(_ context.Context, number int64) (dispatcher.Job, error) {
	f.called("job")
	f.OneJob.Number = number
	return f.OneJob, f.Err
}

func (f *Fake) Jobs(_ context.Context, limit int, cursor string) ([]dispatcher.Job, string, error) {
	f.called("jobs")
	f.Filter.Limit, f.Filter.Cursor = limit, cursor
	return []dispatcher.Job{f.OneJob}, f.Next, f.Err
}

func (f *Fake) StopJob(ctx context.Context, number int64) (dispatcher.Job, error) {
	f.called("stop job")
	return f.Job(ctx, number)
}

func (f *Fake) ResumeJob(ctx context.Context, number int64) (dispatcher.Job, error) {
	f.called("resume job")
	return f.Job(ctx, number)
}

// fakeTakers is what fakeService gives out.
type fakeTakers struct {
	OnTake   func(ctx context.Context, a dispatcher.TakerAsk) ([]dispatcher.Given, error) // nil: there is nothing
	Asks     []dispatcher.TakerAsk
	OnSettle []dispatcher.TakerOutcome
	owner    string
	From     dispatcher.Lane
	Settled  []dispatcher.TakerSettled

	backMu sync.Mutex // guards back
	back   []dispatcher.Given
}

func (f *fakeTakers) Take(ctx context.Context, a dispatcher.TakerAsk) ([]dispatcher.Given, error) {
	f.Asks = append(f.Asks, a)
	if f.OnTake == nil {
		return nil, nil
	}
	return f.OnTake(ctx, a)
}

func (f *fakeTakers) GiveBack(given []dispatcher.Given) {
	f.backMu.Lock()
	defer f.backMu.Unlock()
	f.back = append(f.back, given...)
}

func (f *fakeTakers) Given() int {
	f.backMu.Lock()
	defer f.backMu.Unlock()
	return len(f.back)
}

func (f *fakeTakers) SettleTaken(_ context.Context, lane dispatcher.Lane, owner string, list []dispatcher.TakerOutcome) ([]dispatcher.TakerSettled, error) {
	f.From, f.owner, f.OnSettle = lane, owner, list
	return f.Settled, nil
}
