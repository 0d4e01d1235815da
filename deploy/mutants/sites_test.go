package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func changes(found []mutant) (list []string) {
	for _, m := range found {
		list = append(list, oneLine(m.new))
	}
	return list
}

func TestLinesOfLuaAreChangedOnePlaceAtATime(t *testing.T) {
	for line, want := range map[string][]string{
		"  call('DEL', tag) -- a and b < c":          {"-- a and b < c"},
		"  if at <= now and ok then return 1 end":    {"nothing", "if at < now and ok then return 1 end", "if at <= now or ok then return 1 end"},
		"  n = math.max(n, 1) - 1":                   {"nothing", "n = math.max(n, 1)", "n = math.min(n, 1) - 1"},
		"local text = 'a < b and c'":                 nil,
		"  if text ~= 'it\\'s < 3' then":             {"if text == 'it\\'s < 3' then"},
		"  return not ok":                            {"return ok"},
		"local function f(a)":                        nil,
		"  answer[1], answer[2], answer[3] = f()":    {"nothing"},
		"  count('ready', -#names) -- of the lane":   {"-- of the lane"},
		"  lists[l], whole[l] = list, #list <= upto": {"nothing", "lists[l], whole[l] = list, #list < upto"},
	} {
		require.Equal(t, want, changes(luaMutants("x.lua", line)), line)
	}
}

func TestStatementsOfGoAreChangedOnePlaceAtATime(t *testing.T) {
	found, err := goMutants("x.go", []byte(`package x

func f(a, b int) int {
	if a < b {
		a++
	}
	c := a + b
	c = 3
	f(c, 1)
	return c
}
`))
	require.NoError(t, err)
	require.Equal(t, []string{"!(a < b)", "a <= b", "nothing", "a - b", "_ = 0", "nothing"}, changes(found))
}

func TestAPackageReadsItsScriptsFromFiles(t *testing.T) {
	changed, ok := readsFiles("package x\n\n//go:embed lua/*.lua\nvar parts embed.FS\n")
	require.True(t, ok)
	require.Equal(t, "package x\n\nvar parts mutantScripts\n\nvar _ embed.FS\n", changed)
	_, ok = readsFiles("package x\n")
	require.False(t, ok)
}

func TestTheDeepestFailedTestIsNamed(t *testing.T) {
	require.Equal(t, "TestA/b/c", firstFailure([]byte("--- FAIL: TestA (0.1s)\n    --- FAIL: TestA/b (0.1s)\n        --- FAIL: TestA/b/c (0.1s)\n--- FAIL: TestZ (0.1s)\n")))
	require.Equal(t, "the end of the tests", firstFailure([]byte("panic: test timed out")))
}
