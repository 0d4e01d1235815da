package e2e_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
)

// clusterPartitions is how many partitions these clusters have, so that the tests know where a lane is.
const clusterPartitions = 128

var inClusterPartitions = fmt.Sprint("PARTITIONS=", clusterPartitions)

// Each caller of a cluster publishes that often; together they make 50 a second.
const (
	clusterCallers = 12
	clusterEvery   = 240 * time.Millisecond
)

// home is the key by which the cluster places the partition of a lane.
func home(c *redistest.Cluster, lane string) string {
	// Both are CRC16, and 128 divides the number of slots.
	return fmt.Sprintf("{default:%d}", c.Slot(lane)%clusterPartitions)
}

// recovered waits until each caller was acknowledged something after a moment,
// and until something of that arrived, and answers how long it took.
func (w *world) recovered(c *callers, moment time.Time) (accepting, delivering time.Duration) {
	w.t.Helper()
	for _, one := range c.all {
		var came time.Time
		eventually(w.t, fmt.Sprintf("nothing of %s is taken and delivered again", one.name), func() bool {
			for _, m := range one.since(moment) {
				if list := w.receiver.arrivals(m.id); len(list) > 0 {
					came = list[0].at
					return true
				}
			}
			return false
		})
		accepting = max(accepting, one.since(moment)[0].at.Sub(moment))
		delivering = max(delivering, came.Sub(moment))
	}
	return accepting, delivering
}

// Three instances work on six nodes while a slot in use moves to another
// master, and while a master dies.
func TestAClusterLosesNothing(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 1, leastLine())
	w := newWorldOn(t, asLeast(cluster.URL()), inClusterPartitions)
	var instances []*instance
	for range 3 {
		i := w.serve()
		i.troubled = true
		instances = append(instances, i)
	}
	meta := newClusterClient(t, cluster).HGet(t.Context(), "{default}:meta", "partitions").Val()
	require.Equal(t, strconv.Itoa(clusterPartitions), meta)
	c := startCallers(clusterCallers, clusterEvery, instances...)
	c.goOn(2 * clusterCallers)
	lane := c.all[0].since(time.Time{})[0].lane

	// A slot moves: its partition pauses, the others go on, and nothing is done twice.
	key := home(cluster, lane)
	from := cluster.MasterOf(key)
	to := cluster.Other(from)
	keys := 0
	cluster.MoveSlot(cluster.Slot(key), from, to, func(moved int) {
		keys = moved
		c.goOn(4)
	})
	require.Greater(t, keys, 3, "a partition in use has some keys")
	moved := time.Now()
	accepting, delivering := w.recovered(c, moved)
	t.Logf("a slot of %d keys moved: accepted again after %s, delivered after %s", keys, accepting, delivering)
	c.goOn(clusterCallers)
	w.receiver.once()

	// A master dies.
	killed := time.Now()
	dead := cluster.KillMasterOf(key)
	require.Same(t, to, dead)
	accepting, delivering = w.recovered(c, killed)
	t.Logf("a master was killed: accepted again after %s, delivered after %s", accepting, delivering)
	dead.Restart()
	cluster.WaitOK()
	c.goOn(clusterCallers)
	w.receiver.arrived(c.end())

	out := mustRun(t, []string{"REDIS_URL=" + cluster.URL(), "PARTITIONS=64", "LISTEN=127.0.0.1:0"}, "", "serve")
	require.NotZero(t, out.code)
	require.Contains(t, out.err+out.out, "PARTITIONS=64")
	require.Contains(t, out.err+out.out, strconv.Itoa(clusterPartitions))
}

