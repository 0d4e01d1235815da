package endpoints

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/outage"
)

// giveUp is one request to give up a lane.
type giveUp struct {
	called *dispatcher.Endpoint // the endpoint as it was called; nil: the lane is of a bare URL
	since  time.Time            // when the lane began to fail
}

// GiveUp requests that a failing destination is given up. since is the time at which it began
// to fail. called is its endpoint in the state of the failed call, and gets disabled. If
// called is nil, the lane is of a bare URL, and only the deliveries that were accepted until
// now end.
func (r *Registry) GiveUp(lane dispatcher.Lane, called *dispatcher.Endpoint, since time.Time) {
	r.repairs.giveUp(lane, giveUp{called, since})
}

// giveUp gives up a lane. It runs apart from the attempt that found the failure, which must
// record its outcome.
func (r *Registry) giveUp(ctx context.Context, lane dispatcher.Lane, g giveUp) {
	switch {
	case g.called != nil:
		r.Disable(g.called, dispatcher.WhyFailing)
	case !lane.IsEndpoint():
		r.cut(ctx, lane, g.since)
	}
}

// cut ends the deliveries that were accepted for a bare URL until now. Later ones are
// attempted, and their failures count from zero. Another instance may have cut the lane
// already.
func (r *Registry) cut(ctx context.Context, lane dispatcher.Lane, since time.Time) {
	call, cancel := outage.Within(ctx)
	defer cancel()
	waiting, cut, err := r.Queue.Cut(call, r.Name(), lane, since)
	r.Outages.Report("give up", err)
	if err != nil {
		r.PollSoon() // the cut may be made, with only its response lost
	}
	if !cut {
		return
	}
	r.Log.LogAttrs(ctx, slog.LevelInfo, "destination given up", slog.String("lane", string(lane)),
		slog.String("why", string(dispatcher.WhyFailing)), slog.Time("since", since), slog.Int("waiting", waiting))
	r.Notify(dispatcher.News{
		Notice: dispatcher.NoticeDisabled, Lane: lane, Key: dispatcher.Summary(since, 0), State: string(dispatcher.StateActive),
		Since: since, Reason: string(dispatcher.WhyFailing), Count: waiting, // new deliveries are attempted
	})
	r.repairs.sweep(lane, 0)
}

// maxFailingLogged bounds the lanes remembered as logged. If there are more, some are
// logged again.
const maxFailingLogged = 10_000

// Failing logs that a destination has failed for FailingAfter, and that it has recovered,
// each once. It also publishes notices of both, and once an hour that the destination
// still fails. The notice comes from the instance that records the failure. status is the
// last response's.
func (r *Registry) Failing(f dispatcher.LaneFailing, status int) {
	if f.Recovered {
		f.For = max(f.For, r.Queue.Now().Sub(f.Since)) // a test that succeeded does not report For
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
	r.Notify(news)
	q := r.repairs
	q.mu.Lock()
	was, logged := q.logged[f.Lane]
	logged = logged && was.Since.Equal(f.Since)
	switch {
	case f.Recovered:
		delete(q.logged, f.Lane)
	case !logged:
		if len(q.logged) >= maxFailingLogged {
			clear(q.logged)
		}
		q.logged[f.Lane] = f
	}
	q.mu.Unlock()
	text := "destination failing"
	switch {
	case f.Recovered && logged:
		text = "destination recovered"
	case f.Recovered || logged:
		return
	}
	r.Log.LogAttrs(context.Background(), slog.LevelInfo, text, slog.String("lane", string(f.Lane)),
		slog.Time("since", f.Since), slog.Float64("for_s", f.For.Seconds()))
}

// Works clears the failures of an endpoint's lane after a test of the endpoint succeeded.
// It also verifies the endpoint's URL if that is still the same.
func (r *Registry) Works(ctx context.Context, e *dispatcher.Endpoint) error {
	ctx, cancel := outage.Within(context.WithoutCancel(ctx)) // the caller of the test may have gone
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
