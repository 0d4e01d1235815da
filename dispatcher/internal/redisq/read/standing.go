package read

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// Limits for reading statuses: the messages of one call, the lanes that the calls of one round
// trip may return together, and the ids that one round trip searches.
const (
	standBatch  = 64
	standLanes  = 2048
	findMost    = 16384
	lanesAtOnce = 64 // of one message in one call, same as in schedule
)

// stander reads the statuses of a batch's deliveries.
type stander struct {
	s     *Deliveries
	names []any // of the instances
	batch []dispatcher.Entry
	out   []dispatcher.Standing
	found []map[int][]dispatcher.Delivery // replies about each message by partition; they are returned in that order
}

// standing is the work of one call, with its progress.
type standing struct {
	partition int
	entries   []int // indices in the batch
	lanes     int   // maximum number of lanes to return
	returned  int   // lanes of the first entry that earlier calls returned
}

// Standing returns the statuses of messages' deliveries. A message to one destination is in
// the partition of its lane. A fan-out may have deliveries in other lanes, of endpoints that
// do not match any more. Plain commands find their partitions, and the script queries only
// these.
func (s *Deliveries) Standing(ctx context.Context, batch []dispatcher.Entry) ([]dispatcher.Standing, error) {
	out := make([]dispatcher.Standing, len(batch))
	if len(batch) == 0 {
		return out, nil
	}
	names, err := InstanceNames(ctx, s.conn)
	if err != nil {
		return nil, err
	}
	lies := make([][]int, s.conn.Partitions()) // entries in each partition, once for each lane
	for i := range batch {
		for _, lane := range batch[i].Lanes {
			n := s.conn.PartitionOf(lane)
			lies[n] = append(lies[n], i)
		}
	}
	st := &stander{s: s, names: names, batch: batch, out: out, found: make([]map[int][]dispatcher.Delivery, len(batch))}
	st.findElsewhere(ctx, lies)
	for todo := standings(lies); len(todo) > 0; {
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
		for _, n := range slices.Sorted(maps.Keys(st.found[i])) {
			out[i].Deliveries = append(out[i].Deliveries, st.found[i][n]...)
		}
	}
	if absent { // it matches no endpoint, and the store does not know it
		if err := s.conn.IntactAll(ctx); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// findElsewhere adds the partitions that have a fan-out but none of its present lanes.
func (st *stander) findElsewhere(ctx context.Context, lies [][]int) {
	s, batch := st.s, st.batch
	var fans []int
	for i := range batch {
		if batch[i].Fan && (s.conn.Partitions() > 1 || len(batch[i].Lanes) == 0) {
			fans = append(fans, i)
		}
	}
	conn.Each(len(fans), max(findMost/s.conn.Partitions(), 1), func(from, to int) {
		few := fans[from:to]
		sizes := make([][]*redis.IntCmd, s.conn.Partitions())
		err := s.conn.EachPartition(ctx, "find messages", s.conn.All(), func(p redis.Pipeliner, n int) {
			sizes[n] = make([]*redis.IntCmd, len(few))
			for k, i := range few {
				if _, asked := slices.BinarySearch(lies[n], i); !asked {
					sizes[n][k] = p.HStrLen(ctx, s.conn.Tag(n)+keys.Messages, batch[i].Message.ID)
				}
			}
		})
		for k, i := range few {
			if err != nil {
				st.out[i].Err = fmt.Errorf("message %s: %w", batch[i].Message.ID, err)
				continue
			}
			for n := range s.conn.Partitions() {
				if conn.Value(sizes[n][k]) > dispatcher.DigestSize {
					at, _ := slices.BinarySearch(lies[n], i)
					lies[n] = slices.Insert(lies[n], at, i)
				}
			}
		}
	})
}

// standings divides the work into calls, by the expected number of lanes.
func standings(lies [][]int) (todo []standing) {
	for n, list := range lies {
		var next standing
		for k := 0; k < len(list); {
			i := list[k]
			lanes := 0
			for k < len(list) && list[k] == i {
				k, lanes = k+1, lanes+1
			}
			if len(next.entries) > 0 && (len(next.entries) == standBatch || next.lanes+lanes > lanesAtOnce) {
				todo, next = append(todo, next), standing{}
			}
			next.partition, next.entries = n, append(next.entries, i)
			next.lanes = min(next.lanes+lanes, lanesAtOnce)
		}
		if len(next.entries) > 0 {
			todo = append(todo, next)
		}
	}
	return todo
}

// ask sends the calls in one round trip and returns the remaining work.
func (st *stander) ask(ctx context.Context, todo []standing) (left []standing) {
	calls := make([]conn.Call, len(todo))
	for k, t := range todo {
		args := append(slices.Clip(st.names), t.returned)
		for _, i := range t.entries {
			args = append(args, st.batch[i].Message.ID, string(st.batch[i].Digest[:]))
		}
		calls[k] = conn.Call{Partition: t.partition, Args: args}
	}
	for k, r := range st.s.conn.Send(ctx, conn.Batch{Script: standScript, Calls: calls}) {
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

// read parses the reply of one call. The remaining work stays in t.
func (st *stander) read(t *standing, r conn.Call) error {
	if _, ok := r.Hint(); !ok {
		return r.Err
	}
	whole, begun := int(r.Number()), int(r.Number())
	list := conn.Words{Text: r.Text()}
	switch {
	case r.Err != nil:
		return r.Err
	case whole < 0 || whole > len(t.entries) || whole == 0 && begun <= t.returned: // otherwise it would be queried again for ever
		return conn.ErrReply
	}
	for k := 0; list.Text != "" && list.Err == nil && k < len(t.entries); k++ {
		i := t.entries[k]
		if st.found[i] == nil {
			st.found[i] = make(map[int][]dispatcher.Delivery, 1)
		}
		found := readStanding(&list, st.batch[i].Message, &st.out[i])
		st.found[i][t.partition] = append(st.found[i][t.partition], found...)
	}
	t.entries, t.returned, t.lanes = t.entries[whole:], begun, lanesAtOnce
	return list.Err
}

// readStanding parses one partition's reply about a message. A reply with the same content has
// priority over another message with its id in another partition.
func readStanding(list *conn.Words, m *dispatcher.Message, out *dispatcher.Standing) (found []dispatcher.Delivery) {
	code, created := list.Next(), list.Time()
	n, err := strconv.Atoi(list.Next())
	if err != nil {
		list.Err = conn.ErrReply
	}
	for ; n > 0 && list.Err == nil; n-- {
		f := knownDelivery{lane: list.Next(), status: list.Next(), at: list.Time()}
		d := f.delivery(m, m.ID)
		d.Attempts, d.LastStatus = 0, 0 // they were not read
		found = append(found, d)
	}
	switch {
	case list.Err != nil:
		return nil
	case code == "2":
		out.Result = dispatcher.Duplicate
		if out.CreatedAt.IsZero() || created.Before(out.CreatedAt) { // lanes that were left out at first were created later
			out.CreatedAt = created
		}
	case code == "3" && out.Result == 0:
		out.Result = dispatcher.Conflict
	}
	return found
}
