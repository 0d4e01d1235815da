package browser_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/browser/browsertest"
	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/signer"
)

// newPublic is a filled world that knows how people reach it, and has keys and a brand.
func newPublic(t *testing.T) *filled {
	t.Helper()
	port, err := kit.FreePort()
	require.NoError(t, err)
	return newFilled(t, keys, "LISTEN="+kit.Loopback(port), "PUBLIC_URL=http://"+kit.Loopback(port), "CONSOLE_NAME=Shopworks", "CONSOLE_COLOR=#0a7d5c")
}

func (w *filled) link(r wire.LinkRequest) wire.NewLink {
	w.t.Helper()
	l, err := w.CreateLink(w.t.Context(), r)
	require.NoError(w.t, err)
	return l
}

func TestAMerchantSeesWhatIsItsOwnAlone(t *testing.T) {
	t.Parallel()
	w := newPublic(t)
	l := w.link(wire.LinkRequest{Tenant: "acme", For: hour})
	b := w.tab(t)
	b.Open(l.URL)
	b.WaitFor("Shopworks", "Your notifications")
	b.Shot("link-door")
	require.Empty(t, b.Axe())
	b.Click("button", "Open")
	b.WaitHas("heading", "Overview")
	require.Equal(t, w.page("/link/"), b.URL(), "the token is in no further URL")
	require.Empty(t, b.JSText("document.cookie + document.referrer"))
	shapes := crawl(t, b, w.page("/link/"), func(path string) {
		text := b.Text()
		for _, other := range []string{"globex", "held_0", "order-700", "dead_1", "slow_0", w.paused, "ALLOW_NETS", "Redis"} {
			require.NotContains(t, text, other, path)
		}
		for _, button := range []string{"Send again", "Attempt now", "Pause", "Rotate", "Edit"} {
			require.False(t, b.Has("button", button), "%s: %s", path, button)
		}
		checkSchemes(t, b, pictured(path))
	})
	require.Subset(t, shapes, []string{"/link/", "/link/deliveries", "/link/messages/*"})

	b.Allow("404")
	for _, path := range []string{"messages/held_0", "messages/dead_1", "endpoints/" + w.paused, "dead", "tail", "system", "jobs", "deliveries/picked"} {
		require.Equal(t, http.StatusNotFound, b.Try(w.page("/link/"+path)), path)
	}
	b.Open(w.page("/link/deliveries?tenant=globex"))
	b.WaitFor("order-100")
	b.WaitGone("held_0", "order-700")
	b.Open(w.page("/console/"))
	b.WaitURL("/console/sign-in")

	other := w.tab(t)
	other.Allow("404")
	require.Equal(t, http.StatusNotFound, other.Try(w.page("/link/")))
	other.WaitFor("This link opens nothing")

	require.NoError(t, w.RevokeLink(t.Context(), l.ID))
	require.Equal(t, http.StatusNotFound, b.Try(w.page("/link/")), "it ends in all browsers")
	b.WaitFor("This link opens nothing")
	b.Shot("link-revoked")
}

func TestAMerchantHelpsItself(t *testing.T) {
	t.Parallel()
	w := newPublic(t)
	l := w.link(wire.LinkRequest{Tenant: "acme", Manage: true})
	b := w.tab(t)
	b.Open(l.URL)
	b.Click("button", "Open")
	b.WaitHas("heading", "Overview")
	b.WaitFor("view and manage", "order-200")
	w.mend("fail")
	b.Click("link", "Deliveries")
	b.WaitURL("/link/deliveries")
	b.Click("link", "dead")
	b.WaitURL("status=dead")
	b.Click("link", "order-400")
	b.WaitURL("/link/messages/dead_0")
	b.WaitFor("503", "the shop is closed")
	b.Click("button", "Send again")
	b.WaitFor("delivered")
	w.until("dead_0", "delivered")
	b.Click("button", "Close")
	b.Allow("404")
	b.WaitFor("This link opens nothing")
}

func TestALinkIsNotTakenForClosedWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	w := newPublic(t)
	l := w.link(wire.LinkRequest{Tenant: "acme"})
	b := w.tab(t)
	b.Open(l.URL)
	b.Click("button", "Open")
	b.WaitHas("heading", "Overview")
	b.Allow("503")
	w.redis.Pause()
	require.Equal(t, http.StatusServiceUnavailable, b.Try(w.page("/link/")))
	require.NotContains(t, b.Text(), "Redis", "a merchant's people know no Redis")
	b.Shot("link-away")
	w.redis.Resume()
	b.WaitHas("heading", "Overview") // by itself
}

// A merchant mended its receiver behind an open breaker: one button, one delivery first, then the rest.
func TestAMerchantSendsAllThatWaitsWithOneButton(t *testing.T) {
	t.Parallel()
	port, err := kit.FreePort()
	require.NoError(t, err)
	w := newWorld(t, keys, "LISTEN="+kit.Loopback(port), "PUBLIC_URL=http://"+kit.Loopback(port), "BREAKER=3/10m", "LADDER=2h,3h", "QUICK_RETRIES=0")
	shop := w.endpoint(wire.Endpoint{UID: "shop", URL: w.at("fixme/shop"), Tenant: "acme"})
	other := w.endpoint(wire.Endpoint{UID: "other", URL: w.at("fixme/other"), Tenant: "globex"})
	for n := range 3 {
		w.publish(wire.Message{ID: fmt.Sprint("failed_", n), Endpoint: shop, Tenant: "acme"})
		w.until(fmt.Sprint("failed_", n), "retrying")
	}
	for n := range 4 {
		w.publish(wire.Message{ID: fmt.Sprint("behind_", n), Endpoint: shop, Tenant: "acme"})
	}
	l, err := w.CreateLink(t.Context(), wire.LinkRequest{Tenant: "acme", Manage: true})
	require.NoError(t, err)
	b := w.tab(t)
	b.Open(l.URL)
	b.Click("button", "Open")
	b.WaitHas("heading", "Overview")
	b.In("region", "Needs you").WaitFor("stopped calling")
	b.Open(w.page("/link/endpoints/" + shop))
	b.WaitFor("stopped calling", "Attempts fail: answered 503", "4 held by its breaker", "3 wait for their next attempt")
	b.Click("button", "Try again now")
	b.WaitURL("/link/jobs/job_")
	b.WaitFor("One first", "The attempt failed", "503", "7 wait")
	w.mend("fixme")
	b.Shot("link-job-failed")
	b.Click("link", "Endpoint")
	b.WaitURL("/link/endpoints/" + shop)
	b.Click("button", "Try again now")
	b.WaitURL("/link/jobs/job_1")
	b.WaitFor("It works.", "failed_0", "failed_1", "failed_2")
	for _, id := range named("failed_", 3) {
		w.until(id, "delivered")
	}
	for _, s := range screens {
		s.on(b)
		require.Empty(t, b.Sideways())
		require.Empty(t, b.Axe())
		b.Shot("link-job-" + s.name)
	}
	audit, err := w.Audit(t.Context(), client.AuditFilter{What: []string{"endpoint.retry"}})
	require.NoError(t, err)
	require.Len(t, audit.Data, 2)
	for _, id := range named("behind_", 4) { // the first attempt may have been of one that had not failed before: it may need one more call
		require.NoError(t, kit.Until(t.Context(), id+" is delivered", func() error {
			_, err := w.RetryEndpoint(t.Context(), shop)
			require.NoError(t, err)
			view, err := w.Message(t.Context(), id)
			if err == nil && view.Deliveries[0].Status != "delivered" {
				err = fmt.Errorf("it is %s", view.Deliveries[0].Status)
			}
			return err
		}))
	}
	b.Allow("404")
	others, err := w.RetryEndpoint(t.Context(), other)
	require.NoError(t, err)
	require.Equal(t, http.StatusNotFound, b.Try(w.page("/link/jobs/"+others.ID)), "it is another tenant's")
}

