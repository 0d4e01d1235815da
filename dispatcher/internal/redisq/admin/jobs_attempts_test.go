package admin_test

import (
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

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
