package conn_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
)

// chainOf returns a script of n functions, each of which captures the three functions before it and a local of
// its own. The line of the next local uses it, so it stays before that one.
func chainOf(n int) string {
	var b strings.Builder
	last := ""
	for i := range n {
		fmt.Fprintf(&b, "local x%d = call(%s)\nlocal function f%d() return x%d, f%d, f%d, f%d, call end\n", i, last, i, i, max(i-1, 0), max(i-2, 0), max(i-3, 0))
		last = fmt.Sprintf("f%d()", i)
	}
	return "local call = redis.call\n" + b.String() + fmt.Sprintf("return f%d()\n", n-1)
}

func TestTheSecondPartOfALongScriptIsAFunction(t *testing.T) {
	text := chainOf(40)
	first, second, nested := strings.Cut(conn.PruneScript(text), "return (function()\n")
	require.True(t, nested)
	require.True(t, strings.HasSuffix(second, "end)()\n"))
	require.Equal(t, text, first+strings.TrimSuffix(second, "end)()\n"), "nothing is lost")
	require.Less(t, strings.Count(first, "function"), 20, "the walks of the first part count, too")
	require.Equal(t, chainOf(4), conn.PruneScript(chainOf(4)), "a short script gains nothing")
}

// A function may capture 60 locals of the first part. Without that limit, all locals would be in it.
func TestTheSecondPartCapturesFewEnoughNames(t *testing.T) {
	var b strings.Builder
	for i := range 80 {
		fmt.Fprintf(&b, "local x%d = call(%d)\n", i, i)
	}
	for i := range 70 {
		fmt.Fprintf(&b, "local function f%d() return f%d, x%d, x%d, x%d end\n", i, max(i-1, 0), i, i+5, i+10)
	}
	b.WriteString("return f69(x0")
	for i := range 79 {
		fmt.Fprintf(&b, ", x%d", i+1)
	}
	first, _, nested := strings.Cut(conn.PruneScript(b.String()+")\n"), "return (function()\n")
	require.True(t, nested)
	require.Equal(t, 59, strings.Count(first, "local x"))
}

// A line inside a block is no place to divide a script.
func TestAScriptIsNotDividedInsideABlock(t *testing.T) {
	text := strings.ReplaceAll(chainOf(40), "local x", "if call then\n  y = 1\nend\nlocal x")
	_, second, nested := strings.Cut(conn.PruneScript(text), "return (function()\n")
	require.True(t, nested)
	require.True(t, strings.HasPrefix(second, "local "), second[:20])
}

// Each process makes the same script. Otherwise each start would add another one to the cache of Redis, and a
// hash would not name the script of another process.
func TestAScriptIsDividedAtTheSamePlaceEachTime(t *testing.T) {
	for _, n := range []int{30, 40, 70} {
		first := conn.PruneScript(chainOf(n))
		for range 50 {
			require.Equal(t, first, conn.PruneScript(chainOf(n)))
		}
	}
}
