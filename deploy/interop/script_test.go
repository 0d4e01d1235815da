package interop_test

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/interop"
	"github.com/hookladder/hookladder/signer"
)

// The script itself runs where Node is: npm test, here.

func TestTheScriptReadsWhatWeWrite(t *testing.T) {
	script, err := os.ReadFile("verify.mjs")
	require.NoError(t, err)
	found := regexp.MustCompile(`const \{ (.+) \} = JSON\.parse\(`).FindSubmatch(script)
	require.NotNil(t, found, "verify.mjs reads its input in another way")

	text, err := json.Marshal(mustCases(t)[0].Callback)
	require.NoError(t, err)
	var fields, headers map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(text, &fields))
	require.ElementsMatch(t, strings.Split(string(found[1]), ", "), slices.Collect(maps.Keys(fields)))

	require.NoError(t, json.Unmarshal(fields["headers"], &headers))
	require.ElementsMatch(t, []string{signer.HeaderID, signer.HeaderTimestamp, signer.HeaderSignature}, slices.Collect(maps.Keys(headers)))
	for name := range headers {
		require.Contains(t, string(script), `"`+name+`"`, "its description names every header")
	}
}

func TestTheScriptsTestReadsEveryFieldOfACase(t *testing.T) {
	test, err := os.ReadFile("verify.test.mjs")
	require.NoError(t, err)
	found := regexp.MustCompile(`for \(const \{ (.+) \} of JSON\.parse\(`).FindSubmatch(test)
	require.NotNil(t, found, "verify.test.mjs reads the cases in another way")

	text, err := json.Marshal(interop.Case{})
	require.NoError(t, err)
	var fields map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(text, &fields))
	require.ElementsMatch(t, strings.Split(string(found[1]), ", "), slices.Collect(maps.Keys(fields)))
}
