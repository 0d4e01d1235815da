package admin_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/admin"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// archivedEndpoint returns an endpoint as an archive has it.
func archivedEndpoint(t *testing.T, s *redisqtest.Raw, id string) archive.Endpoint {
	t.Helper()
	stored, _, err := s.Bare().Endpoints.StoredByID(t.Context(), []string{id})
	require.NoError(t, err)
	return archive.Endpoint{ID: id, Version: 1, Record: stored[0].Record}
}

func TestAnArchiveReplacesNoEndpointThatTheStoreHas(t *testing.T) {
	restoreOnRedis(t, func(t *testing.T, server redistest.Redis) {
		ctx := t.Context()
		before := redisqtest.NewProject(t, server, 1).Open(1)
		s := redisqtest.NewProject(t, server, 1).Open(1)
		target := admin.NewRestoreTarget(s.Bare(), "restore")
		put := func(e archive.Endpoint) error {
			n, err := target.PutEndpoints(ctx, []archive.Endpoint{e}, nil)
			require.Zero(t, n)
			return err
		}
		present := func(id string) *dispatcher.Endpoint {
			found, err := s.Bare().Endpoints.Endpoints(ctx, []string{id})
			require.NoError(t, err)
			return found[0]
		}
		kept := redisqtest.NextVersion(redisqtest.Endpoint("ep_kept"))
		redisqtest.MustCreate(t, s.Bare().Endpoints, kept)

		older := redisqtest.Endpoint("ep_kept")
		older.UID, older.URL = "", "https://before.example/"
		redisqtest.MustCreate(t, before.Bare().Endpoints, older)
		old := archivedEndpoint(t, before, "ep_kept")
		require.NoError(t, put(old), "its id is taken")
		old.Deleted = true
		require.NoError(t, put(old), "it was not deleted in this store")
		require.Equal(t, kept.URL, present("ep_kept").URL)

		other := redisqtest.Endpoint("ep_other")
		other.UID = kept.UID
		redisqtest.MustCreate(t, before.Bare().Endpoints, other)
		require.ErrorIs(t, put(archivedEndpoint(t, before, "ep_other")), dispatcher.ErrTaken)
		require.Error(t, put(archive.Endpoint{ID: "ep_rubbish", Version: 1, Record: []byte("no JSON")}))
		require.Nil(t, present("ep_other"))
		require.Nil(t, present("ep_rubbish"))

		redisqtest.MustDelete(t, s.Bare().Endpoints, "ep_kept")
		old.Deleted = false
		require.NoError(t, put(old))
		require.Nil(t, present("ep_kept"), "what this store deleted is not restored")
	})
}

// The limits of a lane are lost with its partition, and the endpoints with the project's own keys.
func TestALostPartitionGetsTheLimitsOfThePresentEndpoints(t *testing.T) {
	restoreOnRedis(t, func(t *testing.T, server redistest.Redis) {
		ctx := t.Context()
		p := redisqtest.NewProject(t, server, 2)
		s := p.Open(2)
		paused := redisqtest.Endpoint("ep_paused")
		redisqtest.MustCreate(t, s.Bare().Endpoints, paused)
		of := archivedEndpoint(t, s, "ep_paused")
		changed := redisqtest.NextVersion(paused)
		changed.Paused, changed.StoppedBy, changed.StoppedAt = true, "key:ops", time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		require.NoError(t, s.Bare().Endpoints.ChangeEndpoint(ctx, changed))

		for _, key := range redisqtest.Keys(t, s.Client(), p.Options.Project) {
			if strings.HasPrefix(key, keys.Tag(p.Options.Project, keys.Partition("ep_paused", 2))) {
				require.NoError(t, s.Client().Del(ctx, key).Err())
			}
		}
		p.Pass(time.Second)
		_, _, err := s.Beat(ctx, "one", 2)
		require.NoError(t, err)
		target := admin.NewRestoreTarget(s.Bare(), "restore")
		lost, err := target.Emptied(ctx, "", nil)
		require.NoError(t, err)
		require.True(t, lost)
		require.False(t, s.Bare().Emptied().Home)
		require.NoError(t, target.Hold(ctx))
		gone := archive.Endpoint{ID: "ep_gone", Version: 3, Record: of.Record}
		deleted := archive.Endpoint{ID: "ep_deleted", Version: 3, Deleted: true}
		put, err := target.PutEndpoints(ctx, []archive.Endpoint{of, gone, deleted}, nil)
		require.NoError(t, err)
		require.Zero(t, put)
		require.NoError(t, target.Release(ctx))

		states, err := s.Bare().LaneReader.LaneStates(ctx, []dispatcher.Lane{"ep_paused", "ep_gone"})
		require.NoError(t, err)
		require.Equal(t, []any{dispatcher.LanePaused, int64(2)}, []any{states[0].Limits.Mode, states[0].Limits.Version})
		require.Equal(t, []any{"key:ops", changed.StoppedAt}, []any{states[0].By, states[0].Since}, "a pause keeps its author and its time")
		require.Zero(t, states[1].Limits.Version)
	})
}

func TestAStepOfARestoreThatIsNotAnsweredIsReported(t *testing.T) {
	p := redisqtest.NewProject(t, redistest.StartMini(t), 2)
	s := p.Open(2)
	redisqtest.MustCreate(t, s.Bare().Endpoints, redisqtest.Endpoint("ep_a"))
	endpoint := archivedEndpoint(t, s, "ep_a")
	was := lose(t, p)
	target := admin.NewRestoreTarget(p.Open(2).Bare(), "restore")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, step := range map[string]func() error{
		"hold":      func() error { return target.Hold(ctx) },
		"release":   func() error { return target.Release(ctx) },
		"known":     func() error { return target.PutKnown(ctx, was.known) },
		"put":       func() error { _, err := target.Put(ctx, was.open); return err },
		"put dead":  func() error { _, err := target.PutDead(ctx, was.dead); return err },
		"endpoints": func() error { _, err := target.PutEndpoints(ctx, []archive.Endpoint{endpoint}, nil); return err },
		"paused lanes": func() error {
			_, err := target.PutEndpoints(ctx, nil, []archive.PausedLane{{Lane: "u_a", Since: time.Now()}})
			return err
		},
		"lost lanes":    func() error { _, err := target.Lost(ctx); return err },
		"the log":       func() error { _, _, err := target.Epochs(ctx); return err },
		"the lost data": func() error { _, err := target.Emptied(ctx, "another", map[int]string{0: "epoch"}); return err },
	} {
		require.Error(t, step(), name)
	}
}
