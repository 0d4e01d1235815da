package endpoints

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/outage"
)

// quitter gives up destinations that failed for too long. It does so apart from the
// goroutine that found that out, which has outcomes to record. What it does not reach
// before this process ends, the next failure asks for again.
type quitter struct {
	registry *Registry

	mu    sync.Mutex                                 // guards what follows
	lanes map[dispatcher.Lane]hopeless               // to give up
	works bool                                       // at a lane that was taken
	told  map[dispatcher.Lane]dispatcher.LaneFailing // logged as failing

	wake chan struct{} // 1 deep
}

// hopeless is why a lane is given up.
type hopeless struct {
	called *dispatcher.Endpoint // as it was called; nil: it is a bare URL's
	since  time.Time            // it fails
}

func newQuitter(r *Registry) *quitter {
	return &quitter{
		registry: r, lanes: map[dispatcher.Lane]hopeless{}, told: map[dispatcher.Lane]dispatcher.LaneFailing{},
		wake: make(chan struct{}, 1),
	}
}

// hopelessMost bounds the lanes that are to be given up. Beyond it their next failure asks
// for it again.
const hopelessMost = 10_000

// GiveUp ends what waits for a destination that fails since then, which is too long.
// called is its endpoint, as it was called, which is disabled; nil: a bare URL, of which
// only what was accepted until now ends.
func (r *Registry) GiveUp(lane dispatcher.Lane, called *dispatcher.Endpoint, since time.Time) {
	q := r.quitter
	q.mu.Lock()
	if len(q.lanes) < hopelessMost {
		q.lanes[lane] = hopeless{called, since}
	}
	q.mu.Unlock()
	wake(q.wake)
}

func (q *quitter) take() (lane dispatcher.Lane, h hopeless, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.works = len(q.lanes) > 0
	for lane, h = range q.lanes {
		delete(q.lanes, lane)
		return lane, h, true
	}
	return "", hopeless{}, false
}

func (q *quitter) busy() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.works || len(q.lanes) > 0
}

// Run gives up lanes until ctx ends.
func (q *quitter) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		lane, h, ok := q.take()
		switch {
		case !ok:
			select {
			case <-ctx.Done():
			case <-q.wake:
			}
		case h.called != nil:
			q.registry.Disable(h.called, dispatcher.WhyFailing)
		case !lane.IsEndpoint():
			q.cut(ctx, lane, h.since)
		}
	}
	return nil
}

// cut ends what was accepted for a bare URL until now. What is published later is
// attempted, and its failures count anew. Another instance may have cut it already.
func (q *quitter) cut(ctx context.Context, lane dispatcher.Lane, since time.Time) {
	r := q.registry
	call, cancel := outage.Within(ctx)
	defer cancel()
	waiting, cut, err := r.Queue.Cut(call, r.Name(), lane, since)
	r.Outages.Report("give up", err)
	if err != nil {
		r.PollSoon() // it may be done, and only its answer lost
	}
	if !cut {
		return
	}
	r.Log.LogAttrs(ctx, slog.LevelInfo, "destination given up", slog.String("lane", string(lane)),
		slog.String("why", string(dispatcher.WhyFailing)), slog.Time("since", since), slog.Int("waiting", waiting))
	r.Tell(dispatcher.News{
		Notice: dispatcher.NoticeDisabled, Lane: lane, Key: dispatcher.Summary(since, 0), State: string(dispatcher.StateActive),
		Since: since, Reason: string(dispatcher.WhyFailing), Count: waiting, // what comes is attempted
	})
	r.sweeper.put(lane, 0)
}

// failingTold bounds what is remembered of lanes that are logged as failing. Beyond it
// some are logged again.
const failingTold = 10_000

// Failing logs, once for each time, that a destination fails for FailingAfter, and that it
// answers again. Notices tell it too, and once an hour that it still fails: whichever
// instance meets its next failure. status is the last answer.
func (r *Registry) Failing(f dispatcher.LaneFailing, status int) {
	if f.Recovered {
		f.For = max(f.For, r.Queue.Now().Sub(f.Since)) // a test that succeeded does not tell
	}
	if r.FailingAfter == 0 || f.For < r.FailingAfter {
		return
	}
	news := dispatcher.News{
		Notice: dispatcher.NoticeFailing, Lane: f.Lane, Key: dispatcher.Summary(f.Since, f.For-r.FailingAfter),
		Since: f.Since, Reason: string(dispatcher.WhyFailing), Status: status,
	}
	if f.Recovered {
		news.Notice, news.Key, news.Reason = dispatcher.NoticeRecovered, dispatcher.Summary(f.Since, 0), string(f.Why)
	}
	r.Tell(news)
	q := r.quitter
	q.mu.Lock()
	was, told := q.told[f.Lane]
	told = told && was.Since.Equal(f.Since)
	switch {
	case f.Recovered:
		delete(q.told, f.Lane)
	case !told:
		if len(q.told) >= failingTold {
			clear(q.told)
		}
		q.told[f.Lane] = f
	}
	q.mu.Unlock()
	text := "destination failing"
	switch {
	case f.Recovered && told:
		text = "destination recovered"
	case f.Recovered || told:
		return
	}
	r.Log.LogAttrs(context.Background(), slog.LevelInfo, text, slog.String("lane", string(f.Lane)),
		slog.Time("since", f.Since), slog.Float64("for_s", f.For.Seconds()))
}

// Works has an endpoint's lane fail no more, since a test of it succeeded. If its URL waited
// for that, and is still the same, it waits no more.
func (r *Registry) Works(ctx context.Context, e *dispatcher.Endpoint) error {
	ctx, cancel := outage.Within(context.WithoutCancel(ctx)) // the caller of the test may be gone
	defer cancel()
	r.Outages.Report("works", r.Queue.Works(ctx, r.Name(), e.Lane()))
	if !e.Unverified {
		return nil
	}
	_, err := r.changeEndpoint(ctx, e.ID, func(now *dispatcher.Endpoint) error {
		if !now.Unverified || now.URL != e.URL {
			return errAlready
		}
		now.Unverified = false
		return nil
	}, false)
	switch {
	case errors.Is(err, errAlready):
		return nil
	case err == nil:
		r.Log.LogAttrs(ctx, slog.LevelInfo, "endpoint verified", byCaller(ctx), slog.String("lane", e.ID))
	}
	return err
}
