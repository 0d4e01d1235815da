package app_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/app"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// What a caller may ask for, and which secrets are shown, go by the clock that
// due times and signatures go by.
func TestTimesAreJudgedByTheStoresClock(t *testing.T) {
	for name, skew := range map[string]time.Duration{"the host is an hour ahead": -time.Hour, "the host is an hour behind": time.Hour} {
		t.Run(name, func(t *testing.T) {
			store := time.Now().Add(skew)
			t.Cleanup(app.StopClock(store))
			p := start(t, newTestOptions(""))
			c := p.client()
			publish := func(id string, change func(*wire.Message)) error {
				m := &wire.Message{ID: id, Topic: "t", URL: "http://127.0.0.1:1/", Body: json.RawMessage("1")}
				change(m)
				_, err := c.Publish(t.Context(), m)
				return err
			}
			at := func(d time.Duration) wire.Time { return wire.Time{Time: store.Add(d)} }
			require.NoError(t, publish("soon", func(m *wire.Message) { m.ExpiresAt = at(time.Minute) }))
			require.ErrorContains(t, publish("past", func(m *wire.Message) { m.ExpiresAt = at(-time.Minute) }), "$.expires_at")
			require.NoError(t, publish("year", func(m *wire.Message) { m.DeliverAt = at(366*24*time.Hour - time.Minute) }))
			require.ErrorContains(t, publish("years", func(m *wire.Message) { m.DeliverAt = at(366*24*time.Hour + time.Minute) }), "$.deliver_at")

			e, _, err := c.CreateEndpoint(t.Context(), &wire.Endpoint{URL: "http://127.0.0.1:1/", Topics: []string{"x"}})
			require.NoError(t, err)
			half := wire.Duration(30 * time.Minute)
			_, err = c.RotateSecret(t.Context(), e.ID, wire.Rotation{Overlap: &half})
			require.NoError(t, err)
			secrets, err := c.EndpointSecret(t.Context(), e.ID)
			require.NoError(t, err)
			require.Len(t, secrets.Secrets, 2, "both sign")
			require.NoError(t, p.end())
		})
	}
}
