package admin_test

import (
	"context"
	"fmt"
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

// endpoint is one that the store has.
func (a *archived) endpoint(id string) *dispatcher.Endpoint {
	a.T.Helper()
	e := redisqtest.Endpoint(id)
	redisqtest.MustCreate(a.T, a.store.Bare().Endpoints, e)
	return e
}

// limit writes the limits of a lane, as a change of its endpoint does, or a pause.
func (a *archived) limit(lane dispatcher.Lane, l dispatcher.LaneLimits) {
	a.T.Helper()
	_, _, err := a.store.Limit(context.Background(), "one", lane, l, false)
	require.NoError(a.T, err)
}

// endpoints are those of a part: id, version, and whether it was deleted.
func endpoints(p archive.Part) (all []string) {
	for _, e := range p.Endpoints {
		all = append(all, fmt.Sprint(e.ID, " ", e.Version, " ", e.Deleted))
	}
	return all
}

func TestEndpointsAreReadPageByPage(t *testing.T) {
	redisqtest.OnBoth(t, func(t *testing.T, server redisqtest.Server) {
		a := newArchived(t, server)
		ctx := t.Context()
		for n := range 100 { // all of the same millisecond
			a.endpoint(fmt.Sprintf("ep_%02d", n))
		}
		got, pages := map[string]archive.Endpoint{}, 0
		for cursor := ""; ; pages++ {
			page, next, err := a.feed.Endpoints(ctx, cursor)
			require.NoError(t, err)
			for _, e := range page {
				require.EqualValues(t, 1, e.Version)
				require.NotEmpty(t, e.Record)
				got[e.ID] = e
			}
			if cursor = next; cursor == "" {
				break
			}
		}
		require.Len(t, got, 100)
		require.Positive(t, pages)
		_, _, err := a.feed.Endpoints(ctx, "no cursor")
		require.ErrorIs(t, err, dispatcher.ErrCursor)
	})
}

func TestAnEndpointThatTheStoreLostWasNotDeleted(t *testing.T) {
	a := newArchived(t, redistest.Share(t))
	ctx, home := t.Context(), a.store.Bare().Conn().ID()
	a.endpoint("ep_there")
	gone, err := a.feed.Deleted(ctx, []archive.Endpoint{
		{ID: "ep_there", Home: home, Version: 1}, {ID: "ep_gone", Home: home, Version: 2}, {ID: "ep_of_a_lost_store", Home: "other", Version: 3},
	})
	require.NoError(t, err)
	require.Equal(t, []archive.Endpoint{{ID: "ep_gone", Home: home, Version: 2, Deleted: true}}, gone)
	require.NoError(t, a.store.Client().Del(ctx, redisqtest.Keys(t, a.store.Client(), a.Options.Project)...).Err())
	gone, err = a.feed.Deleted(ctx, []archive.Endpoint{{ID: "ep_gone", Home: home, Version: 2}})
	require.NoError(t, err)
	require.Empty(t, gone, "the store was emptied")
}

func TestWhatIsPausedIsRead(t *testing.T) {
	a := newArchived(t, redistest.Share(t))
	paused := dispatcher.LaneLimits{Mode: dispatcher.LanePaused, By: "key:ops", Name: "https://a.example shop"}
	for _, lane := range []dispatcher.Lane{"u_a", "ep_a", dispatcher.AllLanes} {
		a.limit(lane, paused)
	}
	holds, err := a.feed.PausedLanes(t.Context(), 0, []archive.PausedLane{{Lane: "u_resumed"}, {Lane: "u_a"}})
	require.NoError(t, err)
	epoch, since := a.state().Epoch, a.Now.Truncate(time.Millisecond)
	require.Equal(t, archive.PausedLanes{Epoch: epoch, Lanes: []archive.PausedLane{
		{Lane: "u_resumed", Epoch: epoch, Resumed: true},
		{Lane: "u_a", Epoch: epoch, Name: "https://a.example shop", Since: since, By: "key:ops"},
		{Lane: dispatcher.AllLanes, Epoch: epoch, Since: since, By: "key:ops"},
	}}, holds, "an endpoint's pause is in its record")
}

func TestAChangeOfAnEndpointIsALineOfTheLog(t *testing.T) {
	a := newArchived(t, redistest.Share(t))
	e := a.endpoint("ep_a")
	a.limit("ep_a", e.Limits())
	a.accept(1, 100)
	p := a.read()
	require.Equal(t, []string{"ep_a 1 false"}, endpoints(p))
	require.Len(t, p.Accepted, 1)
	a.archive(p)
	require.Empty(t, endpoints(a.read()), "once")

	e = redisqtest.NextVersion(e)
	require.NoError(t, a.store.Bare().Endpoints.ChangeEndpoint(t.Context(), e))
	a.limit("ep_a", e.Limits())
	require.Equal(t, []string{"ep_a 2 false"}, endpoints(a.read()))

	end, err := a.store.Bare().Endpoints.DeleteEndpoint(t.Context(), "ep_a")
	require.NoError(t, err)
	a.limit("ep_a", dispatcher.LaneLimits{Version: end, Mode: dispatcher.LaneDeleted})
	require.Equal(t, []string{"ep_a 3 true", "ep_a 3 true"}, endpoints(a.read()), "both lines answer what is so by now")
	require.NoError(t, a.store.Bare().Endpoints.ForgetDeleted(t.Context(), "ep_a"))
	require.Equal(t, []string{"ep_a 3 true"}, endpoints(a.read()), "the store has nothing of it any more, but its line")
}

func TestNothingIsReadBeyondAChangeThatTheEndpointDoesNotHave(t *testing.T) {
	a := newArchived(t, redistest.Share(t))
	a.accept(1, 100)
	a.limit("ep_a", dispatcher.LaneLimits{Version: 1}) // the lane of a new endpoint comes first
	a.accept(1, 100)
	p := a.read()
	require.Equal(t, []any{1, true, false}, []any{len(p.Accepted), p.Waits, p.More})
	a.archive(p)
	at := a.state().At
	p = a.read()
	require.Equal(t, []any{at, true}, []any{p.To, p.Waits})
	a.endpoint("ep_a")
	p = a.read()
	require.Equal(t, []string{"ep_a 1 false"}, endpoints(p))
	require.Equal(t, []any{1, false}, []any{len(p.Accepted), p.Waits})
}

func TestAChangeThatWasNeverMadeIsPassedOver(t *testing.T) {
	a := newArchived(t, redistest.Share(t))
	ctx := t.Context()
	a.limit("ep_a", dispatcher.LaneLimits{Version: 1})
	require.True(t, a.read().Waits)
	_, err := a.store.Bare().ForgetLane(ctx, "one", dispatcher.LaneVersion{Lane: "ep_a", Version: 1}, 0) // its creation failed
	require.NoError(t, err)
	require.False(t, a.read().Waits)
	a.archive(a.read())

	a.limit("ep_b", dispatcher.LaneLimits{Version: 1}) // and its instance died
	require.True(t, a.read().Waits)
	a.Pass(archive.WaitFor + time.Second)
	p := a.read()
	require.False(t, p.Waits)
	require.Empty(t, p.Endpoints)
	require.True(t, p.To.After(p.From))
}

func TestAPauseIsALineOfTheLog(t *testing.T) {
	a := newArchived(t, redistest.Share(t))
	paused := dispatcher.LaneLimits{Mode: dispatcher.LanePaused, By: "key:ops", Name: "https://a.example shop"}
	a.limit("u_a", paused)
	a.limit(dispatcher.AllLanes, paused)
	p := a.read()
	require.Equal(t, []archive.PausedLane{
		{Lane: "u_a", Epoch: p.Epoch, Name: "https://a.example shop", Since: a.Now.Truncate(time.Millisecond), By: "key:ops"},
		{Lane: dispatcher.AllLanes, Epoch: p.Epoch, Since: a.Now.Truncate(time.Millisecond), By: "key:ops"},
	}, p.PausedLanes)
	a.archive(p)
	a.limit("u_a", dispatcher.LaneLimits{})
	a.limit(dispatcher.AllLanes, dispatcher.LaneLimits{})
	p = a.read()
	require.Equal(t, []archive.PausedLane{{Lane: "u_a", Epoch: p.Epoch, Resumed: true}, {Lane: dispatcher.AllLanes, Epoch: p.Epoch, Resumed: true}}, p.PausedLanes)
}

// Only the first partition logs that all lanes are paused, and none does without an archive.
func TestALineIsWrittenOnceAndOnlyForAnArchive(t *testing.T) {
	p := redisqtest.NewProject(t, redistest.Share(t), 3)
	s := p.Open(3)
	lengths := func() (n [3]int64) {
		for i := range n {
			n[i] = p.Client.XLen(t.Context(), keys.Tag(p.Options.Project, i)+keys.Attempts).Val()
		}
		return n
	}
	pause := func() {
		_, _, err := s.Limit(t.Context(), "one", dispatcher.AllLanes, dispatcher.LaneLimits{Mode: dispatcher.LanePaused}, false)
		require.NoError(t, err)
	}
	pause()
	require.Equal(t, [3]int64{}, lengths())
	require.NoError(t, admin.NewFeed(s.Bare()).Begin(t.Context()))
	pause()
	require.Equal(t, [3]int64{1, 0, 0}, lengths())
}

func TestInstancesAreAskedToLookAtTheLog(t *testing.T) {
	a := newArchived(t, redistest.Share(t))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	subscribed, heard, ended := make(chan bool, 1), make(chan dispatcher.EndpointChange, 1), make(chan error, 1)
	go func() {
		ended <- a.store.Bare().Watch(ctx, "one", dispatcher.Subscriber{
			OnGap: func() { subscribed <- true }, OnEndpoint: func(c dispatcher.EndpointChange) { heard <- c },
		})
	}()
	<-subscribed
	require.NoError(t, a.feed.Ask(ctx))
	require.Equal(t, dispatcher.EndpointChange{ID: "-"}, <-heard)
	stop()
	require.NoError(t, <-ended)
}
