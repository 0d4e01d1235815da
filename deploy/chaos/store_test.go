package chaos_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/deploy/kit/redistest"
)

// canaryEvery is how often the canary counts. What it has not seen yet of what
// was forgotten is at most so much.
const canaryEvery = 2 * time.Millisecond

// canaryKey is none of Hookladder's.
const canaryKey = "canary"

// endpointsKey has the records of endpoints.
const endpointsKey = "{default}:endpoints"

// store is a real Redis and a way to it that nothing disturbs.
type store struct {
	t      testing.TB
	h      *history
	server *redistest.Server
	direct *redis.Client
	fsync  string
	name   string // of the partition, where there are several

	quiet sync.RWMutex // held while the store is emptied: the canary must not take that for forgetting

	mu   sync.Mutex  // guards what follows
	acks []time.Time // of the canary's counts, by number
	from int64       // the number before acks[0]
}

func newStore(t testing.TB, h *history, fsync string) *store {
	t.Helper()
	s := &store{t: t, h: h, fsync: fsync, server: redistest.Start(t, append(userSettings(), "appendfsync "+fsync)...)}
	opts, err := redis.ParseURL(s.server.URL())
	require.NoError(t, err)
	opts.MaxRetries = -1
	opts.ContextTimeoutEnabled = true
	s.direct = redis.NewClient(opts)
	t.Cleanup(func() { _ = s.direct.Close() })
	return s
}

// canary counts in the store until ctx ends. With each answer it is known that
// everything answered before is at least as safe as that number: where the
// number goes back, the store forgot what came after.
func (s *store) canary(ctx context.Context) {
	tick := time.NewTicker(canaryEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		call, cancel := context.WithTimeout(ctx, time.Second)
		began := time.Now()
		s.quiet.RLock()
		n, err := s.direct.Incr(call, canaryKey).Result()
		s.quiet.RUnlock()
		cancel()
		if err != nil {
			continue // full, or away
		}
		s.counted(n, began)
	}
}

// counted notes an answer to a count. What was acknowledged before the call
// began lies before it in the store's file.
func (s *store) counted(n int64, began time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.from + int64(len(s.acks))
	if n <= last {
		// The counts behind n-1 were forgotten, and what was written since the last that was not.
		kept := max(n-1-s.from, 0)
		from := time.Time{}
		if kept > 0 {
			from = s.acks[kept-1]
		}
		s.h.with(func() { s.h.forgot = append(s.h.forgot, span{from, began}) })
		s.h.note(note{at: began, who: "canary" + s.name, text: forgetful, n: int(last + 1 - n)})
		s.acks = s.acks[:kept]
	}
	for last = s.from + int64(len(s.acks)); last < n; last++ { // a count whose answer was lost is no later than this one
		s.acks = append(s.acks, began)
	}
}

// empty empties the store, but for the canary.
func (s *store) empty(ctx context.Context) (at time.Time, err error) {
	s.quiet.Lock()
	defer s.quiet.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	count, err := s.direct.Get(ctx, canaryKey).Result()
	if err == nil {
		err = s.direct.FlushAll(ctx).Err()
	}
	at = time.Now()
	if err == nil {
		err = s.direct.Set(ctx, canaryKey, count, 0).Err()
	}
	return at, err
}

// kill ends Redis as a crash would, and starts it again after a while.
func (s *store) kill(ctx context.Context, away time.Duration) {
	s.server.Kill()
	kit.Rest(ctx, away)
	s.server.Restart()
}

// full leaves so much of what it uses now, and everything again when mended.
func (s *store) full(ctx context.Context, share float64) (mend func(), err error) {
	call, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	used, err := s.direct.InfoMap(call, "memory").Result()
	if err != nil {
		return nil, fmt.Errorf("ask for its memory: %w", err)
	}
	var bytes float64
	if _, err := fmt.Sscan(used["Memory"]["used_memory"], &bytes); err != nil {
		return nil, fmt.Errorf("ask for its memory: %w", err)
	}
	if err := s.direct.ConfigSet(call, "maxmemory", fmt.Sprint(max(int64(bytes*share), 1<<20))).Err(); err != nil {
		return nil, fmt.Errorf("limit its memory: %w", err)
	}
	return func() {
		for ctx.Err() == nil && s.direct.ConfigSet(ctx, "maxmemory", "0").Err() != nil {
			kit.Rest(ctx, 50*time.Millisecond)
		}
	}, nil
}