// A merchant whose code computes another signature learns what it does differently, and no secret leaves.
func TestAMerchantLearnsWhyItsSignatureFails(t *testing.T) {
	t.Parallel()
	port, err := kit.FreePort()
	require.NoError(t, err)
	w := newWorld(t, keys, "LISTEN="+kit.Loopback(port), "PUBLIC_URL=http://"+kit.Loopback(port), "LADDER=2h", "QUICK_RETRIES=0")
	secret := signer.NewSecret()
	shop := w.endpoint(wire.Endpoint{UID: "shop", URL: w.at("fail/shop"), Tenant: "acme", Secret: secret.Reveal()})
	w.publish(wire.Message{ID: "order_0", Endpoint: shop, Tenant: "acme"})
	w.until("order_0", "retrying")
	l, err := w.CreateLink(t.Context(), wire.LinkRequest{Tenant: "acme"})
	require.NoError(t, err)
	b := w.tab(t)
	b.Open(l.URL)
	b.Click("button", "Open")
	b.WaitHas("heading", "Overview")
	b.Open(w.page("/link/messages/order_0"))
	b.Click("link", "Why does my signature fail?")
	b.WaitFor("Headers that are signed", "webhook-signature", "fingerprint "+secret.Fingerprint())
	b.Shot("signature")
	require.Empty(t, b.Axe())
	view, err := w.Message(t.Context(), "order_0")
	require.NoError(t, err)
	at := view.Deliveries[0].History[0].At.Time
	mac := hmac.New(sha256.New, []byte(secret.Reveal())) // its text is not decoded
	fmt.Fprintf(mac, "order_0.%d.%s", at.Unix(), view.Body)
	b.Fill("textbox", "Signature that your code computed", hex.EncodeToString(mac.Sum(nil)))
	b.Click("button", "Check")
	b.WaitFor("What your code does differently", "not decoded", "is in hex, not in base64", "decode the base64 behind whsec_")
	require.NotContains(t, b.URL(), hex.EncodeToString(mac.Sum(nil)))
	require.NotContains(t, b.Text(), secret.Reveal())
	require.Empty(t, b.Axe())
	audit, err := w.Audit(t.Context(), client.AuditFilter{})
	require.NoError(t, err)
	for _, entry := range audit.Data {
		require.NotEqual(t, "secret.read", entry.What)
	}
}

// Each genuine mistake of receivers is named to the operator, too, at a desk and on a phone. Neither a secret nor what was
// typed is in a URL, in the log or in the audit.
func TestEachMistakeWithASignatureIsNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "LADDER=2h", "QUICK_RETRIES=0", "LOG_LEVEL=debug")
	secret := signer.NewSecret()
	shop := w.endpoint(wire.Endpoint{UID: "shop", URL: w.at("fail/shop"), Secret: secret.Reveal()})
	w.publish(wire.Message{ID: "order_0", Endpoint: shop, RawBody: new(kit.MistakenBody), ContentType: "application/json"})
	w.until("order_0", "retrying")
	view, err := w.Message(t.Context(), "order_0")
	require.NoError(t, err)
	mistakes := kit.SignatureMistakes(secret.Reveal(), "order_0", view.Deliveries[0].History[0].At.Time)
	w.onScreens(t, func(t *testing.T, s screen, b *browsertest.Tab) {
		b.Open(w.page("/console/messages/order_0"))
		b.Click("link", "Why does my signature fail?")
		for name, m := range mistakes {
			browsertest.JS[bool](b, "window.asked = true")
			b.Fill("textbox", "Signature that your code computed", m.Computed)
			b.Click("button", "Check")
			b.Wait(name+" is answered", `!window.asked && !!document.querySelector("#findings")`)
			require.Equal(t, 1, browsertest.JS[int](b, fmt.Sprintf(`document.querySelectorAll('[data-cause="%s"]').length`, m.Cause)), name)
			require.NotContains(t, b.URL(), "computed", name)
			require.NotContains(t, browsertest.JS[string](b, "document.documentElement.outerHTML"), m.Computed, "what was typed is not shown again")
		}
		require.Empty(t, b.Sideways())
		require.Empty(t, b.Axe())
		b.Shot("signature-checked-" + s.name)
	})
	audit, err := w.Audit(t.Context(), client.AuditFilter{})
	require.NoError(t, err)
	kept := fmt.Sprint(audit.Data) + w.Output.String()
	require.Contains(t, kept, "order_0", "it is the log")
	require.NotContains(t, kept, secret.Reveal())
	for name, m := range mistakes {
		require.NotContains(t, kept, m.Computed, name)
	}
}
