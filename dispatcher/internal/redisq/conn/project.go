package conn

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// An empty store in a cluster gets as few partitions as possible, because a call of a script costs as
// much for one message as for several, and a batch of messages is divided by partitions.
const (
	leastPartitions = 12
	mostPartitions  = 1024 // as of PARTITIONS
)

// firstPartitions returns the number of partitions of an empty store.
func (c *Client) firstPartitions(ctx context.Context) (int, error) {
	if c.cluster == nil {
		return 1, nil
	}
	var masters atomic.Int64
	err := c.cluster.ForEachMaster(ctx, func(context.Context, *redis.Client) error {
		masters.Add(1)
		return nil
	})
	if err != nil {
		return 0, Failed("find the masters", err)
	}
	return evenPartitions(int(masters.Load()), func(n int) (string, error) {
		master, err := c.cluster.MasterForKey(ctx, keys.Tag(c.options.Project, n))
		if err != nil {
			return "", Failed("find the masters", err)
		}
		return master.Options().Addr, nil
	})
}

// evenPartitions returns the first number of partitions with which the busiest master has at most a
// quarter more than an equal share. The hash of its name puts a partition on its master, so the
// numbers are tried.
func evenPartitions(masters int, masterOf func(partition int) (string, error)) (partitions int, err error) {
	has, most := map[string]int{}, 0
	for n := 1; n < mostPartitions; n++ {
		master, err := masterOf(n - 1)
		if err != nil {
			return 0, err
		}
		has[master]++
		most = max(most, has[master])
		if n >= leastPartitions && 4*most*masters <= 5*n {
			return n, nil
		}
	}
	return mostPartitions, nil // the more, the more even
}

// schemaVersion is the layout of the keys in this version, as in :meta. A project with
// another layout is not changed.
const schemaVersion = "6"

// Agree returns the number of partitions and stores the project's id. The first start
// fixes the number, because every lane's partition depends on it. It writes only to an
// empty store, because one whose memory is full must be opened too.
func (c *Client) Agree(ctx context.Context, wanted int) (int, error) {
	have, err := c.ReadMeta(ctx)
	if err == nil && (have.partitions == "" || have.Schema == "") {
		first := wanted
		if first == 0 {
			first, err = c.firstPartitions(ctx)
		}
		if err == nil {
			err = c.writeMeta(ctx, metaChange{fields: []any{metaPartitions, first, metaSchema, schemaVersion}})
		}
		if err == nil {
			have, err = c.ReadMeta(ctx) // another instance may have been first
		}
	}
	if err != nil {
		return 0, err
	}
	if err := c.CheckLayout(have.Schema); err != nil {
		return 0, err
	}
	if err := underWay(have); err != nil {
		return 0, err
	}
	n, err := have.Partitions()
	if err != nil {
		return 0, err
	}
	if wanted != 0 && wanted != n {
		return 0, fmt.Errorf("PARTITIONS=%d, but project %s was made with %d: unset it, or use another PROJECT", wanted, c.options.Project, n)
	}
	c.SetArchives(have.Archive)
	c.division.settled.Store(&have.settled)
	c.division.loss.Store(have.Loss)
	if err := c.identify(ctx, have); err != nil {
		return 0, err
	}
	return n, c.needIndex(ctx, have)
}

// CheckLayout returns an error for a layout of the keys that this version does not know.
func (c *Client) CheckLayout(schema string) error {
	known, _ := strconv.Atoi(schemaVersion)
	switch n, err := strconv.Atoi(schema); {
	case schema == schemaVersion:
		return nil
	case err == nil && n < known:
		return fmt.Errorf("the keys of project %s have the older layout %s, this version knows %s only: stop all older instances and use another PROJECT, "+
			"or an empty database; let the older version finish its deliveries first", c.options.Project, schema, schemaVersion)
	default:
		return fmt.Errorf("the keys of project %s have layout %q, this version knows %s only: start the newer version that made them", c.options.Project, schema, schemaVersion)
	}
}
