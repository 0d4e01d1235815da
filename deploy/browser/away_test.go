package browser_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestARedisThatIsAwayIsToldAndComesBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, keys)
	b := w.tab(t)
	w.signIn(b, adminKey)
	b.Allow("503")
	for _, trouble := range []struct {
		name       string
		break_, up func()
	}{
		{"it hangs", w.redis.Pause, w.redis.Resume},
		{"it is killed", w.redis.Kill, w.redis.Restart},
	} {
		trouble.break_()
		require.Equal(t, http.StatusServiceUnavailable, b.Try(w.page("/console/")), trouble.name)
		b.WaitFor("Redis can't be reached")
		b.WaitGone("API key", "Sign in")
		b.Shot("away")
		require.Empty(t, b.Axe())
		trouble.up()
		b.WaitHas("heading", "Now") // by itself
		b.WaitFor("alice")
	}
}

func TestAnOpenPageSaysThatRedisIsAwayAndGoesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.tab(t)
	b.Allow("503")
	b.Open(w.page("/console/"))
	b.WaitFor("Live")
	w.redis.Pause()
	b.WaitFor("Redis is away")
	require.True(t, b.Has("heading", "Now"), "what was shown stays")
	w.redis.Resume()
	b.WaitGone("Redis is away")
	b.WaitFor("Live")
}
