package redisq

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/semaphore"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// A large body is stored in :bodies, so that only schedule passes it through a script. A script
// call with 4 MiB blocks Redis for 10 ms. A body above stageAbove is written by plain commands
// before the script. It is listed in :staged until the script assigns it to the message. If the
// process crashes between the two, trim removes the body.
const stageAbove = 1 << 20

// bodyPart is the share of a body that one call sends to Redis. If apart is set, the body is stored
// outside the record.
type bodyPart struct {
	apart bool
	text  []byte // nil: another call carries it
}

func bodyOf(m *dispatcher.Message) bodyPart { return bodyPart{apart: true, text: m.Body} }

// inScript returns the number of bytes of the body that go through the script.
func (b bodyPart) inScript() int {
	if len(b.text) > stageAbove {
		return 0
	}
	return len(b.text)
}

// sign returns the letter from which the script knows where the body is stored.
func (b bodyPart) sign() string {
	switch {
	case !b.apart:
		return ""
	case b.inScript() > 0:
		return "&"
	default:
		return "="
	}
}

// codeNoBody is returned by schedule for a message whose body is missing, because the call that
// should have written it failed.
const codeNoBody = '5'

var errNoBody = fmt.Errorf("its body was not stored: %w", dispatcher.ErrUnavailable)

// stage returns a function that queues the commands that must run before the script. It returns nil
// if there are none.
func (s *Store) stage(partition int, batch []dispatcher.Entry, list []shard) func(redis.Pipeliner) {
	var large []shard
	for _, p := range list {
		if len(p.body.text) > stageAbove {
			large = append(large, p)
		}
	}
	if large == nil {
		return nil
	}
	return func(pipe redis.Pipeliner) {
		ctx := context.Background() // the commands use the context of the pipeline
		for _, p := range large {
			e := &batch[p.entry]
			field := conn.BodyField(e.Message.ID, e.Digest)
			pipe.ZAdd(ctx, s.conn.Tag(partition)+keys.Staged, redis.Z{Score: float64(e.Message.CreatedAt.UnixMilli()), Member: field})
			pipe.HSet(ctx, s.conn.Tag(partition)+keys.Bodies, field, p.body.text)
		}
	}
}

// Limits for body reads from one node at a time. A read that waits for its turn must not miss its
// deadline.
const (
	readAtOnce      = 4
	readAtOnceBytes = 4 << 20
	bodyWithin      = 5 * time.Second // counted from its turn; the same timeout as for any call of the engine
)

// turns limits the concurrent reads from one node.
type turns struct{ calls, bytes *semaphore.Weighted }

// readers holds the turns of all nodes, by address.
type readers struct{ nodes sync.Map }

func (r *readers) of(node string) *turns {
	if t, ok := r.nodes.Load(node); ok {
		return t.(*turns)
	}
	t, _ := r.nodes.LoadOrStore(node, &turns{semaphore.NewWeighted(readAtOnce), semaphore.NewWeighted(readAtOnceBytes)})
	return t.(*turns)
}

// enter waits for a turn to read size bytes. The caller ends the turn with leave.
func (t *turns) enter(ctx context.Context, size int64) (leave func(), err error) {
	size = min(size, readAtOnceBytes)
	if err := t.calls.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	if err := t.bytes.Acquire(ctx, size); err != nil {
		t.calls.Release(1)
		return nil, err
	}
	return func() {
		t.bytes.Release(size)
		t.calls.Release(1)
	}, nil
}

// Body returns a body that is stored apart from its record. It waits for its turn until ctx ends.
// The read itself has the timeout of any call.
func (s *Store) Body(ctx context.Context, id dispatcher.DeliveryID, a dispatcher.Apart) ([]byte, error) {
	body, err := s.body(ctx, id, a)
	if err != nil && ctx.Err() == nil {
		s.partitions.Fail(err)
	}
	return body, err
}

func (s *Store) body(ctx context.Context, id dispatcher.DeliveryID, a dispatcher.Apart) ([]byte, error) {
	n := s.conn.PartitionOf(id.Lane)
	master, err := s.conn.MasterOf(ctx, n)
	if err != nil {
		return nil, s.conn.InPartition(n, conn.Failed("body of "+id.Message, err))
	}
	leave, err := s.readers.of(master.Options().Addr).enter(ctx, int64(a.Size))
	if err != nil {
		return nil, s.conn.InPartition(n, conn.Failed("body of "+id.Message, err))
	}
	defer leave()
	call, cancel := context.WithTimeout(ctx, bodyWithin)
	defer cancel()
	var get *redis.StringCmd
	err = s.conn.At(call, "body of "+id.Message, n, func(p redis.Pipeliner) {
		get = p.HGet(call, s.conn.Tag(n)+keys.Bodies, conn.BodyField(id.Message, a.Digest))
	})
	switch {
	case err != nil:
		return nil, s.conn.InPartition(n, err)
	case errors.Is(get.Err(), redis.Nil) || len(get.Val()) != a.Size: // a value of another length is not the body
		return nil, fmt.Errorf("body of %s: %w", id.Message, dispatcher.ErrNotFound)
	}
	return conn.BytesOf(get.Val()), nil
}
