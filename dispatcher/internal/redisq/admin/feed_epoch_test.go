package admin_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher/archive"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// swap has another store take the place of the one that is read, before a round trip.
type swap struct {
	before int // which round trip
	met    int
	last   string // the name of the last command of the last one
	do     func()
}

func (s *swap) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (s *swap) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (s *swap) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if s.met == s.before {
			s.do()
		}
		s.met, s.last = s.met+1, cmds[len(cmds)-1].Name()
		return next(ctx, cmds)
	}
}

// Whatever round trip the store is swapped before, what was read is told to be of the
// new one: then nothing of the mixture is kept.
func TestWhatIsReadWhileTheStoreIsSwappedIsNotOfTheOldOne(t *testing.T) {
	log := func(a *archived, from archive.Position) (string, error) {
		part, err := a.feed.Read(context.Background(), 0, from, 1<<20, 1<<30)
		return part.Epoch, err
	}
	unfinished := func(a *archived, _ archive.Position) (string, error) {
		page, err := a.feed.Unfinished(context.Background(), 0, "")
		return page.Open[0].Epoch, err
	}
	ways := map[string]struct {
		size, trips int
		read        func(a *archived, from archive.Position) (string, error)
	}{
		"log": {100, 2, log}, "log of a body that lies apart": {1 << 20, 3, log}, "unfinished": {1 << 20, 2, unfinished},
	}
	for name, way := range ways {
		for trip := range way.trips {
			t.Run(fmt.Sprint(name, trip), func(t *testing.T) {
				a := newArchived(t, redistest.StartMini(t))
				a.accept(1, way.size)
				before := a.state()
				epoch, err := way.read(a, before.At)
				require.NoError(t, err)
				require.Equal(t, before.Epoch, epoch)

				client, key := redisqtest.Open(t, a.Options).Client(), keys.Tag(a.Options.Project, 0)+keys.Limits
				s := &swap{before: trip, do: func() { require.NoError(t, client.HSet(context.Background(), key, keys.Epoch, "another").Err()) }}
				a.store.Client().AddHook(s)
				epoch, err = way.read(a, before.At)
				require.NoError(t, err)
				require.Equal(t, "another", epoch)
				require.Equal(t, way.trips, s.met, "all were tried")
				require.Equal(t, "hget", s.last, "the epoch is read behind what is of it")
			})
		}
	}
}
