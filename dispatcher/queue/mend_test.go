package queue_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/queue"
	"github.com/hookladder/hookladder/dispatcher/queue/queuetest"
)

func TestDeadDeliveriesAreFoundAndReplayedWithoutServe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queuetest.Open(t, quiet)
		var calls atomic.Int64
		var mended atomic.Bool
		h := func(context.Context, queue.Delivery) error {
			if calls.Add(1); !mended.Load() {
				return errors.New("no such table")
			}
			return nil
		}
		q.Handle("work", h)
		q.Handle("other", h)
		queuetest.Run(t, q)
		for n := range 250 {
			publish(t, q, queue.Task{ID: fmt.Sprint(n), Queue: []string{"work", "other"}[n%5/4], Topic: "order.paid", Ladder: []time.Duration{time.Minute}})
		}
		publish(t, q, queue.Task{ID: "cancelled", Delay: time.Hour})
		require.NoError(t, q.Cancel(t.Context(), "cancelled"))
		queuetest.Advance(2 * time.Minute)
		require.Len(t, queuetest.Dead(t, q), 250)
		stats, err := q.Stats(t.Context())
		require.NoError(t, err)
		require.Equal(t, []queue.Stats{{Queue: "work", Dead: 200}, {Queue: "other", Dead: 50}}, stats)

		r, err := q.Get(t.Context(), "3")
		require.NoError(t, err)
		require.Equal(t, queue.Record{
			ID: "q_work:3", MessageID: "3", Destination: "q_work", Queue: "work", Topic: "order.paid", Status: dispatcher.StatusDead, Attempts: 2, MaxAttempts: 2,
			LastError: "no such table", Reason: dispatcher.ReasonExhausted, CreatedAt: r.CreatedAt, EndedAt: r.EndedAt,
		}, r)
		same, err := q.Get(t.Context(), "q_work:3")
		require.NoError(t, err)
		require.Equal(t, r, same)

		mended.Store(true)
		n, err := q.Replay(t.Context(), queue.Filter{Queue: "work", Topics: []string{"order.*"}})
		require.NoError(t, err)
		require.Equal(t, 200, n)
		queuetest.Advance(time.Second)
		require.Len(t, queuetest.Dead(t, q), 50)
		n, err = q.Replay(t.Context(), queue.Filter{Until: r.CreatedAt.Add(-time.Hour)})
		require.NoError(t, err)
		require.Zero(t, n)
		n, err = q.Replay(t.Context(), queue.Filter{Statuses: []dispatcher.Status{dispatcher.StatusDead, dispatcher.StatusCancelled}})
		require.NoError(t, err)
		require.Equal(t, 51, n)
		queuetest.Advance(time.Second)
		require.Empty(t, queuetest.Dead(t, q))
		require.EqualValues(t, 2*250+251, calls.Load())
		n, err = q.Replay(t.Context(), queue.Filter{Queue: "other", Statuses: []dispatcher.Status{dispatcher.StatusDelivered}})
		require.NoError(t, err)
		require.Equal(t, 50, n)
	})
}

// A delivery that dies again during the call is not replayed again, or the call would never end.
func TestAReplayEndsThoughEverythingDiesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queuetest.Open(t, quiet)
		var calls atomic.Int64
		q.Handle("work", func(context.Context, queue.Delivery) error {
			calls.Add(1)
			return queue.SkipRetry(errors.New("no"))
		})
		queuetest.Run(t, q)
		for n := range 300 {
			publish(t, q, queue.Task{ID: fmt.Sprint(n)})
		}
		queuetest.Advance(time.Second)
		n, err := q.Replay(t.Context(), queue.Filter{})
		require.NoError(t, err)
		require.Equal(t, 300, n)
		queuetest.Advance(time.Second)
		require.EqualValues(t, 600, calls.Load())
		require.Len(t, queuetest.Dead(t, q), 300)
	})
}

func TestAPausedQueueWaitsUntilItIsResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queuetest.Open(t, quiet)
		calls := 0
		q.Handle("work", func(context.Context, queue.Delivery) error {
			calls++
			return nil
		})
		queuetest.Run(t, q)
		require.NoError(t, q.Pause(t.Context(), "work"), "nobody has used it yet")
		require.NoError(t, q.Pause(t.Context(), "work"))
		paused := time.Now()
		publish(t, q, queue.Task{})
		publish(t, q, queue.Task{Delay: time.Minute})
		queuetest.Advance(time.Hour)
		require.Zero(t, calls)
		stats, err := q.Stats(t.Context(), "work", "unknown", "work")
		require.NoError(t, err)
		require.WithinDuration(t, paused, stats[0].PausedSince, time.Second)
		stats[0].PausedSince, stats[2].PausedSince = time.Time{}, time.Time{}
		require.Equal(t, []queue.Stats{{Queue: "work", Waiting: 2, Paused: true}, {Queue: "unknown"}, {Queue: "work", Waiting: 2, Paused: true}}, stats)
		require.NoError(t, q.Resume(t.Context(), "work"))
		require.NoError(t, q.Resume(t.Context(), "work"))
		queuetest.Advance(time.Second)
		require.Equal(t, 2, calls)
	})
}

func TestWrongQuestionsAreNamed(t *testing.T) {
	t.Parallel()
	p := newTestQueue(t, queue.Options{})
	p.publish(t, queue.Task{ID: "one"})
	list := func(f queue.Filter) error {
		for _, err := range p.List(t.Context(), f) {
			return err
		}
		return nil
	}
	_, replayed := p.Replay(t.Context(), queue.Filter{Statuses: []dispatcher.Status{dispatcher.StatusReady}})
	_, got := p.Get(t.Context(), "a:b:c")
	_, counted := p.Stats(t.Context(), "a b")
	_, most := p.Stats(t.Context(), make([]string, 257)...)
	for text, err := range map[string]error{
		"Queue must be 1 to 64":              list(queue.Filter{Queue: "a b"}),
		`Statuses has "gone"`:                list(queue.Filter{Statuses: []dispatcher.Status{"gone"}}),
		`Topics has "a..b"`:                  list(queue.Filter{Topics: []string{"a..b"}}),
		`Tenants has ""`:                     list(queue.Filter{Tenants: []string{""}}),
		`Subjects has "a\nb"`:                list(queue.Filter{Subjects: []string{"a\nb"}}),
		"Subjects has 101 values, at most":   list(queue.Filter{Subjects: make([]string, 101)}),
		`Statuses has "ready": only dead`:    replayed,
		"id must be 1 to 128":                got,
		"names must be 1 to 64":              counted,
		"names are 257, at most 256":         most,
		"pause: invalid: name must be 1 to ": p.Pause(t.Context(), "ep_1"),
		"resume: invalid: name must be 1 to": p.Resume(t.Context(), ""),
	} {
		require.ErrorIs(t, err, queue.ErrInvalid, text)
		require.ErrorContains(t, err, text)
	}
	_, err := p.Get(t.Context(), "two")
	require.ErrorIs(t, err, queue.ErrNotFound)
	_, err = p.Get(t.Context(), "q_other:one")
	require.ErrorIs(t, err, queue.ErrNotFound)
	require.NoError(t, list(queue.Filter{Queue: "other"}))
}

