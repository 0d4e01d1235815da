package redisq_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// heard is what one instance is told by the others.
type heard struct {
	begun   chan struct{}
	hints   chan redisqtest.Hint
	changes chan dispatcher.EndpointChange
}

// listen makes a store watch until the test ends.
func listen(t *testing.T, s *redisqtest.Raw) heard {
	t.Helper()
	h := heard{make(chan struct{}, 10), make(chan redisqtest.Hint, 10), make(chan dispatcher.EndpointChange, 10)}
	ctx, stop := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() {
		_ = s.Watch(ctx, "listener", redisqtest.Subscriber{
			OnHint: func(hint redisqtest.Hint) { h.hints <- hint },
			Subscriber: dispatcher.Subscriber{
				OnEndpoint: func(c dispatcher.EndpointChange) { h.changes <- c },
				OnGap:      func() { h.begun <- struct{}{} },
			},
		})
	})
	t.Cleanup(func() {
		stop()
		watching.Wait()
	})
	<-h.begun
	return h
}

// publishIn publishes a message to a lane, due after a delay.
func publishIn(t *testing.T, s *redisqtest.Raw, id string, delay time.Duration) (due time.Time) {
	t.Helper()
	m := &dispatcher.Message{ID: id, Topic: "a.b", Body: []byte("{}"), Delay: delay, CreatedAt: time.Now()}
	got, _, err := s.Schedule(t.Context(), "publisher", 0, 0, []dispatcher.Entry{{Message: m, Digest: m.Digest(), Lanes: []dispatcher.Lane{"a"}}})
	require.NoError(t, err)
	require.NoError(t, got[0].Err)
	return got[0].Placed[0].Due
}

// Pub/sub knows no databases. The hint of another deployment for a later time
// would make an instance sleep past its own due times.
func TestDeploymentsInTwoDatabasesOfOneRedisDoNotHearEachOther(t *testing.T) {
	server := redistest.Start(t)
	open := func(database string) *redisqtest.Raw {
		return openTestStore(t, redisq.Options{
			URL: "redis://" + server.Addr() + "/" + database, Project: "same", Partitions: 1, LaneMaxInFlight: 128, Permits: 64,
			Log: slog.New(slog.DiscardHandler),
		})
	}
	mine, others := open("1"), open("2")
	h := listen(t, mine)

	publishIn(t, others, "theirs", time.Hour)
	mustCreate(t, others, testEndpoint("ep_000000002"))
	require.NoError(t, others.Client().Publish(t.Context(), "{same}:wake", "").Err(), "as an instance does that starts")

	due := publishIn(t, mine, "mine", 3*time.Second)
	mustCreate(t, mine, testEndpoint("ep_000000001"))
	require.Equal(t, due, (<-h.hints).Due)
	require.Equal(t, "ep_000000001", (<-h.changes).ID)
	_, err := others.DeleteEndpoint(t.Context(), "ep_000000002")
	require.NoError(t, err)
	_, err = mine.DeleteEndpoint(t.Context(), "ep_000000001")
	require.NoError(t, err)
	require.Equal(t, dispatcher.EndpointChange{ID: "ep_000000001", Tenant: "shop"}, <-h.changes)
	require.Empty(t, h.hints)
}

func TestAProjectKeepsItsID(t *testing.T) {
	p := redisqtest.NewProject(t, redistest.Start(t), 2)
	key := "{" + p.Options.Project + "}:meta"
	p.Open(2)
	id := p.Client.HGet(t.Context(), key, "id").Val()
	require.Regexp(t, `^[0-9a-f]{16}$`, id)
	p.Open(2)
	p.To(4)
	p.Open(4)
	require.Equal(t, id, p.Client.HGet(t.Context(), key, "id").Val(), "a start keeps it, and a repartition")

	require.NoError(t, p.Client.HSet(t.Context(), key, "id", "not one").Err())
	p.Options.Partitions = 4
	_, err := redisq.Open(t.Context(), p.Options)
	require.ErrorContains(t, err, `:meta says "not one" as the project's id`)
}

// A store of an earlier version has no id. It must open even if it is full.
func TestAFullStoreWithoutAnIDGetsOne(t *testing.T) {
	server := redistest.Start(t)
	p := redisqtest.NewProject(t, server, 2)
	p.Open(2)
	key := "{" + p.Options.Project + "}:meta"
	require.NoError(t, p.Client.HDel(t.Context(), key, "id").Err())
	require.NoError(t, p.Client.ConfigSet(t.Context(), "maxmemory", "1").Err())
	p.Open(2)
	require.Regexp(t, `^[0-9a-f]{16}$`, p.Client.HGet(t.Context(), key, "id").Val())
}

// If a store lost everything, the first instance that starts makes another id.
// Running instances take it over with a beat, and read what they missed.
func TestAnInstanceTakesOverTheIDOfAStoreThatWasMadeAnew(t *testing.T) {
	p := redisqtest.NewProject(t, redistest.Start(t), 2)
	p.Options.TestClock = false
	s := p.Open(2)
	beat := func(number int64) {
		_, _, err := s.Beat(t.Context(), "listener", number)
		require.NoError(t, err)
	}
	beat(1)
	h := listen(t, s)
	require.NoError(t, p.Client.FlushAll(t.Context()).Err())
	beat(2)
	require.NoError(t, s.Bare().Conn().EndLoss(t.Context(), s.Bare().Emptied()))
	anew := p.Open(2)
	beat(3)
	<-h.begun
	due := publishIn(t, anew, "m", time.Hour)
	require.Equal(t, due, (<-h.hints).Due)
}
