package redisq_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// emptiable is a project whose Redis loses its data under an instance.
type emptiable struct {
	*testing.T
	*redisqtest.Project
	store *redisqtest.Raw
	beats int64
}

func newEmptiable(t *testing.T, partitions int) *emptiable {
	p := redisqtest.NewProject(t, redistest.Start(t), partitions)
	p.Options.TestClock = false
	e := &emptiable{T: t, Project: p, store: p.Open(partitions)}
	e.beat(e.store)
	return e
}

func (e *emptiable) beat(s *redisqtest.Raw) {
	e.Helper()
	e.beats++
	_, _, err := s.Beat(e.Context(), "one", e.beats)
	require.NoError(e, err)
}

func (e *emptiable) flush() { require.NoError(e, e.Client.FlushAll(e.Context()).Err()) }

// lanesOf2 is a lane of one of two partitions.
func lanesOf2(partition int) []dispatcher.Lane {
	all := redisqtest.To16(0, 16)
	return all[slices.IndexFunc(all, func(l dispatcher.Lane) bool { return keys.Partition(string(l), 2) == partition }):][:1]
}

// publish is the error of publishing a message to a lane of a partition.
func (e *emptiable) publish(s *redisqtest.Raw, id string, lanes []dispatcher.Lane) error {
	e.Helper()
	out, _, err := s.Schedule(e.Context(), "one", 0, 0, []dispatcher.Entry{e.Entry(id, lanes)})
	require.NoError(e, err)
	return out[0].Err
}

func (e *emptiable) mustBeLost(err error) *dispatcher.Emptied {
	e.Helper()
	var lost *dispatcher.Emptied
	require.ErrorAs(e, err, &lost)
	require.ErrorIs(e, err, dispatcher.ErrUnavailable)
	return lost
}

func TestNothingIsAcceptedAfterTheStoreWasEmptied(t *testing.T) {
	e := newEmptiable(t, 2)
	require.NoError(t, e.publish(e.store, "before", lanesOf2(0)))
	e.flush()
	lost := e.mustBeLost(e.publish(e.store, "after", lanesOf2(0))) // at once, before any beat
	require.Equal(t, []any{true, []int{0, 1}}, []any{lost.Home, lost.Partitions})
	require.Zero(t, e.Client.HLen(t.Context(), keys.Tag(e.Options.Project, 0)+keys.Messages).Val())
	e.mustBeLost(e.publish(e.store, "again", lanesOf2(1)))

	later := e.Open(2) // a restart does not make the loss final
	e.mustBeLost(e.publish(later, "later", lanesOf2(0)))

	require.NoError(t, e.store.Bare().Conn().EndLoss(t.Context(), lost))
	require.NoError(t, e.publish(e.store, "on", lanesOf2(0)))
	e.beat(later) // others continue with their next beat
	require.NoError(t, e.publish(later, "other", lanesOf2(1)))
}

// Home keeps the names of the instances. What one held in another partition is taken over though its
// name was lost: it counts as departed when the loss ends, unless it lives.
func TestLeasesAreTakenOverOfInstancesWhoseNamesWereLost(t *testing.T) {
	e := newEmptiable(t, 2)
	for n, by := range []string{"one", "gone"} {
		_, _, err := e.store.Schedule(t.Context(), by, 512, 512, []dispatcher.Entry{e.Entry("m-"+by, lanesOf2(n))})
		require.NoError(t, err)
		require.EqualValues(t, 1, e.Client.Exists(t.Context(), keys.Tag(e.Options.Project, n)+keys.Leases+by).Val(), "it is leased")
	}
	for _, key := range e.Client.Keys(t.Context(), keys.Home(e.Options.Project)+"*").Val() {
		require.NoError(t, e.Client.Del(t.Context(), key).Err())
	}
	e.beat(e.store)
	lost := e.store.Bare().Emptied()
	require.NotNil(t, lost)
	require.NoError(t, e.store.Bare().EndLoss(t.Context(), lost))
	orphans, err := e.store.Orphans(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"gone"}, orphans)
}

func TestAnInstanceThatHasNothingToDoNoticesThatTheStoreWasEmptied(t *testing.T) {
	e := newEmptiable(t, 1)
	id := e.store.Bare().Conn().ID()
	e.flush()
	e.beat(e.store)
	e.mustBeLost(e.publish(e.store, "m", lanesOf2(0)))
	require.Equal(t, id, e.Client.HGet(t.Context(), keys.Home(e.Options.Project)+keys.Meta, "emptied").Val())
}

