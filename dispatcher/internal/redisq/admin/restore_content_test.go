package admin_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/admin"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

func TestADeliveryComesBackWithWhatItsReceiverAnswered(t *testing.T) {
	restoreOnRedis(t, func(t *testing.T, server redistest.Redis) {
		ctx := context.Background()
		p := redisqtest.NewProject(t, server, 1)
		first := p.Open(1)
		p.Publish(first, p.Entry("m", []dispatcher.Lane{"u_a"}))
		read, err := admin.NewFeed(first.Bare()).Unfinished(ctx, 0, "")
		require.NoError(t, err)
		page := read.Open
		require.NoError(t, first.Client().Del(ctx, redisqtest.Keys(t, first.Client(), p.Options.Project)...).Err())
		p.Pass(time.Minute)
		failed := func(n, status int, after time.Duration, answer string) archive.Event {
			at := p.Now.Add(after - time.Minute).Truncate(time.Millisecond)
			return archive.Event{ID: page[0].ID, Kind: archive.Retry, At: at.Add(time.Second), Wait: time.Hour, Attempt: dispatcher.Attempt{
				Number: n, At: at, Duration: time.Second, Status: status, Class: dispatcher.ClassStatus, Error: fmt.Sprint("status ", status),
				URL: "https://a.example/", Address: "192.0.2.1:443", Excerpt: []byte(answer),
			}}
		}
		unmade := archive.Event{ID: page[0].ID, Kind: archive.Resent}
		o := page[0]
		o.Attempts, o.Due = 2, p.Now.Add(time.Hour)
		o.History = []archive.Event{unmade, failed(2, 503, 2*time.Second, "two\nlines"), failed(1, 500, 0, "bad answer")}

		s := p.Open(1)
		target := admin.NewRestoreTarget(s.Bare(), "one")
		puts, err := target.Put(ctx, []archive.Open{o})
		require.NoError(t, err)
		require.Equal(t, []archive.Put{archive.PutNew}, puts)
		view, err := s.Bare().Deliveries.Read(ctx, "m")
		require.NoError(t, err)
		d := view.Deliveries[0]
		require.Equal(t, []any{503, "status 503", 2}, []any{d.LastStatus, d.LastError, d.Attempts})
		want := []dispatcher.Attempt{}
		for _, e := range []archive.Event{o.History[2], o.History[1]} {
			a, made := e.Made("")
			require.True(t, made)
			want = append(want, a)
		}
		require.Equal(t, want, d.History)
		states, err := s.Bare().LaneReader.LaneStates(ctx, []dispatcher.Lane{"u_a"})
		require.NoError(t, err)
		require.Equal(t, &dispatcher.LaneFailure{Message: "m", Attempt: want[1]}, states[0].LastFailure, "its lane has it too")
	})
}

func TestPausesComeBackAsTheyWere(t *testing.T) {
	restoreOnRedis(t, func(t *testing.T, server redistest.Redis) {
		ctx := context.Background()
		p := redisqtest.NewProject(t, server, 2)
		s := p.Open(2)
		target := admin.NewRestoreTarget(s.Bare(), "one")
		require.NoError(t, target.Hold(ctx))
		since := p.Now.Add(-time.Hour).Truncate(time.Millisecond)
		p.Pass(time.Minute)
		_, err := target.PutEndpoints(ctx, nil, []archive.PausedLane{
			{Lane: "u_a", Name: "https://a.example shop", Since: since, By: "key:ops"}, {Lane: dispatcher.AllLanes, Since: since, By: "key:ops"},
		})
		require.NoError(t, err)
		require.NoError(t, target.Release(ctx))
		states, err := s.Bare().LaneReader.LaneStates(ctx, []dispatcher.Lane{"u_a", dispatcher.AllLanes})
		require.NoError(t, err)
		require.Equal(t, []any{"https://a.example", "shop", since, "key:ops"}, []any{states[0].URL, states[0].Tenant, states[0].Since, states[0].By})
		require.Equal(t, []any{since, "key:ops", dispatcher.LanePaused}, []any{states[1].Since, states[1].By, states[1].Limits.Mode})
	})
}

