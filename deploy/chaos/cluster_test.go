package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/deploy/kit/redistest"
)

// partitions are enough for each of three masters to have some.
const partitions = 8

// clustered is a Redis Cluster of three masters and a replica of each. A
// publish waits for the replica, so that no failover loses what was accepted;
// what is settled does not wait, and may come twice.
type clustered struct {
	*trouble
	t       testing.TB
	cluster *redistest.Cluster
	direct  *redis.ClusterClient

	canaries [partitions]*store
}

func newClustered(t testing.TB, h *history) *clustered {
	t.Helper()
	c := &clustered{t: t, cluster: redistest.StartCluster(t, 3, 1, userSettings()...)}
	opts, err := redis.ParseClusterURL(c.cluster.URL())
	require.NoError(t, err)
	opts.ClusterStateReloadInterval = 500 * time.Millisecond
	c.direct = redis.NewClusterClient(opts)
	t.Cleanup(func() { _ = c.direct.Close() })
	for n := range c.canaries {
		c.canaries[n] = &store{t: t, h: h, name: tag(n)}
	}
	return c
}

func (c *clustered) url(string) string { return asUser(c.cluster.URL()) }
func (c *clustered) straight() string  { return c.cluster.URL() }
func (c *clustered) env() []string {
	return []string{fmt.Sprint("PARTITIONS=", partitions), "DURABILITY=replicas:1"}
}
func (c *clustered) String() string {
	return "a cluster of 3 masters with a replica each, DURABILITY=replicas:1"
}

// tag is what all keys of a partition have in common.
func tag(partition int) string { return fmt.Sprintf("{default:%d}", partition) }

// count has a canary in each partition. They count one after the other: what a master
// forgets it forgets of all its partitions from the same moment on, and one of them counted
// a few ms before.
func (c *clustered) count(ctx context.Context) {
	var wg sync.WaitGroup
	for n := range c.canaries {
		wg.Go(func() {
			kit.Rest(ctx, time.Duration(n)*canaryEvery/2)
			tick := time.NewTicker(partitions * canaryEvery / 2)
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
					call, cancel := context.WithTimeout(ctx, time.Second)
					c.increment(call, n)
					cancel()
				}
			}
		})
	}
	wg.Wait()
}

func (c *clustered) recount(ctx context.Context) {
	for n := range c.canaries {
		c.increment(ctx, n)
	}
}

func (c *clustered) increment(ctx context.Context, n int) {
	c.canaries[n].quiet.RLock()
	defer c.canaries[n].quiet.RUnlock()
	began := time.Now()
	if count, err := c.direct.Incr(ctx, canaryKey+tag(n)).Result(); err == nil {
		c.canaries[n].counted(count, began)
	}
}

func (c *clustered) record(ctx context.Context, id string) (string, error) {
	return c.direct.HGet(ctx, endpointsKey, id).Result()
}

// empty empties one master with some of the partitions.
func (c *clustered) empty(ctx context.Context, random *rand.Rand) (at time.Time, kept map[string]bool, err error) {
	c.inStep()
	for n := range c.canaries {
		c.canaries[n].quiet.Lock()
		defer c.canaries[n].quiet.Unlock()
	}
	victim := c.cluster.MasterOf(some(random))
	node := c.client(victim)
	defer node.Close() //nolint:errcheck // all was answered
	counts := map[string]string{}
	for n := range c.canaries {
		if key := canaryKey + tag(n); c.cluster.MasterOf(key) == victim {
			if counts[key], err = node.Get(ctx, key).Result(); err != nil {
				return at, nil, err
			}
		}
	}
	err = node.FlushAll(ctx).Err()
	at, kept = time.Now(), map[string]bool{}
	for key, count := range counts {
		err = errors.Join(err, node.Set(ctx, key, count, 0).Err())
	}
	for n := range c.canaries {
		ids, err := c.direct.HKeys(ctx, tag(n)+":messages").Result()
		if err != nil {
			return at, nil, err
		}
		for _, id := range ids {
			kept[id] = true
		}
	}
	return at, kept, err
}

func (c *clustered) deeds(common *trouble) []deed {
	c.trouble = common
	more, soon := depriving{common, c.direct.ForEachShard}.does()
	c.soon = soon
	return append(more, c.killMaster, c.killMaster, c.killAhead, c.pauseNode, c.failover, c.reshard, c.reshard, c.forgetScripts, c.killClients)
}

// backAtOnce is what happens to a master whose supervisor is quicker than its
// replica: it comes back with what its own file has. With appendfsync everysec that may be less than the replica had, which
// then forgets it too. A wait for replicas does not cover that, and the judge
// forgives it.
const backAtOnce = "master killed, back at once"

