package conn_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
)

const unpruned = `-- a header that names far()
local A, B, C = tag .. ':a', tag .. ':b', tag .. ':c'
local limit = 8 -- of near
local function far(x) return x + limit end
local function near(x)
  if x then
    return far(x)
  end
  return B
end
local function lost(x) return near(x) .. A end
local function lone()
  local function near_none() return C end
  return near_none()
end
return near(1)
`

func TestPrunedScriptsHaveOnlyWhatTheyUse(t *testing.T) {
	got := conn.PruneScript(unpruned)
	for _, kept := range []string{"  return tag .. ':b'\nend\n", "local limit = 8", "local function far(x) return x + limit end\n", "return near(1)\n"} {
		require.Contains(t, got, kept)
	}
	for _, gone := range []string{"lost", "lone", "near_none", "':a'", "':c'", "--"} {
		require.NotContains(t, got, gone)
	}
	require.Equal(t, got, conn.PruneScript(got), "nothing is left to prune")
}

func TestAPrunedScriptWithoutKeysHasNoNames(t *testing.T) {
	require.Equal(t, "return tag .. ':far'\n", conn.PruneScript("local A = tag .. ':far'\nlocal function far(x) return x end\nreturn A\n"), "a key is no use of a function")
	require.NotContains(t, conn.PruneScript("local A, B = tag .. ':a', tag .. ':b'\nreturn 1\n"), "local")
}

// If a line were taken for a part of a function, its removal would change what
// a script does.
func TestPruningLosesNothingBetweenFunctions(t *testing.T) {
	text := "local function a()\n  return 1\nend\nlocal x = a()\nlocal function b() return x end\nlocal function c()\nend\nreturn b()\n"
	require.Equal(t, "local function a()\n  return 1\nend\nlocal x = a()\nlocal function b() return x end\nreturn b()\n", conn.PruneScript(text))
}

// If two functions have one name, the uses of the second one must be seen too.
func TestPruningSeesAllFunctionsOfAName(t *testing.T) {
	text := "local function f()\n  return 2\nend\nlocal function a() return 1 end\nlocal function f()\n  return a()\nend\nreturn f()\n"
	require.Equal(t, text, conn.PruneScript(text))
}

// A script may have 200 locals, and a function 60 upvalues. Constants take none of them.
func TestConstantsAreNumbersWhereTheyAreUsed(t *testing.T) {
	text := "local A, BC = 8, 16 -- of near\nlocal D = 3\nlocal x = A\nlocal function near()\n  local D = 4\n  return BC + A_B .. 'A' .. \"BC\" .. ABC .. D\nend\nreturn near(x, BC)\n"
	require.Equal(t, "local D = 3\nlocal x = 8\nlocal function near()\n  local D = 4\n  return 16 + A_B .. 'A' .. \"BC\" .. ABC .. D\nend\nreturn near(x, 16)\n", conn.PruneScript(text),
		"a word in a text, a part of a word, and a local of the same name stay")
}

// A name that is used once takes no local. In a text it is no use of the name.
func TestANameOfAKeyThatIsUsedOnceIsWrittenOut(t *testing.T) {
	text := "local A, B = tag .. ':a', tag .. ':b'\nreturn { A, A, B .. 'B' }\n"
	require.Equal(t, "local A = tag .. ':a'\nlocal B = tag .. ':b'\nreturn { A, A, B .. 'B' }\n", conn.PruneScript(text), "the word looks like a use")
	require.Equal(t, "local A = tag .. ':a'\nreturn { A, A, tag .. ':b' .. 'x' }\n", conn.PruneScript("local A, B = tag .. ':a', tag .. ':b'\nreturn { A, A, B .. 'x' }\n"))
}

// A word in the body of a function on one line is no new name.
func TestAConstantIsANumberInAFunctionOnOneLine(t *testing.T) {
	require.Equal(t, "local function near(x) return x * 8 end\nlocal y = 8\nreturn near(y)\n", conn.PruneScript("local A = 8\nlocal function near(x) return x * A end\nlocal y = A\nreturn near(y)\n"))
}