func newClusterClient(t *testing.T, cluster *redistest.Cluster) *redis.ClusterClient {
	t.Helper()
	opts, err := redis.ParseClusterURL(cluster.URL())
	require.NoError(t, err)
	client := redis.NewClusterClient(opts)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// The master that holds the list of the living hangs, and has no replica. What is on the others
// continues, also after the time in which a silent instance is taken for alive.
func TestAHangingMasterHoldsUpOnlyItsPartitions(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0, "cluster-require-full-coverage no", leastLine())
	w := newWorldOn(t, asLeast(cluster.URL()), "REDIS_MODE=cluster", inClusterPartitions)
	instances := []*instance{w.serve(), w.serve()}
	for _, i := range instances {
		i.troubled = true
	}
	c := startCallers(clusterCallers, clusterEvery, instances...)
	c.goOn(2 * clusterCallers)
	on := map[*redistest.Node][]*caller{} // the callers of each master
	for _, one := range c.all {
		master := cluster.MasterOf(home(cluster, one.since(time.Time{})[0].lane))
		on[master] = append(on[master], one)
	}
	hangs := cluster.MasterOf("{default}")
	others := slices.DeleteFunc(slices.Clone(c.all), func(one *caller) bool { return slices.Contains(on[hangs], one) })
	require.NotEmpty(t, others)

	hangs.Pause()
	paused := time.Now()
	for range 50 { // a quarter of a second each; the cluster finds after two that it hangs
		began := time.Now()
		for _, one := range others {
			eventually(t, fmt.Sprintf("%s is held up", one.name), func() bool { return len(one.since(began)) > 0 })
			w.receiver.wait(one.since(began)[0].id, 1)
		}
	}
	t.Logf("%d of %d callers went on while a master hung for %s", len(others), clusterCallers, time.Since(paused).Round(time.Millisecond))
	hangs.Resume()
	resumed := time.Now()
	accepting, delivering := w.recovered(c, resumed)
	t.Logf("it goes on: accepted again after %s, delivered after %s", accepting, delivering)
	w.receiver.arrived(c.end())
	w.counted(instances[0])
	w.receiver.once()
}

// An instance that has nothing to do needs as many connections and goroutines
// for 128 partitions as for one.
func TestIdlePartitionsCostNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	connections, goroutines := map[int]int{}, map[int]int{}
	for _, partitions := range []int{1, clusterPartitions} {
		name := fmt.Sprint("idle", partitions)
		i := w.serve("PROJECT="+name, fmt.Sprint("PARTITIONS=", partitions), "REDIS_URL="+w.redis.URL()+"?client_name="+name)
		connections[partitions] = strings.Count(w.rdb.ClientList(t.Context()).Val(), "name="+name+" ")
		metrics := i.metrics()
		_, value, ok := strings.Cut(metrics, "\ngo_goroutines ")
		require.True(t, ok, metrics)
		value, _, _ = strings.Cut(value, "\n")
		n, err := strconv.Atoi(value)
		require.NoError(t, err)
		goroutines[partitions] = n
		require.Zero(t, i.stop())
	}
	require.Positive(t, connections[1])
	const chance = 32 // for calls at the same time, far below one for each partition
	require.LessOrEqual(t, connections[clusterPartitions], connections[1]+chance)
	require.LessOrEqual(t, goroutines[clusterPartitions], goroutines[1]+chance)
	t.Log("connections", connections, "goroutines", goroutines)
}

// The master dies, and sentinels put its replica in its place, which has one of
// its own. Each acknowledgement waited for that replica: of two it might have
// been the one that sentinels do not choose.
func TestSentinelsReplaceTheMasterAndNothingIsLost(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t, leastLine())
	heir := redistest.StartReplica(t, master, leastLine())
	second := redistest.StartReplica(t, heir, leastLine()) // on a busy machine the heir may be replaced too
	sentinels := redistest.StartSentinels(t, master, 3, "main")
	w := newWorldOn(t, asLeast(sentinels.URL()), "REDIS_MODE=sentinel", "REDIS_MASTER=main", "DURABILITY=replicas:1")
	instances := []*instance{w.serve(), w.serve()}
	for _, i := range instances {
		i.troubled = true
	}
	c := startCallers(4, 0, instances...)
	c.goOn(60)

	killed := time.Now()
	master.Kill()
	accepting, delivering := w.recovered(c, killed)
	t.Logf("the master was killed: accepted again after %s, delivered after %s", accepting, delivering)
	require.Contains(t, []string{heir.Addr(), second.Addr()}, sentinels.WaitMaster(master.Addr()))
	w.receiver.arrived(c.end())
}
