package admin_test

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/admin"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

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
