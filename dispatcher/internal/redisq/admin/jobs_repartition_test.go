package admin_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/admin"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

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
