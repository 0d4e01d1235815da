package queue_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/queue"
)

// TestSuspectsAreHandledOneAtATime has what two instances held when they died handled by a
// program, beside others.
func TestSuspectsAreHandledOneAtATime(t *testing.T) {
	url := redistest.Start(t).URL()
	p := newTestProgram(t, url, queue.Options{Workers: 8, Ladder: rungs})
	var suspects, others, most atomic.Int32
	var waiting sync.WaitGroup
	waiting.Add(4)
	p.Handle("work", func(_ context.Context, d queue.Delivery) error {
		if d.Topic == "other" {
			others.Add(1)
			waiting.Done()
			return nil
		}
		if now := suspects.Add(1); now > most.Load() {
			most.Store(now)
		}
		waiting.Wait() // others go on beside it
		suspects.Add(-1)
		return nil
	})
	var ids []string
	for n := range 4 {
		ids = append(ids, p.publish(t, queue.Task{ID: fmt.Sprint("suspect", n)}).ID)
	}
	dieHolding(t, url, len(ids), "victim1", "victim2", "victim3")
	for n := range 4 {
		ids = append(ids, p.publish(t, queue.Task{ID: fmt.Sprint("other", n), Topic: "other"}).ID)
	}
	p.start(t)
	for _, id := range ids {
		require.Equal(t, dispatcher.StatusDelivered, p.ends(t, id).Status)
	}
	require.Equal(t, int32(1), most.Load())
}

// newAlone returns a program with a delivery of the queue work that has to be handled alone, and a handler
// of the queue hold that runs until its channel is closed.
func newAlone(t *testing.T, work queue.HandlerFunc) (p *program, alone string, hold chan struct{}) {
	t.Helper()
	url := redistest.Start(t).URL()
	p = newTestProgram(t, url, queue.Options{Workers: 4, AttemptTimeout: time.Second})
	alone = p.publish(t, queue.Task{ID: "alone"}).ID
	dieHolding(t, url, 1, "victim1", "victim2")
	dieBeside(t, url, "victim3")
	hold = make(chan struct{})
	began := make(chan struct{}, 1)
	p.Handle("work", work)
	p.Handle("hold", func(context.Context, queue.Delivery) error {
		began <- struct{}{}
		<-hold
		return nil
	})
	require.NoError(t, p.Pause(t.Context(), "work"))
	p.publish(t, queue.Task{ID: "held", Queue: "hold", Timeout: time.Hour})
	p.start(t)
	receive(t, began)
	require.NoError(t, p.Resume(t.Context(), "work"))
	p.delivery(t, alone, func(d dispatcher.Delivery) bool { return d.Status == dispatcher.StatusInFlight })
	return p, alone, hold
}

func TestWhatIsHandledAloneWaitsForOthersThatRun(t *testing.T) {
	var ended atomic.Bool
	p, alone, hold := newAlone(t, func(context.Context, queue.Delivery) error {
		if !ended.Load() {
			return errors.New("another handler runs")
		}
		return nil
	})
	ended.Store(true)
	close(hold)
	d := p.ends(t, alone)
	require.Equal(t, dispatcher.StatusDelivered, d.Status)
	require.Empty(t, d.LastError)
	require.Equal(t, dispatcher.StatusDelivered, p.ends(t, "held").Status)
}

func TestWhatIsHandledAloneDoesNotWaitForAHandlerThatNeverReturns(t *testing.T) {
	p, alone, hold := newAlone(t, func(context.Context, queue.Delivery) error { return nil })
	defer close(hold)
	require.Equal(t, dispatcher.StatusDelivered, p.ends(t, alone).Status)
	held, err := p.Get(t.Context(), "held")
	require.NoError(t, err)
	require.Equal(t, dispatcher.StatusInFlight, held.Status)
}

func TestAtTheEndWhatWaitsToBeHandledAloneGoesBackUncounted(t *testing.T) {
	p, alone, hold := newAlone(t, func(context.Context, queue.Delivery) error { return errors.New("it began") })
	p.stop()
	reader := newTestProgram(t, p.url, queue.Options{})
	d := reader.delivery(t, alone, func(d dispatcher.Delivery) bool { return d.Status == dispatcher.StatusReady })
	require.Empty(t, d.LastError)
	close(hold)
	p.end(t)
}

// dieBeside has an instance take a suspect, begin it beside others, and die.
func dieBeside(t testing.TB, url, victim string) {
	t.Helper()
	o := queue.Options{}
	s, err := o.StoreOptions(url)
	require.NoError(t, err)
	store, err := redisq.Await(t.Context(), s)
	require.NoError(t, err)
	defer store.Close()
	taken, err := store.Take(t.Context(), victim, dispatcher.Take{
		Lanes: []dispatcher.Lane{dispatcher.QueueLane("work")}, Most: 1, Bytes: 1 << 20, Suspects: 1,
	})
	require.NoError(t, err)
	require.Len(t, taken.Claimed, 1)
	c := taken.Claimed[0]
	leased, err := store.Begin(t.Context(), victim, dispatcher.Lease{ID: c.ID, At: c.Leased}, true)
	require.NoError(t, err)
	require.True(t, leased)
	_, err = store.Reap(t.Context(), "another", victim)
	require.NoError(t, err)
}

