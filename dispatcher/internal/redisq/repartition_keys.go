package redisq

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// partitionKey is a key of a partition: its tag's number, and its name behind
// the tag.
type partitionKey struct {
	partition int
	name      string
}

// keysPage is how many keys one SCAN looks at.
const keysPage = 500

// eachKey goes through all keys of all partitions, also of such that should not
// be. One may come twice, and one that comes or goes meanwhile may be missed.
func (r *repartition) eachKey(ctx context.Context, do func(partitionKey) error) error {
	nodes, err := r.conn.Masters(ctx)
	if err != nil {
		return err
	}
	prefix := "{" + r.project + ":"
	for _, node := range nodes {
		for cursor := uint64(0); ; {
			keys, next, err := node.Scan(ctx, cursor, prefix+"*", keysPage).Result()
			if err != nil {
				return conn.Failed("scan", err)
			}
			for _, key := range keys {
				number, name, ok := strings.Cut(strings.TrimPrefix(key, prefix), "}")
				n, err := strconv.Atoi(number)
				if !ok || err != nil || n < 0 {
					continue // another project's, whose name begins like this one's
				}
				if err := do(partitionKey{n, name}); err != nil {
					return err
				}
			}
			if cursor = next; cursor == 0 {
				break
			}
		}
	}
	return nil
}

// keysBatch is how many keys are moved at a time: a history may hold some
// hundred KiB of excerpts.
const keysBatch = 100

// keyMove is a key on its way.
type keyMove struct {
	name     string // behind the tag
	from, to int
	line     bool // it is a sorted set, else a list

	list *redis.StringSliceCmd // its first page
	set  *redis.ZSliceCmd
}

// read queues the reading of a page.
func (k *keyMove) read(ctx context.Context, p redis.Pipeliner, r *repartition, start int64) {
	if key := r.tags[k.from] + k.name; k.line {
		k.set = p.ZRangeWithScores(ctx, key, start, start+r.page-1)
	} else {
		k.list = p.LRange(ctx, key, start, start+r.page-1)
	}
}

// size is how many entries were read.
func (k *keyMove) size() int { return len(conn.Value(k.set)) + len(conn.Value(k.list)) }

// write queues the writing of what was read.
func (k *keyMove) write(ctx context.Context, p redis.Pipeliner, tags []string) {
	if key := tags[k.to] + k.name; k.line {
		p.ZAdd(ctx, key, k.set.Val()...)
	} else {
		values := make([]any, k.size())
		for i, v := range k.list.Val() {
			values[i] = v
		}
		p.RPush(ctx, key, values...)
	}
}

// moveKeys moves the keys that a lane or a delivery has for itself.
func (r *repartition) moveKeys(ctx context.Context) error {
	var batch []*keyMove
	err := r.eachKey(ctx, func(key partitionKey) error {
		lane, line := owner(key.name)
		if lane == "" || key.partition >= len(r.tags) || r.target(lane) == key.partition {
			return nil
		}
		batch = append(batch, &keyMove{name: key.name, from: key.partition, to: r.target(lane), line: line})
		if len(batch) < keysBatch {
			return nil
		}
		full := batch
		batch = nil
		return r.moveBatch(ctx, full)
	})
	if err != nil {
		return err
	}
	return r.moveBatch(ctx, batch)
}

// owner is the lane that a key belongs to; empty: none.
func owner(name string) (lane string, line bool) {
	for _, prefix := range []string{keys.Ready, keys.History, keys.Behind} {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			lane, _, _ = strings.Cut(rest, ":")
			return lane, prefix == keys.Behind
		}
	}
	return "", false
}

// moveBatch moves some keys. What is there already where one goes was left by a
// run before, which did not get to the end of it. A key that is not here any
// more came twice, and what was moved of it must stay.
func (r *repartition) moveBatch(ctx context.Context, batch []*keyMove) error {
	reads := make([]conn.Call, len(batch))
	for i, k := range batch {
		reads[i] = conn.Call{Partition: k.from, Fill: func(p redis.Pipeliner) { k.read(ctx, p, r, 0) }}
	}
	if err := r.trip(ctx, "read keys", false, reads); err != nil {
		return err
	}
	var copies, removals []conn.Call
	var long []*keyMove
	for _, k := range batch {
		switch k.size() {
		case 0:
			continue
		case int(r.page):
			long = append(long, k)
			continue
		}
		copies = append(copies, conn.Call{Partition: k.to, Fill: func(p redis.Pipeliner) {
			p.Unlink(ctx, r.tags[k.to]+k.name)
			k.write(ctx, p, r.tags)
		}})
		removals = append(removals, r.removal(ctx, k))
	}
	if err := r.trip(ctx, "copy keys", true, copies); err != nil {
		return err
	}
	if err := r.trip(ctx, "remove keys", false, removals); err != nil {
		return err
	}
	for _, k := range long {
		if err := r.moveLong(ctx, k); err != nil {
			return err
		}
	}
	return nil
}

func (r *repartition) removal(ctx context.Context, k *keyMove) conn.Call {
	return conn.Call{Partition: k.from, Fill: func(p redis.Pipeliner) { p.Unlink(ctx, r.tags[k.from]+k.name) }}
}

// moveLong moves a key of several pages.
func (r *repartition) moveLong(ctx context.Context, k *keyMove) error {
	for start := int64(0); ; start += r.page {
		err := r.conn.At(ctx, "read keys", k.from, func(p redis.Pipeliner) { k.read(ctx, p, r, start) })
		if err != nil {
			return err
		}
		if k.size() == 0 {
			break
		}
		err = r.trip(ctx, "copy keys", true, []conn.Call{{Partition: k.to, Fill: func(p redis.Pipeliner) {
			if start == 0 {
				p.Unlink(ctx, r.tags[k.to]+k.name)
			}
			k.write(ctx, p, r.tags)
		}}})
		if err != nil {
			return err
		}
	}
	return r.trip(ctx, "remove keys", false, []conn.Call{r.removal(ctx, k)})
}

// errLeft says that a key is still where nobody will look.
func errLeft(key string) error {
	return fmt.Errorf("%s is still there: something else writes to this project; run it again", key)
}
