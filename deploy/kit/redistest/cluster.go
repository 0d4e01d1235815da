package redistest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hookladder/hookladder/deploy/kit"
)

// nodeTimeout is the timeout in milliseconds after which a node counts as failing. A
// failover takes about 2 s more.
const nodeTimeout = 2000

// Node is a server of a cluster.
type Node struct {
	*Server
	ID string // its id in the cluster
}

// Cluster is a Redis Cluster of real nodes on loopback ports.
type Cluster struct {
	t     testing.TB
	nodes []*Node // masters first, in the order of their creation
}

// StartCluster starts a cluster with a number of masters and a number of replicas for
// each master. All slots are spread evenly over the masters. It returns when all
// nodes agree on that and the replicas are in step. Each of settings is a line of
// redis.conf. The cluster ends with the test.
func StartCluster(t testing.TB, masters, replicasEach int, settings ...string) *Cluster {
	t.Helper()
	Long(t)
	c := &Cluster{t: t}
	servers := startAll(t, masters*(1+replicasEach), kit.RedisOptions{
		Cluster: true, Settings: append([]string{"cluster-node-timeout " + strconv.Itoa(nodeTimeout)}, settings...),
	})
	for _, s := range servers {
		id, err := s.mustAsk("CLUSTER", "MYID")
		require.NoError(t, err)
		c.nodes = append(c.nodes, &Node{Server: s, ID: fmt.Sprint(id)})
	}
	require.NoError(t, kit.Join(t.Context(), redisOf(servers), masters))
	require.NoError(t, c.follow(masters))
	c.WaitOK()
	return c
}

// startAll starts n servers with the same options at once.
func startAll(t testing.TB, n int, o kit.RedisOptions) []*Server {
	t.Helper()
	servers := make([]*Server, n)
	var g errgroup.Group
	for i := range servers {
		g.Go(func() (err error) {
			servers[i], err = start(t, o)
			return err
		})
	}
	require.NoError(t, g.Wait())
	return servers
}

func redisOf(servers []*Server) (list []*kit.Redis) {
	for _, s := range servers {
		list = append(list, s.Redis)
	}
	return list
}

// follow makes every node but the masters a replica.
func (c *Cluster) follow(masters int) error {
	for i, n := range c.nodes[masters:] {
		if _, err := n.mustAsk("CLUSTER", "REPLICATE", c.nodes[i%masters].ID); err != nil {
			return err
		}
	}
	for _, n := range c.nodes[masters:] {
		if err := n.inStep(); err != nil {
			return err
		}
	}
	return nil
}

// URL returns a URL with all nodes in the format of REDIS_URL.
func (c *Cluster) URL() string {
	var list []*kit.Redis
	for _, n := range c.nodes {
		list = append(list, n.Redis)
	}
	return kit.URLOf(list)
}

// Nodes returns all nodes, alive or not.
func (c *Cluster) Nodes() []*Node { return c.nodes }

// seen is one node in the report of another node.
type seen struct {
	id     string
	master bool
	epoch  int64
	slots  [][2]int
	myself bool
}

// view returns the node's report of the cluster.
func (n *Node) view() (view []seen, err error) {
	text, err := n.text("CLUSTER", "NODES")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 8 {
			return nil, fmt.Errorf("CLUSTER NODES at %s: %q", n.Addr(), line)
		}
		flags := "," + fields[2] + ","
		if strings.Contains(flags, ",handshake,") {
			continue
		}
		s := seen{id: fields[0], master: strings.Contains(flags, ",master,"), myself: strings.Contains(flags, ",myself,")}
		if s.epoch, err = strconv.ParseInt(fields[6], 10, 64); err != nil {
			return nil, fmt.Errorf("CLUSTER NODES at %s: %q", n.Addr(), line)
		}
		for _, field := range fields[8:] {
			if strings.HasPrefix(field, "[") {
				continue // a slot that moves now
			}
			from, to, ok := strings.Cut(field, "-")
			if !ok {
				to = from
			}
			first, err := strconv.Atoi(from)
			last, err2 := strconv.Atoi(to)
			if err := errors.Join(err, err2); err != nil {
				return nil, fmt.Errorf("CLUSTER NODES at %s: %w", n.Addr(), err)
			}
			s.slots = append(s.slots, [2]int{first, last})
		}
		view = append(view, s)
	}
	return view, nil
}

