package conn

import (
	"context"
	"fmt"
	"strconv"
)

// clusterPartitions is the number of partitions of an empty store in a cluster. Their
// hashes spread them over the masters with a difference of at most 10 %.
const clusterPartitions = 128

// schemaVersion is the layout of the keys in this version, as in :meta. A project with
// another layout is not changed.
const schemaVersion = "6"

// Agree returns the number of partitions and stores the project's id. The first start
// fixes the number, because every lane's partition depends on it. It writes only to an
// empty store, because one whose memory is full must be opened too.
func (c *Client) Agree(ctx context.Context, wanted int) (int, error) {
	have, err := c.ReadMeta(ctx)
	if err == nil && (have.partitions == "" || have.Schema == "") {
		first := max(wanted, 1)
		if wanted == 0 && c.cluster != nil {
			first = clusterPartitions
		}
		err = c.writeMeta(ctx, metaChange{fields: []any{metaPartitions, first, metaSchema, schemaVersion}})
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