// A beat reads home before it compares the partitions. What is lost between the two is lost at home, too.
func TestAStoreThatIsEmptiedWhileItIsComparedLostItsEndpoints(t *testing.T) {
	e := newEmptiable(t, 1)
	c := e.store.Bare().Conn()
	id := c.ID()
	c.Doubt()
	recheck := c.Recheck()
	require.NoError(t, c.At(t.Context(), "read", conn.Home, func(p redis.Pipeliner) { recheck.Read(t.Context(), p) }))
	e.flush()
	require.NoError(t, recheck.Err(t.Context()))
	require.Equal(t, &dispatcher.Emptied{Home: true, Partitions: []int{0}}, e.store.Bare().Emptied())
	require.Equal(t, id, e.Client.HGet(t.Context(), keys.Home(e.Options.Project)+keys.Meta, "emptied").Val(), "the next start knows it")
}

func TestAStoreThatAnotherInstanceBeganAnewWhileItIsComparedLostItsEndpoints(t *testing.T) {
	e := newEmptiable(t, 1)
	c := e.store.Bare().Conn()
	id := c.ID()
	c.Doubt()
	recheck := c.Recheck()
	require.NoError(t, c.At(t.Context(), "read", conn.Home, func(p redis.Pipeliner) { recheck.Read(t.Context(), p) }))
	e.flush()
	e.Open(1)
	require.NoError(t, recheck.Err(t.Context()))
	require.Equal(t, &dispatcher.Emptied{Home: true, Partitions: []int{0}}, e.store.Bare().Emptied())
	require.Equal(t, id, e.Client.HGet(t.Context(), keys.Home(e.Options.Project)+keys.Meta, "emptied").Val())
}

func TestAStoreThatIsEmptiedAtTheEndOfAComparisonIsFoundByTheNextBeat(t *testing.T) {
	e := newEmptiable(t, 1)
	c := e.store.Bare().Conn()
	c.Doubt()
	recheck := c.Recheck()
	require.NoError(t, c.At(t.Context(), "read", conn.Home, func(p redis.Pipeliner) { recheck.Read(t.Context(), p) }))
	e.store.Client().AddHook(&before{"hgetall", sync.OnceFunc(func() {
		e.flush()
		e.Open(1)
	})})
	require.NoError(t, recheck.Err(t.Context()))
	e.beat(e.store)
	require.Equal(t, &dispatcher.Emptied{Home: true, Partitions: []int{0}}, e.store.Bare().Emptied())
}

// Nothing is published to it, and nothing is read.
func TestBeatsNoticeThatAPartitionWasEmptied(t *testing.T) {
	e := newEmptiable(t, 2)
	tag := keys.Tag(e.Options.Project, 1)
	require.NoError(t, e.publish(e.store, "m", lanesOf2(1)))
	require.NoError(t, e.Client.Del(t.Context(), e.Client.Keys(t.Context(), tag+"*").Val()...).Err())
	for range 5 {
		e.beat(e.store)
	}
	require.Equal(t, &dispatcher.Emptied{Partitions: []int{1}}, e.store.Bare().Emptied())
}

// An instance that starts first on the emptied store can't know. One that runs tells it.
func TestAnInstanceThatStartsOnAnEmptiedStoreLearnsItFromAnother(t *testing.T) {
	e := newEmptiable(t, 1)
	e.flush()
	first := e.Open(1)
	require.NoError(t, e.publish(first, "m", lanesOf2(0)))
	e.mustBeLost(e.publish(e.store, "n", lanesOf2(0)))
	e.beat(first)
	e.mustBeLost(e.publish(first, "o", lanesOf2(0)))
}

// A project with epochs had an id, too. A Redis that skips transactions loses both.
func TestAProjectThatLostOnlyItsIDHasLostItsEndpoints(t *testing.T) {
	e := newEmptiable(t, 2)
	require.NoError(t, e.Client.HDel(t.Context(), keys.Home(e.Options.Project)+keys.Meta, "id").Err())
	for range 2 {
		lost := e.Open(2).Emptied()
		require.NotNil(t, lost)
		require.Equal(t, []any{true, 0}, []any{lost.Home, len(lost.Partitions)})
	}
}

