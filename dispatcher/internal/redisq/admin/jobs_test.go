package admin_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/admin"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// bench is a store with its jobs.
type bench struct {
	*redisqtest.Rig
	jobs  *admin.JobStore
	store *redisqtest.Raw
}

// jobCase is a case of jobs.
type jobCase struct {
	name  string
	setup redisqtest.Setup
	run   func(b *bench)
}

func TestJobs(t *testing.T) {
	t.Parallel()
	groups := [][]jobCase{jobCases, boundCases, endCases, waitingCases, probeCases, attemptCases}
	var first []jobCase // of each group: the rules are the same on miniredis, where a script costs ten times as much
	for _, group := range groups {
		first = append(first, group[0])
	}
	for name, on := range map[string]struct {
		server redistest.Redis
		cases  []jobCase
	}{"redis": {redistest.Start(t), slices.Concat(overlapCases, slices.Concat(groups...))}, "miniredis": {redistest.StartMini(t), first}} {
		t.Run(name, func(t *testing.T) {
			for _, c := range on.cases {
				t.Run(c.name, func(t *testing.T) {
					var store *redisqtest.Raw
					open := func(t testing.TB, s redisqtest.Setup) redisqtest.Fixture {
						f, _ := redisqtest.NewFixture(t, s, on.server, func(t testing.TB, o redisq.Options) *redisqtest.Raw {
							store = redisqtest.Open(t, o)
							return store
						})
						return f
					}
					b := &bench{Rig: redisqtest.NewRig(t, open, c.setup)}
					b.jobs, b.store = admin.NewJobStore(store.Queue()), store
					c.run(b)
					b.MustBeSound()
				})
			}
		})
	}
}

// add stores a job and begins it.
func (b *bench) add(kind dispatcher.JobKind, f dispatcher.Filter) (*dispatcher.Job, map[int]dispatcher.JobPart) {
	b.Helper()
	return b.start(&dispatcher.Job{Kind: kind, Filter: f})
}

func (b *bench) start(j *dispatcher.Job) (*dispatcher.Job, map[int]dispatcher.JobPart) {
	b.Helper()
	if len(j.Filter.Statuses) == 0 {
		_, j.Filter.Statuses = j.Kind.Statuses()
	}
	j.State, j.Turn, j.Holder, j.StartedAt = dispatcher.JobRunning, 1, redisqtest.One, b.Now
	require.NoError(b, b.jobs.Add(b.Ctx, j))
	parts, err := b.jobs.Turn(b.Ctx, redisqtest.One, j)
	require.NoError(b, err)
	return j, parts
}

// page reads all that a job finds in part 0.
func (b *bench) page(j *dispatcher.Job, skip ...dispatcher.Lane) (ids []dispatcher.DeliveryID) {
	b.Helper()
	parts, err := b.jobs.Turn(b.Ctx, redisqtest.One, j)
	require.NoError(b, err)
	for at, more := (dispatcher.JobAt{Since: parts[0].Since}), true; more; {
		page, err := b.jobs.Page(b.Ctx, j, at, skip)
		require.NoError(b, err)
		for _, d := range page.Deliveries {
			ids = append(ids, d.ID)
		}
		at.Cursor, more = page.Cursor, page.More
	}
	return ids
}

// step makes a step that finds deliveries in a status.
func (b *bench) step(j *dispatcher.Job, of dispatcher.Status, ids ...dispatcher.DeliveryID) dispatcher.JobStepped {
	b.Helper()
	out, err := b.jobs.Step(b.Ctx, redisqtest.One, dispatcher.JobStep{Job: j, Status: of, IDs: ids, Named: dispatcher.MostFailures})
	require.NoError(b, err)
	return out
}

// die has messages of a lane die, each at another ms.
func (b *bench) die(lane dispatcher.Lane, n int) (ids []dispatcher.DeliveryID) {
	b.Helper()
	for range n {
		ids = append(ids, b.DieOne(lane))
		b.Pass(time.Millisecond)
	}
	return ids
}

// read reads a job.
func (b *bench) read(j *dispatcher.Job) dispatcher.Job {
	b.Helper()
	read, err := b.jobs.Job(b.Ctx, j.Number)
	require.NoError(b, err)
	return read
}

func counts(matched, done, failed int, left ...int) dispatcher.JobCounts {
	c := dispatcher.JobCounts{Matched: matched, Done: done, Failed: failed}
	for _, n := range left {
		c.Left += n
	}
	return c
}