func TestAListHasTheLastPublishedFirstAndKeepsToItsTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queuetest.Open(t, quiet)
		name := strings.Repeat("long.", 12)
		var times []time.Time
		for n := range 5 {
			times = append(times, time.Now())
			publish(t, q, queue.Task{ID: fmt.Sprint(n), Queue: name, Delay: time.Duration(10-n) * time.Hour})
			publish(t, q, queue.Task{ID: fmt.Sprint("other", n), Queue: "other"})
			time.Sleep(time.Minute)
		}
		ids := func(f queue.Filter) (ids []string) {
			for r, err := range q.List(t.Context(), f) {
				require.NoError(t, err)
				require.Equal(t, f.Queue, r.Queue)
				ids = append(ids, r.MessageID)
			}
			return ids
		}
		require.Equal(t, []string{"4", "3", "2", "1", "0"}, ids(queue.Filter{Queue: name}))
		require.Equal(t, []string{"3", "2"}, ids(queue.Filter{Queue: name, Since: times[2], Until: times[4]}))
		var all []string
		for r, err := range q.List(t.Context(), queue.Filter{Since: times[2], Until: times[4]}) {
			require.NoError(t, err)
			all = append(all, r.MessageID)
		}
		require.ElementsMatch(t, []string{"2", "3", "other2", "other3"}, all)
	})
}

func TestABatchIsStoredEachForItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queuetest.Open(t, quiet)
		var mu sync.Mutex
		got := map[string]int{}
		q.Handle("work", func(_ context.Context, d queue.Delivery) error {
			mu.Lock()
			defer mu.Unlock()
			got[d.MessageID]++
			return nil
		})
		queuetest.Run(t, q)
		publish(t, q, queue.Task{ID: "known", Body: 1})
		tasks := []queue.Task{
			{ID: "a", Queue: "work", Topic: "test", Body: 1}, {ID: "no_queue", Topic: "test"}, {ID: "known", Queue: "work", Topic: "test", Body: 1},
			{ID: "known", Queue: "work", Topic: "test", Body: 2}, {ID: "a", Queue: "work", Topic: "test", Body: 1}, {Queue: "work", Topic: "test", Delay: time.Hour},
		}
		results, err := q.PublishBatch(t.Context(), tasks)
		require.NoError(t, err)
		require.Len(t, results, 6)
		require.NoError(t, results[0].Err)
		require.False(t, results[0].Duplicate)
		require.ErrorIs(t, results[1].Err, queue.ErrInvalid)
		require.ErrorContains(t, results[1].Err, "Queue is needed")
		require.NoError(t, results[2].Err)
		require.True(t, results[2].Duplicate)
		require.ErrorIs(t, results[3].Err, queue.ErrConflict)
		require.NoError(t, results[4].Err)
		require.True(t, results[4].Duplicate)
		require.NoError(t, results[5].Err)
		require.Equal(t, dispatcher.StatusScheduled, results[5].Deliveries[0].Status)
		queuetest.Advance(2 * time.Hour)
		require.Equal(t, map[string]int{"known": 1, "a": 1, results[5].ID: 1}, got)

		results, err = q.PublishBatch(t.Context(), nil)
		require.NoError(t, err)
		require.Empty(t, results)
		_, err = q.PublishBatch(t.Context(), make([]queue.Task, 1001))
		require.ErrorIs(t, err, queue.ErrInvalid)
		require.ErrorContains(t, err, "tasks are 1001, at most 1000 are taken")
	})
}

