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

// A large body lies in :bodies, so that no script but schedule ever carries it:
// 4 MiB through a script hold Redis up for 10 ms. Above stageAbove even schedule
// does not: the body is written by plain commands before it, and :staged knows
// it until the script made it the message's. A crash between the two leaves a
// body that trim forgets.
const stageAbove = 1 << 20

// bodyPart is what one call brings of a body that lies apart.
type bodyPart struct {
	apart bool
	text  []byte // nil: another call brings it
}

func bodyOf(m *dispatcher.Message) bodyPart { return bodyPart{apart: true, text: m.Body} }

// inScript is how many bytes of it the script is given.
func (b bodyPart) inScript() int {
	if len(b.text) > stageAbove {
		return 0
	}
	return len(b.text)
}

// sign tells the script where the body is.
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

// codeNoBody is what schedule answers for a message whose body is not there: the
// call that should have brought it failed.
const codeNoBody = '5'

var errNoBody = fmt.Errorf("its body was not stored: %w", dispatcher.ErrUnavailable)

// bodyField is the field of :bodies of a message.
func bodyField(id string, digest dispatcher.Digest) string { return id + " " + string(digest[:]) }

// stage queues what has to be written before the script; nil: nothing has.
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
		ctx := context.Background() // the pipeline's own counts
		for _, p := range large {
			e := &batch[p.entry]
			field := bodyField(e.Message.ID, e.Digest)
			pipe.ZAdd(ctx, s.tags[partition]+keys.Staged, redis.Z{Score: float64(e.Message.CreatedAt.UnixMilli()), Member: field})
			pipe.HSet(ctx, s.tags[partition]+keys.Bodies, field, p.body.text)
		}
	}
}

// Bounds of what is read of bodies from one node at a time: a read that waits for
// its turn must not miss the time in which an answer has to be there.
const (
	readAtOnce      = 4
	readAtOnceBytes = 4 << 20
	bodyWithin      = 5 * time.Second // once it has its turn; as any call of the engine
)

// turns are those of one node.
type turns struct{ calls, bytes *semaphore.Weighted }

// readers are the turns of all nodes by their addresses.
type readers struct{ nodes sync.Map }

func (r *readers) of(node string) *turns {
	if t, ok := r.nodes.Load(node); ok {
		return t.(*turns)
	}
	t, _ := r.nodes.LoadOrStore(node, &turns{semaphore.NewWeighted(readAtOnce), semaphore.NewWeighted(readAtOnceBytes)})
	return t.(*turns)
}

// enter waits for a turn to read so many bytes; leave ends it.
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
// allows, and reads within the time that any call has.
func (s *Store) Body(ctx context.Context, id dispatcher.DeliveryID, a dispatcher.Apart) ([]byte, error) {
	body, err := s.body(ctx, id, a)
	if err != nil && ctx.Err() == nil {
		s.partitions.Fail(err)
	}
	return body, err
}

func (s *Store) body(ctx context.Context, id dispatcher.DeliveryID, a dispatcher.Apart) ([]byte, error) {
	n := s.partition(id.Lane)
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
		get = p.HGet(call, s.tags[n]+keys.Bodies, bodyField(id.Message, a.Digest))
	})
	switch {
	case err != nil:
		return nil, s.conn.InPartition(n, err)
	case errors.Is(get.Err(), redis.Nil) || len(get.Val()) != a.Size: // what is not as long is not the body
		return nil, fmt.Errorf("body of %s: %w", id.Message, dispatcher.ErrNotFound)
	}
	return bytesOf(get.Val()), nil
}
