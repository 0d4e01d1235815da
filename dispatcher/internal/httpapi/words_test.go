package httpapi_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

// The document has each list of words where a field of package wire, or a filter of the
// client, has the tag of the list, so no list is written a second time.
func TestTheWordsOfTheDocumentAreThoseOfTheLists(t *testing.T) {
	files, err := filepath.Glob("../../wire/*.go")
	require.NoError(t, err)
	files = append(files, "../../client/filters.go")
	lists, used := dispatcher.WordLists(), map[string]bool{"notice": true, "job-left": true} // topics, and keys of an object
	tag := regexp.MustCompile(`\bwords:"([^"]*)"`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NotRegexp(t, `\benum:"[^"]*,`, string(text), "%s: list the words in package dispatcher", file)
		for _, m := range tag.FindAllStringSubmatch(string(text), -1) {
			require.NotEmpty(t, lists[m[1]], m[1])
			used[m[1]] = true
		}
	}
	for name := range lists {
		require.True(t, used[name], "no field has the list %s", name)
	}
	text := Get(newTestAPI(t, &Fake{}), "/openapi.json").Body.String()
	for name, of := range map[string]string{"status": "status", "reason": "dead_reason", "waiting": "waiting_for", "class": "class", "scheme": "signature"} {
		require.Contains(t, text, `"`+of+`":{`)
		require.Contains(t, text, `"enum":["`+strings.Join(lists[name], `","`)+`"]`, of)
	}
}

func TestATakerMayReportEachOutcome(t *testing.T) {
	h := newTestAPI(t, &Fake{})
	for _, outcome := range dispatcher.TakerOutcomes() {
		body := Post(h, "/v1/queues/orders/settle", `{"results":[{"id":"q_orders:a","outcome":"`+outcome+`"}]}`).Body.String()
		require.NotContains(t, body, `"$.results[0].outcome"`, outcome)
	}
	body := Post(h, "/v1/queues/orders/settle", `{"results":[{"id":"q_orders:a","outcome":"done"}]}`).Body.String()
	require.Contains(t, body, strings.Join(dispatcher.TakerOutcomes()[:3], ", "))
}
