package admin

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// Limits of the reads of messages. A record has at most 16 KiB, so that a command returns 1 MiB.
// Bodies stored apart have up to 4 MiB.
const (
	recordsAtOnce  = 64
	commandsAtOnce = 8
	bodiesAtOnce   = 2
)

// records reads the messages that the part names.
func (r *passage) records(ctx context.Context) error {
	tag, apart := r.f.conn.Tag(r.part.Partition), []*apartBody(nil)
	for some := range slices.Chunk(r.part.Accepted, recordsAtOnce*commandsAtOnce) {
		commands := make([]*redis.SliceCmd, 0, commandsAtOnce)
		about, err := r.f.readAt(ctx, "read messages", r.part.Partition, func(p redis.Pipeliner) {
			commands = commands[:0]
			for few := range slices.Chunk(some, recordsAtOnce) {
				ids := make([]string, len(few))
				for i, a := range few {
					ids[i] = a.ID
				}
				commands = append(commands, p.HMGet(ctx, tag+keys.Messages, ids...))
			}
		})
		if err != nil {
			return err
		}
		r.part.Epoch = about.epoch
		for i := range some {
			record, _ := commands[i/recordsAtOnce].Val()[i%recordsAtOnce].(string)
			if a := &some[i]; r.take(a, record) && a.Message.Apart != nil {
				apart = append(apart, &apartBody{id: a.ID, digest: a.Message.Apart.Digest, to: &a.Body})
			}
		}
	}
	return r.f.readApart(ctx, r.part.Partition, apart, &r.part.Epoch)
}

// take adds the record of a message, and reports whether the record can be read.
func (r *passage) take(a *archive.Accepted, record string) bool {
	head, body, err := conn.SplitRecord(a.ID, record)
	if err == nil {
		a.Head = head
		if a.Message, err = conn.DecodeRecord(a.ID, record); err == nil && a.Message.Apart == nil {
			a.Body, a.Message.Body = body, nil
		}
	}
	if err != nil {
		r.part.Missing++
	}
	return err == nil
}

// apartBody is a body to be read that is stored apart from its record.
type apartBody struct {
	id     string
	digest dispatcher.Digest
	to     *[]byte // stays nil if the body is gone
}

// readApart reads bodies of one partition. If there are any, it then reads the epoch of the
// partition.
func (f *Feed) readApart(ctx context.Context, partition int, list []*apartBody, epoch *string) error {
	key := f.conn.Tag(partition) + keys.Bodies
	for some := range slices.Chunk(list, bodiesAtOnce) {
		bodies := make([]*redis.StringCmd, len(some))
		about, err := f.readAt(ctx, "read bodies", partition, func(p redis.Pipeliner) {
			for i, b := range some {
				bodies[i] = p.HGet(ctx, key, conn.BodyField(b.id, b.digest))
			}
		})
		if err != nil {
			return err
		}
		*epoch = about.epoch
		for i, b := range some {
			if bodies[i].Err() == nil {
				*b.to = []byte(conn.Value(bodies[i]))
			}
		}
	}
	return nil
}
