package redisq_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
)

// Many bodies that are read at once over a slow connection would all miss the
// time by which an answer is due. A body larger than the limit of all is read
// alone.
func TestBodiesAreReadFourOrFourMiBAtATime(t *testing.T) {
	const all = 10
	for name, c := range map[string]struct {
		size int64
		want int
	}{"small ones": {64 << 10, 4}, "of one MiB": {1 << 20, 4}, "of one and a half": {3 << 19, 2}, "of five": {5 << 20, 1}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var readers redisq.Readers
				leaves := make(chan func(), all)
				for range all {
					go func() {
						if leave, err := readers.Enter(t.Context(), "a", c.size); err == nil {
							leaves <- leave
						}
					}()
				}
				synctest.Wait()
				require.Len(t, leaves, c.want)
				leave, err := readers.Enter(t.Context(), "b", c.size)
				require.NoError(t, err, "another node has turns of its own")
				leave()
				for left := all - 1; left >= 0; left-- {
					(<-leaves)()
					synctest.Wait()
					require.Len(t, leaves, min(c.want, left))
				}
			})
		})
	}
}

// A read that was given up has no turn any more.
func TestAReadThatIsGivenUpTakesNoTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var readers redisq.Readers
		whole, err := readers.Enter(t.Context(), "a", 4<<20)
		require.NoError(t, err)
		for range 8 {
			hurry, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err = readers.Enter(hurry, "a", 1)
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		whole()
		for range 4 {
			_, err := readers.Enter(t.Context(), "a", 1<<20)
			require.NoError(t, err)
		}
	})
}

// crowd is a hook that holds reads of bodies until so many have begun.
type crowd struct {
	wanted int
	there  chan struct{} // closed when they have

	mu        sync.Mutex
	now, most int
}

func (c *crowd) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *crowd) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (c *crowd) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if cmds[0].Name() != "hget" {
			return next(ctx, cmds)
		}
		c.count(1)
		defer c.count(-1)
		<-c.there
		return next(ctx, cmds)
	}
}

func (c *crowd) count(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.most
	c.now += n
	c.most = max(c.most, c.now)
	if before < c.wanted && c.most == c.wanted {
		close(c.there)
	}
}

func TestAStoreReadsFourBodiesAtATime(t *testing.T) {
	const n = 12
	r := newTrap(t)
	var batch []dispatcher.Entry
	for i := range n {
		e := r.entry("a", fmt.Sprintf("m%02d", i), 0)
		bulky(e.Message)
		e.Digest = e.Message.Digest()
		batch = append(batch, e)
	}
	r.schedule(batch...)
	c := &crowd{wanted: 4, there: make(chan struct{})}
	r.store.Client().AddHook(c)
	var reads errgroup.Group
	for _, e := range batch {
		reads.Go(func() error {
			id := dispatcher.DeliveryID{Lane: "a", Message: e.Message.ID}
			text, err := r.store.Body(t.Context(), id, dispatcher.Apart{Size: len(e.Message.Body), Digest: e.Digest})
			if err == nil && len(text) != len(e.Message.Body) {
				err = fmt.Errorf("%d bytes of %d", len(text), len(e.Message.Body))
			}
			return err
		})
	}
	require.NoError(t, reads.Wait())
	require.Equal(t, 4, c.most)
}