func TestAnEndpointThatNeitherHasIsLost(t *testing.T) {
	restoreOnRedis(t, func(t *testing.T, server redistest.Redis) {
		p := redisqtest.NewProject(t, server, 2)
		s := p.Open(2)
		redisqtest.MustCreate(t, s.Bare().Endpoints, redisqtest.Endpoint("ep_there"), redisqtest.Endpoint("ep_deleted"))
		for n, lane := range []dispatcher.Lane{"ep_there", "ep_deleted", "ep_lost", "ep_lost", "u_1"} {
			p.Publish(s, p.Entry(fmt.Sprint("m", n), []dispatcher.Lane{lane}))
		}
		redisqtest.MustDelete(t, s.Bare().Endpoints, "ep_deleted")
		lost, err := admin.NewRestoreTarget(s.Bare(), "one").Lost(t.Context())
		require.NoError(t, err)
		require.Equal(t, map[dispatcher.Lane]int64{"ep_lost": 2}, lost)
	})
}

// A lane that was not lost may be newer than what the archive has of its endpoint. It would take
// no later change of the endpoint, so the endpoint becomes newer still, and what was held or
// deleted stays so.
func TestAnEndpointIsPutBackNewerThanALaneThatOutlivedIt(t *testing.T) {
	restoreOnRedis(t, func(t *testing.T, server redistest.Redis) {
		ctx := t.Context()
		p := redisqtest.NewProject(t, server, 2)
		s := p.Open(2)
		var list []archive.Endpoint
		limit := func(e *dispatcher.Endpoint, mode dispatcher.LaneMode) {
			l := e.Limits()
			l.Mode, l.By = mode, "key:shop"
			_, err := s.Bare().Limit(ctx, "one", e.Lane(), l, false)
			require.NoError(t, err)
		}
		for id, mode := range map[string]dispatcher.LaneMode{"ep_p": dispatcher.LanePaused, "ep_x": dispatcher.LaneDeleted, "ep_n": dispatcher.LaneNormal} {
			e := redisqtest.Endpoint(id)
			e.Headers = []dispatcher.Header{{Name: "X-Token", Value: "t"}, {Name: "X-Sent", Value: "s"}}
			e.Linked, e.HeadersFor = true, map[string]string{"x-token": "https://before.example/"}
			e.TopicsAllowed, e.TopicsGiven = []string{"order.*"}, []string{"order.paid"}
			redisqtest.MustCreate(t, s.Bare().Endpoints, e)
			stored, _, err := s.Bare().Endpoints.StoredByID(ctx, []string{id})
			require.NoError(t, err)
			list = append(list, archive.Endpoint{ID: id, Version: e.Version, Record: stored[0].Record})
			e.Version = 4
			limit(e, mode)
		}
		loseHome(t, p, s)

		target := admin.NewRestoreTarget(p.Open(2).Bare(), "restore")
		lost, err := target.Emptied(ctx, "", nil)
		require.NoError(t, err)
		require.True(t, lost)
		for range 2 { // it may be run again
			require.NoError(t, target.Hold(ctx))
			_, err = target.PutEndpoints(ctx, list, nil)
			require.NoError(t, err)
		}
		require.NoError(t, target.Release(ctx))
		_, _, err = s.Beat(ctx, "one", 2)
		require.NoError(t, err)

		found, err := s.Bare().Endpoints.Endpoints(ctx, []string{"ep_p", "ep_x", "ep_n"})
		require.NoError(t, err)
		require.Nil(t, found[1], "it was deleted")
		require.Equal(t, []any{int64(5), true, "key:shop"}, []any{found[0].Version, found[0].Paused, found[0].StoppedBy})
		require.Equal(t, []any{int64(5), false}, []any{found[2].Version, found[2].Paused})
		for _, e := range []*dispatcher.Endpoint{found[0], found[2]} { // what a link set stays a link's
			require.Equal(t, []any{true, "X-Token", "order.*", "order.paid"}, []any{e.Linked, strings.Join(e.HeldHeaders(), " "), e.TopicsAllowed[0], e.TopicsGiven[0]})
		}
		resumed := redisqtest.NextVersion(found[0])
		resumed.Paused = false
		require.NoError(t, s.Bare().Endpoints.ChangeEndpoint(ctx, resumed))
		limit(resumed, dispatcher.LaneNormal)
		states, err := s.Bare().LaneReader.LaneStates(ctx, []dispatcher.Lane{"ep_p"})
		require.NoError(t, err)
		require.Equal(t, dispatcher.LaneNormal, states[0].Limits.Mode)
	})
}