// One that was stopped meanwhile takes what was settled for what it is, and calls it no
// other loss.
func TestAnInstanceThatSleptThroughALossTakesItAsSettled(t *testing.T) {
	e := newEmptiable(t, 2)
	slept := e.Open(2)
	e.flush()
	lost := e.mustBeLost(e.publish(e.store, "m", lanesOf2(0)))
	require.NoError(t, e.store.Bare().Conn().EndLoss(t.Context(), lost))
	require.ErrorIs(t, e.publish(slept, "m", lanesOf2(0)), dispatcher.ErrUnavailable)
	require.NoError(t, e.publish(slept, "m", lanesOf2(0)), "it can be repeated")
	e.beat(e.store)
	require.Nil(t, e.store.Bare().Emptied())
}

func TestOnlyThePartitionThatWasEmptiedRefuses(t *testing.T) {
	e := newEmptiable(t, 2)
	tag := keys.Tag(e.Options.Project, 1)
	require.NoError(t, e.publish(e.store, "m", lanesOf2(1)))
	for _, key := range e.Client.Keys(t.Context(), tag+"*").Val() {
		require.NoError(t, e.Client.Del(t.Context(), key).Err())
	}
	lost := e.mustBeLost(e.publish(e.store, "n", lanesOf2(1)))
	require.Equal(t, []any{false, []int{1}}, []any{lost.Home, lost.Partitions})
	require.NoError(t, e.publish(e.store, "o", lanesOf2(0)))
	fan := e.Entry("fan", append(lanesOf2(0), lanesOf2(1)...))
	out, _, err := e.store.Schedule(t.Context(), "one", 0, 0, []dispatcher.Entry{fan})
	require.NoError(t, err)
	e.mustBeLost(out[0].Err)
	_, err = e.store.Read(t.Context(), "fan")
	e.mustBeLost(err) // a fan-out is refused as a whole: nothing of it is there, and its partition can't tell
	_, err = e.store.Read(t.Context(), "o")
	require.NoError(t, err)
	_, err = e.store.Bare().Deliveries.List(t.Context(), dispatcher.Filter{})
	e.mustBeLost(err)

	e.store = e.Open(2) // one that starts finds no epoch where there has to be one
	e.mustBeLost(e.publish(e.store, "n", lanesOf2(1)))
	require.NoError(t, e.publish(e.store, "p", lanesOf2(0)))
}

