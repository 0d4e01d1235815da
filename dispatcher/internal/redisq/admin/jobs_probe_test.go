package admin_test

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

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
