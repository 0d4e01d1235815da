package browser_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

// filled is a world in which there is something of everything to see.
type filled struct {
	*world
	good, bad, paused string // endpoints of the tenant acme
}

// newFilled makes one. Its receivers take, fail, are slow and are gone.
func newFilled(t *testing.T, settings ...string) *filled {
	t.Helper()
	w := &filled{world: newWorld(t, settings...)}
	w.good = w.endpoint(wire.Endpoint{URL: w.at("ok/acme"), Tenant: "acme", Description: "takes all", Metadata: map[string]string{"shop": "4711"}})
	w.bad = w.endpoint(wire.Endpoint{URL: w.at("fail/acme"), Tenant: "acme", Description: "fails", Topics: []string{"order.*"}})
	w.paused = w.endpoint(wire.Endpoint{URL: w.at("ok/later"), Tenant: "globex", Description: "held"})
	_, err := w.PauseEndpoint(t.Context(), w.paused)
	require.NoError(t, err)

	for n := range 4 {
		w.publish(wire.Message{ID: fmt.Sprint("took_", n), Endpoint: w.good, Tenant: "acme", Subject: fmt.Sprint("order-", 100+n)})
	}
	for n := range 3 {
		w.publish(wire.Message{ID: fmt.Sprint("failed_", n), Endpoint: w.bad, Tenant: "acme", Subject: fmt.Sprint("order-", 200+n), Headers: map[string]string{"X-Shop": "north"}})
	}
	w.publish(wire.Message{ID: "both_0", Topic: "order.both", Tenant: "acme", Subject: "order-300"})
	w.publish(wire.Message{ID: "dead_0", Endpoint: w.bad, Tenant: "acme", Subject: "order-400", Ladder: short(t)})
	w.publish(wire.Message{ID: "dead_1", URL: w.gone + "/hooks", Subject: "order-401", Ladder: short(t)})
	w.publish(wire.Message{ID: "slow_0", URL: w.at("slow"), Subject: "order-500"})
	w.publish(wire.Message{ID: "later_0", URL: w.at("ok"), Subject: "order-600", Delay: hour})
	w.publish(wire.Message{ID: "held_0", Endpoint: w.paused, Tenant: "globex", Subject: "order-700"})
	w.publish(wire.Message{ID: "long_0", Topic: strings.Repeat("long.", 20) + "topic", URL: w.at("fail/" + strings.Repeat("path/", 40)), Subject: strings.Repeat("subject-", 15)})
	w.publish(wire.Message{ID: "off_0", URL: w.at("ok"), Delay: hour})
	_, err = w.Cancel(t.Context(), "off_0", "")
	require.NoError(t, err)

	w.until("took_3", "delivered")
	w.until("dead_0", "dead")
	w.until("dead_1", "dead")
	w.until("slow_0", "in_flight")
	w.twice("failed_0")
	return w
}

// twice waits until a message was attempted two times.
func (w *world) twice(id string) {
	w.t.Helper()
	eventually(w.t, id+" was attempted twice", func() bool {
		view, err := w.Message(w.t.Context(), id)
		return err == nil && view.Deliveries[0].Attempts == 2
	})
}