// Each answer that nothing is there is of the data with which the instance began.
func TestAbsenceIsAnAnswerOfTheStoreThatTheInstanceBeganWith(t *testing.T) {
	lanes := lanesOf2(0)
	lane := lanes[0]
	ctx := t.Context()
	for name, ask := range map[string]func(e *emptiable, s *redisqtest.Raw) error{
		"read": func(_ *emptiable, s *redisqtest.Raw) error { _, err := s.Read(ctx, "m"); return err },
		"list": func(_ *emptiable, s *redisqtest.Raw) error {
			_, err := s.Bare().Deliveries.List(ctx, dispatcher.Filter{})
			return err
		},
		"lanes": func(_ *emptiable, s *redisqtest.Raw) error {
			_, _, err := s.Bare().LaneReader.Lanes(ctx, 10, "")
			return err
		},
		"log": func(_ *emptiable, s *redisqtest.Raw) error {
			_, err := s.Bare().Attempts.ReadLog(ctx, dispatcher.LogFilter{}, 10, "")
			return err
		},
		"ended": func(_ *emptiable, s *redisqtest.Raw) error {
			_, err := s.Bare().Deliveries.Ended(ctx, dispatcher.EndedFilter{Lane: lane, Limit: 9})
			return err
		},
		"cancel": func(_ *emptiable, s *redisqtest.Raw) error {
			_, err := s.Bare().Cancel(ctx, "one", []dispatcher.DeliveryID{{Lane: lane, Message: "m"}})
			return err
		},
		"retry": func(_ *emptiable, s *redisqtest.Raw) error {
			_, err := s.Bare().Retry(ctx, "one", []dispatcher.DeliveryID{{Lane: lane, Message: "m"}}, false)
			return err
		},
		"unmatched": func(e *emptiable, s *redisqtest.Raw) error {
			entry := e.Entry("m", nil)
			entry.Fan = true
			_, err := s.Bare().Deliveries.Standing(ctx, []dispatcher.Entry{entry})
			return err
		},
		"endpoint": func(_ *emptiable, s *redisqtest.Raw) error {
			_, err := s.Bare().Endpoints.Endpoints(ctx, []string{"ep_a"})
			return err
		},
		"uid": func(_ *emptiable, s *redisqtest.Raw) error {
			_, err := s.Bare().Endpoints.EndpointID(ctx, "shop")
			return err
		},
		"tenant": func(_ *emptiable, s *redisqtest.Raw) error {
			_, err := s.Bare().Endpoints.TenantEndpoints(ctx, "shop")
			return err
		},
		"endpoints": func(_ *emptiable, s *redisqtest.Raw) error {
			_, _, err := s.Bare().Endpoints.ListEndpoints(ctx, dispatcher.EndpointFilter{})
			return err
		},
		"versions": func(_ *emptiable, s *redisqtest.Raw) error {
			_, err := s.Bare().Endpoints.EndpointVersions(ctx, []string{"ep_a"})
			return err
		},
		"delete": func(_ *emptiable, s *redisqtest.Raw) error {
			_, err := s.Bare().Endpoints.DeleteEndpoint(ctx, "ep_a")
			return err
		},
		"link": func(_ *emptiable, s *redisqtest.Raw) error { _, err := s.Bare().Access().Link(ctx, "x"); return err },
		"links": func(_ *emptiable, s *redisqtest.Raw) error {
			_, _, err := s.Bare().Access().Links(ctx, 10, "")
			return err
		},
		"revoke": func(_ *emptiable, s *redisqtest.Raw) error { return s.Bare().Access().RevokeLink(ctx, "x") },
	} {
		t.Run(name, func(t *testing.T) {
			e := newEmptiable(t, 2)
			require.NoError(t, e.publish(e.store, "m", lanes))
			e.flush()
			e.T = t
			e.mustBeLost(ask(e, e.store)) // at once: nothing told this instance
			e.mustBeLost(ask(e, e.store))
			require.NoError(t, e.store.Bare().Conn().EndLoss(ctx, e.store.Bare().Emptied()))
			if err := ask(e, e.store); err != nil {
				require.NotErrorIs(t, err, dispatcher.ErrUnavailable)
			}
		})
	}
}

// before is a hook that does something before each script.
type before struct {
	command string
	do      func()
}

func (b *before) DialHook(next redis.DialHook) redis.DialHook { return next }

func (b *before) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (b *before) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			if cmd.Name() == b.command {
				b.do()
			}
		}
		return next(ctx, cmds)
	}
}

// The store is emptied after it was looked at, and before the change reaches it.
func TestAChangeOfWhatWasJustLostFindsTheLoss(t *testing.T) {
	endpoint := redisqtest.Endpoint("ep_a")
	endpoint.Version = 2
	for name, change := range map[string]func(s *redisqtest.Raw) error{
		"change endpoint": func(s *redisqtest.Raw) error { return s.Bare().Endpoints.ChangeEndpoint(t.Context(), endpoint) },
		"delete endpoint": func(s *redisqtest.Raw) error {
			_, err := s.Bare().Endpoints.DeleteEndpoint(t.Context(), "ep_a")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEmptiable(t, 2)
			require.ErrorIs(t, change(e.store), dispatcher.ErrNoEndpoint)
			e.store.Client().AddHook(&before{"evalsha", e.flush})
			e.T = t
			e.mustBeLost(change(e.store))
		})
	}
}

func TestANoticeThatTheStoreWasEmptiedIsTaken(t *testing.T) {
	e := newEmptiable(t, 1)
	e.flush()
	e.beat(e.store)
	entry := e.Entry("news", lanesOf2(0))
	entry.Message.Topic = string(dispatcher.NoticeUnhealthy)
	out, _, err := e.store.Schedule(t.Context(), "one", 0, 0, []dispatcher.Entry{entry})
	require.NoError(t, err)
	require.NoError(t, out[0].Err)
	require.EqualValues(t, 1, e.Client.HLen(t.Context(), keys.Tag(e.Options.Project, 0)+keys.Messages).Val())
}
