package admin_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

func TestDoctorTellsOfAMessageWithoutItsBody(t *testing.T) {
	t.Parallel()
	p := newTestWard(t, redistest.Start(t))
	p.fill()
	p.alive("one")
	p.put("big", to("a"), redisqtest.Bulky)
	p.do("DEL", p.key("bodies"))
	out, found := p.examine(true)
	require.Equal(t, []string{"no_body"}, kinds(found))
	require.Zero(t, out.Fixed)
}

// Fields of bodies are read a page at a time. An older Redis answers fields
// only with their bodies: then a page has few of them.
func TestDoctorReadsBodiesAPageAtATime(t *testing.T) {
	const n, size = 300, 64 << 10
	p := newTestWard(t, redistest.Start(t))
	p.fill()
	p.alive("one")
	for i := range n {
		p.do("HSET", p.key("bodies"), fmt.Sprintf("x%03d 0123456789abcdef", i), strings.Repeat("x", size))
	}
	g := redisqtest.Measure(p.client, nil)
	_, found := p.examine(false)
	require.Equal(t, n, len(found))
	pages := 0
	for _, s := range g.All() {
		if s.Name == "hkeys" {
			require.Less(t, s.Size, 10, "of instances, not of bodies")
		}
		if s.Name == "hscan" {
			pages++
			require.LessOrEqual(t, s.Bytes, 2<<20)
		}
	}
	require.Greater(t, pages, n/64)
}
