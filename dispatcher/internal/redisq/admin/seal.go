package admin

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/codec"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// SealEndpoints has all endpoints sealed anew with the first key, and their lanes
// told. tell is called for each that was not yet.
func SealEndpoints(ctx context.Context, s *redisq.Store, tell func(id string, err error)) error {
	return s.SealEndpoints(ctx, func(e *dispatcher.Endpoint) error {
		_, err := s.Limit(ctx, doctorName, e.Lane(), e.Limits(), false)
		return err
	}, tell)
}

// sealPage is how many records one call reads: each has 16 KiB at most.
const sealPage = 32

// SealMessages has the headers of all messages sealed anew with the first key. It
// answers how many were not yet. fail is called for each that can't be opened.
func SealMessages(ctx context.Context, queue *redisq.Store, fail func(err error)) (sealed int, err error) {
	s := newStore(queue)
	for n, tag := range s.tags {
		for cursor, more := "", true; more; more = cursor != "" {
			found, next, err := s.conn.Scan(ctx, "read messages", n, cursor, func(p redis.Pipeliner, at uint64) *redis.ScanCmd {
				return p.HScan(ctx, tag+keys.Messages, at, "", sealPage)
			})
			if err != nil {
				return sealed, err
			}
			cursor = next
			some, err := s.sealSome(ctx, n, found, fail)
			if sealed += some; err != nil {
				return sealed, err
			}
		}
	}
	return sealed, nil
}

// sealSome seals what is left of some messages, each behind its id. One that changed
// meanwhile is cut or gone: a record is written once.
func (s *projectStore) sealSome(ctx context.Context, n int, found []string, fail func(error)) (sealed int, err error) {
	var calls []conn.Call
	for i := 0; i+1 < len(found); i += 2 {
		record, err := codec.SealRecord(found[i], found[i+1], s.Box())
		if err != nil {
			fail(err)
		}
		if record != found[i+1] {
			calls = append(calls, conn.Call{Partition: n, Args: []any{0, found[i], found[i+1], record}})
		}
	}
	for _, r := range s.conn.Send(ctx, conn.Batch{Script: s.scripts.putRecord, By: doctorName, Calls: calls}) {
		r.Hint()
		sealed += int(r.Number())
		if r.Err != nil {
			return sealed, s.conn.InPartition(n, r.Err)
		}
	}
	return sealed, nil
}