// dieHolding has instances take n deliveries one after another, and die.
func dieHolding(t testing.TB, url string, n int, victims ...string) {
	t.Helper()
	o := queue.Options{}
	s, err := o.StoreOptions(url)
	require.NoError(t, err)
	store, err := redisq.Await(t.Context(), s)
	require.NoError(t, err)
	defer store.Close()
	for _, by := range victims {
		taken, err := store.Take(t.Context(), by, dispatcher.Take{
			Lanes: []dispatcher.Lane{dispatcher.QueueLane("work")}, Most: n, Bytes: 1 << 20, Suspects: n,
		})
		require.NoError(t, err)
		require.Len(t, taken.Claimed, n)
		_, err = store.Reap(t.Context(), "another", by)
		require.NoError(t, err)
	}
}

// crashing is the environment variable by which this test's program is one that crashes: the
// URL of its Redis.
const crashing = "HOOKLADDER_TEST_CRASHES"

// TestOnlyWhatEndsTheProgramIsPoison has a program crash again and again, with handlers of others
// under way each time. The second killer is published when the others are suspects already.
func TestOnlyWhatEndsTheProgramIsPoison(t *testing.T) {
	if url := os.Getenv(crashing); url != "" {
		crash(t, url)
		return
	}
	redistest.Long(t)
	url := redistest.Start(t).URL()
	reader := newTestProgram(t, url, queue.Options{})
	var innocents []string
	killers := []string{reader.publish(t, queue.Task{ID: "killer1", Topic: "killer"}).ID}
	for n := range 20 {
		innocents = append(innocents, reader.publish(t, queue.Task{ID: fmt.Sprint("innocent", n)}).ID)
	}
	deaths := 0
	for ; reader.unfinished(t, killers...); deaths++ {
		p, err := kit.Start(kit.Command{Path: os.Args[0], Args: []string{"-test.run=^" + t.Name() + "$"}, Env: append(os.Environ(), crashing+"="+url)})
		require.NoError(t, err)
		t.Cleanup(p.Kill)
		<-p.Ended
		require.Contains(t, p.Output.String(), "a handler ends the program")
		reader.takeOver(t, url)
		if deaths == 1 {
			killers = append(killers, reader.publish(t, queue.Task{ID: "killer2", Topic: "killer"}).ID)
		}
	}
	require.LessOrEqual(t, deaths, 8, "four for each")
	for _, id := range killers {
		require.Equal(t, dispatcher.ReasonPoison, reader.ends(t, id).Reason)
	}
	reader.Handle("work", func(context.Context, queue.Delivery) error { return nil })
	reader.start(t)
	for _, id := range innocents {
		d := reader.ends(t, id)
		require.Equal(t, dispatcher.StatusDelivered, d.Status, "%s: %s %s", id, d.Reason, d.LastError)
	}
}

// crash is a program one of whose handlers ends it while another one is under way. A handler that
// is attempted alone finds none.
func crash(t *testing.T, url string) {
	p := newTestProgram(t, url, queue.Options{Workers: 32, Ladder: rungs})
	began := make(chan struct{}, 100)
	p.Handle("work", func(ctx context.Context, d queue.Delivery) error {
		if d.Topic != "killer" {
			began <- struct{}{}
			select {
			case <-time.After(100 * time.Millisecond): // its work
			case <-ctx.Done():
			}
			return nil
		}
		select {
		case <-began:
		case <-time.After(50 * time.Millisecond):
		}
		fmt.Println("a handler ends the program")
		os.Exit(2)
		return nil
	})
	p.start(t)
	<-t.Context().Done()
}

// unfinished reports whether any of these has not ended.
func (p *program) unfinished(t testing.TB, ids ...string) bool {
	t.Helper()
	return slices.ContainsFunc(ids, func(id string) bool {
		view, err := p.Read(t.Context(), id)
		require.NoError(t, err)
		return !view.Deliveries[0].Status.Ended()
	})
}

// takeOver declares the other programs dead, so that the next one need not wait until that shows.
func (p *program) takeOver(t testing.TB, url string) {
	t.Helper()
	o := queue.Options{}
	s, err := o.StoreOptions(url)
	require.NoError(t, err)
	store, err := redisq.Await(t.Context(), s)
	require.NoError(t, err)
	defer store.Close()
	names, err := store.Client().HKeys(t.Context(), "{default}:instances").Result()
	require.NoError(t, err)
	for _, name := range names {
		_, err = store.Reap(t.Context(), "another", name)
		require.NoError(t, err)
	}
}