func (s seen) has(slot int) bool {
	for _, r := range s.slots {
		if r[0] <= slot && slot <= r[1] {
			return true
		}
	}
	return false
}

// node returns the node with an id.
func (c *Cluster) node(id string) *Node {
	for _, n := range c.nodes {
		if n.ID == id {
			return n
		}
	}
	return nil
}

// Slot returns the slot of a key.
func (c *Cluster) Slot(key string) int {
	c.t.Helper()
	for _, n := range c.nodes {
		if slot, err := n.ask("CLUSTER", "KEYSLOT", key); err == nil {
			return int(slot.(int64))
		}
	}
	c.t.Fatal("no node of the cluster answers")
	return 0
}

// owner returns the node that serves a slot, from the reports of the nodes that
// respond. The newest claim counts. The owner may be down.
func (c *Cluster) owner(slot int) (*Node, error) {
	var best seen
	var errs []error
	for _, n := range c.nodes {
		view, err := n.view()
		errs = append(errs, err)
		for _, s := range view {
			if s.master && s.has(slot) && (best.id == "" || s.epoch > best.epoch) {
				best = s
			}
		}
	}
	if n := c.node(best.id); n != nil {
		return n, nil
	}
	return nil, fmt.Errorf("no node serves slot %d: %w", slot, errors.Join(errs...))
}

// MasterOf returns the node that serves a key, even if the node is down.
func (c *Cluster) MasterOf(key string) *Node {
	c.t.Helper()
	n, err := c.owner(c.Slot(key))
	require.NoError(c.t, err)
	return n
}

// KillMasterOf kills the node that serves a key, like a crash, and returns the node.
func (c *Cluster) KillMasterOf(key string) *Node {
	c.t.Helper()
	n := c.MasterOf(key)
	n.Kill()
	return n
}

// Masters returns the nodes that respond and serve slots.
func (c *Cluster) Masters() (masters []*Node) {
	for _, n := range c.nodes {
		view, err := n.view()
		if err != nil {
			continue
		}
		for _, s := range view {
			if s.myself && s.master && len(s.slots) > 0 {
				masters = append(masters, n)
			}
		}
	}
	return masters
}

// Other returns a master that is not than.
func (c *Cluster) Other(than *Node) *Node {
	c.t.Helper()
	for _, n := range c.Masters() {
		if n != than {
			return n
		}
	}
	c.t.Fatal("the cluster has no other master that answers")
	return nil
}

// WaitOK polls until each slot has a master that responds and reports that the
// cluster is in order. A master counts only if it reports the slot as its own. Other
// nodes still report a dead master as the owner right after its death.
func (c *Cluster) WaitOK() {
	c.t.Helper()
	require.NoError(c.t, until("all slots served", func() (bool, error) {
		var served [kit.Slots]bool
		for _, n := range c.nodes {
			view, err := n.view()
			if err != nil {
				continue // down
			}
			for _, s := range view {
				if !s.myself || !s.master {
					continue
				}
				for _, r := range s.slots {
					for slot := r[0]; slot <= r[1]; slot++ {
						served[slot] = true
					}
				}
			}
			state, err := n.text("CLUSTER", "INFO")
			if err != nil || !strings.Contains(state, "cluster_state:ok") {
				return false, fmt.Errorf("%s: %.40s %w", n.Addr(), state, err)
			}
		}
		for slot, ok := range served {
			if !ok {
				return false, fmt.Errorf("slot %d is not served", slot)
			}
		}
		return true, nil
	}))
}
