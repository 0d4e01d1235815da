package conn

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// Fields of :meta.
const (
	MetaPartitions  = "partitions"
	MetaSchema      = "schema"
	MetaID          = "id"          // random, of the project; prefix of every published message
	MetaRepartition = "repartition" // "<from> <to> <phase>" while a repartition runs
	MetaArchive     = "archive"     // 1: the project has an archive, so all instances log what they accept
	metaEpochs      = "epochs"      // 1: all partitions have epochs
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
	key := c.home + keys.Meta
	have, err := c.ReadMeta(ctx)
	if err == nil && (have[MetaPartitions] == "" || have[MetaSchema] == "") {
		first := max(wanted, 1)
		if wanted == 0 && c.cluster != nil {
			first = clusterPartitions
		}
		err = c.At(ctx, "write "+key, Home, func(p redis.Pipeliner) {
			p.HSetNX(ctx, key, MetaPartitions, first)
			p.HSetNX(ctx, key, MetaSchema, schemaVersion)
		})
		if err == nil {
			have, err = c.ReadMeta(ctx) // another instance may have been first
		}
	}
	if err != nil {
		return 0, err
	}
	if err := c.CheckLayout(have[MetaSchema]); err != nil {
		return 0, err
	}
	if err := underWay(have); err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(have[MetaPartitions])
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%s says %q partitions", key, have[MetaPartitions])
	}
	if wanted != 0 && wanted != n {
		return 0, fmt.Errorf("PARTITIONS=%d, but project %s was made with %d: unset it, or use another PROJECT", wanted, c.options.Project, n)
	}
	c.SetArchives(have[MetaArchive] != "")
	settled := have[metaSettled]
	c.division.settled.Store(&settled)
	c.division.loss.Store(lossOf(have))
	if err := c.identify(ctx, have); err != nil {
		return 0, err
	}
	return n, c.needIndex(ctx, have)
}

// ReadMeta reads :meta.
func (c *Client) ReadMeta(ctx context.Context) (map[string]string, error) {
	key := c.home + keys.Meta
	var have *redis.MapStringStringCmd
	err := c.At(ctx, "read "+key, Home, func(p redis.Pipeliner) { have = p.HGetAll(ctx, key) })
	return Value(have), err
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
