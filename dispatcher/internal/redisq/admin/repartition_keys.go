package admin

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/read"
)

// keysBatch is how many keys are moved at once. A history may have some hundred KiB of
// excerpts.
const keysBatch = 100

// keyMove is one key to move.
type keyMove struct {
	name     string // without the tag
	from, to int
	line     bool // a sorted set, otherwise a list

	list *redis.StringSliceCmd // the first page
	set  *redis.ZSliceCmd
}

// read queues the commands that read a page.
func (k *keyMove) read(ctx context.Context, p redis.Pipeliner, r *repartition, start int64) {
	if key := r.s.tags[k.from] + k.name; k.line {
		k.set = p.ZRangeWithScores(ctx, key, start, start+r.page-1)
	} else {
		k.list = p.LRange(ctx, key, start, start+r.page-1)
	}
}

// size returns the number of entries read.
func (k *keyMove) size() int { return len(conn.Value(k.set)) + len(conn.Value(k.list)) }

// write queues the commands that write the page.
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

// moveKeys moves the keys that belong to one lane or one delivery, and the statistics and
// tenants of lanes.
func (r *repartition) moveKeys(ctx context.Context) error {
	var batch []*keyMove
	for key, err := range r.eachKey(ctx) {
		if err != nil {
			return err
		}
		k, of, _ := keys.Explain(key.name)
		if entriesMove(k) && key.partition < len(r.s.tags) {
			if err := r.moveKey(ctx, key.partition, k, of); err != nil {
				return err
			}
		}
		lane := owner(key.name)
		if lane == "" || key.partition >= len(r.s.tags) || r.target(lane) == key.partition {
			continue
		}
		batch = append(batch, &keyMove{name: key.name, from: key.partition, to: r.target(lane), line: k.Type == "zset"})
		if len(batch) == keysBatch {
			if err := r.moveBatch(ctx, batch); err != nil {
				return err
			}
			batch = nil
		}
	}
	return r.moveBatch(ctx, batch)
}

// entriesMove reports whether keys of a kind have entries of several lanes, because they
// are named after a time or a tenant.
func entriesMove(k keys.Kind) bool { return k.Name == keys.Health || k.Name == keys.Tenant }

// owner returns the lane that a key belongs to, or "".
func owner(name string) (lane string) {
	k, of, known := keys.Explain(name)
	if known && k.Named() && k.Name != keys.Leases && k.Of != keys.OfMessage && !entriesMove(k) { // leases belong to an instance
		lane, _, _ = strings.Cut(of, ":")
		lane, _ = read.ShelfLane(lane)
	}
	return lane
}

// moveBatch moves some keys. An existing target was left by a run that did not finish,
// and is replaced. A missing source was listed twice, and its target stays.
func (r *repartition) moveBatch(ctx context.Context, batch []*keyMove) error {
	reads := make([]conn.Call, len(batch))
	for i, k := range batch {
		reads[i] = conn.Call{Partition: k.from, Fill: func(p redis.Pipeliner) { k.read(ctx, p, r, 0) }}
	}
	if err := r.trip(ctx, conn.Batch{Doing: "read keys", Calls: reads}); err != nil {
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
			p.Unlink(ctx, r.s.tags[k.to]+k.name)
			k.write(ctx, p, r.s.tags)
		}})
		removals = append(removals, r.removal(ctx, k))
	}
	if err := r.trip(ctx, conn.Batch{Doing: "copy keys", Durable: true, Calls: copies}); err != nil {
		return err
	}
	if err := r.trip(ctx, conn.Batch{Doing: "remove keys", Calls: removals}); err != nil {
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
	return conn.Call{Partition: k.from, Fill: func(p redis.Pipeliner) { p.Unlink(ctx, r.s.tags[k.from]+k.name) }}
}

// moveLong moves a key of several pages.
func (r *repartition) moveLong(ctx context.Context, k *keyMove) error {
	for start := int64(0); ; start += r.page {
		err := r.s.conn.At(ctx, "read keys", k.from, func(p redis.Pipeliner) { k.read(ctx, p, r, start) })
		if err != nil {
			return err
		}
		if k.size() == 0 {
			break
		}
		err = r.trip(ctx, conn.Batch{Doing: "copy keys", Durable: true, Calls: []conn.Call{{Partition: k.to, Fill: func(p redis.Pipeliner) {
			if start == 0 {
				p.Unlink(ctx, r.s.tags[k.to]+k.name)
			}
			k.write(ctx, p, r.s.tags)
		}}}})
		if err != nil {
			return err
		}
	}
	return r.trip(ctx, conn.Batch{Doing: "remove keys", Calls: []conn.Call{r.removal(ctx, k)}})
}

// errLeft is the error for a key that is still in its old place.
func errLeft(key string) error {
	return fmt.Errorf("%s is still there: something else writes to this project; run it again", key)
}
