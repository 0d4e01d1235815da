package redistest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/stretchr/testify/require"
)

// MoveSlot moves a slot from one master to another as resharding does: key by
// key, while both serve it. pause is called before each key and after the last,
// with how many have moved. It may be nil.
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

// moveKey moves one key of a slot and reports whether there was one.
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
	// The answer is NOKEY where the key ended meanwhile.
	_, err = from.mustAsk("MIGRATE", "127.0.0.1", to.Port(), keys[0], 0, migrateMillis)
	return true, err
}

// migrateMillis bounds how long a key may be on its way, while its old node
// answers nothing else. It takes a millisecond, or a second on a busy machine.
const migrateMillis = 10_000

// give makes all masters agree on the owner of a slot: the new owner first, so
// that the slot always has one.
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

// Failover makes a replica of the master that serves a key take its place in
// order, and returns when it has.
func (c *Cluster) Failover(key string) *Node {
	c.t.Helper()
	slot := c.Slot(key)
	before, err := c.owner(slot)
	require.NoError(c.t, err)
	var heir *Node
	require.NoError(c.t, until("failover", retrying(func() error {
		// One that was just started again counts as failing for a while.
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

// replicaOf is a node that follows another.
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
