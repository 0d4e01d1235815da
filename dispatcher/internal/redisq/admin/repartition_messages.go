package admin

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// Pages of messages. Their bodies are copied through this process, so the bytes copied at
// once are limited too.
const (
	messagesPage  = 256
	carriedAtOnce = 1 << 20 // bytes
)

// othersGone in :fan means lanes that were here and are gone. It belongs to a message
// whose record was cut to the digest, because then their names are not stored.
const othersGone = "-*"

// stored is the entry of a message on a page.
type stored struct {
	id    string
	size  int // of its record
	apart int // of its body, if that is stored separately
	head  string
	lanes []string // from :fan
}

// whole reports whether more than the digest is stored.
func (m stored) whole() bool { return m.size > dispatcher.DigestSize }

func (m stored) digest() string { return m.head[:dispatcher.DigestSize] }

// eachPage reads the messages of a partition. It may return one twice.
func (r *repartition) eachPage(ctx context.Context, n int, do func([]stored) error) error {
	for cursor, server := "0", ""; ; {
		a := r.s.conn.Send(ctx, conn.Batch{Script: pageScript, By: r.by, Calls: []conn.Call{{Partition: n, Args: []any{cursor, messagesPage}}}})[0]
		if a.Err != nil {
			return a.Err
		}
		next := a.Text()
		now := r.s.conn.ServerName(a.Text())
		if cursor != "0" && now != server { // a cursor is valid for one process only
			cursor = "0"
			continue
		}
		cursor, server = next, now
		var page []stored
		for a.More() {
			m := stored{id: a.Text(), size: int(a.Number()), apart: int(a.Number()), head: a.Text()}
			m.lanes = strings.Fields(a.Text())
			if a.Err == nil && len(m.head) < dispatcher.DigestSize {
				a.Err = fmt.Errorf("message %s: %w", m.id, conn.ErrRecord)
			}
			if a.Err == nil && m.whole() && len(m.lanes) == 0 {
				m.lanes = make([]string, 1)
				m.lanes[0], a.Err = conn.OnlyLane(m.id, m.head)
			}
			page = append(page, m)
		}
		if a.Err != nil {
			return fmt.Errorf("partition %d: %w", n, a.Err)
		}
		if err := do(page); err != nil {
			return err
		}
		if cursor == "0" {
			return nil
		}
	}
}

// targets returns the lanes of a message by their new partitions.
func (r *repartition) targets(n int, m stored) map[int][]string {
	to := map[int][]string{}
	for _, name := range m.lanes {
		if name == othersGone {
			for _, n := range r.class(n) {
				to[n] = append(to[n], name)
			}
			continue
		}
		n := r.target(strings.TrimPrefix(name, "-"))
		to[n] = append(to[n], name)
	}
	return to
}

// living counts the lanes that are not gone.
func living(lanes []string) (n int) {
	for _, name := range lanes {
		if !strings.HasPrefix(name, "-") {
			n++
		}
	}
	return n
}

// split is a message that moves.
type split struct {
	stored
	to map[int][]string // its lanes by new partition
}

// moveMessages moves the messages of a partition that have lanes in others. A message
// with lanes in several partitions is copied to each of them, with these lanes.
func (r *repartition) moveMessages(ctx context.Context, n int) error {
	return r.eachPage(ctx, n, func(page []stored) error {
		var batch []split
		bytes := 0
		for _, m := range page {
			if !m.whole() {
				continue // moveIDs has copied it
			}
			to := r.targets(n, m)
			if len(to) == 1 && to[n] != nil {
				continue
			}
			for q, lanes := range to {
				if alive := living(lanes); q != n && alive > 0 {
					r.out.Moved.Messages++
					r.out.Moved.Deliveries += alive
				}
			}
			batch, bytes = append(batch, split{m, to}), bytes+m.size+m.apart
			if bytes >= r.options.bytes {
				if err := r.moveSome(ctx, n, batch); err != nil {
					return err
				}
				batch, bytes = nil, 0
			}
		}
		return r.moveSome(ctx, n, batch)
	})
}

// records reads messages of a partition; nil for a missing one.
func (r *repartition) records(ctx context.Context, n int, ids []string) ([]any, error) {
	var records *redis.SliceCmd
	err := r.s.conn.At(ctx, "read messages", n, func(p redis.Pipeliner) { records = p.HMGet(ctx, r.s.conn.Tag(n)+keys.Messages, ids...) })
	return conn.Value(records), err
}