func TestATaskIsPublishedOnceInEachSpanOfUniqueFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queuetest.Open(t, quiet)
		var got []string
		q.Handle("sync", func(_ context.Context, d queue.Delivery) error {
			got = append(got, d.MessageID)
			return nil
		})
		queuetest.Run(t, q)
		hour := time.Now().Truncate(time.Hour)
		task := queue.Task{ID: "account_17", UniqueFor: time.Hour, Queue: "sync", Topic: "account.changed", Body: 17, Delay: time.Second}
		id := func(n int) string {
			return fmt.Sprintf("account_17_%d", hour.Add(time.Duration(n)*time.Hour).UnixMilli())
		}
		publish := func(want string, duplicate bool) {
			t.Helper()
			pub, err := q.Publish(t.Context(), task)
			require.NoError(t, err)
			require.Equal(t, want, pub.ID)
			require.Equal(t, duplicate, pub.Duplicate)
		}
		publish(id(0), false)
		publish(id(0), true)
		queuetest.Advance(59 * time.Minute)
		publish(id(0), true) // it has ended, but its span has not
		results, err := q.PublishBatch(t.Context(), []queue.Task{task})
		require.NoError(t, err)
		require.True(t, results[0].Duplicate)
		other := task
		other.Body = 18
		_, err = q.Publish(t.Context(), other)
		require.ErrorIs(t, err, queue.ErrConflict)
		queuetest.Advance(time.Minute)
		publish(id(1), false)
		publish(id(1), true)
		queuetest.Advance(time.Minute)
		require.Equal(t, []string{id(0), id(1)}, got)

		for _, d := range []time.Duration{-time.Hour, time.Millisecond, 25 * time.Hour} {
			task.UniqueFor = d
			_, err := q.Publish(t.Context(), task)
			require.ErrorContains(t, err, "UniqueFor must be 1s to 1d, as long as an id is known (Options.Retention)")
		}
		task.ID, task.UniqueFor = "", time.Hour
		_, err = q.Publish(t.Context(), task)
		require.ErrorContains(t, err, "UniqueFor needs an ID")
		task.ID = strings.Repeat("a", 116)
		_, err = q.Publish(t.Context(), task)
		require.ErrorContains(t, err, "ID must be at most 115 characters, because UniqueFor adds the span")
		task.ID = task.ID[1:]
		_, err = q.Publish(t.Context(), task)
		require.NoError(t, err)
	})
}

// Two Queues in one program are two instances of the project. Each time has one task.
func TestEveryHasOneTaskForEachTimeHoweverManyProgramsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queuetest.Open(t, quiet)
		var got []string
		hourly := func(t time.Time) time.Time { return t.Truncate(time.Hour).Add(time.Hour) }
		q.Handle("report", func(_ context.Context, d queue.Delivery) error {
			got = append(got, d.MessageID+" "+string(d.Body))
			return nil
		})
		began := time.Now()
		tasks := func(at time.Time) queue.Task {
			return queue.Task{Queue: "report", Topic: "report.hourly", Body: at.Hour(), UniqueFor: time.Minute}
		}
		q.Every("report", hourly, tasks)
		q.Every("once", func(t time.Time) time.Time {
			if at := began.Add(90 * time.Minute); t.Before(at) {
				return at
			}
			return time.Time{}
		}, func(time.Time) queue.Task { return queue.Task{Queue: "report", Topic: "report.once", Body: "once"} })
		q.Every("broken", hourly, func(time.Time) queue.Task { return queue.Task{} })
		q.Every("stuck", func(time.Time) time.Time { return began.Add(time.Minute) }, tasks)
		queuetest.Run(t, q)
		queuetest.Advance(time.Second)
		// Another program has the same Every, and has published the next time already.
		next := hourly(time.Now())
		pub, err := q.Publish(t.Context(), queue.Task{
			ID: fmt.Sprintf("every_report_%d", next.UnixMilli()), Queue: "report", Topic: "report.hourly", Body: next.Hour(), DeliverAt: next,
		})
		require.NoError(t, err)
		require.True(t, pub.Duplicate)
		queuetest.Advance(3*time.Hour + time.Minute)
		slot := func(name string, at time.Time, body string) string {
			return fmt.Sprintf("every_%s_%d %s", name, at.UnixMilli(), body)
		}
		require.Equal(t, []string{
			slot("stuck", began.Add(time.Minute), fmt.Sprint(began.Hour())), slot("report", next, fmt.Sprint(next.Hour())), slot("once", began.Add(90*time.Minute), `"once"`),
			slot("report", next.Add(time.Hour), fmt.Sprint(next.Add(time.Hour).Hour())), slot("report", next.Add(2*time.Hour), fmt.Sprint(next.Add(2*time.Hour).Hour())),
		}, got)
		require.PanicsWithValue(t, `queue: Every("late"): it comes after Run or Close`, func() { q.Every("late", hourly, tasks) })
	})
}

