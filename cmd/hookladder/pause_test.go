package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// newTestLanes answers each call with the next page of other tenants.
func newTestLanes(t *testing.T, pages ...string) (environ []string, calls *[]string) {
	t.Helper()
	calls = new([]string)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page := pages[len(*calls)]
		*calls = append(*calls, r.Method+" "+r.URL.RequestURI())
		w.Header().Set("content-type", "application/json")
		if page == "" {
			w.Header().Set("content-type", "application/problem+json")
			w.WriteHeader(http.StatusServiceUnavailable)
			page = `{"type":"/problems/unavailable","title":"The store can't be reached","status":503}`
		}
		fmt.Fprint(w, page)
	}))
	t.Cleanup(server.Close)
	return []string{"HOOKLADDER_URL=" + server.URL, "HOOKLADDER_API_KEY=0123456789abcdef"}, calls
}

func aPage(others string) string {
	return `{"lane":"u_1","state":"paused","other_tenants":{` + others + `}}`
}

func TestPauseOfAURLTellsOfOtherTenants(t *testing.T) {
	for others, want := range map[string]string{
		`"lanes":0`:                      "",
		`"lanes":12,"next_cursor":null`:  "other tenants have 12 lanes at this origin; for all: hookladder pause 'https://shop.example' --all-tenants\n",
		`"lanes":12,"next_cursor":"1-0"`: "other tenants have at least 12 lanes",
		`"lanes":12,"failed":1`:          "some could not be counted",
	} {
		environ, _ := newTestLanes(t, aPage(others))
		got := command(t, environ, "", "pause", "https://shop.example/hooks?token=hunter2")
		require.Equal(t, exitOK, got.code, got.err)
		require.Contains(t, got.err, want)
		require.NotContains(t, got.err, "hunter2")
		require.Equal(t, want == "", got.err == "")
	}
}

func TestPauseOfAllTenantsGoesOnToTheEnd(t *testing.T) {
	for _, verb := range []string{"pause", "resume"} {
		environ, calls := newTestLanes(t, aPage(`"lanes":1000,"changed":1000,"next_cursor":"0-7"`), aPage(`"lanes":2,"changed":2,"next_cursor":null`))
		got := command(t, environ, "", verb, "https://shop.example", "--all-tenants")
		require.Equal(t, exitOK, got.code, got.err)
		path := "POST /v1/lanes/https:%2F%2Fshop.example/" + verb
		require.Equal(t, []string{path + "?all_tenants=true", path + "?all_tenants=true&cursor=0-7"}, *calls)
		require.Contains(t, got.err, "lanes of other tenants changed: 1002")
		require.Equal(t, 1, strings.Count(got.out, "u_1"))
	}
}

func TestPauseOfAllTenantsThatIsHalfDoneSaysSo(t *testing.T) {
	environ, _ := newTestLanes(t, aPage(`"lanes":5,"changed":3,"failed":2,"next_cursor":null`))
	got := command(t, environ, "", "pause", "https://shop.example", "--all-tenants", "--json")
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.out, `"failed": 2`)
	require.Contains(t, got.err, "lanes of other tenants: 3 changed, 2 failed; repeat the command")

	environ, _ = newTestLanes(t, aPage(`"lanes":5,"changed":5,"next_cursor":"0-7"`), "", "", "", "", "", "")
	got = command(t, environ, "", "pause", "https://shop.example", "--all-tenants")
	require.NotEqual(t, exitOK, got.code)
	require.Contains(t, got.err, "changed before: 5; repeat the command")

	for _, args := range [][]string{{"*"}, {"u_1"}, {"https://shop.example", "--tenant", "t"}} {
		got = command(t, environ, "", append([]string{"pause", "--all-tenants"}, args...)...)
		require.Equal(t, exitUsage, got.code, args)
	}
}
