package browser_test

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/browser/browsertest"
	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

func TestARedisThatIsAwayIsToldAndComesBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, keys)
	w.onScreens(t, func(t *testing.T, s screen, b *browsertest.Tab) {
		w.signIn(b, adminKey)
		for _, trouble := range []struct {
			name       string
			break_, up func()
			says       string
		}{
			{"it hangs", w.redis.Pause, w.redis.Resume, "This took too long"},
			{"it is killed", w.redis.Kill, w.redis.Restart, "Redis can't be reached"},
		} {
			trouble.break_()
			require.Equal(t, http.StatusServiceUnavailable, b.Try(w.page("/console/")), trouble.name)
			b.WaitFor(trouble.says)
			b.WaitGone("API key", "Sign in")
			b.Shot("away-" + s.name)
			require.Empty(t, b.Sideways())
			require.Empty(t, b.Axe())
			trouble.up()
			if s.phone { // on the other screen by its own clock
				browsertest.JS[bool](b, quick)
			}
			b.WaitHas("heading", "Now")
			b.WaitHas("button", "Sign out")
		}
	})
}

func TestAnOpenPageSaysWhatIsAwayAndGoesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.onScreens(t, w.saysWhatIsAway)
}

func (w *world) saysWhatIsAway(t *testing.T, s screen, b *browsertest.Tab) {
	t.Helper()
	b.Open(w.page("/console/"))
	b.WaitFor("Live")
	for _, trouble := range []struct {
		break_, up func()
		says       string
	}{
		{w.redis.Pause, w.redis.Resume, "UTC: the store is too slow"},
		{w.redis.Kill, w.redis.Restart, "UTC: Redis is away"},
		{func() { // as an instance that hangs: no request is answered, and none fails
			browsertest.JS[bool](b, `window.really = window.fetch, window.fetch = (url, o) => new Promise((_, no) => o.signal.addEventListener("abort", () => no(o.signal.reason))), true`)
		}, func() { browsertest.JS[bool](b, `window.fetch = window.really, true`) }, "UTC: the server is not reached"},
	} {
		trouble.break_()
		browsertest.JS[bool](b, quick)
		b.WaitFor(trouble.says)
		require.True(t, b.Has("heading", "Now"), "what was shown stays")
		trouble.up()
		if s.phone { // on the other screen by its own clock
			browsertest.JS[bool](b, quick)
		}
		b.WaitGone(trouble.says)
		b.WaitFor("Live")
	}
	browsertest.JS[bool](b, `live.at -= 11000, lamp(), true`)
	require.Equal(t, "old", browsertest.JS[string](b, `document.getElementById("live").dataset.state`), "nothing older than ten seconds is live")
}

// A server that hangs, and a browser without a network: what is shown stays, says how old it is and that the server is not
// reached, never Redis, and goes on.
func TestTheLampIsTheAgeOfTheLastResponse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	signal := func(s syscall.Signal) func() { return func() { require.NoError(t, w.Signal(s)) } }
	w.onScreens(t, func(t *testing.T, _ screen, b *browsertest.Tab) {
		b.Allow("ERR_INTERNET_DISCONNECTED", "ERR_NETWORK_CHANGED")
		b.Open(w.page("/console/"))
		b.WaitFor("Live")
		for _, trouble := range []struct{ break_, up func() }{
			{signal(syscall.SIGSTOP), signal(syscall.SIGCONT)},
			{func() { b.Offline(true) }, func() { b.Offline(false) }},
		} {
			trouble.break_()
			browsertest.JS[bool](b, quick)
			b.Wait("it is not live", `document.getElementById("live").dataset.state === "away"`)
			lamp := b.JSText(`document.getElementById("live").innerText`)
			require.Regexp(t, `^As of \d\d:\d\d:\d\d [^:]*: the server is not reached$`, strings.TrimSpace(lamp))
			require.True(t, b.Has("heading", "Now"), "what was shown stays")
			trouble.up()
			browsertest.JS[bool](b, quick)
			b.Wait("it goes on", `document.getElementById("live").dataset.state === "on"`)
			b.WaitGone("the server is not reached")
		}
	})
}

// A store that is slow, but there, empties no page, and is never said to take no message.
func TestASlowStoreEmptiesNoPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, keys)
	far := redistest.NewProxy(t, w.redis.Addr())
	slow := w.serve("REDIS_URL=" + far.URL())
	w.onScreens(t, func(t *testing.T, s screen, b *browsertest.Tab) {
		slow.signIn(b, adminKey)
		far.Delay(200 * time.Millisecond)
		defer far.Delay(0)
		slow.emptiesNoPage(t, w, s, b)
	})
}

// emptiesNoPage opens the first page five times, and publishes beside it.
func (i *instance) emptiesNoPage(t *testing.T, w *world, s screen, b *browsertest.Tab) {
	t.Helper()
	shown := 0
	for n := range 5 {
		status := b.Try(i.page("/console/"))
		text := b.Text()
		require.NotContains(t, text, "no message is accepted")
		require.NotContains(t, text, "Redis can't be reached")
		_, err := i.Publish(t.Context(), &wire.Message{ID: fmt.Sprint("beside_", s.name, "_", n), Topic: "a", URL: w.at("ok"), Body: []byte("1")})
		require.NoError(t, err, "it is accepted meanwhile")
		if status == http.StatusOK {
			shown++
			require.Empty(t, b.JSText(`[...document.querySelectorAll("main .card")].filter(e => e.innerText.trim().split("\n").length < 2).map(e => e.outerHTML).join()`), "a card has its content, or says that it was not ready")
			continue
		}
		require.Contains(t, text, "This took too long")
	}
	require.Positive(t, shown)
}
