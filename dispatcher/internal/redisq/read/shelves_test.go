package read_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/read"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// library is a project whose tenants have shelves.
type library struct {
	*redisqtest.Project
	*testing.T
	store *redisqtest.Raw
}

func openTestLibrary(t *testing.T, partitions int) *library {
	t.Helper()
	p := redisqtest.NewProject(t, redistest.Share(t), partitions)
	return &library{Project: p, T: t, store: p.Open(partitions)}
}

// publish makes a message of a tenant, due in an hour.
func (l *library) publish(id, tenant string, lanes ...dispatcher.Lane) {
	l.Helper()
	l.Publish(l.store, l.Entry(id, lanes, func(m *dispatcher.Message) { m.Tenant, m.Delay = tenant, time.Hour }))
}

// shelves are those of tenants in one order, without the hashes. Each must lie in its
// lane's partition.
func (l *library) shelves(tenants ...string) (names []string) {
	l.Helper()
	found, err := l.store.Bare().Shelves.Shelves(l.Context(), tenants)
	require.NoError(l, err)
	for n, list := range found {
		for _, name := range list {
			lane, part := read.ShelfLane(name)
			require.Equal(l, n, keys.Partition(lane, l.store.Partitions()), name)
			if require.Equal(l, strings.HasPrefix(lane, "q_"), part, name); part {
				lane += "~"
			}
			names = append(names, lane)
		}
	}
	slices.Sort(names)
	return names
}

// cancel ends all deliveries of some messages.
func (l *library) cancel(ids ...dispatcher.DeliveryID) {
	l.Helper()
	_, _, err := l.store.Cancel(l.Context(), "one", ids)
	require.NoError(l, err)
}

func (l *library) trim(keep dispatcher.Keep) {
	l.Helper()
	for more := true; more; {
		got, err := l.store.Trim(l.Context(), "one", redisqtest.All(l.store), keep, false)
		require.NoError(l, err)
		more = got.More
	}
}

func TestTenantsHaveTheShelvesThatHaveDeliveriesOfTheirs(t *testing.T) {
	t.Parallel()
	for _, partitions := range []int{1, 4} {
		t.Run(fmt.Sprint(partitions), func(t *testing.T) {
			t.Parallel()
			l := openTestLibrary(t, partitions)
			require.Empty(t, l.shelves("acme"))
			l.publish("m1", "acme", "u_1", "ep_1", "q_a")
			l.publish("m2", "acme", "u_1", "q_a", dispatcher.QueueLane("a queue whose name is long"))
			l.publish("m3", "other", "u_2", "q_a")
			l.publish("m4", "", "u_3", "q_a")
			long := string(dispatcher.QueueLane("a queue whose name is long"))
			require.Contains(t, long, "~")
			require.Equal(t, []string{"ep_1", "q_a~", long + "~", "u_1"}, l.shelves("acme"))
			require.Equal(t, []string{"q_a~", "u_2"}, l.shelves("other"))
			require.Equal(t, []string{"ep_1", "q_a~", "q_a~", long + "~", "u_1", "u_2"}, l.shelves("acme", "other", "acme", "", "third"))
			require.Empty(t, l.shelves())
			require.Empty(t, l.shelves(""), "what has no tenant is of none")

			_, _, err := l.store.Limit(t.Context(), "one", "ep_1", dispatcher.LaneLimits{Version: 1, Mode: dispatcher.LaneDeleted}, false)
			require.NoError(t, err)
			l.cancel(dispatcher.DeliveryID{Lane: "u_1", Message: "m1"}, dispatcher.DeliveryID{Lane: "ep_1", Message: "m1"}, dispatcher.DeliveryID{Lane: "q_a", Message: "m1"})
			l.Pass(2 * time.Hour)
			l.trim(dispatcher.Keep{Finished: 24 * time.Hour, FinishedMax: 100, SeenMax: 100})
			require.Equal(t, []string{"ep_1", "q_a~", long + "~", "u_1"}, l.shelves("acme"), "those of a deleted endpoint are found as long as they are kept")

			l.trim(dispatcher.Keep{Finished: time.Minute, FinishedMax: 100, SeenMax: 100})
			require.Equal(t, []string{"q_a~", long + "~", "u_1"}, l.shelves("acme"))
			l.cancel(dispatcher.DeliveryID{Lane: "u_1", Message: "m2"}, dispatcher.DeliveryID{Lane: "q_a", Message: "m2"}, dispatcher.DeliveryID{Lane: dispatcher.Lane(long), Message: "m2"})
			l.Pass(time.Hour)
			l.trim(dispatcher.Keep{Finished: time.Minute, FinishedMax: 100, SeenMax: 100})
			require.Empty(t, l.shelves("acme"))
			require.Equal(t, []string{"q_a~", "u_2"}, l.shelves("other"))

			l.publish("m5", "acme", "u_1")
			require.Equal(t, []string{"u_1"}, l.shelves("acme"))
			l.cancel(dispatcher.DeliveryID{Lane: "u_1", Message: "m5"})
			l.Pass(time.Second)
			l.trim(dispatcher.Keep{})
			require.Empty(t, l.shelves("acme"))
			l.publish("m6", "acme", "u_1")
			require.Equal(t, []string{"u_1"}, l.shelves("acme"), "also where the state of the lane is kept still")
			for _, state := range l.States(partitions) {
				require.Empty(t, state.Unknown)
			}
		})
	}
}

func TestNoKeyOfAShelfTellsItsTenant(t *testing.T) {
	t.Parallel()
	l := openTestLibrary(t, 1)
	l.publish("m1", "acme", "ep_1", "q_a")
	require.NotEmpty(t, l.shelves("acme"))
	for _, key := range redisqtest.Keys(t, l.Client, l.Options.Project) {
		require.NotContains(t, key, "acme")
	}
	owners := l.Client.HGetAll(t.Context(), keys.Tag(l.Options.Project, 0)+keys.Owners).Val()
	require.Len(t, owners, 1)
	require.NotContains(t, owners["ep_1"], "acme")

	other := openTestLibrary(t, 1)
	other.publish("m1", "acme", "ep_1")
	require.NotEqual(t, owners, other.Client.HGetAll(t.Context(), keys.Tag(other.Options.Project, 0)+keys.Owners).Val(), "each project has its own key")
}

func TestMoreShelvesThanOneCallReadsAreReported(t *testing.T) {
	t.Parallel()
	l := openTestLibrary(t, 1)
	l.publish("m1", "acme", "u_1")
	tag := keys.Tag(l.Options.Project, 0)
	key := tag + keys.Tenant + l.Client.HGet(t.Context(), tag+keys.Owners, "u_1").Val()
	p := l.Client.Pipeline()
	for i := range 20_000 {
		p.ZAdd(context.Background(), key, redis.Z{Member: fmt.Sprintf("u_%09d", i)})
	}
	_, err := p.Exec(t.Context())
	require.NoError(t, err)
	found, err := l.store.Bare().Shelves.Shelves(t.Context(), []string{"acme"})
	require.ErrorIs(t, err, read.ErrMore)
	require.Len(t, found[0], 20_000)
	require.NoError(t, l.Client.ZRemRangeByRank(t.Context(), key, 0, 0).Err())
	found, err = l.store.Bare().Shelves.Shelves(t.Context(), []string{"acme"})
	require.NoError(t, err)
	require.Len(t, found[0], 20_000)
}
