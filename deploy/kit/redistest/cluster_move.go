package redistest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/stretchr/testify/require"
)

// MoveSlot moves a slot from one master to another like resharding: key by key, while
// both masters serve it. It calls pause before each key and after the last key, with
// the number of keys moved. pause may be nil.
func (c *Cluster) MoveSlot(slot int, from, to *Node, pause func(moved int)) {
	c.t.Helper()
	if pause == nil {
		pause = func(int) {}
	}
	_, err := to.mustAsk("CLUSTER", "SETSLOT", slot, "IMPORTING", from.ID)
	require.NoError(c.t, err)
	_, err = from.mustAsk("CLUSTER", "SETSLOT", slot, "MIGRATING", to.ID)
	require.NoError(c.t, err)
	moved := 0
	for {
		pause(moved)
		more, err := moveKey(slot, from, to)
		require.NoError(c.t, err)
		if !more {
			break
		}
		moved++
	}
	require.NoError(c.t, c.give(slot, to))
}

// moveKey moves one key of a slot and reports whether there was a key.
func moveKey(slot int, from, to *Node) (bool, error) {
	v, err := from.mustAsk("CLUSTER", "GETKEYSINSLOT", slot, 1)
	if err != nil {
		return false, err
	}
	keys, ok := v.([]any)
	if !ok {
		return false, fmt.Errorf("CLUSTER GETKEYSINSLOT: %v", v)
	}
	if len(keys) == 0 {
		return false, nil
	}
	// MIGRATE returns NOKEY if the key expired in the meantime.
	_, err = from.mustAsk("MIGRATE", "127.0.0.1", to.Port(), keys[0], 0, migrateMillis)
	return true, err
}

// migrateMillis is the timeout for moving one key. Meanwhile the old node serves no
// other command. A move takes a millisecond, or a second on a busy machine.
const migrateMillis = 10_000

// give makes all masters agree on the owner of a slot. The new owner gets the slot
// first, so that the slot always has an owner.
func (c *Cluster) give(slot int, to *Node) error {
	_, err := to.mustAsk("CLUSTER", "SETSLOT", slot, "NODE", to.ID)
	errs := []error{err}
	for _, n := range c.Masters() {
		if n == to {
			continue
		}
		_, err := n.mustAsk("CLUSTER", "SETSLOT", slot, "NODE", to.ID)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Failover replaces the master of a key by one of its replicas in order, and returns
// when the replica is the master.
func (c *Cluster) Failover(key string) *Node {
	c.t.Helper()
	slot := c.Slot(key)
	before, err := c.owner(slot)
	require.NoError(c.t, err)
	var heir *Node
	require.NoError(c.t, until("failover", retrying(func() error {
		// A node that was just restarted counts as failing for a while.
		replica, err := c.replicaOf(before)
		if err == nil {
			_, err = replica.ask("CLUSTER", "FAILOVER")
		}
		return err
	}, func() (bool, error) {
		heir, err = c.owner(slot)
		return err == nil && heir != before, err
	})))
	return heir
}

// replicaOf returns a replica of a master.
func (c *Cluster) replicaOf(master *Node) (*Node, error) {
	text, err := master.text("CLUSTER", "NODES")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) > 3 && fields[3] == master.ID && !strings.Contains(fields[2], "fail") {
			return c.node(fields[0]), nil
		}
	}
	return nil, fmt.Errorf("%s has no replica", master.Addr())
}
