package admin

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/script"
)

// Bounds of a walk. A page of keys is those of the whole database that one SCAN
// looks at: 0.2 ms. A page of entries is read with as little delay for others.
const (
	keysAtOnce    = 1000
	entriesAtOnce = 1000
)

// walker goes through all that a project keeps, while others may work.
type walker struct {
	s       *projectStore
	by      string    // as which it calls scripts
	rings   []keyring // of each partition
	holders []string  // all that may hold leases
}

// keyring are the keys of one partition that are named after something, by the
// names of their kinds: what each is named after.
type keyring map[string][]string

// located is a key of a partition.
type located struct {
	whole     string
	partition int    // -1: it is of none
	name      string // behind the tag
}

// eachKey goes through all keys of all partitions, also of such that should not
// be. One may come twice, and one that comes or goes meanwhile may be missed.
func (w *walker) eachKey(ctx context.Context) iter.Seq2[located, error] {
	prefix := "{" + w.s.project + ":"
	return func(yield func(located, error) bool) {
		for key, err := range w.matching(ctx, prefix+"*") {
			at := located{whole: key, partition: -1}
			number, name, ok := strings.Cut(strings.TrimPrefix(key, prefix), "}")
			if n, wrong := strconv.Atoi(number); ok && wrong == nil && n >= 0 {
				at.partition, at.name = n, name
			}
			if !yield(at, err) || err != nil {
				return
			}
		}
	}
}

// matching goes through the keys that match, of all masters.
func (w *walker) matching(ctx context.Context, pattern string) iter.Seq2[string, error] {
	return w.s.conn.KeyNames(ctx, pattern, keysAtOnce)
}

// entry is a field of a hash with its text, or a member of a sorted set with its
// score.
type entry struct{ name, value string }

// pages goes through a hash or a sorted set of a partition, or of conn.Home, in pages
// of about so many. An entry may come twice.
func (w *walker) pages(ctx context.Context, partition int, k keys.Kind, of string, count int64) iter.Seq2[[]entry, error] {
	key := w.s.conn.Tag(partition) + k.Name + of
	return func(yield func([]entry, error) bool) {
		for cursor, more := "", true; more; more = cursor != "" {
			found, next, err := w.s.conn.Scan(ctx, "read "+key, partition, cursor, func(p redis.Pipeliner, at uint64) *redis.ScanCmd {
				if k.Type == "hash" {
					return p.HScan(ctx, key, at, "", count)
				}
				return p.ZScan(ctx, key, at, "", count)
			})
			if err != nil {
				yield(nil, err)
				return
			}
			cursor = next
			page := make([]entry, 0, len(found)/2)
			for i := 0; i+1 < len(found); i += 2 {
				page = append(page, entry{found[i], found[i+1]})
			}
			if !yield(page, nil) {
				return
			}
		}
	}
}

// entries goes through what pages reads, one by one.
func (w *walker) entries(ctx context.Context, partition int, k keys.Kind, of string) iter.Seq2[entry, error] {
	return func(yield func(entry, error) bool) {
		for page, err := range w.pages(ctx, partition, k, of, entriesAtOnce) {
			if err != nil {
				yield(entry{}, err)
				return
			}
			for _, e := range page {
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}

// readRings reads which keys are named after something, and tells of each key
// that nothing explains: foreign_part or foreign_key.
func (w *walker) readRings(ctx context.Context, strange func(key located, kind string)) error {
	rings := make([]keyring, len(w.s.tags))
	for n := range rings {
		rings[n] = keyring{}
	}
	for key, err := range w.eachKey(ctx) {
		if err != nil {
			return err
		}
		k, of, known := keys.Explain(key.name)
		switch {
		case key.partition < 0 || key.partition >= len(rings):
			strange(key, "foreign_part")
		case !known:
			strange(key, "foreign_key")
		case k.Named():
			rings[key.partition][k.Name] = append(rings[key.partition][k.Name], of)
		}
	}
	for _, ring := range rings {
		for name, list := range ring {
			slices.Sort(list)
			ring[name] = slices.Compact(list)
		}
	}
	w.rings = rings
	return w.readHolders(ctx)
}

// readHolders notes which names may hold leases: the instances, and those that have some.
func (w *walker) readHolders(ctx context.Context) error {
	numbers, err := w.numbers(ctx)
	if err != nil {
		return err
	}
	w.holders = w.holders[:0]
	for name := range numbers {
		w.holders = append(w.holders, name)
	}
	for _, ring := range w.rings {
		w.holders = append(w.holders, ring[keys.Leases]...)
	}
	slices.Sort(w.holders)
	w.holders = slices.Compact(w.holders)
	return nil
}

// numbers reads the instances and the numbers that they beat. What is no number
// does not grow.
func (w *walker) numbers(ctx context.Context) (map[string]int64, error) {
	var all *redis.MapStringStringCmd
	err := w.s.conn.At(ctx, "read instances", conn.Home, func(p redis.Pipeliner) { all = p.HGetAll(ctx, w.s.instances()) })
	numbers := map[string]int64{}
	for name, text := range conn.Value(all) {
		numbers[name], _ = strconv.ParseInt(text, 10, 64)
	}
	return numbers, err
}

// call runs a script of doctor.lua in one partition.
func (w *walker) call(ctx context.Context, sc script.Script, partition int, args ...any) (*conn.Reply, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", sc.Name, err)
	}
	all := make([]any, 0, 1+len(w.holders)+len(args))
	all = append(all, len(w.holders))
	for _, name := range w.holders {
		all = append(all, name)
	}
	r := w.s.conn.Send(ctx, conn.Batch{Script: sc, By: w.by, Calls: []conn.Call{{Partition: partition, Args: append(all, args...)}}})[0]
	r.Hint()
	return &r.Reply, r.Err
}

// lanesOf are the lanes of which a partition keeps something, but a note of when
// to look at them, in their order.
func (w *walker) lanesOf(ctx context.Context, partition int) ([]string, error) {
	var lanes []string
	for _, k := range keys.Kinds {
		switch k.Of {
		case keys.OfLane, keys.OfLanes:
			if k.Name == keys.Known || k.Named() {
				continue
			}
			for e, err := range w.entries(ctx, partition, k, "") {
				if err != nil {
					return nil, err
				}
				lanes = append(lanes, e.name)
			}
		}
	}
	ring := w.rings[partition]
	lanes = append(lanes, ring[keys.Ready]...)
	for _, set := range ring[keys.Behind] {
		lane, _, _ := strings.Cut(set, ":")
		lanes = append(lanes, lane)
	}
	slices.Sort(lanes)
	return slices.DeleteFunc(slices.Compact(lanes), keys.IsNoLane), nil
}
