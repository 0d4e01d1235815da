package redisq_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// common.lua defines the names of the keys, and keys.go repeats them.
func TestScriptsAndGoNameTheKeysAlike(t *testing.T) {
	lists := regexp.MustCompile(`(?m)^local ([A-Z, ]+) = ((?:tag \.\. '[^']+'(?:, )?)+)$`).FindAllStringSubmatch(redisq.CommonSrc, -1)
	inLua := map[string]string{}
	for _, list := range lists {
		names := strings.Split(list[1], ", ")
		values := regexp.MustCompile(`tag \.\. '([^']+)'`).FindAllStringSubmatch(list[2], -1)
		require.Len(t, values, len(names), list[0])
		for i, name := range names {
			inLua[name] = values[i][1]
		}
	}
	inGo := map[string]string{}
	for _, k := range keys.Kinds {
		inGo[k.Lua] = k.Name
	}
	require.Equal(t, inGo, inLua)
}

// withoutHint are parts of scripts, and scripts that need no hint.
var withoutHint = []string{"audit", "common", "limits", "lane_state", "slots", "progress", "sums", "leases", "finish", "ends", "order", "lease_ready", "outcome", "verdict", "doctor", "reach", "server", "which_server", "taken", "expiry", "read", "job", "cut", "beat", "identify", "meta", "job_put", "position", "archive_state", "archived", "unfinished", "named", "access_common", "health", "tenant", "subject", "torn", "weight", "turns", "quick", "messages", "quick_schedule", "quick_claim", "quick_settle"}

// atHome begin the names of scripts on the project's own keys.
var atHome = []string{"endpoint_", "session_", "link_", "shown_"}

func TestEveryScriptHasAHeaderThatNamesItsArgumentsAndItsAnswer(t *testing.T) {
	for name, text := range luaFiles(t) {
		require.True(t, strings.HasPrefix(text, "-- "+name+": "), "%s begins with its name", name)
		require.Contains(t, text, "ARGV[", name)
		if !slices.Contains(withoutHint, name) &&
			!slices.ContainsFunc(atHome, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) && !strings.HasPrefix(name, "repartition_") { // these need no hint
			require.Contains(t, text, "-- returns now, due, weight", name)
		}
	}
}

// If the declared key existed, a script could run in a slot that is moving.
func TestScriptsDeclareNoKeyButTheTag(t *testing.T) {
	for name, text := range luaFiles(t) {
		for i, line := range strings.Split(text, "\n") {
			code, _, _ := strings.Cut(line, "--")
			if strings.Contains(code, "KEYS") {
				own := name == "common" || name == "beat" || name == "identify" || name == "meta" || name == "job_put" || name == "audit" || name == "access_common" || name == "health" || strings.HasPrefix(name, "endpoint_")
				require.True(t, own, "%s, line %d", name, i+1)
				require.Contains(t, code, "KEYS[1]", "line %d", i+1)
			}
			if strings.Contains(code, "'TIME'") {
				require.Contains(t, []string{"common", "access_common"}, name, "TIME is read once: line %d", i+1)
			}
		}
	}
}

// misplaced finds a call of a rare function in the place of a field or of a new local. Each word with the
// name of a rare function becomes such a call.
var misplaced = regexp.MustCompile(`[.:] *rare\d+\(\)|local [^=\n]*rare\d+\(\)\.|rare\d+\(\)\.\w+ = `)

func TestNoScriptCallsAFunctionThatWasPruned(t *testing.T) {
	functions := map[string]bool{}
	define := regexp.MustCompile(`\bfunction (\w+)\(`)
	for _, text := range luaFiles(t) {
		for _, match := range regexp.MustCompile(`(?m)^local function (\w+)\(`).FindAllStringSubmatch(text, -1) {
			functions[match[1]] = true
		}
	}
	texts := redisq.ScriptTexts()
	require.Greater(t, len(texts), 15)
	call := regexp.MustCompile(`(?:^|[^.\w])(\w+)\(`)
	for script, text := range texts {
		defined := map[string]bool{}
		for _, match := range define.FindAllStringSubmatch(text, -1) {
			defined[match[1]] = true
		}
		for _, match := range call.FindAllStringSubmatch(text, -1) {
			require.True(t, defined[match[1]] || !functions[match[1]], "%s in %s", match[1], script)
		}
		require.NotRegexp(t, misplaced, text, "%s has a field or a local with the name of a rare function", script)
	}
}

// luaFiles are the texts of all scripts and their parts, by name, also those of
// the packages below.
func luaFiles(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, pattern := range []string{"lua/*.lua", "*/lua/*.lua"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, file := range files {
			src, err := os.ReadFile(file)
			require.NoError(t, err)
			name := strings.TrimSuffix(filepath.Base(file), ".lua")
			require.NotContains(t, texts, name, "two scripts have one name")
			texts[name] = string(src)
		}
	}
	require.Greater(t, len(texts), 18)
	return texts
}
