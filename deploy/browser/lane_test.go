package browser_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/browser/browsertest"
	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// Behind an open breaker more deliveries wait than a list reads at once. The page still says why and how many, and after a
// mend one button moves them, for the operator and for a merchant with a link.
func TestOneButtonMovesAllThatWaitsInALane(t *testing.T) {
	t.Parallel()
	port, err := kit.FreePort()
	require.NoError(t, err)
	w := newWorld(t, keys, "LISTEN="+kit.Loopback(port), "PUBLIC_URL=http://"+kit.Loopback(port), "BREAKER=1/10m", "LADDER=10h", "QUICK_RETRIES=0")
	many := 1200 // a list looks through 1,024 at most
	if *nightWaiting > 0 {
		many = *nightWaiting / 20
	}
	w.onScreens(t, func(t *testing.T, s screen, b *browsertest.Tab) {
		w.signIn(b, adminKey)
		id := w.lane("operator-"+s.name, many)
		b.Open(w.page("/console/endpoints/" + id))
		b.WaitFor("503", "the shop is closed")
		w.moves(t, b, id, "operator-"+s.name, many)

		id = w.lane("merchant-"+s.name, many)
		link, err := w.CreateLink(t.Context(), wire.LinkRequest{Tenant: "merchant-" + s.name, Manage: true})
		require.NoError(t, err)
		merchant := w.tab(t)
		s.on(merchant)
		merchant.Open(link.URL)
		merchant.Click("button", "Open")
		merchant.WaitHas("heading", "Overview")
		merchant.Open(w.page("/link/endpoints/" + id))
		w.moves(t, merchant, id, "merchant-"+s.name, many)
	})
}

// lane makes an endpoint behind an open breaker, and publishes many messages to it after the one that opened it.
func (w *world) lane(name string, many int) (id string) {
	w.t.Helper()
	id = w.endpoint(wire.Endpoint{UID: name, Tenant: name, URL: w.at(name)})
	w.publish(wire.Message{ID: name + "_first", Endpoint: id, Tenant: name})
	w.until(name+"_first", "retrying")
	for from := 0; from < many; from += 100 {
		var batch []wire.Message
		for k := from; k < min(from+100, many); k++ {
			batch = append(batch, wire.Message{ID: fmt.Sprint(name, "_", k), Topic: "order.paid", Endpoint: id, Tenant: name, Body: []byte("1")})
		}
		_, err := w.PublishBatch(w.t.Context(), batch)
		require.NoError(w.t, err)
	}
	return id
}

// moves mends the receiver of an endpoint whose page a tab shows, and waits until nine of ten deliveries are gone.
func (w *world) moves(t *testing.T, b *browsertest.Tab, id, path string, many int) {
	t.Helper()
	b.WaitFor("Attempts fail: answered 503", "held by its breaker", "wait for their next attempt")
	b.Wait("all that waits is counted", fmt.Sprintf("%s === %d", waits, many+1))
	require.Equal(t, many+1, browsertest.JS[int](b, reasons), "Waiting is the sum of its reasons")
	require.Empty(t, b.Sideways())
	require.Empty(t, b.Axe())
	b.Shot("lane-" + path)
	w.mend(path)
	began := time.Now()
	b.Click("button", "Try again now")
	b.WaitURL("/jobs/job_")
	require.NoError(t, kit.Until(t.Context(), "nine of ten are sent", func() error {
		e, err := w.Endpoint(t.Context(), id)
		if err == nil && e.Waiting > many/10 {
			err = fmt.Errorf("%d wait", e.Waiting)
		}
		return err
	}))
	t.Logf("%s: 90 %% of %d are sent after %s", path, many, time.Since(began).Round(time.Millisecond))
	b.WaitFor("It works.")
}
