package console_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// manyEndpoints are pages of endpoints: 90 of 250 fail, and some are not active.
func manyEndpoints() map[string]string {
	answers := map[string]string{"GET /v1/lanes": `{"data":[],"next_cursor":null}`}
	for page := range 3 {
		var list []string
		for n := range min(100, 250-100*page) {
			i := 100*page + n
			state, more := "active", ""
			switch {
			case i%25 == 1:
				state = "paused"
			case i%25 == 2 && i > 100:
				state = "disabled"
			case i >= 150 && i < 240 && state == "active":
				state, more = "open", `,"failing_since":"2026-11-22T12:00:00Z","last_failure":{"at":"2026-11-22T12:00:00Z","error":"status 503"}`
			case i == 3:
				more = `,"failing_since":"2026-11-22T12:00:00Z"`
			}
			list = append(list, fmt.Sprintf(`{"id":"ep_%d","uid":"shop-%[1]d","state":"%s","waiting":%[1]d%[3]s}`, i, state, more))
		}
		next, at := fmt.Sprintf(`"c%d"`, page+1), fmt.Sprintf("cursor=c%d&", page)
		if page == 2 {
			next = "null"
		}
		if page == 0 {
			at = ""
		}
		answers["GET /v1/endpoints?"+at+"limit=500"] = `{"data":[` + strings.Join(list, ",") + `],"next_cursor":` + next + `}`
	}
	return answers
}

var stateOfRow = regexp.MustCompile(`<tr id="ep_\d+"><td class="c-state"><span class="status s-(\w+)`)

func TestEndpointsThatFailComeFirst(t *testing.T) {
	_, pages := newTestPages(t, manyEndpoints())
	first := pages(get("/console/endpoints")).Body.String()
	states := stateOfRow.FindAllStringSubmatch(first, -1)
	require.Len(t, states, 50)
	for _, state := range states {
		require.Equal(t, "open", state[1])
	}
	require.Contains(t, first, `<tr id="ep_239">`, "with the most waiting")
	require.Contains(t, first, "status 503")
	require.Contains(t, first, `href="/console/endpoints?from=50"`)
	opened := regexp.MustCompile(`href="/console/endpoints\?state=open"[^>]*>stopped calling <span class="n">(\d+)`).FindStringSubmatch(first)
	require.NotNil(t, opened)
	only := pages(get("/console/endpoints?state=open&from=50")).Body.String()
	require.Equal(t, opened[1], fmt.Sprint(50+len(stateOfRow.FindAllString(only, -1))))
	require.Contains(t, pages(get("/console/endpoints?state=failing")).Body.String(), `<tr id="ep_3">`)
}

func TestAnUnknownStateIsRefusedOnThePage(t *testing.T) {
	_, pages := newTestPages(t, manyEndpoints())
	w := pages(get("/console/endpoints?state=broken"))
	require.Equal(t, http.StatusUnprocessableEntity, w.Code)
	require.Contains(t, w.Body.String(), "there is no state &#34;broken&#34;")
}

func TestEndpointsAreSearchedByAPart(t *testing.T) {
	answers := manyEndpoints()
	answers["GET /v1/endpoints?like=lilac&limit=500"] = `{"data":[{"id":"ep_7","uid":"lilac-music-orders","state":"active"}],"next_cursor":null}`
	answers["GET /v1/endpoints?like=none&limit=500"] = `{"data":[],"next_cursor":null}`
	_, pages := newTestPages(t, answers)
	require.Contains(t, pages(get("/console/endpoints?like=lilac")).Body.String(), "lilac-music-orders")
	require.Contains(t, pages(get("/console/endpoints?like=none")).Body.String(), "No endpoint matches none: it was looked for in uids, tenants and hosts.")
}