// some is a key of some partition.
func some(random *rand.Rand) string { return tag(random.IntN(partitions)) }

// killMaster kills a master. Mostly its replica takes its place before it comes
// back, as another's replica then; sometimes it is back before that.
func (c *clustered) killMaster(ctx context.Context, random *rand.Rand) {
	key, back := some(random), random.IntN(3) == 0
	c.cluster.WaitOK() // a replica in step, which can take its place
	kind := "master killed, its replica takes over"
	if back {
		kind = backAtOnce
	}
	defer c.begins(kind, "")()
	node := c.cluster.KillMasterOf(key)
	if !back {
		c.until("a failover", func() bool {
			now := c.cluster.MasterOf(key)
			return now != node
		})
	}
	node.Restart()
	c.inStep()
}

// killAhead kills a master that was cut off from its replica for a moment: the
// replica takes its place and never had what was written then. Of that nothing may have
// been accepted.
func (c *clustered) killAhead(ctx context.Context, random *rand.Rand) {
	key, ahead := some(random), between(random, 200*time.Millisecond, 1500*time.Millisecond)
	c.inStep()
	master := c.cluster.MasterOf(key)
	replica := c.replicaOf(master)
	if replica == nil {
		return
	}
	defer c.begins("master killed ahead of its replica", "")()
	replica.Pause()
	node := c.client(master)
	_ = node.ClientKillByFilter(ctx, "TYPE", "replica").Err() // what is under way to the replica still arrives
	_ = node.Close()
	kit.Rest(ctx, ahead)
	master.Kill()
	replica.Resume()
	c.until("a failover", func() bool { return c.cluster.MasterOf(key) == replica })
	master.Restart()
	c.inStep()
}

// pauseNode freezes a node: a short pause is a hiccup, a long one a failover
// after which the node is told that it is no master any more.
func (c *clustered) pauseNode(ctx context.Context, random *rand.Rand) {
	nodes := c.cluster.Nodes()
	node, time := nodes[random.IntN(len(nodes))], between(random, time.Second, 8*time.Second)
	defer c.begins("node stopped", "")()
	node.Pause()
	kit.Rest(ctx, time)
	node.Resume()
	c.inStep()
}

// failover has a replica take its master's place in order.
func (c *clustered) failover(_ context.Context, random *rand.Rand) {
	defer c.begins("failover in order", "")()
	c.cluster.Failover(some(random))
	c.inStep()
}

// reshard moves a partition to another master, key by key, while it is used.
func (c *clustered) reshard(_ context.Context, random *rand.Rand) {
	key := some(random)
	defer c.begins("slot moved", "")()
	from := c.cluster.MasterOf(key)
	c.cluster.MoveSlot(c.cluster.Slot(key), from, c.cluster.Other(from), nil)
}

func (c *clustered) forgetScripts(ctx context.Context, _ *rand.Rand) {
	defer c.begins("scripts flushed", "")()
	_ = c.direct.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		return node.ScriptFlush(ctx).Err()
	})
}

func (c *clustered) killClients(ctx context.Context, random *rand.Rand) {
	kind := []string{"normal", "pubsub"}[random.IntN(2)]
	defer c.begins("clients killed", "")()
	_ = c.direct.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		return node.ClientKillByFilter(ctx, "TYPE", kind, "SKIPME", "yes").Err()
	})
}

// inStep waits until each master has its replica again: the next fault would
// else take the only one that knows.
func (c *clustered) inStep() {
	c.cluster.WaitOK()
	c.until("replicas in step", func() bool {
		for _, n := range c.cluster.Masters() {
			if c.replicaOf(n) == nil {
				return false
			}
		}
		return true
	})
}

// replicaOf is the replica that follows a master, or nil.
func (c *clustered) replicaOf(master *redistest.Node) *redistest.Node {
	node := c.client(master)
	defer func() { _ = node.Close() }()
	info, err := node.InfoMap(context.Background(), "replication").Result()
	if err != nil {
		return nil
	}
	for _, n := range c.cluster.Nodes() {
		if strings.Contains(info["Replication"]["slave0"], fmt.Sprintf("port=%d,state=online", n.Port())) {
			return n
		}
	}
	return nil
}

func (c *clustered) client(n *redistest.Node) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: n.Addr(), MaxRetries: -1})
}

// until waits for what always comes. What is broken is mended even where the run
// is over.
func (c *clustered) until(what string, done func() bool) {
	err := kit.Until(context.Background(), what, func() error {
		if !done() {
			kit.Rest(context.Background(), 200*time.Millisecond) // each question asks all nodes
			return errors.New("not yet")
		}
		return nil
	})
	if err != nil {
		c.t.Error(err)
	}
}
