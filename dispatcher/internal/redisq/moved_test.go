package redisq_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// A process that slept through a repartition knows only the old partitions. It
// must not accept anything into one that is gone.
func TestAnInstanceThatSleptThroughARepartitionAcceptsNothing(t *testing.T) {
	p := redisqtest.NewProject(t, redistest.Start(t), 2)
	accepts := func(s *redisqtest.Raw, id string) error {
		got, _, err := s.Schedule(t.Context(), "one", 0, 0, []dispatcher.Entry{p.Entry(id, redisqtest.To16(0, 1))})
		if err == nil {
			err = got[0].Err
		}
		return err
	}
	publishing, beating, awake := p.Open(2), p.Open(2), p.Open(2)
	for name, s := range map[string]*redisqtest.Raw{"publishing": publishing, "beating": beating} {
		_, _, err := s.Beat(t.Context(), name, 1)
		require.NoError(t, err)
		require.NoError(t, accepts(s, name))
	}
	publishing.Doze(time.Minute)
	require.NoError(t, accepts(publishing, "slept"), "nothing has changed")

	p.To(4)
	require.ErrorIs(t, accepts(publishing, "late"), dispatcher.ErrUnavailable)
	require.ErrorContains(t, publishing.Ping(t.Context()), "start this instance anew", "and not ready either")

	_, _, err := beating.Beat(t.Context(), "beating", 2)
	require.ErrorIs(t, err, dispatcher.ErrUnavailable)
	require.ErrorIs(t, accepts(beating, "later"), dispatcher.ErrUnavailable)

	require.NoError(t, p.Client.HSet(t.Context(), "{"+p.Options.Project+"}:meta", "partitions", 2, "repartition", "2 4 move").Err())
	_, _, err = awake.Beat(t.Context(), "awake", 1)
	require.ErrorContains(t, err, "start this instance anew", "one that has not ended is no better")
	require.Empty(t, p.States(4)[0].Unknown)
}

func TestAnInstanceThatStartsWhileARepartitionOnlyLooksGoesOn(t *testing.T) {
	p := redisqtest.NewProject(t, redistest.Start(t), 2)
	s := p.Open(2)
	require.NoError(t, p.Client.HSet(t.Context(), "{"+p.Options.Project+"}:meta", "repartition", "2 4 begin").Err())
	_, _, err := s.Beat(t.Context(), "one", 1)
	require.NoError(t, err, "it is the repartition that gives up")
}
