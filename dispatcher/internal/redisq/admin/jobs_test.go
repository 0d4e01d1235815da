package admin_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/admin"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
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
		server redisqtest.Server
		cases  []jobCase
	}{"redis": {redistest.Share(t), slices.Concat(overlapCases, slices.Concat(groups...))}, "miniredis": {redistest.StartMini(t), first}} {
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

// attemptCases are of the attempts that a job sent, as the log names them.
var attemptCases = []jobCase{
	{name: "the log names the job of each attempt of what it sent, until another sends it", run: func(b *bench) {
		ids := b.die("a", 3)
		waits := b.fail("a", 1)[0]
		j, _ := b.add(dispatcher.JobRetry, dispatcher.Filter{Statuses: []dispatcher.Status{dispatcher.StatusDead, dispatcher.StatusRetrying}})
		b.step(j, dispatcher.StatusDead, ids[:2]...)
		b.step(j, dispatcher.StatusRetrying, waits)
		b.Retry(ids[2])
		b.Publish("a", "m1")
		b.settleAll(ids[1], waits)
		lines := b.sent(j, "delivered", "retry", "retry")
		for _, l := range lines {
			require.Equal(b, j.Number, l.Job)
			require.Contains(b, []dispatcher.DeliveryID{ids[0], ids[1], waits}, l.ID)
		}
		require.Len(b, b.ReadLog(dispatcher.LogFilter{Messages: []string{"m1", ids[2].Message}}, 10), 3, "the others are no job's")

		b.Pass(time.Hour)
		b.Move()
		b.settleAll(ids[1]) // a rung of the ladder that the job began
		require.Len(b, b.ReadLog(dispatcher.LogFilter{Jobs: []int64{j.Number}}, 10), 5)
		b.Retry(ids[1]) // a person takes it over
		b.settleAll()
		require.Len(b, b.ReadLog(dispatcher.LogFilter{Jobs: []int64{j.Number}}, 10), 5)
		require.Empty(b, b.ReadLog(dispatcher.LogFilter{Jobs: []int64{j.Number + 1}}, 10))
	}},
	{name: "a late attempt is the job's only if the job had sent it", run: func(b *bench) {
		id := b.die("a", 1)[0]
		j, _ := b.add(dispatcher.JobRetry, dispatcher.Filter{})
		b.step(j, dispatcher.StatusDead, id)
		b.Beat("victim")
		c := b.MustClaim("victim", id)[0]
		b.Reap("victim")
		b.Settle("victim", redisqtest.Success(c))
		b.sent(j, "delivered")
		b.ClaimAll(redisqtest.One) // which ends it

		other := redisqtest.Named("b", "m1")
		b.Publish("b", "m1")
		b.Beat("second")
		early := b.MustClaim("second", other)[0]
		b.Reap("second")
		b.MustSettle(redisqtest.One, redisqtest.Failure(b.MustClaim(redisqtest.One, other)[0], time.Hour))
		second, _ := b.add(dispatcher.JobRetry, dispatcher.Filter{Statuses: []dispatcher.Status{dispatcher.StatusRetrying}})
		require.Equal(b, 1, b.step(second, dispatcher.StatusRetrying, other).Done)
		b.Settle("second", redisqtest.Success(early))
		b.sent(second)
	}},
	{name: "an entry has a few bytes for the jobs of its lines, and without a job none", run: func(b *bench) {
		b.Publish("a", "m1", "m2")
		b.settleAll()
		b.Retry(b.die("a", 1)...)
		b.settleAll()
		require.Empty(b, b.jobsOfEntries())
		ids := slices.Concat(b.die("a", 2), b.die("b", 3), b.die("c", 1))
		first, _ := b.add(dispatcher.JobRetry, dispatcher.Filter{})
		second, _ := b.add(dispatcher.JobRetry, dispatcher.Filter{})
		b.step(first, dispatcher.StatusDead, ids[0], ids[1], ids[5])
		b.step(second, dispatcher.StatusDead, ids[2], ids[4])
		b.Retry(ids[3])
		batch := make([]dispatcher.Settlement, len(ids))
		for _, c := range b.ClaimAll(redisqtest.One) {
			batch[slices.Index(ids, c.ID)] = redisqtest.Success(c)
		}
		b.Settle(redisqtest.One, batch...)
		require.Equal(b, []string{"0 2 1 2 1 2 4 1 2 5 1 1"}, b.jobsOfEntries())
		require.Len(b, b.ReadLog(dispatcher.LogFilter{Jobs: []int64{1}}, 10), 3)
		require.Len(b, b.ReadLog(dispatcher.LogFilter{Jobs: []int64{2}}, 10), 2)
		require.Len(b, b.ReadLog(dispatcher.LogFilter{Jobs: []int64{1, 2}}, 10), 5)
	}},
}

// settleAll settles what may be claimed: some fail and wait for an hour.
func (b *bench) settleAll(fail ...dispatcher.DeliveryID) {
	b.Helper()
	for claimed := b.ClaimAll(redisqtest.One); len(claimed) > 0; claimed = b.ClaimAll(redisqtest.One) {
		for _, c := range claimed {
			if slices.Contains(fail, c.ID) {
				b.MustSettle(redisqtest.One, redisqtest.Failure(c, time.Hour))
			} else {
				b.MustSettle(redisqtest.One, redisqtest.Success(c))
			}
		}
	}
}

// sent are the attempts that a job sent, of which these became.
func (b *bench) sent(j *dispatcher.Job, want ...dispatcher.Happening) []dispatcher.Logged {
	b.Helper()
	lines := b.ReadLog(dispatcher.LogFilter{Jobs: []int64{j.Number}}, 10)
	got := make([]dispatcher.Happening, len(lines))
	for i := range lines {
		got[i] = lines[i].Happening
	}
	require.ElementsMatch(b, want, got)
	return lines
}

// jobsOfEntries is what the entries of the log have of jobs.
func (b *bench) jobsOfEntries() (all []string) {
	b.Helper()
	c := b.store.Queue().Conn()
	var entries *redis.XMessageSliceCmd
	require.NoError(b, c.At(b.Ctx, "read the log", 0, func(p redis.Pipeliner) { entries = p.XRange(b.Ctx, c.Tag(0)+keys.Attempts, "-", "+") }))
	for _, e := range entries.Val() {
		if text, ok := e.Values["j"].(string); ok {
			all = append(all, text)
		}
	}
	return all
}

// endCases are of what became of the deliveries that a job sent.
var endCases = []jobCase{
	{name: "a job knows how its deliveries ended, each once", run: func(b *bench) {
		ids := b.die("a", 6)
		other := b.die("b", 1)[0]
		j, _ := b.add(dispatcher.JobRetry, dispatcher.Filter{})
		b.step(j, dispatcher.StatusDead, ids...)
		require.Equal(b, 6, b.ended(j, dispatcher.JobEnds{}))
		b.Retry(other) // a person's, of no job
		for range 3 {
			for _, c := range b.ClaimAll(redisqtest.One) {
				switch c.ID {
				case ids[0]:
					b.MustSettle(redisqtest.One, redisqtest.Success(c))
				case ids[1]:
					b.MustSettle(redisqtest.One, redisqtest.Death(c, dispatcher.ReasonExhausted))
				case ids[2], ids[3]:
					b.MustSettle(redisqtest.One, redisqtest.Failure(c, time.Hour))
				case ids[4]:
					b.Cancel(c.ID)
					b.Settle(redisqtest.One, redisqtest.Failure(c, time.Hour))
				case other:
					b.MustSettle(redisqtest.One, redisqtest.Success(c))
				}
			}
		}
		require.Equal(b, 3, b.ended(j, dispatcher.JobEnds{Delivered: 1, Dead: 1, Cancelled: 1}))
		b.Cancel(ids[2])
		require.Equal(b, 2, b.ended(j, dispatcher.JobEnds{Delivered: 1, Dead: 1, Cancelled: 2}))
		b.Retry(ids[3]) // a person takes it over, and that it ends is not the job's
		require.Equal(b, 1, b.ended(j, dispatcher.JobEnds{Delivered: 1, Dead: 1, Cancelled: 2, TakenOver: 1}))
		b.Deliver(ids[3])
		b.Retry(ids[1]) // what has ended was counted
		b.Deliver(ids[1])
		require.Equal(b, 1, b.ended(j, dispatcher.JobEnds{Delivered: 1, Dead: 1, Cancelled: 2, TakenOver: 1}))
	}},
	{name: "what a second job sends again is its own", run: func(b *bench) {
		id := b.die("a", 1)[0]
		first, _ := b.add(dispatcher.JobRetry, dispatcher.Filter{})
		b.step(first, dispatcher.StatusDead, id)
		b.MustSettle(redisqtest.One, redisqtest.Death(b.MustClaim(redisqtest.One, id)[0], dispatcher.ReasonExhausted))
		b.Pass(time.Second)
		second, _ := b.add(dispatcher.JobRetry, dispatcher.Filter{})
		b.step(second, dispatcher.StatusDead, id)
		b.Deliver(id)
		require.Zero(b, b.ended(first, dispatcher.JobEnds{Dead: 1}))
		require.Zero(b, b.ended(second, dispatcher.JobEnds{Delivered: 1}))
	}},
	{name: "a success that comes late is one of the job", run: func(b *bench) {
		id := b.die("a", 1)[0]
		j, _ := b.add(dispatcher.JobRetry, dispatcher.Filter{})
		b.step(j, dispatcher.StatusDead, id)
		b.Beat("victim")
		c := b.MustClaim("victim", id)[0]
		b.Reap("victim")
		b.Settle("victim", redisqtest.Success(c))
		b.ClaimAll(redisqtest.Two)
		b.MustStand(id, dispatcher.StatusDelivered)
		require.Zero(b, b.ended(j, dispatcher.JobEnds{Delivered: 1}))
	}},
	{name: "a day after its last step nothing more is counted, and a forgotten job leaves nothing", run: func(b *bench) {
		ids := b.die("a", 2)
		j, _ := b.add(dispatcher.JobRetry, dispatcher.Filter{})
		b.step(j, dispatcher.StatusDead, ids...)
		b.Deliver(ids[0])
		_, err := b.jobs.Change(b.Ctx, j.Number, func(j *dispatcher.Job) error {
			j.State, j.EndedAt = dispatcher.JobDone, b.Now
			return nil
		})
		require.NoError(b, err)
		b.Pass(25 * time.Hour)
		b.Deliver(ids[1])
		require.Equal(b, 1, b.ended(j, dispatcher.JobEnds{Delivered: 1}))
		b.Pass(7 * 24 * time.Hour)
		require.NoError(b, b.jobs.Forget(b.Ctx, b.Now))
		fields := b.fields()
		require.Empty(b, fields)
	}},
}

// ended is how many deliveries of a job have not ended, the others ended so.
func (b *bench) ended(j *dispatcher.Job, want dispatcher.JobEnds) (retrying int) {
	b.Helper()
	read := b.read(j)
	require.Equal(b, want, read.Ends)
	return read.Retrying()
}

// fields are what the partition keeps of jobs.
func (b *bench) fields() []string {
	b.Helper()
	c := b.store.Queue().Conn()
	var names *redis.StringSliceCmd
	require.NoError(b, c.At(b.Ctx, "read jobs", 0, func(p redis.Pipeliner) { names = p.HKeys(b.Ctx, c.Tag(0)+keys.Jobs) }))
	return names.Val()
}

// waitingCases are of jobs that send what waits for its time.
var waitingCases = []jobCase{
	{name: "a job sends what waits for its rung, each once, and what fails waits on until the same time", run: func(b *bench) { b.sendsWaiting() }},
	{name: "with a destination it reads only what that one has", run: func(b *bench) { b.sendsWaiting("a") }},
	{name: "what was accepted since the job began is left, and what is scheduled is sent where it is named", run: func(b *bench) {
		old := b.fail("a", 1)[0]
		b.Schedule(b.Entry("later", redisqtest.To("a"), redisqtest.Delay(time.Hour)))
		j, _ := b.add(dispatcher.JobRetry, dispatcher.Filter{Statuses: []dispatcher.Status{dispatcher.StatusRetrying, dispatcher.StatusScheduled}})
		b.Pass(time.Millisecond)
		young := b.fail("a", 1)[0]
		later := redisqtest.Named("a", "later")
		require.Equal(b, 1, b.step(j, dispatcher.StatusRetrying, old, young).Done)
		require.Equal(b, 1, b.step(j, dispatcher.StatusScheduled, later).Done)
		b.MustStand(young, dispatcher.StatusRetrying)
		read := b.read(j)
		require.Equal(b, counts(2, 2, 0), read.JobCounts)
	}},
	{name: "what was accepted by a clock that was ahead is sent and cancelled, though it seems to be accepted since the job began", run: func(b *bench) {
		b.Pass(25 * time.Hour)
		b.Schedule(b.Entry("m1", redisqtest.To("a"), redisqtest.Delay(time.Hour)), b.Entry("m2", redisqtest.To("a"), redisqtest.Delay(time.Hour)))
		b.Pass(-25 * time.Hour)
		j, _ := b.add(dispatcher.JobRetry, dispatcher.Filter{Statuses: []dispatcher.Status{dispatcher.StatusScheduled}})
		require.Equal(b, 1, b.step(j, dispatcher.StatusScheduled, redisqtest.Named("a", "m1")).Done)
		b.MustStand(redisqtest.Named("a", "m1"), dispatcher.StatusReady)
		j, _ = b.add(dispatcher.JobCancel, dispatcher.Filter{})
		require.Equal(b, 1, b.step(j, "", redisqtest.Named("a", "m2")).Done)
		b.MustStand(redisqtest.Named("a", "m2"), dispatcher.StatusCancelled)
	}},
	{name: "a second job takes over what waits for the first", run: func(b *bench) {
		id := b.die("a", 1)[0]
		first, _ := b.add(dispatcher.JobRetry, dispatcher.Filter{})
		b.step(first, dispatcher.StatusDead, id)
		b.MustSettle(redisqtest.One, redisqtest.Failure(b.MustClaim(redisqtest.One, id)[0], time.Hour))
		second, _ := b.add(dispatcher.JobRetry, dispatcher.Filter{Statuses: []dispatcher.Status{dispatcher.StatusRetrying}})
		require.Equal(b, []dispatcher.DeliveryID{id}, b.page(second))
		require.Equal(b, 1, b.step(second, dispatcher.StatusRetrying, id).Done)
		b.Deliver(id)
		require.Zero(b, b.ended(first, dispatcher.JobEnds{TakenOver: 1}))
		require.Zero(b, b.ended(second, dispatcher.JobEnds{Delivered: 1}))
	}},
	{name: "what waits in a lane that is paused is passed by, and what is not there any more is left", run: func(b *bench) {
		ids := b.fail("a", 2)
		j, _ := b.add(dispatcher.JobRetry, dispatcher.Filter{Statuses: []dispatcher.Status{dispatcher.StatusRetrying}, Lanes: []dispatcher.Lane{"a", "a", "b"}})
		b.Limit("a", redisqtest.Mode(dispatcher.LanePaused))
		require.Equal(b, ids, b.step(j, dispatcher.StatusRetrying, ids...).Full)
		require.Empty(b, b.page(j, "a"))
		b.Limit("a")
		b.Retry(ids[0])
		require.Equal(b, counts(2, 1, 0, 1), b.step(j, dispatcher.StatusRetrying, ids...).JobCounts)
	}},
}

// fail has messages of a lane wait for their next attempt.
func (b *bench) fail(lane dispatcher.Lane, n int) (ids []dispatcher.DeliveryID) {
	b.Helper()
	for range n {
		c := b.TakeNew(lane)
		b.MustSettle(redisqtest.One, redisqtest.Failure(c, time.Hour))
		ids = append(ids, c.ID)
		b.Pass(time.Millisecond)
	}
	return ids
}

// sendsWaiting has a job send what waits in one lane.
func (b *bench) sendsWaiting(lanes ...dispatcher.Lane) {
	b.Helper()
	ids := b.fail("a", 70)
	b.Schedule(b.Entry(b.NewID(), redisqtest.To("a"), redisqtest.Delay(time.Hour)))
	strangers := b.fail("b", 3)
	j, _ := b.add(dispatcher.JobRetry, dispatcher.Filter{Statuses: []dispatcher.Status{dispatcher.StatusRetrying}, Lanes: lanes})
	want := ids
	if lanes == nil {
		want = append(want, strangers...)
	}
	require.ElementsMatch(b, want, b.page(j))
	before := b.Inspect(ids[0])
	out := b.step(j, dispatcher.StatusRetrying, ids...)
	require.Equal(b, []int{64, 6}, []int{out.Done, len(out.Full)}, "as many as a lane takes")
	for sent := 0; sent < 64; {
		for _, c := range b.ClaimAll(redisqtest.One) {
			require.True(b, c.Asked)
			b.MustSettle(redisqtest.One, redisqtest.Failure(c, time.Minute))
			sent++
		}
	}
	require.Equal(b, 6, b.step(j, dispatcher.StatusRetrying, out.Full...).Done)
	b.ClaimAll(redisqtest.One)
	after := b.Inspect(ids[0])
	require.Equal(b, before.Due, after.Due)
	require.Equal(b, []int{before.Climbed, before.Attempts + 1}, []int{after.Climbed, after.Attempts}, "it spent no rung")
	require.NotContains(b, b.page(j), ids[0], "it is attempted once by one job")
	require.Zero(b, b.step(j, dispatcher.StatusRetrying, ids[0]).Done)
	require.Equal(b, 70, b.ended(j, dispatcher.JobEnds{}))
}

// overlapCases are of jobs whose deliveries somebody else changes too.
var overlapCases = []jobCase{
	{name: "two jobs over the same thousand do each once, and fail none", run: func(b *bench) {
		ids := b.thousand(func(lane dispatcher.Lane) []dispatcher.DeliveryID { return b.die(lane, 50) })
		b.overlap(dispatcher.JobRetry, dispatcher.StatusDead, ids)
	}},
	{name: "two jobs that purge the same thousand fail none", run: func(b *bench) {
		ids := b.thousand(func(lane dispatcher.Lane) []dispatcher.DeliveryID { return b.die(lane, 50) })
		b.overlap(dispatcher.JobPurge, dispatcher.StatusDead, ids)
	}},
	{name: "two jobs that cancel the same thousand fail none", run: func(b *bench) {
		ids := b.thousand(func(lane dispatcher.Lane) []dispatcher.DeliveryID {
			b.PublishMany(lane, 50)
			return nil
		})
		b.overlap(dispatcher.JobCancel, "", ids)
	}},
	{name: "people who ask for attempts beside a job make it fail none", run: func(b *bench) {
		ids := b.die("a", 50)
		j, _ := b.add(dispatcher.JobRetry, dispatcher.Filter{})
		require.Equal(b, ids, b.page(j))
		b.Retry(ids[:20]...)
		b.MustSettle(redisqtest.One, redisqtest.Success(b.MustClaim(redisqtest.One, ids[0])[0]))
		b.MustClaim(redisqtest.One, ids[1])
		b.step(j, dispatcher.StatusDead, ids...)
		read := b.read(j)
		require.Equal(b, counts(50, 30, 0, 20), read.JobCounts)
		require.Equal(b, map[dispatcher.Left]int{dispatcher.LeftChanged: 20}, read.Reasons)
		require.Empty(b, read.Failures)
	}},
}

// thousand makes fifty deliveries in each of twenty lanes.
func (b *bench) thousand(make func(lane dispatcher.Lane) []dispatcher.DeliveryID) (ids []dispatcher.DeliveryID) {
	b.Helper()
	for n := range 20 {
		ids = append(ids, make(dispatcher.Lane(fmt.Sprintf("l%02d", n)))...)
	}
	if len(ids) == 0 {
		for _, d := range b.ListAll(dispatcher.Filter{Statuses: []dispatcher.Status{dispatcher.StatusReady}}, 500) {
			ids = append(ids, d.ID)
		}
	}
	require.Len(b, ids, 1000)
	return ids
}

// overlap has two jobs find the same deliveries, and change them by turns.
func (b *bench) overlap(kind dispatcher.JobKind, of dispatcher.Status, ids []dispatcher.DeliveryID) (first, second dispatcher.Job) {
	b.Helper()
	one, _ := b.add(kind, dispatcher.Filter{})
	two, _ := b.add(kind, dispatcher.Filter{})
	for some := range slices.Chunk(ids, 40) {
		b.step(one, of, some[:20]...)
		b.step(two, of, some...)
		b.step(one, of, some[20:]...)
	}
	first, second = b.read(one), b.read(two)
	require.Equal(b, 1000, first.Done+second.Done)
	require.Zero(b, first.Failed+second.Failed)
	require.Equal(b, 1000, first.Left+second.Left)
	require.Equal(b, map[dispatcher.Left]int{dispatcher.LeftChanged: first.Left}, first.Reasons)
	return first, second
}

// probeCases are of jobs that attempt one delivery of each destination first.
var probeCases = []jobCase{
	{name: "one of each destination goes first, and the others follow its success or are left", run: func(b *bench) {
		good, bad := b.fail("good", 4), b.fail("bad", 4)
		all := append(good, bad...)
		j := b.probing()
		out := b.step(j, dispatcher.StatusRetrying, all...)
		require.Equal(b, []int{0, 2, 6}, []int{out.Done, out.Probes, len(out.Full)})
		require.Len(b, b.step(j, dispatcher.StatusRetrying, out.Full...).Full, 6, "nothing is known of them yet")
		for _, c := range b.ClaimAll(redisqtest.One) {
			if c.ID == good[0] {
				b.MustSettle(redisqtest.One, redisqtest.Success(c))
			} else {
				b.MustSettle(redisqtest.One, redisqtest.Failure(c, time.Hour))
			}
		}
		j.Turn++ // another instance goes on
		_, err := b.jobs.Turn(b.Ctx, redisqtest.Two, j)
		require.NoError(b, err)
		require.Equal(b, 3, b.step(j, dispatcher.StatusRetrying, out.Full...).Done)
		b.left(j, 8, 5, map[dispatcher.Left]int{dispatcher.LeftProbe: 3})
		require.Empty(b, b.page(j), "each is left once")
		b.MustStand(bad[1], dispatcher.StatusRetrying)
	}},
	{name: "another success of the destination counts as that of the probe", run: func(b *bench) {
		ids := b.fail("a", 3)
		j := b.probing()
		b.step(j, dispatcher.StatusRetrying, ids...)
		probe := b.MustClaim(redisqtest.One, ids[0])[0]
		b.Publish("a", "new")
		b.Deliver(redisqtest.Named("a", "new"))
		b.MustSettle(redisqtest.One, redisqtest.Failure(probe, time.Hour))
		require.Equal(b, 2, b.step(j, dispatcher.StatusRetrying, ids...).Done)
	}},
	{name: "a destination that is paused is left as held", run: func(b *bench) {
		ids := b.fail("a", 2)
		b.Limit("a", redisqtest.Mode(dispatcher.LanePaused))
		j := b.probing()
		b.step(j, dispatcher.StatusRetrying, ids...)
		b.left(j, 2, 0, map[dispatcher.Left]int{dispatcher.LeftHeld: 2})
	}},
	{name: "a destination whose probe is not attempted within an hour is left", run: func(b *bench) {
		ids := b.fail("a", 3)
		other := b.fail("b", 1)
		b.Publish("a", "m1")
		s := redisqtest.Blamed(redisqtest.Silence(b.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0], 2*time.Hour))
		s.Pause = 2 * time.Hour
		b.MustSettle(redisqtest.One, s)
		j := b.probing()
		out := b.step(j, dispatcher.StatusRetrying, append(ids, other...)...)
		require.Equal(b, []int{1, 3}, []int{out.Probes, len(out.Full)})
		b.Pass(61 * time.Minute)
		b.step(j, dispatcher.StatusRetrying, append(ids, other...)...)
		b.left(j, 4, 1, map[dispatcher.Left]int{dispatcher.LeftProbe: 3})
	}},
	{name: "where the probe was cancelled another one goes first", run: func(b *bench) {
		ids := b.fail("a", 3)
		j := b.probing()
		b.step(j, dispatcher.StatusRetrying, ids...)
		b.Cancel(ids[0])
		out := b.step(j, dispatcher.StatusRetrying, ids[1:]...)
		require.Equal(b, []int{1, 1}, []int{out.Probes, len(out.Full)})
	}},
	{name: "what died has probes too", run: func(b *bench) {
		ids := b.die("a", 3)
		j, _ := b.start(&dispatcher.Job{Kind: dispatcher.JobRetry, Probe: true})
		require.Equal(b, 1, b.step(j, dispatcher.StatusDead, ids...).Probes)
		b.MustSettle(redisqtest.One, redisqtest.Death(b.MustClaim(redisqtest.One, ids[0])[0], dispatcher.ReasonGone))
		b.step(j, dispatcher.StatusDead, ids...)
		b.left(j, 3, 1, map[dispatcher.Left]int{dispatcher.LeftProbe: 2})
	}},
}

