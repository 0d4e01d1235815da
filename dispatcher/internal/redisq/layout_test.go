package redisq_test

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/admin"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

func TestAStoreOfAnotherLayoutIsRefusedNamingTheCure(t *testing.T) {
	p := redisqtest.NewProject(t, redistest.Start(t), 2)
	meta := "{" + p.Options.Project + "}:meta"
	p.Open(2)
	for layout, cure := range map[string]string{
		"5":    "older layout 5, this version knows 6 only: stop all older instances and use another PROJECT",
		"7":    "start the newer version that made them",
		"x\ny": `layout "x\ny"`,
	} {
		require.NoError(t, p.Client.HSet(t.Context(), meta, "schema", layout).Err())
		_, err := redisq.Open(t.Context(), p.Options)
		require.ErrorContains(t, err, cure)
		_, err = admin.Repartition(t.Context(), p.Options, admin.RepartitionOptions{To: 4})
		require.ErrorContains(t, err, cure)
	}
}

// A process that runs on while a newer version changes the store would read
// unknown texts, and begin ladders anew.
func TestAnInstanceWhoseStoreGotAnotherLayoutStops(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	subscribe := func(t *testing.T, s *redisqtest.Raw) {
		heard := make(chan struct{}, 1)
		watching, stop := context.WithCancel(t.Context())
		var watch sync.WaitGroup
		defer watch.Wait()
		defer stop()
		watch.Go(func() {
			_ = s.Queue().Watch(watching, "one", dispatcher.Subscriber{OnGap: func() { heard <- struct{}{} }})
		})
		<-heard
	}
	for event, happens := range map[string]func(t *testing.T, s *redisqtest.Raw, proxy *redistest.Proxy){
		"after a connection was lost": func(t *testing.T, s *redisqtest.Raw, proxy *redistest.Proxy) {
			server.Pause()
			lost := make(chan error)
			go func() { lost <- s.Ping(t.Context()) }()
			require.Eventually(t, func() bool { return proxy.Open() > 0 }, patient, time.Millisecond)
			proxy.Cut()
			require.ErrorIs(t, <-lost, dispatcher.ErrUnavailable)
			server.Resume()
		},
		"after a subscription began": func(t *testing.T, s *redisqtest.Raw, _ *redistest.Proxy) { subscribe(t, s) },
		"after another node took over": func(_ *testing.T, s *redisqtest.Raw, _ *redistest.Proxy) {
			s.NoteTakeover()
		},
	} {
		t.Run(event, func(t *testing.T) {
			p := redisqtest.NewProject(t, server, 2)
			proxy := redistest.NewProxy(t, server.Addr())
			p.Options.URL = proxy.URL()
			s := p.Open(2)
			beat := func(number int64) error {
				_, _, err := s.Beat(t.Context(), "one", number)
				return err
			}
			require.NoError(t, beat(1))
			happens(t, s, proxy)
			require.NoError(t, beat(2), "nothing has changed")

			require.NoError(t, p.Client.HSet(t.Context(), "{"+p.Options.Project+"}:meta", "schema", 7).Err())
			err := beat(3)
			require.ErrorIs(t, err, dispatcher.ErrMoved)
			require.ErrorContains(t, err, "start the newer version")
			_, _, err = s.Schedule(t.Context(), "one", 0, 0, []dispatcher.Entry{p.Entry("late", redisqtest.To16(0, 1))})
			require.NoError(t, err)
			require.ErrorIs(t, s.Ping(t.Context()), dispatcher.ErrMoved, "no call is made any more")
		})
	}
}

