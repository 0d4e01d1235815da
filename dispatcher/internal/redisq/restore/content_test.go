package restore_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/feed"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/restore"
)

func TestADeliveryComesBackWithWhatItsReceiverAnswered(t *testing.T) {
	onBoth(t, func(t *testing.T, server redistest.Redis) {
		ctx := context.Background()
		p := redisqtest.NewProject(t, server, 1)
		first := p.Open(1)
		p.Publish(first, p.Entry("m", []dispatcher.Lane{"u_a"}))
		read, err := feed.New(first.Bare()).Unfinished(ctx, 0, "")
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
		target := restore.New(s.Bare(), "one")
		puts, err := target.Put(ctx, []archive.Open{o})
		require.NoError(t, err)
		require.Equal(t, []archive.Put{archive.PutNew}, puts)
		view, err := s.Bare().Read(ctx, "m")
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
	})
}

func TestPausesComeBackAsTheyWere(t *testing.T) {
	onBoth(t, func(t *testing.T, server redistest.Redis) {
		ctx := context.Background()
		p := redisqtest.NewProject(t, server, 2)
		s := p.Open(2)
		target := restore.New(s.Bare(), "one")
		require.NoError(t, target.Hold(ctx))
		since := p.Now.Add(-time.Hour).Truncate(time.Millisecond)
		p.Pass(time.Minute)
		_, err := target.PutEndpoints(ctx, nil, []archive.Hold{
			{Lane: "u_a", Name: "https://a.example shop", Since: since, By: "key:ops"}, {Lane: dispatcher.AllLanes, Since: since, By: "key:ops"},
		})
		require.NoError(t, err)
		require.NoError(t, target.Release(ctx))
		states, err := s.Bare().LaneStates(ctx, []dispatcher.Lane{"u_a", dispatcher.AllLanes})
		require.NoError(t, err)
		require.Equal(t, []any{"https://a.example", "shop", since, "key:ops"}, []any{states[0].URL, states[0].Tenant, states[0].Since, states[0].By})
		require.Equal(t, []any{since, "key:ops", dispatcher.HeldPaused}, []any{states[1].Since, states[1].By, states[1].Limits.Held})
	})
}

func TestAnEndpointThatNeitherHasIsLost(t *testing.T) {
	onBoth(t, func(t *testing.T, server redistest.Redis) {
		p := redisqtest.NewProject(t, server, 1)
		s := p.Open(1)
		redisqtest.MustCreate(t, s.Bare(), redisqtest.Endpoint("ep_there"), redisqtest.Endpoint("ep_deleted"))
		redisqtest.MustDelete(t, s.Bare(), "ep_deleted")
		lost, err := restore.New(s.Bare(), "one").Lost(context.Background(), []dispatcher.Lane{"ep_there", "ep_deleted", "ep_lost"})
		require.NoError(t, err)
		require.Equal(t, []dispatcher.Lane{"ep_lost"}, lost)
	})
}
