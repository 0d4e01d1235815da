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
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/codec"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// A large body lies in :bodies, so that no script but schedule carries it: 4
// MiB through a script hold Redis up for 10 ms. Above stageAbove the body is
// written by plain commands before the script. It is listed in :staged until
// the script makes it the message's. After a crash between the two, trim
// forgets the body.
const stageAbove = 1 << 20

// bodyPart is the part of one call in a body that lies apart.
type bodyPart struct {
	apart bool
	text  []byte // nil: another call carries it
}

func bodyOf(m *dispatcher.Message) bodyPart { return bodyPart{apart: true, text: m.Body} }

// inScript is the number of its bytes that go through the script.
func (b bodyPart) inScript() int {
	if len(b.text) > stageAbove {
		return 0
	}
	return len(b.text)
}

// sign is the letter by which the script knows where the body is.
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

// codeNoBody is schedule's answer for a message whose body is missing: the call
// that should have written it failed.
const codeNoBody = '5'

var errNoBody = fmt.Errorf("its body was not stored: %w", dispatcher.ErrUnavailable)

// stage queues the commands that must run before the script. It answers nil if
// there are none.
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
		ctx := context.Background() // counts of the pipeline itself
		for _, p := range large {
			e := &batch[p.entry]
			field := codec.BodyField(e.Message.ID, e.Digest)
			pipe.ZAdd(ctx, s.tags[partition]+keys.Staged, redis.Z{Score: float64(e.Message.CreatedAt.UnixMilli()), Member: field})
			pipe.HSet(ctx, s.tags[partition]+keys.Bodies, field, p.body.text)
		}
	}
}

// Bounds of reading bodies from one node at a time. A read that waits for its
// turn must not miss the time by which an answer is due.
const (
	readAtOnce      = 4
	readAtOnceBytes = 4 << 20
	bodyWithin      = 5 * time.Second // from its turn on; as for any call of the engine
)

// turns are the turns of one node.
type turns struct{ calls, bytes *semaphore.Weighted }

// readers are the turns of all nodes, by their addresses.
type readers struct{ nodes sync.Map }

func (r *readers) of(node string) *turns {
	if t, ok := r.nodes.Load(node); ok {
		return t.(*turns)
	}
	t, _ := r.nodes.LoadOrStore(node, &turns{semaphore.NewWeighted(readAtOnce), semaphore.NewWeighted(readAtOnceBytes)})
	return t.(*turns)
}

// enter waits for a turn to read size bytes. leave ends the turn.
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

// Body reads a body that lies apart. It waits for its turn as long as ctx
// allows, and then reads within the time of any call.
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
		get = p.HGet(call, s.tags[n]+keys.Bodies, codec.BodyField(id.Message, a.Digest))
	})
	switch {
	case err != nil:
		return nil, s.conn.InPartition(n, err)
	case errors.Is(get.Err(), redis.Nil) || len(get.Val()) != a.Size: // a value of another length is not the body
		return nil, fmt.Errorf("body of %s: %w", id.Message, dispatcher.ErrNotFound)
	}
	return codec.Bytes(get.Val()), nil
}
