// Package admin checks and changes all stored data of a project. Examine is the doctor:
// it checks the data and repairs them while instances work. Repartition moves a project
// to another number of partitions while no instance runs. SealEndpoints and SealMessages
// encrypt with a new key. The commands of cmd/hookladder call them.
//
// All read the keys with one walker, by the table keys.Kinds, and count in one way.
//
// A JobStore keeps jobs and runs their steps (jobs.go). A job's record has the project's own
// hash tag. The progress in a partition is kept in that partition and is written by the script
// that makes the step. So a crash between two steps loses no count, and the partitions refuse a
// holder that was replaced.
//
// A Feed reads the log of a store for an archive, and reports to the store how far it is archived
// (feed.go). It reads the messages that the log names. At the start, and after a gap, it reads
// all unfinished deliveries. A RestoreTarget puts the data of an archive back into a store that
// lost them (restore.go).
package admin

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// projectStore is the store of a project: the queue, the endpoints, and their connection.
type projectStore struct {
	*redisq.Store
	conn *conn.Client
}

func newStore(s *redisq.Store) *projectStore { return &projectStore{s, s.Conn()} }

func (s *projectStore) instances() string { return s.conn.Tag(conn.Home) + keys.Instances }

// Limits of a walk. A page of keys is the number of keys of the whole database that one
// SCAN reads, in 0.2 ms. A page of entries takes about as long.
const (
	keysAtOnce    = 1000
	entriesAtOnce = 1000
)

// walker reads all data of a project while instances may work.
type walker struct {
	s       *projectStore
	by      string    // the name of the caller in scripts
	rings   []keyring // by partition
	holders []string  // all names that may have leases
}

// keyring has the keys of one partition with a second part in their names. It maps each
// kind to these parts.
type keyring map[string][]string

// located is a key with its partition.
type located struct {
	whole     string
	partition int    // -1: none
	name      string // without the tag
}

// eachKey yields all keys of all partitions, including unknown ones. It may yield a key twice.
// It may miss a key that is added or removed during the walk.
func (w *walker) eachKey(ctx context.Context) iter.Seq2[located, error] {
	prefix := "{" + w.s.conn.Project() + ":"
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

// matching yields the keys that match, on all masters.
func (w *walker) matching(ctx context.Context, pattern string) iter.Seq2[string, error] {
	return w.s.conn.KeyNames(ctx, pattern, keysAtOnce)
}

// entry is a field of a hash with its value, or a member of a sorted set with its score.
type entry struct{ name, value string }

// pages yields a hash or a sorted set of a partition, or of conn.Home, in pages of about
// count entries. An entry may come twice. A list, which is short, is one page.
func (w *walker) pages(ctx context.Context, partition int, k keys.Kind, of string, count int64) iter.Seq2[[]entry, error] {
	key := w.s.conn.Tag(partition) + k.Name + of
	return func(yield func([]entry, error) bool) {
		if k.Type == "list" {
			var list *redis.StringSliceCmd
			err := w.s.conn.At(ctx, "read "+key, partition, func(p redis.Pipeliner) { list = p.LRange(ctx, key, 0, -1) })
			page := make([]entry, 0, len(conn.Value(list)))
			for _, element := range conn.Value(list) {
				page = append(page, entry{name: element})
			}
			yield(page, err)
			return
		}
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

// entries yields the entries of pages, one by one.
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

// named returns the second parts of the names of a kind's keys in a partition; one empty part if they have none.
func (w *walker) named(partition int, k keys.Kind) []string {
	if k.Named() {
		return w.rings[partition][k.Name]
	}
	return []string{""}
}

// readRings reads the second parts of all key names, and calls strange for each unknown
// key, with the kind foreign_part or foreign_key.
func (w *walker) readRings(ctx context.Context, strange func(key located, kind string)) error {
	rings := make([]keyring, w.s.conn.Partitions())
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
		case key.name == "": // the mark of a torn partition
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

// readHolders reads the names that may have leases: the instances, and all names with
// leases.
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

// numbers reads the heartbeat numbers of the instances. An invalid number counts as no
// heartbeat.
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
func (w *walker) call(ctx context.Context, sc conn.Script, partition int, args ...any) (*conn.Reply, error) {
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

// lanesOf returns the lanes with data in a partition, sorted. The time of a lane's next
// check does not count as data.
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