// An empty store proves nothing, since another version may be the first to
// write to it.
func TestAnInstanceOfAStoreThatLostEverythingLooksUntilItIsMadeAnew(t *testing.T) {
	p := redisqtest.NewProject(t, redistest.Start(t), 2)
	s := p.Open(2)
	beat := func(number int64) error {
		_, _, err := s.Beat(t.Context(), "one", number)
		return err
	}
	require.NoError(t, beat(1))
	require.NoError(t, p.Client.FlushAll(t.Context()).Err())
	require.NoError(t, beat(2))
	require.NoError(t, beat(3))
	require.NoError(t, p.Client.HSet(t.Context(), "{"+p.Options.Project+"}:meta", "partitions", 2, "schema", 7).Err())
	require.ErrorIs(t, beat(4), dispatcher.ErrMoved)
}

// A later version of this layout may add fields behind the known ones. They
// must survive every write of this version.
func TestFurtherFieldsAreCarriedOn(t *testing.T) {
	r := newTrap(t)
	client, tag := r.store.Client(), r.store.Conn().Tag(0)
	fields := func(hash, field string) []string {
		text, err := client.HGet(t.Context(), tag+":"+hash, field).Result()
		require.NoError(t, err)
		return strings.Fields(text)
	}
	lane := func() []string { return fields("lane", "a")[7:] }
	far := func(id string) []string { return fields("progress", "a:"+id)[6:] }
	mark := func(hash, field string) {
		text, err := client.HGet(t.Context(), tag+":"+hash, field).Result()
		require.NoError(t, err)
		switch hash {
		case "lane": // behind what it keeps of its failures
			text = strings.Join(strings.Fields(text)[:7], " ") + " 1 8 9 ten 11"
		default:
			text = strings.TrimSuffix(text, " 0 0") + " 1 8 nine 10"
		}
		require.NoError(t, client.HSet(t.Context(), tag+":"+hash, field, text).Err())
	}
	want := []string{"1", "8", "nine", "10"}
	id := func(message string) []dispatcher.DeliveryID {
		return []dispatcher.DeliveryID{{Lane: "a", Message: message}}
	}

	r.schedule(r.entry("a", "m", 0), r.entry("a", "dies", 0))
	for _, c := range r.claim("one", 2) {
		r.settle("one", ended(c, dispatcher.Retry))
	}
	for _, message := range []string{"m", "dies"} {
		mark("progress", "a:"+message)
	}
	mark("lane", "a")

	_, _, err := r.store.Retry(t.Context(), "one", id("m"), true)
	require.NoError(t, err)
	require.Equal(t, want, far("m"), "retry of what waits")
	r.setClock(r.now.Add(2 * time.Hour))
	claimed := r.claim("one", 8)
	require.Len(t, claimed, 1)
	require.Equal(t, 2, claimed[0].Attempt, "they are read as ever")
	require.True(t, claimed[0].Asked)
	outcome := ended(claimed[0], dispatcher.Dead)
	outcome.Pause = time.Minute
	r.settle("one", outcome)
	require.Equal(t, want, far("m"), "settle")
	attempted := []string{"1", "8", strconv.FormatInt(r.now.UnixMilli(), 10), "ten", "11"}
	require.Equal(t, attempted, lane(), "a lane that changed")
	_, _, err = r.store.Retry(t.Context(), "one", id("m"), true)
	require.NoError(t, err)
	require.Equal(t, []string{"0", "8", "nine", "10"}, far("m"), "a new ladder has no attempt beside it")

	r.setClock(r.now.Add(time.Hour)) // the pause is over
	r.move()
	require.Len(t, r.claim("two", 8), 2)
	_, _, err = r.store.Reap(t.Context(), "one", "two")
	require.NoError(t, err)
	require.Equal(t, want, far("dies"), "reap")
	require.Equal(t, attempted, lane())
	_, _, err = r.store.Limit(t.Context(), "one", "a", dispatcher.LaneLimits{Mode: dispatcher.LaneDisabled, Version: 1}, true)
	require.NoError(t, err)
	r.move()
	require.Equal(t, want, far("dies"), "what its lane ends")
	require.Equal(t, []string{"0", "0", "0", "ten", "11"}, lane(), "a resumed one fails no more")
}
