package redisq

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// scanKeys is how many keys of the whole database one SCAN looks at: 0.2 ms.
const scanKeys = 1000

// keyring are the keys of one partition that are named after something.
type keyring struct {
	ready     []string // lanes
	behind    []string // <lane>:<key>
	holders   []string
	histories []string // deliveries
}

// plain are the names of a partition's keys that are named after nothing.
var plain = []string{
	keys.Messages, keys.Bodies, keys.Staged, keys.Fan, keys.Due, keys.Marks, keys.Progress, keys.Done, keys.Cancelled, keys.Dead, keys.Seen, keys.Lanes, keys.Parked,
	keys.In, keys.Lane, keys.Limits, keys.Held, keys.Known, keys.LaneNames, keys.Counts, keys.Buried, keys.Ends, keys.Fenced, keys.Attempts, keys.Clock,
}

// readKeys goes through the names of all keys of the project, and tells those
// that nothing explains.
func (d *doctor) readKeys(ctx context.Context) error {
	rings := make([]keyring, len(d.s.tags))
	err := d.eachKey(ctx, "{"+d.s.project+":*", func(key string) {
		number, name, ok := strings.Cut(strings.TrimPrefix(key, "{"+d.s.project+":"), "}")
		n, err := strconv.Atoi(number)
		switch {
		case !ok || err != nil || n < 0 || n >= len(rings):
			d.find(-1, key, "foreign_part", "", false)
		case !rings[n].add(name):
			d.find(n, key, "foreign_key", "", false)
		}
	})
	if err != nil {
		return err
	}
	d.keys = rings
	return d.readHolders(ctx)
}

// add takes a name, and reports whether it is explained.
func (k *keyring) add(name string) bool {
	for prefix, list := range map[string]*[]string{
		keys.Ready: &k.ready, keys.Behind: &k.behind, keys.Leases: &k.holders, keys.History: &k.histories,
	} {
		if of, ok := strings.CutPrefix(name, prefix); ok {
			*list = append(*list, of)
			return true
		}
	}
	return slices.Contains(plain, name)
}

// eachKey goes through the keys that match, of all masters, in pages.
func (d *doctor) eachKey(ctx context.Context, pattern string, do func(key string)) error {
	masters, err := d.s.conn.Masters(ctx)
	if err != nil {
		return err
	}
	for _, master := range masters {
		for page := uint64(0); ; {
			keys, next, err := master.Scan(ctx, page, pattern, scanKeys).Result()
			if err != nil {
				return conn.Failed("read keys", err)
			}
			for _, key := range keys {
				do(key)
			}
			if page = next; page == 0 {
				break
			}
		}
	}
	return nil
}

// readHolders notes which names may hold leases: the instances, and those that have some.
func (d *doctor) readHolders(ctx context.Context) error {
	names, err := d.instances(ctx)
	if err != nil {
		return err
	}
	d.holders = d.holders[:0]
	for name := range names {
		d.holders = append(d.holders, name)
	}
	for _, k := range d.keys {
		d.holders = append(d.holders, k.holders...)
	}
	slices.Sort(d.holders)
	d.holders = slices.Compact(d.holders)
	return nil
}

// instances reads the instances and their numbers.
func (d *doctor) instances(ctx context.Context) (map[string]string, error) {
	var all *redis.MapStringStringCmd
	err := d.s.conn.At(ctx, "read instances", conn.Home, func(p redis.Pipeliner) { all = p.HGetAll(ctx, d.s.instances()) })
	return conn.Value(all), err
}