// The first program's task counts where two have other ideas of it.
func TestATimeOfEveryThatAnotherProgramHasPublishedIsLeftAsItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queuetest.Open(t, quiet)
		next := time.Now().Add(time.Minute)
		publish(t, q, queue.Task{ID: fmt.Sprintf("every_report_%d", next.UnixMilli()), Body: "theirs", DeliverAt: next})
		var got []string
		q.Handle("work", func(_ context.Context, d queue.Delivery) error {
			got = append(got, string(d.Body))
			return nil
		})
		q.Every("report", func(t time.Time) time.Time {
			if t.Before(next) {
				return next
			}
			return time.Time{}
		}, func(time.Time) queue.Task { return queue.Task{Queue: "work", Topic: "test", Body: "ours"} })
		queuetest.Run(t, q)
		queuetest.Advance(time.Hour)
		require.Equal(t, []string{`"theirs"`}, got)
	})
}

// A bubble begins in a leap year, so the next year is 366 days away, and a task may be published 365 days
// ahead.
func TestATimeOfEveryMayBeMoreThanAYearAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queuetest.Open(t, quiet)
		year := func(t time.Time) time.Time { return time.Date(t.Year()+1, 1, 1, 0, 0, 0, 0, time.UTC) }
		next := year(time.Now())
		require.Greater(t, time.Until(next), 365*24*time.Hour)
		q.Every("taxes", year, func(time.Time) queue.Task { return queue.Task{Queue: "taxes", Topic: "taxes.due"} })
		queuetest.Run(t, q)
		queuetest.Advance(time.Hour)
		stats, err := q.Stats(t.Context(), "taxes")
		require.NoError(t, err)
		require.Zero(t, stats[0].Waiting)
		queuetest.Advance(48 * time.Hour)
		r, err := q.Get(t.Context(), fmt.Sprintf("every_taxes_%d", next.UnixMilli()))
		require.NoError(t, err)
		require.Equal(t, next, r.NextAttemptAt.UTC())
	})
}

// The id of a task is forgotten some time after its end. Then a program that has it published too late
// could double it.
func TestATimeOfEveryThatIsLongAgoIsLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queuetest.Open(t, queue.Options{Log: quiet.Log, Retention: time.Hour})
		var got []string
		queue.Handle(q, "work", func(_ context.Context, ago string, _ queue.Delivery) error {
			got = append(got, ago)
			return nil
		})
		began := time.Now()
		for name, ago := range map[string]time.Duration{"recent": 59 * time.Minute, "old": time.Hour} {
			q.Every(name, func(t time.Time) time.Time {
				if t.Before(began) {
					return time.Time{}
				}
				return began.Add(-ago)
			}, func(time.Time) queue.Task { return queue.Task{Queue: "work", Topic: "test", Body: name} })
		}
		queuetest.Run(t, q)
		queuetest.Advance(time.Minute)
		require.Equal(t, []string{"recent"}, got)
	})
}

// A program may have more handlers than one call counts.
func TestStatsOfMoreQueuesThanOneCallCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queuetest.Open(t, quiet)
		for n := range 300 {
			q.Handle(fmt.Sprint("queue", n), func(context.Context, queue.Delivery) error { return nil })
		}
		publish(t, q, queue.Task{Queue: "queue299"})
		stats, err := q.Stats(t.Context())
		require.NoError(t, err)
		require.Len(t, stats, 300)
		require.Equal(t, queue.Stats{Queue: "queue0"}, stats[0])
		require.Equal(t, queue.Stats{Queue: "queue299", Waiting: 1}, stats[299])
	})
}

func TestAWrongEveryPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queuetest.Open(t, quiet)
		next := func(t time.Time) time.Time { return t.Add(time.Hour) }
		task := func(time.Time) queue.Task { return queue.Task{Queue: "work", Topic: "test"} }
		q.Every("a", next, task)
		for text, f := range map[string]func(){
			`queue: Every("a"): the name is taken`:                             func() { q.Every("a", next, task) },
			`queue: Every("a b"): the name must be 1 to 64 of A-Z a-z 0-9 _ -`: func() { q.Every("a b", next, task) },
			`queue: Every("b"): next or task is nil`:                           func() { q.Every("b", nil, task) },
			`queue: Every("c"): the queue was not made by queue.Open`:          func() { (*queue.Queue)(nil).Every("c", next, task) },
		} {
			require.PanicsWithValue(t, text, f)
		}
		queuetest.Run(t, q) // a program may only publish periodic tasks
		queuetest.Advance(time.Hour)
		r, err := q.Stats(t.Context(), "work")
		require.NoError(t, err)
		require.Equal(t, 2, r[0].Waiting)
	})
}

func TestWhatWaitsIsMovedToAnotherTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queuetest.Open(t, quiet)
		began := time.Now()
		var mu sync.Mutex
		got := map[string]time.Duration{}
		q.Handle("work", func(_ context.Context, d queue.Delivery) error {
			mu.Lock()
			got[fmt.Sprint(d.MessageID, d.Attempt)] = time.Since(began).Round(time.Second)
			mu.Unlock()
			if d.MessageID == "fails" && d.Attempt == 1 {
				return errors.New("no")
			}
			if d.MessageID == "slow" {
				time.Sleep(10 * time.Second)
			}
			return nil
		})
		publish(t, q, queue.Task{ID: "later", Delay: time.Minute})
		publish(t, q, queue.Task{ID: "sooner", Delay: time.Hour})
		publish(t, q, queue.Task{ID: "now", Delay: time.Hour})
		publish(t, q, queue.Task{ID: "ready"})
		publish(t, q, queue.Task{ID: "fails", Ladder: []time.Duration{time.Hour}})
		publish(t, q, queue.Task{ID: "slow"})
		publish(t, q, queue.Task{ID: "first", OrderingKey: "k", Delay: time.Hour})
		publish(t, q, queue.Task{ID: "second", OrderingKey: "k"})
		publish(t, q, queue.Task{ID: "expires", ExpiresAt: began.Add(time.Hour), Delay: time.Minute})
		move := func(id string, d time.Duration) error { return q.Reschedule(t.Context(), id, began.Add(d)) }
		require.NoError(t, move("later", 2*time.Minute))
		require.NoError(t, move("later", 3*time.Minute))
		require.NoError(t, move("sooner", time.Minute))
		require.NoError(t, move("now", -time.Hour))
		require.NoError(t, move("ready", 20*time.Second))
		require.NoError(t, move("first", 5*time.Minute))
		r, err := q.Get(t.Context(), "ready")
		require.NoError(t, err)
		require.Equal(t, dispatcher.StatusScheduled, r.Status)
		for id, want := range map[string]error{"unknown": queue.ErrNotFound, "second": queue.ErrInvalid, "expires": queue.ErrInvalid, "a:b": queue.ErrInvalid} {
			require.ErrorIs(t, move(id, 2*time.Hour), want, id)
		}
		require.ErrorContains(t, move("second", time.Hour), "id waits behind others of its OrderingKey")
		require.ErrorContains(t, move("expires", time.Hour), "at is not before its ExpiresAt")
		require.ErrorContains(t, q.Reschedule(t.Context(), "later", time.Time{}), "at must be a time of at most a year ahead")
		require.ErrorIs(t, move("later", 9000*time.Hour), queue.ErrInvalid)
		queuetest.Run(t, q)
		queuetest.Advance(time.Second)
		require.ErrorIs(t, move("slow", time.Hour), queue.ErrBegun, "it is handled now")
		require.ErrorIs(t, move("now", time.Hour), queue.ErrBegun, "it has ended")
		require.NoError(t, move("fails", 30*time.Second))
		queuetest.Advance(3 * time.Hour)
		require.Equal(t, map[string]time.Duration{
			"later1": 3 * time.Minute, "sooner1": time.Minute, "now1": 0, "ready1": 20 * time.Second, "fails1": 0, "fails2": 30 * time.Second, "slow1": 0,
			"first1": 5 * time.Minute, "second1": 5 * time.Minute, "expires1": time.Minute,
		}, got)
	})
}