// probing begins a job that probes before it sends what waits.
func (b *bench) probing() *dispatcher.Job {
	b.Helper()
	j, _ := b.start(&dispatcher.Job{Kind: dispatcher.JobRetry, Probe: true, Filter: dispatcher.Filter{Statuses: []dispatcher.Status{dispatcher.StatusRetrying}}})
	return j
}

// left has a job stand so.
func (b *bench) left(j *dispatcher.Job, matched, done int, reasons map[dispatcher.Left]int) {
	b.Helper()
	read := b.read(j)
	require.Equal(b, reasons, read.Reasons)
	require.Equal(b, counts(matched, done, 0, matched-done), read.JobCounts)
}

// boundCases are of what jobs are kept from.
var boundCases = []jobCase{
	{name: "while all lanes are paused, a job takes nothing", run: func(b *bench) {
		id := b.die("a", 1)[0]
		j, _ := b.add(dispatcher.JobRetry, dispatcher.Filter{})
		b.Limit(dispatcher.AllLanes, redisqtest.Mode(dispatcher.LanePaused))
		require.Equal(b, []dispatcher.DeliveryID{id}, b.step(j, dispatcher.StatusDead, id).Full)
		b.Limit(dispatcher.AllLanes)
		require.Equal(b, 1, b.step(j, dispatcher.StatusDead, id).Done)
	}},
	{name: "an open lane gets none while its probe is in flight", setup: redisqtest.Setup{Breaker: 1}, run: func(b *bench) {
		ids := b.die("a", 3)
		b.Publish("a", "m1")
		s := redisqtest.Blamed(redisqtest.Silence(b.MustClaim(redisqtest.One, redisqtest.Named("a", "m1"))[0], 0))
		s.Verdict, s.Reason = dispatcher.Dead, dispatcher.ReasonExhausted
		b.MustSettle(redisqtest.One, s)
		j, _ := b.add(dispatcher.JobRetry, dispatcher.Filter{})
		b.Pass(time.Minute)
		require.Equal(b, 1, b.step(j, dispatcher.StatusDead, ids...).Done)
		b.MustClaim(redisqtest.One, ids[0])
		require.Equal(b, ids[1:], b.step(j, dispatcher.StatusDead, ids[1:]...).Full)
	}},
	{name: "an ordered lane gets no more than another, though only one of it is ready", run: func(b *bench) {
		b.Limit(redisqtest.EpOne, redisqtest.Ordered)
		ids := b.die(redisqtest.EpOne, 70)
		j, _ := b.add(dispatcher.JobRetry, dispatcher.Filter{})
		require.Equal(b, 64, b.step(j, dispatcher.StatusDead, ids...).Done)
	}},
	{name: "a lane with a wide window gets more at a time", setup: redisqtest.Setup{LaneMaxInFlight: 32, Permits: 1024}, run: func(b *bench) {
		for range 20 {
			b.Succeed("a")
		}
		ids := b.die("a", 90)
		j, _ := b.add(dispatcher.JobRetry, dispatcher.Filter{})
		done := b.step(j, dispatcher.StatusDead, ids...).Done
		require.Greater(b, done, 64)
		require.Less(b, done, 90+1)
	}},
	{name: "what is left keeps its attempts", run: func(b *bench) {
		b.Limit(redisqtest.EpOne)
		id := b.EndOne(redisqtest.EpOne)
		b.Limit(redisqtest.EpOne, redisqtest.Mode(dispatcher.LaneDisabled))
		before := b.MustStand(id, dispatcher.StatusDelivered)
		require.Equal(b, 1, before.Attempts)
		j, _ := b.add(dispatcher.JobRetry, dispatcher.Filter{Statuses: []dispatcher.Status{dispatcher.StatusDelivered}})
		require.Equal(b, counts(1, 0, 1), b.step(j, dispatcher.StatusDelivered, id).JobCounts)
		require.Equal(b, before, b.MustStand(id, dispatcher.StatusDelivered))
	}},
	{name: "so many failures are named as were asked for", run: func(b *bench) {
		b.Limit(redisqtest.EpOne)
		ids := b.die(redisqtest.EpOne, 3)
		b.Limit(redisqtest.EpOne, redisqtest.Mode(dispatcher.LaneDisabled))
		j, _ := b.add(dispatcher.JobRetry, dispatcher.Filter{})
		out, err := b.jobs.Step(b.Ctx, redisqtest.One, dispatcher.JobStep{Job: j, Status: dispatcher.StatusDead, IDs: ids, Named: 2})
		require.NoError(b, err)
		require.Equal(b, counts(3, 0, 3), out.JobCounts)
		read, err := b.jobs.Job(b.Ctx, j.Number)
		require.NoError(b, err)
		require.Len(b, read.Failures, 2)
	}},
	{name: "filters keep only hashes of names that were forgotten, and their jobs end", run: func(b *bench) {
		const hash = "sha256:283bb9deef02e6843abfb538efa1eca70801bd8a701c3f98191e123496339247"
		ids := b.die("a", 2)
		running, _ := b.add(dispatcher.JobRetry, dispatcher.Filter{Tenants: []string{"other", "gone"}, Subjects: []string{"s"}})
		other, _ := b.add(dispatcher.JobRetry, dispatcher.Filter{Tenants: []string{"other"}, Subjects: []string{"s"}})
		done, _ := b.add(dispatcher.JobRetry, dispatcher.Filter{Tenants: []string{"gone"}})
		_, err := b.jobs.Change(b.Ctx, done.Number, func(j *dispatcher.Job) error { j.State = dispatcher.JobDone; return nil })
		require.NoError(b, err)
		hide := func(n admin.JobNames) int {
			n.By, n.Now = redisqtest.One, b.Now
			changed, err := b.jobs.HideNames(b.Ctx, n)
			require.NoError(b, err)
			return changed
		}
		require.Zero(b, hide(admin.JobNames{Tenant: "gone", Before: running.StartedAt}), "they began later")
		require.Zero(b, hide(admin.JobNames{Tenant: "nobody", Subject: "s"}))
		require.Equal(b, 2, hide(admin.JobNames{Tenant: "gone"}))
		require.Zero(b, hide(admin.JobNames{Tenant: "gone"}))
		read, err := b.jobs.Job(b.Ctx, running.Number)
		require.NoError(b, err)
		require.Equal(b, []any{dispatcher.JobStopped, []string{"other", hash}, true}, []any{read.State, read.Filter.Tenants, read.Forgotten})
		_, err = b.jobs.Step(b.Ctx, redisqtest.One, dispatcher.JobStep{Job: running, Status: dispatcher.StatusDead, IDs: ids})
		require.ErrorIs(b, err, dispatcher.ErrJobTurn, "its holder does not go on")
		read, err = b.jobs.Job(b.Ctx, done.Number)
		require.NoError(b, err)
		require.Equal(b, []any{dispatcher.JobDone, []string{hash}}, []any{read.State, read.Filter.Tenants})
		require.Equal(b, 1, b.step(other, dispatcher.StatusDead, ids[0]).Done, "it names neither")
		require.Equal(b, 2, hide(admin.JobNames{Tenant: "other", Subject: "s"}))
		read, err = b.jobs.Job(b.Ctx, other.Number)
		require.NoError(b, err)
		require.Equal(b, []string{"other"}, read.Filter.Tenants, "the tenant has others")
		require.NotEqual(b, []string{"s"}, read.Filter.Subjects)
	}},
	{name: "only so many jobs may be live", run: func(b *bench) {
		var last *dispatcher.Job
		for range 100 {
			last, _ = b.add(dispatcher.JobRetry, dispatcher.Filter{})
		}
		another := *last
		require.ErrorIs(b, b.jobs.Add(b.Ctx, &another), dispatcher.ErrJobs)
		_, err := b.jobs.Change(b.Ctx, last.Number, func(j *dispatcher.Job) error { j.Turn++; return nil })
		require.NoError(b, err, "one of them goes on")
		live, _, err := b.jobs.Live(b.Ctx)
		require.NoError(b, err)
		require.Len(b, live, 100, "each once")
		_, err = b.jobs.Change(b.Ctx, last.Number, func(j *dispatcher.Job) error { j.State = dispatcher.JobStopped; return nil })
		require.NoError(b, err)
		require.NoError(b, b.jobs.Add(b.Ctx, &another))
	}},
	{name: "the newest thousand are kept, and those that have not ended", run: func(b *bench) {
		live, _ := b.add(dispatcher.JobRetry, dispatcher.Filter{})
		var first, last dispatcher.Job
		for i := range 1005 {
			j := dispatcher.Job{Kind: dispatcher.JobPurge, State: dispatcher.JobDone, Turn: 1, StartedAt: b.Now, EndedAt: b.Now}
			require.NoError(b, b.jobs.Add(b.Ctx, &j))
			if last = j; i == 0 {
				first = j
			}
		}
		require.NoError(b, b.jobs.Forget(b.Ctx, b.Now))
		for n, kept := range map[int64]bool{live.Number: true, first.Number: false, last.Number - 1000: false, last.Number - 999: true, last.Number: true} {
			_, err := b.jobs.Job(b.Ctx, n)
			require.Equal(b, kept, err == nil, fmt.Sprint(n, err))
		}
	}},
	{name: "what is passed by is not counted less when the job comes back", run: func(b *bench) {
		j, _ := b.add(dispatcher.JobRetry, dispatcher.Filter{})
		for _, step := range []dispatcher.JobStep{{Job: j, Skipped: 5, Cursor: "dead 1 a:b"}, {Job: j}, {Job: j, Skipped: 2}} {
			out, err := b.jobs.Step(b.Ctx, redisqtest.One, step)
			require.NoError(b, err)
			require.Equal(b, 5, out.Matched)
		}
	}},
	{name: "a page goes on where it was, though the last one died again", run: func(b *bench) {
		ids := b.die("a", 3)
		j := &dispatcher.Job{Kind: dispatcher.JobRetry, Filter: dispatcher.Filter{Statuses: []dispatcher.Status{dispatcher.StatusDead}}}
		at := dispatcher.JobAt{Cursor: fmt.Sprintf("dead %d %s", b.Inspect(ids[0]).Ended.UnixMilli(), ids[0])}
		b.Retry(ids[0])
		b.MustSettle(redisqtest.One, redisqtest.Death(b.MustClaim(redisqtest.One, ids[0])[0], dispatcher.ReasonGone))
		page, err := b.jobs.Page(b.Ctx, j, at, nil)
		require.NoError(b, err)
		require.Len(b, page.Deliveries, 3)
		require.Equal(b, ids[1], page.Deliveries[0].ID)
	}},
}

