package browser_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

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