var jobCases = []jobCase{
	{name: "a replay moves the oldest first, and counts what it did", run: func(b *bench) {
		ids := b.die("a", 5)
		j, _ := b.add(dispatcher.JobRetry, dispatcher.Filter{})
		require.Equal(b, ids, b.page(j))
		out := b.step(j, dispatcher.StatusDead, ids[:3]...)
		require.Equal(b, counts(3, 3, 0), out.JobCounts)
		require.Equal(b, 3, out.Done)
		b.MustStand(ids[0], dispatcher.StatusReady)
		require.Equal(b, ids[3:], b.page(j))
		read, err := b.jobs.Job(b.Ctx, j.Number)
		require.NoError(b, err)
		require.Equal(b, counts(3, 3, 0), read.JobCounts)
	}},
	{name: "a filter of messages reads all pages, though each has few records", run: func(b *bench) {
		ids := b.die("a", 150)
		j, _ := b.add(dispatcher.JobRetry, dispatcher.Filter{Tenants: []string{"t1"}})
		require.Equal(b, ids, b.page(j))
	}},
	{name: "what dies again since the job began is not its own, though a clock went back", run: func(b *bench) {
		id := b.die("a", 1)[0]
		j, _ := b.add(dispatcher.JobRetry, dispatcher.Filter{})
		b.step(j, dispatcher.StatusDead, id)
		b.SetNow(b.Now.Add(-10 * time.Millisecond)) // of a node that took over
		b.MustSettle(redisqtest.One, redisqtest.Death(b.MustClaim(redisqtest.One, id)[0], dispatcher.ReasonGone))
		require.Empty(b, b.page(j))
		require.Equal(b, counts(1, 1, 0), b.step(j, dispatcher.StatusDead, id).JobCounts)
		b.MustStand(id, dispatcher.StatusDead)
		other, _ := b.add(dispatcher.JobRetry, dispatcher.Filter{})
		require.Equal(b, []dispatcher.DeliveryID{id}, b.page(other), "another job may have it")
	}},
	{name: "what died after the job began is left", run: func(b *bench) {
		j, _ := b.add(dispatcher.JobRetry, dispatcher.Filter{})
		b.Pass(time.Millisecond)
		id := b.die("a", 1)[0]
		require.Empty(b, b.page(j))
		out := b.step(j, dispatcher.StatusDead, id)
		require.Zero(b, out.Done)
		b.MustStand(id, dispatcher.StatusDead)
	}},
	{name: "a step of a lower turn changes nothing", run: func(b *bench) {
		id := b.die("a", 1)[0]
		j, _ := b.add(dispatcher.JobRetry, dispatcher.Filter{})
		old := *j
		j.Turn++
		_, err := b.jobs.Turn(b.Ctx, redisqtest.Two, j)
		require.NoError(b, err)
		b.MustChangeNothing(func() {
			_, err := b.jobs.Step(b.Ctx, redisqtest.One, dispatcher.JobStep{Job: &old, Status: dispatcher.StatusDead, IDs: []dispatcher.DeliveryID{id}})
			require.ErrorIs(b, err, dispatcher.ErrJobTurn)
		})
		_, err = b.jobs.Turn(b.Ctx, redisqtest.One, &old)
		require.ErrorIs(b, err, dispatcher.ErrJobTurn)
		require.Equal(b, 1, b.step(j, dispatcher.StatusDead, id).Done)
	}},
	{name: "the next holder finds the cursor and the counts", run: func(b *bench) {
		ids := b.die("a", 3)
		j, parts := b.add(dispatcher.JobRetry, dispatcher.Filter{})
		page, err := b.jobs.Page(b.Ctx, j, dispatcher.JobAt{Since: parts[0].Since}, nil)
		require.NoError(b, err)
		_, err = b.jobs.Step(b.Ctx, redisqtest.One, dispatcher.JobStep{Job: j, Status: page.Status, IDs: ids[:2], Cursor: page.Cursor, Skipped: 1})
		require.NoError(b, err)
		b.Pass(time.Hour)
		j.Turn++
		after, err := b.jobs.Turn(b.Ctx, redisqtest.Two, j)
		require.NoError(b, err)
		require.Equal(b, dispatcher.JobPart{JobCounts: counts(3, 2, 0), Since: parts[0].Since, Skipped: 1, Cursor: page.Cursor}, after[0])
		_, err = b.jobs.Step(b.Ctx, redisqtest.Two, dispatcher.JobStep{Job: j, Ended: true})
		require.NoError(b, err)
		j.Turn++
		after, err = b.jobs.Turn(b.Ctx, redisqtest.Two, j)
		require.NoError(b, err)
		require.True(b, after[0].Ended)
		require.Equal(b, counts(2, 2, 0), after[0].JobCounts)
	}},
	{name: "a lane gets no more than it works off soon", run: func(b *bench) {
		ids := b.die("a", 70)
		b.ClaimAll(redisqtest.One)
		j, _ := b.add(dispatcher.JobRetry, dispatcher.Filter{})
		out := b.step(j, dispatcher.StatusDead, ids...)
		require.Equal(b, 64, out.Done)
		require.Equal(b, ids[64:], out.Full)
		require.Equal(b, counts(64, 64, 0), out.JobCounts)
		require.Equal(b, 2, len(b.Claim(redisqtest.One, 2)))
		require.Equal(b, 2, b.step(j, dispatcher.StatusDead, out.Full...).Done)
	}},
	{name: "a paused lane is passed by, and one whose endpoint is disabled is a failure", run: func(b *bench) {
		b.Limit(redisqtest.EpOne)
		paused, disabled := b.die("a", 1)[0], b.die(redisqtest.EpOne, 1)[0]
		b.Limit("a", redisqtest.Mode(dispatcher.LanePaused))
		b.Limit(redisqtest.EpOne, redisqtest.Mode(dispatcher.LaneDisabled))
		j, _ := b.add(dispatcher.JobRetry, dispatcher.Filter{})
		out := b.step(j, dispatcher.StatusDead, paused, disabled)
		require.Equal(b, []dispatcher.DeliveryID{paused}, out.Full)
		require.Equal(b, counts(1, 0, 1), out.JobCounts)
		require.Equal(b, []dispatcher.DeliveryID{paused}, b.page(j), "what failed is not found again")
		require.Empty(b, b.page(j, "a"))
		read, err := b.jobs.Job(b.Ctx, j.Number)
		require.NoError(b, err)
		require.Equal(b, []dispatcher.JobFailure{{ID: disabled, Why: dispatcher.LeftDisabled}}, read.Failures)
	}},
	{name: "an open lane gets one, the probe, when its time has come", setup: redisqtest.Setup{Breaker: 1}, run: func(b *bench) {
		ids := b.die("a", 3)
		b.Publish("a", "m1")
		c := b.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0]
		s := redisqtest.Blamed(redisqtest.Silence(c, 0))
		s.Verdict, s.Reason = dispatcher.Dead, dispatcher.ReasonExhausted
		b.MustSettle(redisqtest.One, s)
		j, _ := b.add(dispatcher.JobRetry, dispatcher.Filter{})
		require.Zero(b, b.step(j, dispatcher.StatusDead, ids...).Done)
		b.Pass(time.Minute)
		require.Equal(b, 1, b.step(j, dispatcher.StatusDead, ids...).Done)
		require.Zero(b, b.step(j, dispatcher.StatusDead, ids[1:]...).Done)
		b.Deliver(ids[0])
		require.Equal(b, 2, b.step(j, dispatcher.StatusDead, ids[1:]...).Done)
	}},
	{name: "a resend takes what was delivered, and keeps when", run: func(b *bench) {
		b.Succeed("a")
		id := redisqtest.Named("a", "n00001")
		at := b.Now
		b.Pass(time.Second)
		j, _ := b.add(dispatcher.JobRetry, dispatcher.Filter{Statuses: []dispatcher.Status{dispatcher.StatusDelivered}})
		require.Equal(b, []dispatcher.DeliveryID{id}, b.page(j))
		require.Equal(b, 1, b.step(j, dispatcher.StatusDelivered, id).Done)
		b.Pass(time.Second)
		b.Deliver(id)
		require.Equal(b, at, b.Inspect(id).Delivered)
		require.Empty(b, b.page(j))
	}},
	{name: "filters select, and several statuses follow each other", run: func(b *bench) {
		dead := append(b.die("a", 2), b.die("b", 1)...)
		cancelled := b.EndOne("c")
		find := func(f dispatcher.Filter) []dispatcher.DeliveryID {
			j, _ := b.add(dispatcher.JobRetry, f)
			return b.page(j)
		}
		require.Equal(b, dead[2:], find(dispatcher.Filter{Lanes: []dispatcher.Lane{"b"}}))
		require.Equal(b, dead[1:], find(dispatcher.Filter{Since: b.Inspect(dead[1]).Ended}))
		require.Equal(b, dead[:1], find(dispatcher.Filter{Until: b.Inspect(dead[1]).Ended}))
		require.Equal(b, dead, find(dispatcher.Filter{Topics: []string{"payment.paid"}}))
		require.Empty(b, find(dispatcher.Filter{Topics: []string{"other"}}))
		require.Empty(b, find(dispatcher.Filter{Tenants: []string{"t2"}}))
		require.Equal(b, dead, find(dispatcher.Filter{Reasons: []dispatcher.DeadReason{b.Inspect(dead[0]).Reason}}))
		require.Empty(b, find(dispatcher.Filter{Reasons: []dispatcher.DeadReason{dispatcher.ReasonPoison}}))
		both := []dispatcher.Status{dispatcher.StatusDead, b.Inspect(cancelled).Status}
		require.Equal(b, append(dead, cancelled), find(dispatcher.Filter{Statuses: both}))
	}},
	{name: "a page goes on behind names that share a ms, also where the last one is gone", run: func(b *bench) {
		b.PublishMany("a", 40)
		var all []dispatcher.Settlement
		for _, c := range b.ClaimAll(redisqtest.One) {
			all = append(all, redisqtest.Death(c, dispatcher.ReasonGone))
		}
		b.Settle(redisqtest.One, all...)
		for more := true; more; more = false {
			for _, c := range b.ClaimAll(redisqtest.One) {
				b.MustSettle(redisqtest.One, redisqtest.Death(c, dispatcher.ReasonGone))
			}
		}
		j, _ := b.add(dispatcher.JobRetry, dispatcher.Filter{})
		ids := b.page(j)
		for i, id := range ids {
			at := dispatcher.JobAt{Cursor: fmt.Sprintf("dead %d %s", b.Now.UnixMilli(), id)}
			page, err := b.jobs.Page(b.Ctx, j, at, nil)
			require.NoError(b, err)
			require.Len(b, page.Deliveries, len(ids)-1-i)
			b.step(j, dispatcher.StatusDead, id)
			page, err = b.jobs.Page(b.Ctx, j, at, nil)
			require.NoError(b, err)
			require.Len(b, page.Deliveries, len(ids)-1-i)
		}
	}},
	{name: "a purge forgets, and a repeat of the id is a duplicate", run: func(b *bench) {
		entry := b.Entry("m1", redisqtest.To("a", "b"))
		b.Schedule(entry)
		for _, c := range b.ClaimAll(redisqtest.One) {
			b.MustSettle(redisqtest.One, redisqtest.Death(c, dispatcher.ReasonGone))
		}
		j, _ := b.add(dispatcher.JobPurge, dispatcher.Filter{})
		require.Len(b, b.page(j), 2)
		out := b.step(j, dispatcher.StatusDead, redisqtest.Named("a", "m1"), redisqtest.Named("a", "unknown"))
		require.Equal(b, counts(2, 1, 0, 1), out.JobCounts)
		b.MustStand(redisqtest.Named("b", "m1"), dispatcher.StatusDead)
		require.Equal(b, 1, b.step(j, dispatcher.StatusDead, redisqtest.Named("b", "m1")).Done)
		require.Zero(b, b.Stats().Counts[dispatcher.StatusDead])
		require.Empty(b, b.Stats().Dead)
		require.Equal(b, dispatcher.Duplicate, b.Schedule(entry)[0].Result)
		b.MustClaimNothing(redisqtest.One)
	}},
	{name: "a cancel leaves what was published since, and marks what is in flight", run: func(b *bench) {
		b.Publish("a", "flying", "ready")
		c := b.MustClaim(redisqtest.One, redisqtest.Named("a", "flying"))[0]
		b.Schedule(b.Entry("due", redisqtest.To("a"), redisqtest.Delay(time.Hour)))
		j, _ := b.add(dispatcher.JobCancel, dispatcher.Filter{})
		b.Pass(time.Millisecond)
		b.Publish("a", "later")
		out := b.step(j, "", redisqtest.IDs("a", "flying", "ready", "due", "later")...)
		require.Equal(b, counts(3, 3, 0), out.JobCounts)
		b.MustStand(c.ID, dispatcher.StatusCancelled)
		b.MustStand(redisqtest.Named("a", "later"), dispatcher.StatusReady)
	}},
	{name: "a cancel ends what it marked deep in a list, also after it was killed", run: func(b *bench) {
		const n = 6000
		b.PublishMany("a", n)
		ids := b.ListAll(dispatcher.Filter{Statuses: []dispatcher.Status{dispatcher.StatusReady}}, 500)
		j, _ := b.add(dispatcher.JobCancel, dispatcher.Filter{})
		deep := []dispatcher.DeliveryID{ids[n/2-1].ID, ids[n/2].ID}
		require.Equal(b, 2, b.step(j, "", deep...).Done)
		require.Equal(b, int64(n), b.Stats().Counts[dispatcher.StatusReady], "they are only marked, or the case shows nothing")
		j.Turn++ // of another instance, which does not know what was marked
		_, err := b.jobs.Turn(b.Ctx, redisqtest.One, j)
		require.NoError(b, err)
		_, err = b.jobs.Step(b.Ctx, redisqtest.One, dispatcher.JobStep{Job: j, Ended: true})
		require.NoError(b, err)
		require.Equal(b, int64(n-2), b.Stats().Counts[dispatcher.StatusReady])
		require.Equal(b, int64(2), b.Stats().Counts[dispatcher.StatusCancelled])
	}},
	{name: "records are changed by one at a time, and kept for a week", run: func(b *bench) {
		j, _ := b.add(dispatcher.JobRetry, dispatcher.Filter{Tenants: []string{"t1"}})
		live, names, err := b.jobs.Live(b.Ctx)
		require.NoError(b, err)
		require.Len(b, live, 1)
		require.Contains(b, names, redisqtest.One)
		calls := 0
		changed, err := b.jobs.Change(b.Ctx, j.Number, func(now *dispatcher.Job) error {
			if calls++; calls == 1 {
				_, err := b.jobs.Change(b.Ctx, j.Number, func(now *dispatcher.Job) error { now.Turn++; return nil })
				require.NoError(b, err)
			}
			now.State, now.EndedAt = dispatcher.JobDone, b.Now
			return nil
		})
		require.NoError(b, err)
		require.Equal(b, 2, calls)
		require.Equal(b, int64(2), changed.Turn)
		require.Equal(b, []string{"t1"}, changed.Filter.Tenants)
		live, _, err = b.jobs.Live(b.Ctx)
		require.NoError(b, err)
		require.Empty(b, live)
		require.NoError(b, b.jobs.Forget(b.Ctx, b.Now.Add(24*time.Hour)))
		_, err = b.jobs.Job(b.Ctx, j.Number)
		require.NoError(b, err)
		require.NoError(b, b.jobs.Forget(b.Ctx, b.Now.Add(8*24*time.Hour)))
		_, err = b.jobs.Job(b.Ctx, j.Number)
		require.ErrorIs(b, err, dispatcher.ErrNoJob)
	}},
	{name: "a list of jobs has pages, the newest first", run: func(b *bench) {
		for range 3 {
			b.add(dispatcher.JobRetry, dispatcher.Filter{})
		}
		list, next, err := b.jobs.Jobs(b.Ctx, 2, "")
		require.NoError(b, err)
		require.Equal(b, []int64{3, 2}, []int64{list[0].Number, list[1].Number})
		list, next, err = b.jobs.Jobs(b.Ctx, 2, next)
		require.NoError(b, err)
		require.Len(b, list, 1)
		require.Empty(b, next)
		list, next, err = b.jobs.Jobs(b.Ctx, 0, "")
		require.NoError(b, err)
		require.Len(b, list, 3, "without a limit it is the usual one")
		require.Empty(b, next)
	}},
	{name: "a job of lanes begins only where they lie", setup: redisqtest.Setup{Partitions: 4}, run: func(b *bench) {
		_, parts := b.add(dispatcher.JobRetry, dispatcher.Filter{Lanes: []dispatcher.Lane{"a"}})
		require.Len(b, parts, 1)
		_, parts = b.add(dispatcher.JobRetry, dispatcher.Filter{})
		require.Len(b, parts, 4)
	}},
}
