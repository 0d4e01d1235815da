package e2e_test

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// callers publish at the same time, each to a destination of its own.
type callers struct {
	t      testing.TB
	all    []*caller
	enough chan struct{} // closed when they may come to an end
	wg     sync.WaitGroup
}

// caller publishes one message after the other, and each again until it is
// taken, as a service should: with the same id, and at the next instance.
type caller struct {
	t       testing.TB
	name    string
	to      []*instance
	url     string
	every   time.Duration // between two messages
	enough  chan struct{}
	refused chan struct{} // 1 deep: it was answered 503

	mu    sync.Mutex // guards taken
	taken []taken
}

// taken is a message that was acknowledged.
type taken struct {
	id   string
	lane string
	at   time.Time
}

// callersMore is how many messages a caller publishes when all is well again.
const callersMore = 10

// often is between two messages of a caller if nothing else is said. More messages would take the
// processors from what is tested, and say no more.
const often = 40 * time.Millisecond

// startCallers has n callers publish, each a message in every, until end.
func startCallers(n int, every time.Duration, to ...*instance) *callers {
	every = cmp.Or(every, often)
	c := &callers{t: to[0].t, enough: make(chan struct{})}
	for k := range n {
		one := &caller{
			t: c.t, name: fmt.Sprint("c", k), to: to, every: every, enough: c.enough, refused: make(chan struct{}, 1),
			url: to[0].receiver.URL(k + 1),
		}
		c.all = append(c.all, one)
		c.wg.Go(one.run)
	}
	c.t.Cleanup(c.wg.Wait) // a test that fails leaves them running, until its context has ended
	return c
}

// end has them come to an end and answers what was acknowledged.
func (c *callers) end() (all []taken) {
	c.t.Helper()
	close(c.enough)
	c.wg.Wait()
	for _, one := range c.all {
		require.GreaterOrEqual(c.t, len(one.taken), callersMore)
		all = append(all, one.taken...)
	}
	return all
}

// count is how much was acknowledged so far.
func (c *callers) count() (n int) {
	for _, one := range c.all {
		n += one.count()
	}
	return n
}

func (c *caller) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.taken)
}

// since is what was acknowledged after a moment.
func (c *caller) since(moment time.Time) []taken {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := slices.IndexFunc(c.taken, func(one taken) bool { return one.at.After(moment) })
	if first < 0 {
		return nil
	}
	return slices.Clone(c.taken[first:])
}

func (c *caller) run() {
	turn := time.NewTicker(c.every)
	defer turn.Stop()
	for n, left := 0, callersMore; left > 0; n++ {
		select {
		case <-c.enough:
			left--
		default:
		}
		select {
		case <-turn.C:
		case <-c.t.Context().Done():
		}
		id := fmt.Sprint(c.name, "-", n)
		m := wire.Message{ID: id, Topic: "t", URL: c.url, Body: []byte(`{"id":"` + id + `"}`), Delay: wire.Duration(n%2) * wire.Duration(30*time.Millisecond)}
		if !c.publish(&m, n) {
			return
		}
	}
}

// publish publishes until it is taken, first at the n-th instance.
func (c *caller) publish(m *wire.Message, n int) bool {
	for late := time.After(kit.Patience); ; n++ {
		p, err := c.to[n%len(c.to)].Publish(c.t.Context(), m)
		if err == nil {
			lane, _, _ := strings.Cut(p.Deliveries[0].ID, ":")
			c.mu.Lock()
			c.taken = append(c.taken, taken{id: m.ID, lane: lane, at: time.Now()})
			c.mu.Unlock()
			return true
		}
		if c.t.Context().Err() != nil {
			return false // the test has failed
		}
		wait := time.Second // where nothing answers
		var refused *client.Problem
		switch {
		case errors.As(err, &refused) && refused.Status == http.StatusServiceUnavailable && refused.RetryAfter > 0:
			wait = refused.RetryAfter
		case errors.Is(err, client.ErrUnreachable) && len(c.to) > 1:
		default:
			c.t.Errorf("publish while the store is in trouble: %v", err)
			return false
		}
		select {
		case c.refused <- struct{}{}:
		default:
		}
		select {
		case <-time.After(wait):
		case <-c.t.Context().Done():
		case <-late:
			c.t.Errorf("%s is never taken: %v", m.ID, err)
			return false
		}
	}
}

// refuse waits until each of them was told that the store is away.
func (c *callers) refuse() {
	c.t.Helper()
	for _, one := range c.all {
		select {
		case <-one.refused:
		case <-time.After(kit.Patience):
			require.FailNow(c.t, "a caller is not told that the store is away")
		}
	}
}

// goOn waits until so many more messages were acknowledged.
func (c *callers) goOn(more int) {
	c.t.Helper()
	have := c.count()
	eventually(c.t, "nothing more is acknowledged", func() bool { return c.count() >= have+more })
}

// arrived waits until all that was acknowledged has come.
func (r *receiver) arrived(all []taken) {
	r.t.Helper()
	for _, one := range all {
		r.wait(one.id, 1)
	}
}

// counted waits until all that came is counted as delivered, and nothing is in
// flight.
func (w *world) counted(i *instance) {
	w.t.Helper()
	i.counts("all that came is recorded as delivered, and nothing else is left", func(s wire.Stats) bool {
		distinct, _ := w.receiver.ids()
		return s.Counts["delivered"] == int64(distinct) && s.InFlight == 0
	})
}
