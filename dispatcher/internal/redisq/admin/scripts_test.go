package admin_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/admin"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

func TestNoScriptCallsAFunctionThatWasPruned(t *testing.T) {
	functions := map[string]bool{}
	for _, pattern := range []string{"lua/*.lua", "../conn/lua/*.lua"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, file := range files {
			src, err := os.ReadFile(file)
			require.NoError(t, err)
			for _, match := range regexp.MustCompile(`(?m)^local function (\w+)\(`).FindAllStringSubmatch(string(src), -1) {
				functions[match[1]] = true
			}
		}
	}
	define, call := regexp.MustCompile(`\bfunction (\w+)\(`), regexp.MustCompile(`(?:^|[^.\w])(\w+)\(`)
	require.NotEmpty(t, admin.ScriptTexts())
	for script, text := range admin.ScriptTexts() {
		defined := map[string]bool{}
		for _, match := range define.FindAllStringSubmatch(text, -1) {
			defined[match[1]] = true
		}
		for _, match := range call.FindAllStringSubmatch(text, -1) {
			require.True(t, defined[match[1]] || !functions[match[1]], "%s in %s", match[1], script)
		}
	}
}

// The scripts make the names of the keys that keys.go has.
func TestEndpointScriptsAndGoNameTheKeysAlike(t *testing.T) {
	list := regexp.MustCompile(`(?m)^local ([A-Z, ]+) = ((?:tag \.\. '[^']+'(?:, )?)+)$`)
	quoted := regexp.MustCompile(`tag \.\. '([^']+)'`)
	inGo := map[string]string{}
	for _, k := range keys.HomeKinds {
		inGo[k.Lua] = k.Name
	}
	for script, text := range admin.EndpointScripts {
		found := list.FindStringSubmatch(text)
		require.NotNil(t, found, script)
		names, values := strings.Split(found[1], ", "), quoted.FindAllStringSubmatch(found[2], -1)
		require.Len(t, values, len(names), script)
		require.Equal(t, len(values), strings.Count(text, "tag .."), "%s makes a name elsewhere", script)
		for i, name := range names {
			require.Equal(t, inGo[name], values[i][1], script)
		}
	}
}