const withRare = `local A, B = tag .. ':a', tag .. ':b'
local function helper(x) return x .. A end
local function both(x) return x end
local found = 1
local function odder(x) return x .. A .. B end -- rare
local function odd(x) -- rare
  found = found + 1
  return odder(helper(both(x)))
end
local function usual(x)
  if x then return odd(x) end
  return both(found)
end
return usual(ARGV[1])
`

// A call that needs no rare function creates none of them, and no function that only these use.
func TestRareFunctionsAreCreatedTogetherWhenOneIsCalled(t *testing.T) {
	want := `local rare1, rare1_made
local found = 1
local function both(x) return x end
function rare1()
if not rare1_made then
local function helper(x) return x .. tag .. ':a' end
local function odder(x) return x .. tag .. ':a' .. tag .. ':b' end
local function odd(x)
  found = found + 1
  return odder(helper(both(x)))
end
rare1_made = { odd = odd, }
end
return rare1_made
end
local function usual(x)
  if x then return rare1().odd(x) end
  return both(found)
end
return usual(ARGV[1])
`
	require.Equal(t, want, conn.PruneScript(withRare))
}

func TestAScriptThatAlwaysNeedsItsFunctionsStaysAsItIs(t *testing.T) {
	text := "local function usual(x) return x end\nreturn usual(1)\n"
	require.Equal(t, text, conn.PruneScript(text))
	require.Equal(t, "local rare1, rare1_made\nfunction rare1()\nif not rare1_made then\nlocal function odd(x) return x end\nrare1_made = { odd = odd, }\nend\nreturn rare1_made\nend\nreturn rare1().odd(1)\n",
		conn.PruneScript("local function odd(x) return x end -- rare\nreturn odd(1)\n"), "a marked function is rare also if a line of the script calls it")
}

// A line may call a rare function, also through another function. Then the functions behind that line
// do not exist yet.
func TestALineThatNeedsARareFunctionFindsIt(t *testing.T) {
	text := "local function odd() return 1 end -- rare\nlocal function usual() return odd() end\nlocal x = usual()\nlocal function later() return odd() + x end -- rare\nreturn later()\n"
	require.Equal(t, `local rare1, rare1_made
function rare1()
if not rare1_made then
local function odd() return 1 end
rare1_made = { odd = odd, }
end
return rare1_made
end
local function usual() return rare1().odd() end
local x = usual()
local rare2, rare2_made
function rare2()
if not rare2_made then
local function later() return rare1().odd() + x end
rare2_made = { later = later, }
end
return rare2_made
end
return rare2().later()
`, conn.PruneScript(text))
}

// A script that ends early creates nothing for the part behind its end.
func TestAFunctionIsMadeBeforeItsFirstUse(t *testing.T) {
	text := `local A, B = tag .. ':a', tag .. ':b'
local both = 1
local function early(x) return x .. A .. A end
local function helper(x) return x .. B .. B end
local function late(x) return helper(x) end
local x = early(both)
if x then return x end
for i in x do
  late(i)
end
local y = 1
return late(y)
`
	require.Equal(t, `local both = 1
local A = tag .. ':a'
local B = tag .. ':b'
local function early(x) return x .. A .. A end
local function helper(x) return x .. B .. B end
local function late(x) return helper(x) end
local x = early(both)
if x then return x end
for i in x do
  late(i)
end
local y = 1
return late(y)
`, conn.PruneScript(text), "a function is made outside of all blocks")
	text = strings.Replace(text, "if x then return x end\n", "local z = x\n", 1)
	require.Equal(t, `local both = 1
local A = tag .. ':a'
local function early(x) return x .. A .. A end
local x = early(both)
local B = tag .. ':b'
local function helper(x) return x .. B .. B end
local function late(x) return helper(x) end
local z = x
for i in x do
  late(i)
end
local y = 1
return late(y)
`, conn.PruneScript(text))
}

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