// loseHome removes the project's own keys, and has an instance notice that.
func loseHome(t *testing.T, p *redisqtest.Project, s *redisqtest.Raw) {
	t.Helper()
	for _, key := range redisqtest.Keys(t, s.Client(), p.Options.Project) {
		if strings.HasPrefix(key, keys.Home(p.Options.Project)) {
			require.NoError(t, s.Client().Del(t.Context(), key).Err())
		}
	}
	_, _, err := s.Beat(t.Context(), "one", 1)
	require.NoError(t, err)
	require.NotNil(t, s.Bare().Emptied())
}

// Until an instance notices that the loss is over, it refuses what needed the lost data.
func TestInstancesNoticeTheEndOfARestore(t *testing.T) {
	restoreOnRedis(t, func(t *testing.T, server redistest.Redis) {
		ctx, stop := context.WithTimeout(t.Context(), kit.Patience)
		defer stop()
		p := redisqtest.NewProject(t, server, 2)
		s := p.Open(2)
		loseHome(t, p, s)
		subscribed, ended := make(chan bool, 1), make(chan error, 1)
		go func() {
			ended <- s.Bare().Watch(ctx, "one", dispatcher.Subscriber{OnGap: func() { subscribed <- true }})
		}()
		<-subscribed
		target := admin.NewRestoreTarget(p.Open(2).Bare(), "restore")
		_, err := target.Emptied(ctx, "", nil)
		require.NoError(t, err)
		require.NoError(t, target.Hold(ctx))
		require.NoError(t, target.Release(ctx))
		require.NoError(t, kit.Until(ctx, "it continues without a beat", func() error { return s.Bare().Intact(context.Background()) }))
		stop()
		require.NoError(t, <-ended)
	})
}

// The line of the log that says so is of no instance, of which the others would learn. A
// restore that is repeated until all is archived would wait for its own line for ever.
func TestInstancesLookAtTheLogAfterARestore(t *testing.T) {
	restoreOnRedis(t, func(t *testing.T, server redistest.Redis) {
		ctx, stop := context.WithTimeout(t.Context(), kit.Patience)
		defer stop()
		p := redisqtest.NewProject(t, server, 2)
		s := p.Open(2)
		subscribed, heard, ended := make(chan bool, 1), make(chan dispatcher.EndpointChange, 1), make(chan error, 1)
		go func() {
			ended <- s.Bare().Watch(ctx, "one", dispatcher.Subscriber{
				OnGap: func() { subscribed <- true }, OnEndpoint: func(c dispatcher.EndpointChange) { heard <- c },
			})
		}()
		<-subscribed
		target := admin.NewRestoreTarget(s.Bare(), "restore")
		require.NoError(t, target.Hold(ctx))
		require.Empty(t, heard)
		require.NoError(t, target.Release(ctx))
		select {
		case <-heard:
		case <-ctx.Done():
			require.FailNow(t, "nobody was asked")
		}
		stop()
		require.NoError(t, <-ended)
	})
}
