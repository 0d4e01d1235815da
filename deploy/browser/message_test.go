package browser_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/browser/browsertest"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

func TestAMessageSaysWhyItFailsAndIsMended(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.publish(wire.Message{ID: "mend_0", URL: w.at("fixme/a"), Tenant: "acme", Subject: "order-1", OrderingKey: "k1", Headers: map[string]string{"X-Shop": "secret north"}})
	w.twice("mend_0")
	b := w.tab(t)
	b.Open(w.page("/console/messages/mend_0"))
	b.WaitFor("retrying", "503", "the shop is closed fixme/a", "order-1", "acme", "k1", "order.paid")
	require.Contains(t, b.Text(), "12345678901234567890", "numbers are as they were sent")
	require.NotContains(t, b.Text(), "secret north", "values of headers may be secret")
	b.WaitFor("in 59m")
	b.Shot("message-retrying")

	w.mend("fixme")
	b.Click("button", "Attempt now")
	b.WaitFor("It is due now.")
	b.WaitFor("delivered", "200") // by itself, once the page is fetched again
	w.until("mend_0", "delivered")
	b.Click("button", "Send again")
	b.WaitFor("asked for")
	b.Shot("message-sent-again")
}

func TestADeliveryIsCancelled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.endpoint(wire.Endpoint{URL: w.at("ok"), Tenant: "acme"})
	other := w.endpoint(wire.Endpoint{URL: w.at("fail"), Tenant: "acme"})
	w.publish(wire.Message{ID: "stop_0", URL: w.at("ok"), Delay: hour})
	w.publish(wire.Message{ID: "two_0", Tenant: "acme", Delay: hour})
	b := w.tab(t)
	b.Open(w.page("/console/messages/stop_0"))
	b.WaitFor("scheduled")
	b.Click("DisclosureTriangle", "Cancel…")
	b.Shot("message-cancel")
	require.Empty(t, b.Axe())
	b.Click("button", "Cancel")
	b.WaitFor("It is cancelled.", "cancelled")
	w.until("stop_0", "cancelled")

	b.Open(w.page("/console/messages/two_0"))
	b.WaitFor("It goes to 2 destinations", "2 scheduled")
	b.Phone(390)
	require.Empty(t, b.Sideways())
	b.Shot("message-two-390")
	b.Desktop()
	b.Click("button", "Attempt all now")
	b.WaitFor("All are due now.")
	b.WaitFor("1 delivered", "1 scheduled", "asked for")
	require.NotEqual(t, e, other)
}

func TestAMessageThatIsNotThereLeadsBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.tab(t)
	b.Allow("404")
	require.Equal(t, http.StatusNotFound, b.Try(w.page("/console/messages/no_such_1")))
	b.WaitFor("There is no message with this id", "no_such_1")
	b.Shot("message-missing")
	require.Empty(t, b.Axe())
}

func TestAMessageStaysAsAPersonLeftIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.publish(wire.Message{ID: "open_0", URL: w.at("fixme/a"), Delay: hour})
	b := w.tab(t)
	b.Open(w.page("/console/messages/open_0"))
	b.WaitFor("scheduled")
	counted(b)
	b.Click("DisclosureTriangle", "Signed content")
	b.WaitFor("open_0.webhook-timestamp.")
	b.Focus("DisclosureTriangle", "Signed content")
	browsertest.JS[bool](b, "scrollTo(0, 40), window.node = document.activeElement, window.top0 = scrollY, true")
	_, err := w.Retry(t.Context(), "open_0", "")
	require.NoError(t, err)
	b.WaitFor("503")
	require.True(t, browsertest.JS[bool](b, "document.activeElement === window.node && scrollY === window.top0"), "focus and place are kept")
	b.WaitFor("open_0.webhook-timestamp.")
}

// Times are in the reader's zone, or in UTC by one switch that stays; without scripts in UTC. All name the zone.
func TestTimesAreInTheReadersZoneOrInUTC(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	due := time.Now().UTC().Truncate(24 * time.Hour).Add(3*24*time.Hour - 30*time.Minute)
	inUTC, there := due.Format("2006-01-02 15:04:05.000 UTC"), due.Add(5*time.Hour+30*time.Minute).Format("2006-01-02 15:04:05.000")
	w.publish(wire.Message{ID: "later_0", URL: w.at("ok"), DeliverAt: wire.Time{Time: due}})
	w.onScreens(t, func(t *testing.T, s screen, b *browsertest.Tab) {
		b.Zone("Asia/Kolkata") // half an hour off
		b.Open(w.page("/console/messages/later_0"))
		b.WaitFor(there, "GMT+5:30", "until "+due.Format("2006-01-02 15:04:05 UTC"))
		require.Contains(t, b.JSText(`document.querySelector(".step .when time[data-clock]").textContent`), "GMT+5:30")
		b.Click("radio", "UTC")
		b.WaitFor(inUTC)
		b.WaitGone("GMT+5:30")
		b.Reload()
		b.WaitFor(inUTC)
		b.WaitGone("GMT+5:30")
		require.Empty(t, b.Sideways())
		require.Empty(t, b.Axe())
		b.Shot("zone-" + s.name)
		plain := w.tab(t)
		s.on(plain)
		plain.NoScript()
		plain.Open(w.page("/console/messages/later_0"))
		require.Contains(t, plain.Text(), inUTC)
	})
}