// A job keeps its counts and its begin over a repartition, there and back.
func TestAJobOutlivesARepartition(t *testing.T) {
	t.Parallel()
	p := redisqtest.NewProject(t, redistest.StartMini(t), 4)
	store := p.Open(4)
	mine := admin.NewJobStore(store.Queue())
	kinds := map[dispatcher.JobKind]dispatcher.JobCounts{ // a replay can't find an unknown one, and nothing is left to purge
		dispatcher.JobRetry: {Matched: 4, Failed: 4}, dispatcher.JobPurge: {Matched: 4, Left: 4},
	}
	all := map[dispatcher.JobKind]*dispatcher.Job{}
	for kind := range kinds {
		j := &dispatcher.Job{Kind: kind, Filter: dispatcher.Filter{Statuses: []dispatcher.Status{dispatcher.StatusDead}}, State: dispatcher.JobRunning, Turn: 1, StartedAt: time.Now()}
		require.NoError(t, mine.Add(t.Context(), j))
		_, err := mine.Turn(t.Context(), "one", j)
		require.NoError(t, err)
		for n := range 4 {
			unknown := dispatcher.DeliveryID{Lane: "a", Message: "unknown"}
			_, err := mine.Step(t.Context(), "one", dispatcher.JobStep{Job: j, Part: n, Status: dispatcher.StatusDead, IDs: []dispatcher.DeliveryID{unknown}, Skipped: 5, Named: 9})
			require.NoError(t, err)
		}
		all[kind] = j
	}
	for _, to := range []int{2, 4} {
		require.NoError(t, store.Close())
		p.To(to)
		store = p.Open(to)
		mine = admin.NewJobStore(store.Queue())
		for kind, j := range all {
			read, err := mine.Job(t.Context(), j.Number)
			require.NoError(t, err)
			require.Equal(t, kinds[kind], read.JobCounts)
			require.Equal(t, read.Failed > 0, len(read.Failures) > 0)
			require.Equal(t, read.Left, read.Reasons[dispatcher.LeftChanged])
			j.Turn++
			parts, err := mine.Turn(t.Context(), "one", j)
			require.NoError(t, err)
			for _, part := range parts {
				require.Equal(t, j.StartedAt.UnixMilli(), part.Since.UnixMilli())
				require.Zero(t, part.Matched)
			}
		}
	}
	// What became of those that it sent is kept too, wherever they ended.
	number := strconv.FormatInt(all[dispatcher.JobRetry].Number, 10)
	for i, to := range []int{2, 4} {
		require.NoError(t, store.Queue().Conn().At(t.Context(), "write ends", i, func(p redis.Pipeliner) {
			p.HSet(t.Context(), store.Queue().Conn().Tag(i)+keys.Jobs, number+" ends", "1 2 3 4", admin.SentField, "7")
		}))
		require.NoError(t, store.Close())
		p.To(to)
		store = p.Open(to)
		mine = admin.NewJobStore(store.Queue())
		read, err := mine.Job(t.Context(), all[dispatcher.JobRetry].Number)
		require.NoError(t, err)
		require.Equal(t, dispatcher.JobEnds{Delivered: 1 + i, Cancelled: 2 + 2*i, Dead: 3 + 3*i, TakenOver: 4 + 4*i}, read.Ends)
		var sent *redis.StringCmd
		require.NoError(t, store.Queue().Conn().At(t.Context(), "read", to-1, func(p redis.Pipeliner) {
			sent = p.HGet(t.Context(), store.Queue().Conn().Tag(to-1)+keys.Jobs, admin.SentField)
		}))
		require.NotEmpty(t, sent.Val(), "a delivery of the job may be in any partition")
	}
	require.NoError(t, mine.Forget(t.Context(), time.Now()))
}
