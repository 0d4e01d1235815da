package admin_test

import (
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

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
