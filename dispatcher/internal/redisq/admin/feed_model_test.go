package admin_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/admin"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest/model"
)

// What is read of the log, step by step, tells what has not finished, whatever
// happens. A walk through the store tells the same.
func TestTheLogTellsWhatHasNotFinished(t *testing.T) {
	t.Parallel()
	model.Run(t, followed(redistest.Share(t)), 4, nil)
}

// follower keeps what an archive would have as unfinished.
type follower struct {
	testing.TB
	feed *admin.Feed
	at   []archive.Position
	last []int64
	open map[dispatcher.DeliveryID]archive.Open
	step int
}

// followed makes stores of which a follower reads the log after each step. Nothing is
// kept for it: it sees all in time.
func followed(server redisqtest.Server) redisqtest.FixtureFunc {
	return func(t testing.TB, s redisqtest.Setup) redisqtest.Fixture {
		t.Helper()
		f, options := redisqtest.NewFixture(t, s, server, redisqtest.Open)
		raw := f.Queue
		raw.Conn().SetArchives(true)
		require.NoError(t, raw.Client().HSet(context.Background(), keys.Home(options.Project)+keys.Meta, "archive", 1).Err())
		w := newFollower(t, admin.NewFeed(raw.Bare()))
		states, lost := f.States, map[string]bool{}
		f.States = func() []redisqtest.State {
			now := states()
			w.follow()
			w.compare(now, lost)
			return now
		}
		lose := f.Lose
		f.Lose = func(id string) {
			lost[id] = true
			lose(id)
		}
		return f
	}
}

func newFollower(t testing.TB, f *admin.Feed) *follower {
	return &follower{
		TB: t, feed: f, at: make([]archive.Position, len(f.All())), last: make([]int64, len(f.All())),
		open: map[dispatcher.DeliveryID]archive.Open{},
	}
}

// follow reads all that is new, in parts of another size each time.
func (w *follower) follow() {
	w.Helper()
	for n := range w.at {
		for more := true; more; {
			w.step++
			p, err := w.feed.Read(context.Background(), n, w.at[n], 1+w.step%5, 1<<(w.step%20))
			require.NoError(w, err)
			w.at[n], more = p.To, p.More
			w.fold(&p)
		}
	}
}

// fold has a part change what is unfinished.
func (w *follower) fold(p *archive.Part) {
	w.last[p.Partition] = p.Number(w.last[p.Partition])
	parts := []archive.Part{*p}
	known := map[dispatcher.DeliveryID]archive.Open{}
	for _, id := range archive.Touched(parts) {
		if o, ok := w.open[id]; ok {
			known[id] = o
		}
	}
	folded := archive.Fold(parts, known)
	for _, o := range folded.Open {
		w.open[o.ID] = o
	}
	for _, id := range folded.Ended {
		delete(w.open, id)
	}
}

// rungs are what is compared of a delivery.
func rungs(o *archive.Open) string {
	asked := int64(0)
	if !o.Asked.IsZero() {
		asked = o.Asked.UnixMilli()
	}
	return fmt.Sprintf("%d attempts, %d before, %d beside, asked %d", o.Attempts, o.Base, o.Beside, asked)
}

// compare compares what is known as unfinished with what the store has, and both with
// a walk through the store.
func (w *follower) compare(states []redisqtest.State, lost map[string]bool) {
	w.Helper()
	want, messages := map[string]string{}, map[string]bool{}
	for _, s := range states {
		for _, id := range s.Deliveries() {
			if s.At(id).Place.Waits() && s.Marks[id] != redisqtest.MarkDelivered && s.Messages[id.Message].Whole && !lost[id.Message] {
				p := s.Progress[id]
				o := archive.Open{Attempts: p.Attempts, Base: p.Base, Beside: p.Beside}
				if p.Asked > 1 {
					o.Asked = time.UnixMilli(p.Asked)
				}
				want[id.String()], messages[id.Message] = rungs(&o), true
			}
		}
	}
	folded := map[string]string{}
	for id, o := range w.open {
		if !lost[id.Message] {
			folded[id.String()] = rungs(&o)
			require.NotEmpty(w, o.Head, "the message of %s", id)
			require.NotEmpty(w, o.Body, "the body of %s", id)
		}
	}
	require.Equal(w, want, folded, "what the log tells")

	walked := map[string]string{}
	for n := range w.at {
		for cursor := ""; ; {
			page, err := w.feed.Unfinished(context.Background(), n, cursor)
			require.NoError(w, err)
			for i := range page.Open {
				o := &page.Open[i]
				walked[o.ID.String()] = rungs(o)
				require.NotEmpty(w, o.Body, "the body of %s", o.ID)
			}
			if cursor = page.Next; cursor == "" {
				break
			}
		}
	}
	require.Equal(w, want, walked, "what a walk tells")
}
