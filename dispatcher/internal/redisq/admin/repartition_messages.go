package admin

import (
	"context"
	"fmt"
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
		a := r.s.conn.Send(ctx, conn.Batch{Script: r.s.scripts.page, By: r.by, Calls: []conn.Call{{Partition: n, Args: []any{cursor, messagesPage}}}})[0]
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
	err := r.s.conn.At(ctx, "read messages", n, func(p redis.Pipeliner) { records = p.HMGet(ctx, r.s.tags[n]+keys.Messages, ids...) })
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
	return r.s.conn.Send(ctx, conn.Batch{Script: r.s.scripts.keep, By: r.by, Calls: []conn.Call{{Partition: n, Args: keeps}}})[0].Err
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
		err := r.s.conn.At(ctx, "read bodies", n, func(p redis.Pipeliner) { body = p.HGet(ctx, r.s.tags[n]+keys.Bodies, field) })
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
					p.HSet(ctx, r.s.tags[q]+keys.Bodies, field, body.Val())
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
	if err := r.trip(ctx, conn.Batch{Script: r.s.scripts.put, By: r.by, Durable: true, Calls: calls}); err != nil {
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