// moveSome moves some messages of one partition.
func (r *repartition) moveSome(ctx context.Context, n int, batch []split) error {
	if len(batch) == 0 || r.options.DryRun {
		return nil
	}
	ids := make([]string, len(batch))
	for i, m := range batch {
		ids[i] = m.id
	}
	records, err := r.records(ctx, n, ids)
	if err != nil {
		return err
	}
	if err := r.moveBodies(ctx, n, batch); err != nil {
		return err
	}
	puts, keeps := map[int][]any{}, []any{}
	for i, m := range batch {
		record, ok := records[i].(string)
		if !ok {
			continue // it was listed twice, and moved already
		}
		for q, lanes := range m.to {
			if q == n {
				continue
			}
			part := record
			if living(lanes) == 0 {
				part = m.digest()
			}
			puts[q] = append(puts[q], m.id, part, strings.Join(lanes, " "), 0)
		}
		keeps = append(keeps, m.id, strings.Join(m.to[n], " "))
	}
	if err := r.put(ctx, puts); err != nil {
		return err
	}
	return r.s.conn.Send(ctx, conn.Batch{Script: keepScript, By: r.by, Calls: []conn.Call{{Partition: n, Args: keeps}}})[0].Err
}

// moveBodies copies the separately stored bodies to the new partitions of their messages.
// The originals are removed with the records.
func (r *repartition) moveBodies(ctx context.Context, n int, batch []split) error {
	for _, m := range batch {
		if m.apart == 0 {
			continue
		}
		field := m.id + " " + m.digest()
		var body *redis.StringCmd
		err := r.s.conn.At(ctx, "read bodies", n, func(p redis.Pipeliner) { body = p.HGet(ctx, r.s.conn.Tag(n)+keys.Bodies, field) })
		if err != nil {
			return err
		}
		if body.Err() != nil {
			continue // it was listed twice, and moved already
		}
		var copies []conn.Call
		for q, lanes := range m.to {
			if q != n && living(lanes) > 0 {
				copies = append(copies, conn.Call{Partition: q, Fill: func(p redis.Pipeliner) {
					p.HSet(ctx, r.s.conn.Tag(q)+keys.Bodies, field, body.Val())
				}})
			}
		}
		if err := r.trip(ctx, conn.Batch{Doing: "copy bodies", Durable: true, Calls: copies}); err != nil {
			return err
		}
	}
	return nil
}

// putWidth is the number of arguments of repartition_put for a message.
const putWidth = 4

// put writes messages to their new partitions.
func (r *repartition) put(ctx context.Context, puts map[int][]any) error {
	calls := make([]conn.Call, 0, len(puts))
	for n, args := range puts {
		calls = append(calls, conn.Call{Partition: n, Args: args})
	}
	if err := r.trip(ctx, conn.Batch{Script: putScript, By: r.by, Durable: true, Calls: calls}); err != nil {
		return err
	}
	for _, a := range calls {
		for at := 0; at < len(a.Args) && a.Err == nil; at += putWidth {
			if a.Number() == 0 && a.Err == nil {
				return fmt.Errorf("message %v: another one has its id in partition %d", a.Args[at], a.Partition)
			}
		}
		if a.Err != nil {
			return a.Err
		}
	}
	return nil
}

// class returns the new partitions of the lanes of the old partition n. CRC-16 leaves the
// same remainder for the common divisor of both numbers.
func (r *repartition) class(n int) []int {
	step := divisor(r.mark.From, r.mark.To)
	var all []int
	for q := n % step; q < r.mark.To; q += step {
		all = append(all, q)
	}
	return all
}

