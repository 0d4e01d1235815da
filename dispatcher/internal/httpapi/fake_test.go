package httpapi_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

// Fake accepts every call and records it. If a func is set, it returns the response instead.
type Fake struct {
	Mu        sync.Mutex // guards published and calls
	Published []*dispatcher.Message
	Calls     []string

	OnPublish func(batch []*dispatcher.Message) ([]dispatcher.Published, error)
	View      dispatcher.MessageView
	Filter    dispatcher.Filter
	LogFilter dispatcher.LogFilter
	LogPage   dispatcher.LogPage
	Behind    string                                                                  // whence a log was followed
	OnFollow  func(ctx context.Context, show func([]dispatcher.LogEvent) error) error // the log; nil: it can't be
	Page      dispatcher.Page
	Counts    dispatcher.Stats
	Store     dispatcher.StoreInfo
	InLane    dispatcher.Lane
	Missing   bool              // Err is returned for the thing that a call names
	Left      []dispatcher.Left // why a retry leaves the first deliveries of record
	DeadOf    dispatcher.DeadFilter
	Groups    dispatcher.DeadPage
	EndedPage dispatcher.EndedPage
	EndedOf   []dispatcher.EndedFilter
	FakeEndpoints
	fakeTakers
	Err    error
	Stuck  error // of Alive
	Panics any

	Delivered bool // delivered ones were to be retried too

	Recorded  []dispatcher.AuditEntry
	Before    [][]string // the calls before each of recorded
	FirstURL  string     // of the endpoint, when the first was recorded
	AuditPage dispatcher.AuditPage
	fakeLinks
	AuditOf dispatcher.AuditFilter
	OneJob  dispatcher.Job // as it was begun, and is answered
	Survey  dispatcher.Survey
	jobKind dispatcher.JobKind
	Ticked  dispatcher.Tick
	Within  time.Duration // how long a tick was to last
	Waits   chan struct{} // until it is closed a tick lasts; nil: no time
}

func (f *Fake) called(name string) {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	f.Calls = append(f.Calls, name)
	if f.Panics != nil {
		panic(f.Panics)
	}
}

func (f *Fake) Record(_ context.Context, e dispatcher.AuditEntry) {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	f.Recorded, f.Before = append(f.Recorded, e), append(f.Before, slices.Clone(f.Calls))
	if f.There != nil && f.FirstURL == "" {
		f.FirstURL = f.There.URL
	}
}

func (f *Fake) ReadAudit(_ context.Context, filter dispatcher.AuditFilter) (dispatcher.AuditPage, error) {
	f.called("audit")
	f.AuditOf = filter
	return f.AuditPage, f.Err
}

func (f *Fake) Publish(_ context.Context, batch []*dispatcher.Message) ([]dispatcher.Published, error) {
	f.called("publish")
	f.Mu.Lock()
	f.Published = append(f.Published, batch...)
	f.Mu.Unlock()
	if f.OnPublish != nil {
		return f.OnPublish(batch)
	}
	out := make([]dispatcher.Published, len(batch))
	for i, m := range batch {
		out[i] = Accepted(m)
	}
	return out, f.Err
}

func (f *Fake) Message(context.Context, string) (dispatcher.MessageView, error) {
	f.called("message")
	return f.View, f.Err
}

func (f *Fake) Cancel(_ context.Context, _ string, lane dispatcher.Lane) ([]dispatcher.Delivery, error) {
	f.called("cancel")
	f.InLane = lane
	return f.View.Deliveries, f.Err
}

func (f *Fake) Retry(_ context.Context, _ string, lane dispatcher.Lane, delivered bool) ([]dispatcher.Retried, error) {
	f.called("retry")
	f.InLane, f.Delivered = lane, delivered
	var out []dispatcher.Retried
	for i, d := range f.View.Deliveries {
		out = append(out, dispatcher.Retried{Delivery: d})
		if i < len(f.Left) {
			out[i].Left = f.Left[i]
		}
	}
	return out, f.Err
}

func (f *Fake) Deliveries(_ context.Context, filter dispatcher.Filter) (dispatcher.Page, error) {
	f.called("deliveries")
	f.Filter = filter
	page := f.Page
	page.Deliveries = page.Deliveries[:min(filter.Limit, len(page.Deliveries))]
	return page, f.Err
}

func (f *Fake) ReadLog(_ context.Context, filter dispatcher.LogFilter, limit int, cursor string) (dispatcher.LogPage, error) {
	f.called("attempts")
	f.LogFilter, f.Filter.Limit, f.Filter.Cursor = filter, limit, cursor
	page := f.LogPage
	page.Lines = page.Lines[:min(limit, len(page.Lines))]
	return page, f.Err
}

func (f *Fake) Ended(_ context.Context, name string, filter dispatcher.EndedFilter) (dispatcher.EndedPage, error) {
	if _, err := f.find("ended", name); err != nil {
		return dispatcher.EndedPage{}, err
	}
	f.EndedOf = append(f.EndedOf, filter)
	page := f.EndedPage
	page.Deliveries = page.Deliveries[:min(filter.Limit, len(page.Deliveries))]
	return page, f.Err
}

func (f *Fake) FollowLog(ctx context.Context, filter dispatcher.LogFilter, behind string, show func([]dispatcher.LogEvent) error) error {
	f.called("follow")
	f.LogFilter, f.Behind = filter, behind
	if f.OnFollow == nil {
		return f.Err
	}
	return f.OnFollow(ctx, show)
}

func (f *Fake) Dead(_ context.Context, filter dispatcher.DeadFilter) (dispatcher.DeadPage, error) {
	f.called("dead")
	f.DeadOf = filter
	return f.Groups, f.Err
}

func (f *Fake) Stats(context.Context) (dispatcher.Stats, error) {
	f.called("stats")
	return f.Counts, f.Err
}

func (f *Fake) Alive() error { return f.Stuck }

func (f *Fake) Ready(context.Context) (dispatcher.StoreInfo, error) {
	f.called("ready")
	return f.Store, f.Err
}

// The is the one message that was published.
func (f *Fake) The(t testing.TB) *dispatcher.Message {
	t.Helper()
	require.Len(t, f.Published, 1)
	return f.Published[0]
}
