package redisq

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/codec"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// Bounds of reading statuses: messages of one call, lanes that the calls of one
// round trip may answer together, and ids that one round trip looks for.
const (
	standBatch = 64
	standLanes = 2048
	findMost   = 16384
)

// stander reads the statuses of a batch's deliveries.
type stander struct {
	s     *Store
	names []any // of the instances
	batch []dispatcher.Entry
	out   []dispatcher.Standing
	told  []map[int][]dispatcher.Delivery // answers of each message by partition, to be told in that order
}

// standing is the work of one call, and how far it came.
type standing struct {
	partition int
	entries   []int // indices in the batch
	lanes     int   // lanes that it may have to answer
	told      int   // lanes of the first entry that were answered before
}

// Standing reads the statuses of messages' deliveries. A message to one
// destination lies in the partition of its lane. A fan-out may have gone to
// other lanes, of endpoints that do not match any more. Plain commands find
// their partitions, and only those are asked by the script.
func (s *Store) Standing(ctx context.Context, batch []dispatcher.Entry) ([]dispatcher.Standing, error) {
	out := make([]dispatcher.Standing, len(batch))
	if len(batch) == 0 {
		return out, nil
	}
	names, err := s.names(ctx)
	if err != nil {
		return nil, err
	}
	lies := make([][]int, len(s.tags)) // entries in each partition, once for each of its lanes
	for i := range batch {
		for _, lane := range batch[i].Lanes {
			n := s.partition(lane)
			lies[n] = append(lies[n], i)
		}
	}
	st := &stander{s: s, names: names, batch: batch, out: out, told: make([]map[int][]dispatcher.Delivery, len(batch))}
	st.findElsewhere(ctx, lies)
	for todo := standings(batch, lies); len(todo) > 0; {
		lanes, some := 0, 0
		for some < len(todo) && (some == 0 || lanes+todo[some].lanes <= standLanes) {
			lanes += todo[some].lanes
			some++
		}
		todo = append(st.ask(ctx, todo[:some]), todo[some:]...)
	}
	absent := false
	for i := range out {
		absent = absent || len(batch[i].Lanes) == 0 && out[i].Err == nil && out[i].Result == 0
		for _, n := range slices.Sorted(maps.Keys(st.told[i])) {
			out[i].Deliveries = append(out[i].Deliveries, st.told[i][n]...)
		}
	}
	if absent { // nothing matches it, and nothing of it is known
		if err := s.conn.IntactAll(ctx); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// findElsewhere adds the partitions that have a fan-out but none of its present
// lanes.
func (st *stander) findElsewhere(ctx context.Context, lies [][]int) {
	s, batch := st.s, st.batch
	var fans []int
	for i := range batch {
		if batch[i].Fan && (len(s.tags) > 1 || len(batch[i].Lanes) == 0) {
			fans = append(fans, i)
		}
	}
	each(len(fans), max(findMost/len(s.tags), 1), func(from, to int) {
		few := fans[from:to]
		sizes := make([][]*redis.IntCmd, len(s.tags))
		err := s.conn.EachPartition(ctx, "find messages", s.all(), func(p redis.Pipeliner, n int) {
			sizes[n] = make([]*redis.IntCmd, len(few))
			for k, i := range few {
				if _, asked := slices.BinarySearch(lies[n], i); !asked {
					sizes[n][k] = p.HStrLen(ctx, s.tags[n]+keys.Messages, batch[i].Message.ID)
				}
			}
		})
		for k, i := range few {
			if err != nil {
				st.out[i].Err = fmt.Errorf("message %s: %w", batch[i].Message.ID, err)
				continue
			}
			for n := range s.tags {
				if conn.Value(sizes[n][k]) > dispatcher.DigestSize {
					at, _ := slices.BinarySearch(lies[n], i)
					lies[n] = slices.Insert(lies[n], at, i)
				}
			}
		}
	})
}

// standings divides the work into calls, by the expected number of lanes.
func standings(batch []dispatcher.Entry, lies [][]int) (todo []standing) {
	for n, list := range lies {
		var next standing
		for k := 0; k < len(list); {
			i := list[k]
			lanes := 0
			for k < len(list) && list[k] == i {
				k, lanes = k+1, lanes+1
			}
			if len(next.entries) > 0 && (len(next.entries) == standBatch || next.lanes+lanes > scheduleLanes) {
				todo, next = append(todo, next), standing{}
			}
			next.partition, next.entries = n, append(next.entries, i)
			next.lanes = min(next.lanes+lanes, scheduleLanes)
		}
		if len(next.entries) > 0 {
			todo = append(todo, next)
		}
	}
	return todo
}

// ask makes the calls in one round trip and answers the work that is left.
func (st *stander) ask(ctx context.Context, todo []standing) (left []standing) {
	calls := make([]conn.Call, len(todo))
	for k, t := range todo {
		args := append(slices.Clip(st.names), t.told)
		for _, i := range t.entries {
			args = append(args, st.batch[i].Message.ID, string(st.batch[i].Digest[:]))
		}
		calls[k] = conn.Call{Partition: t.partition, Args: args}
	}
	for k, r := range st.s.conn.Send(ctx, conn.Batch{Script: st.s.scripts.stand, Calls: calls}) {
		t := todo[k]
		if err := st.read(&t, r); err != nil {
			for _, i := range t.entries {
				st.out[i].Err = cmp.Or(st.out[i].Err, fmt.Errorf("message %s: %w", st.batch[i].Message.ID, st.s.conn.InPartition(t.partition, err)))
			}
		} else if len(t.entries) > 0 {
			left = append(left, t)
		}
	}
	return left
}

// read takes the answer of one call. The work that is left stays in t.
func (st *stander) read(t *standing, r conn.Call) error {
	if _, ok := r.Hint(); !ok {
		return r.Err
	}
	whole, begun := int(r.Number()), int(r.Number())
	list := wordList{text: r.Text()}
	switch {
	case r.Err != nil:
		return r.Err
	case whole < 0 || whole > len(t.entries) || whole == 0 && begun <= t.told: // it would be asked again for ever
		return conn.ErrReply
	}
	for k := 0; list.text != "" && list.err == nil && k < len(t.entries); k++ {
		i := t.entries[k]
		if st.told[i] == nil {
			st.told[i] = make(map[int][]dispatcher.Delivery, 1)
		}
		told := readStanding(&list, st.batch[i].Message, &st.out[i])
		st.told[i][t.partition] = append(st.told[i][t.partition], told...)
	}
	t.entries, t.told, t.lanes = t.entries[whole:], begun, scheduleLanes
	return list.err
}

// readStanding reads one partition's answer about a message. An answer with the
// same content wins over another message of its id elsewhere.
func readStanding(list *wordList, m *dispatcher.Message, out *dispatcher.Standing) (told []dispatcher.Delivery) {
	code, created := list.next(), list.time()
	n, err := strconv.Atoi(list.next())
	if err != nil {
		list.err = conn.ErrReply
	}
	for ; n > 0 && list.err == nil; n-- {
		f := knownDelivery{lane: list.next(), status: list.next(), at: list.time()}
		d := f.delivery(m, m.ID)
		d.Attempts, d.LastStatus = 0, 0 // they were not read
		told = append(told, d)
	}
	switch {
	case list.err != nil:
		return nil
	case code == "2":
		out.Result = dispatcher.Duplicate
		if out.CreatedAt.IsZero() || created.Before(out.CreatedAt) { // lanes that were left out at first were made later
			out.CreatedAt = created
		}
	case code == "3" && out.Result == 0:
		out.Result = dispatcher.Conflict
	}
	return told
}

// digestsBatch is how many ids one call asks for. It reads a MiB of records for
// them at most.
const digestsBatch = 64

// Known asks all partitions which ids they know.
func (s *Store) Known(ctx context.Context, ids []string) ([]bool, error) {
	known := make([]bool, len(ids))
	var calls []conn.Call
	var froms []int
	each(len(ids), digestsBatch, func(from, to int) {
		args := make([]any, 0, to-from)
		for _, id := range ids[from:to] {
			args = append(args, id)
		}
		for _, j := range s.conn.Everywhere(args) {
			calls, froms = append(calls, j), append(froms, from)
		}
	})
	for i, r := range s.conn.Send(ctx, conn.Batch{Script: s.scripts.digests, Calls: calls}) {
		r.Hint()
		for k := range calls[i].Args {
			if r.Err == nil && r.Text() != "" {
				known[froms[i]+k] = true
			}
		}
		if r.Err != nil {
			return nil, fmt.Errorf("known ids: %w", s.conn.InPartition(r.Partition, r.Err))
		}
	}
	return known, nil
}

// Has asks which deliveries are kept whole, in whatever place. Of a delivery that is gone
// its message may still be there, for others.
func (s *Store) Has(ctx context.Context, ids []dispatcher.DeliveryID) ([]bool, error) {
	of := map[int][]int{} // places in ids, by partition
	for i, id := range ids {
		of[s.partition(id.Lane)] = append(of[s.partition(id.Lane)], i)
	}
	asked := slices.Sorted(maps.Keys(of))
	sizes, fans := make([]*redis.IntCmd, len(ids)), make([]*redis.StringCmd, len(ids))
	err := s.conn.EachPartition(ctx, "find deliveries", asked, func(p redis.Pipeliner, n int) {
		for _, i := range of[asked[n]] {
			sizes[i] = p.HStrLen(ctx, s.tags[asked[n]]+keys.Messages, ids[i].Message)
			fans[i] = p.HGet(ctx, s.tags[asked[n]]+keys.Fan, ids[i].Message)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("find deliveries: %w", err)
	}
	has := make([]bool, len(ids))
	for i, id := range ids {
		lanes := strings.Fields(conn.Value(fans[i])) // none: the message has one lane only
		has[i] = conn.Value(sizes[i]) > dispatcher.DigestSize && (len(lanes) == 0 || slices.Contains(lanes, string(id.Lane)))
	}
	return has, nil
}

// Kept asks all partitions for the stored message of an id. It uses plain
// commands: a record is small, and only a caller in conflict asks.
func (s *Store) Kept(ctx context.Context, batch []dispatcher.Entry) ([]*dispatcher.Message, error) {
	kept := make([]*dispatcher.Message, len(batch))
	var err error
	each(len(batch), digestsBatch, func(from, to int) {
		records := make([][]*redis.StringCmd, len(s.tags))
		read := s.conn.EachPartition(ctx, "read messages", s.all(), func(p redis.Pipeliner, n int) {
			records[n] = make([]*redis.StringCmd, to-from)
			for k := range records[n] {
				records[n][k] = p.HGet(ctx, s.tags[n]+keys.Messages, batch[from+k].Message.ID)
			}
		})
		err = cmp.Or(err, read)
		for n := range s.tags {
			for k := range records[n] {
				record, e := conn.Value(records[n][k]), &batch[from+k]
				if len(record) <= dispatcher.DigestSize || record[:dispatcher.DigestSize] == string(e.Digest[:]) || kept[from+k] != nil {
					continue
				}
				kept[from+k], _ = codec.DecodeRecord(e.Message.ID, record) // a record that can't be read counts as none
			}
		}
	})
	return kept, err
}

// compare finds the conflicts among entries with lanes in several partitions.
// Such an entry differs from a message of its id in one of these partitions, or
// earlier in the batch. Nothing of it is written anywhere. Nor is an entry
// written if a partition did not answer. The shares of these entries are taken
// out of the lists.
func (s *Store) compare(ctx context.Context, by string, batch []dispatcher.Entry, lists map[int][]shard, out []dispatcher.ScheduleResult) {
	parts := make([]int, len(batch)) // partitions of each entry
	for _, list := range lists {
		for k, p := range list {
			if k == 0 || list[k-1].entry != p.entry {
				parts[p.entry]++
			}
		}
	}
	var calls []conn.Call
	var shares [][]int
	for n, list := range lists {
		args, share := []any{}, []int{}
		for k, p := range list {
			if parts[p.entry] > 1 && (k == 0 || list[k-1].entry != p.entry) {
				args, share = append(args, batch[p.entry].Message.ID), append(share, p.entry)
			}
		}
		each(len(share), digestsBatch, func(from, to int) {
			calls, shares = append(calls, conn.Call{Partition: n, Args: args[from:to:to]}), append(shares, share[from:to])
		})
	}
	if len(calls) == 0 {
		return
	}
	for i, r := range s.conn.Send(ctx, conn.Batch{Script: s.scripts.digests, By: by, Calls: calls}) {
		r.Hint()
		for _, at := range shares[i] {
			text := ""
			if r.Err == nil {
				text = r.Text()
			}
			switch {
			case r.Err != nil:
				out[at].Err = fmt.Errorf("message %s: %w", batch[at].Message.ID, s.conn.InPartition(r.Partition, r.Err))
			case text != "" && text != string(batch[at].Digest[:]):
				out[at].Result = dispatcher.Conflict
			}
		}
	}
	refuseTwins(batch, parts, out)
	for n, list := range lists {
		lists[n] = slices.DeleteFunc(list, func(p shard) bool {
			return out[p.entry].Err != nil || out[p.entry].Result != 0
		})
	}
}

// refuseTwins marks conflicts within the batch. An entry with lanes in several
// partitions conflicts with an earlier message of its id, since only one of the
// two might be written everywhere.
func refuseTwins(batch []dispatcher.Entry, parts []int, out []dispatcher.ScheduleResult) {
	first := make(map[string]dispatcher.Digest, len(batch))
	for i, e := range batch {
		digest, ok := first[e.Message.ID]
		switch {
		case ok && parts[i] > 1 && digest != e.Digest:
			out[i].Result = dispatcher.Conflict
		case !ok && out[i].Result == 0 && out[i].Err == nil:
			first[e.Message.ID] = e.Digest
		}
	}
}
