package redisq_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// newPlainRig returns a rig, and the tag of its keys.
func newPlainRig(t *testing.T) (*redisqtest.Rig, string) {
	t.Helper()
	var project string
	r := redisqtest.NewRig(t, func(t testing.TB, s redisqtest.Setup) redisqtest.Fixture {
		t.Helper()
		f, options := newTestFixture(t, s, redistest.Start(t))
		project = options.Project
		return f
	}, redisqtest.Setup{Partitions: 1})
	return r, keys.Tag(project, 0)
}

// settleFirst publishes a message to the lane a for each status, and ends it with that status at once.
func settleFirst(f *redisqtest.Rig, statuses ...int) {
	f.Helper()
	for i, status := range statuses {
		id := fmt.Sprintf("m%d", i)
		f.Publish("a", id)
		f.MustSettle(redisqtest.One, redisqtest.Answered(f.MustClaim(redisqtest.One, redisqtest.Named("a", id))[0], dispatcher.Delivered, status))
	}
}

func TestAFirstSuccessNeedsNoProgressWhateverItsStatus(t *testing.T) {
	f, _ := newPlainRig(t)
	statuses := []int{200, 201, 202, 204, 299, 302, 404, 499, 503}
	settleFirst(f, statuses...)
	require.Len(t, f.State().Progress, 1, "503 would round the end to the next ms")
	for i, status := range statuses {
		d := f.MustStand(redisqtest.Named("a", fmt.Sprintf("m%d", i)), dispatcher.StatusDelivered)
		require.Equal(t, []any{status, 1, f.Now.UnixMilli()}, []any{d.LastStatus, d.Attempts, d.Ended.UnixMilli()})
		require.Equal(t, d.Ended, d.Delivered)
	}
}

// The status of the first success stays, whatever the next attempt brings.
func TestTheStatusOfAFirstSuccessStaysWhenItIsSentAgain(t *testing.T) {
	f, _ := newPlainRig(t)
	settleFirst(f, 204)
	id, ended := redisqtest.Named("a", "m0"), f.Now
	f.Pass(time.Second)
	changes, _, err := f.Resend(f.Ctx, "", []dispatcher.DeliveryID{id})
	require.NoError(t, err)
	require.NoError(t, changes[0].Err)
	f.MustSettle(redisqtest.One, redisqtest.Death(f.MustClaim(redisqtest.One, id)[0], dispatcher.ReasonGone))
	d := f.MustStand(id, dispatcher.StatusDead)
	require.Equal(t, []any{ended, 204, 1}, []any{d.Delivered, d.History[0].Status, d.History[0].Number})
}

// Ends in one ms have an order by their statuses too. A page may end between them, also at the place of
// another list.
func TestPagesOfEndsOfOneTimeMissNoStatus(t *testing.T) {
	f, _ := newPlainRig(t)
	const seven = 7 // ends, and more than enough pages
	settleFirst(f, 499, 204, 200, 302, 201, 200, 204)
	f.Pass(time.Second)
	seen := map[dispatcher.DeliveryID]int{}
	ended := dispatcher.EndedFilter{Lane: "a", Limit: 2}
	for range seven {
		page, err := f.Queue.Ended(f.Ctx, ended)
		require.NoError(t, err)
		for _, d := range page.Deliveries {
			seen[d.ID]++
		}
		ended.Cursor, err = f.Queue.EndedCursor(f.Ctx, ended, page.Place)
		require.NoError(t, err)
	}
	list := dispatcher.Filter{Part: dispatcher.PartEnded, Limit: 2}
	for range seven {
		page, err := f.Queue.List(f.Ctx, list)
		require.NoError(t, err)
		for _, d := range page.Deliveries {
			seen[d.ID]++
		}
		if list.From = page.Reached; list.From == nil {
			break
		}
	}
	require.Len(t, seen, seven)
	for id, n := range seen {
		require.Equal(t, 2, n, "%s", id)
	}
}

// An older version wrote an entry for each status but 200, and ends of whole ms.
func TestEndsOfAnOlderVersionHaveTheirStatus(t *testing.T) {
	f, tag := newPlainRig(t)
	settleFirst(f, 204, 204)
	for _, id := range []string{"a:m0", "a:m1"} {
		require.NoError(t, f.Queue.Client().ZAdd(f.Ctx, tag+keys.Done, redis.Z{Score: float64(f.Now.UnixMilli()), Member: id}).Err())
	}
	require.NoError(t, f.Queue.Client().HSet(f.Ctx, tag+keys.Progress, "a:m0", "1 0 0 202 0 - 0 0").Err())
	require.Equal(t, 202, f.Inspect(redisqtest.Named("a", "m0")).LastStatus)
	require.Equal(t, 200, f.Inspect(redisqtest.Named("a", "m1")).LastStatus)
}