func divisor(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// moveIDs copies data without a lane to every partition that may need them: the pause of
// all lanes, the dead instances, the mark of a torn partition, and the known ids of
// forgotten messages. The lanes of such an id are not stored, so a repeat must be
// recognized in each partition that its destination may be in.
func (r *repartition) moveIDs(ctx context.Context) error {
	for n := range r.mark.From {
		if !r.options.DryRun {
			if err := r.copyShared(ctx, n); err != nil {
				return err
			}
		}
		if err := r.copyIDs(ctx, n); err != nil {
			return err
		}
		r.report(conn.PhaseIDs, n)
	}
	return nil
}

// copyShared copies all but the ids. What a torn script left half done moves with its lanes, so each
// partition that gets them is marked too, and the next instance repairs it.
func (r *repartition) copyShared(ctx context.Context, n int) error {
	var fenced *redis.ZSliceCmd
	var limits, paused *redis.StringCmd
	var torn *redis.IntCmd
	err := r.s.conn.At(ctx, "read fenced", n, func(p redis.Pipeliner) {
		fenced = p.ZRangeWithScores(ctx, r.s.conn.Tag(n)+keys.Fenced, 0, -1)
		limits, paused = p.HGet(ctx, r.s.conn.Tag(n)+keys.Limits, "*"), p.HGet(ctx, r.s.conn.Tag(n)+keys.Held, "*")
		torn = p.Exists(ctx, r.s.conn.Tag(n))
	})
	if err != nil {
		return err
	}
	var copies []conn.Call
	for q := range r.mark.To {
		if q == n {
			continue
		}
		copies = append(copies, conn.Call{Partition: q, Fill: func(p redis.Pipeliner) {
			if len(fenced.Val()) > 0 {
				p.ZAdd(ctx, r.s.conn.Tag(q)+keys.Fenced, fenced.Val()...)
			}
			if limits.Val() != "" {
				p.HSet(ctx, r.s.conn.Tag(q)+keys.Limits, "*", limits.Val())
			}
			if paused.Val() != "" {
				p.HSet(ctx, r.s.conn.Tag(q)+keys.Held, "*", paused.Val())
			}
			if torn.Val() > 0 && slices.Contains(r.class(n), q) {
				p.Set(ctx, r.s.conn.Tag(q), "-", 0)
			}
		}})
	}
	return r.trip(ctx, conn.Batch{Doing: "copy fenced", Durable: true, Calls: copies})
}

// idsKept returns how many of a partition's ids are copied. If each goes to one partition
// only, all are copied. Otherwise only the newest, so that no new partition gets more
// than its share.
func (r *repartition) idsKept(all int) int {
	step := divisor(r.mark.From, r.mark.To)
	if r.mark.To == step {
		return all
	}
	return min(all, max(conn.ShareOf(r.known, r.mark.To)*step/r.mark.From, 1))
}

// copyIDs copies a partition's ids, newest first. The originals are removed at the end,
// or by a trim.
func (r *repartition) copyIDs(ctx context.Context, n int) error {
	seen := r.s.conn.Tag(n) + keys.Seen
	var size *redis.IntCmd
	if err := r.s.conn.At(ctx, "read "+seen, n, func(p redis.Pipeliner) { size = p.ZCard(ctx, seen) }); err != nil {
		return err
	}
	all := int(size.Val())
	kept := r.idsKept(all)
	r.out.Moved.Forgotten += all - kept
	for start := 0; start < kept; start += int(r.page) {
		var page *redis.ZSliceCmd
		err := r.s.conn.At(ctx, "read "+seen, n, func(p redis.Pipeliner) {
			page = p.ZRevRangeWithScores(ctx, seen, int64(start), int64(min(start+int(r.page), kept)-1))
		})
		if err == nil {
			err = r.copyPageOfIDs(ctx, n, page.Val())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *repartition) copyPageOfIDs(ctx context.Context, n int, page []redis.Z) error {
	ids := make([]string, len(page))
	for i, z := range page {
		ids[i], _ = z.Member.(string)
	}
	if len(ids) == 0 {
		return nil
	}
	records, err := r.records(ctx, n, ids)
	if err != nil {
		return err
	}
	puts := map[int][]any{}
	for i, z := range page {
		record, _ := records[i].(string)
		if len(record) != dispatcher.DigestSize {
			continue // not the id of a forgotten message
		}
		for _, q := range r.class(n) {
			if q != n {
				puts[q] = append(puts[q], ids[i], record, othersGone, int64(z.Score))
				r.out.Moved.IDs++
			}
		}
	}
	if r.options.DryRun {
		return nil
	}
	return r.put(ctx, puts)
}

// clashIDs bounds the ids in memory at once, some 40 bytes each. With more messages they
// are read more than once.
const clashIDs = 1_000_000

// maxClashes is how many messages an error names.
const maxClashes = 5

// mustNotClash returns an error if two messages with one id would be in one partition,
// because only one of them could be kept. Two partitions may have one each, because no
// script reads both.
func (r *repartition) mustNotClash(ctx context.Context) error {
	if r.mark.From == 1 {
		return nil
	}
	total := int64(0)
	for n := range r.mark.From {
		var size *redis.IntCmd
		err := r.s.conn.At(ctx, "read messages", n, func(p redis.Pipeliner) { size = p.HLen(ctx, r.s.conn.Tag(n)+keys.Messages) })
		if err != nil {
			return err
		}
		total += size.Val()
	}
	rounds := uint64(total/clashIDs) + 1
	var clashes []string
	for round := range rounds {
		found, err := r.clashes(ctx, round, rounds)
		if err != nil {
			return err
		}
		clashes = append(clashes, found...)
	}
	if len(clashes) == 0 {
		return nil
	}
	slices.Sort(clashes)
	clashes = slices.Compact(clashes)
	some := strings.Join(clashes[:min(len(clashes), maxClashes)], ", ")
	return fmt.Errorf("%d ids have two messages each, which would be in one partition: %s; "+
		"wait until one of the two is forgotten, or choose another number", len(clashes), some)
}

// clashes checks the messages whose ids belong to one of several rounds.
func (r *repartition) clashes(ctx context.Context, round, rounds uint64) (ids []string, err error) {
	seed := maphash.MakeSeed()
	digests := map[uint64]uint64{} // by id and new partition; the digests are parts of hashes that are long enough
	for n := range r.mark.From {
		err := r.eachPage(ctx, n, func(page []stored) error {
			for _, m := range page {
				if !m.whole() || uint64(keys.CRC16(m.id))%rounds != round {
					continue
				}
				digest := binary.BigEndian.Uint64([]byte(m.digest()))
				for q, lanes := range r.targets(n, m) {
					if living(lanes) == 0 {
						continue
					}
					at := maphash.Comparable(seed, place{m.id, q})
					if other, there := digests[at]; there && other != digest {
						ids = append(ids, m.id)
					}
					digests[at] = digest
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// place is an id in a new partition.
type place struct {
	id        string
	partition int
}
