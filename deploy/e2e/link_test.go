package e2e_test

import (
	"encoding/json"
	"net/http"
	"net/http/cookiejar"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

// A link that is made at one instance opens at another; and one that is revoked opens nothing
// any more, not even for a browser that it let in.
func TestALinkOpensAtEveryInstanceUntilItIsRevoked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	all := w.serves(2, "PUBLIC_URL=http://localhost")
	env := []string{"HOOKLADDER_URL=" + all[0].URL}
	got := mustRun(t, env, "", "link", "--tenant", "m7", "--for", "1h")
	require.Equal(t, exitOK, got.code, got.err)
	link, _, _ := strings.Cut(got.out, "\n")
	path, ours := strings.CutPrefix(link, "http://localhost")
	require.True(t, ours, link)
	id := strings.Fields(got.out)[2]

	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	browser := &http.Client{Jar: jar}
	status := func(method, path string) int {
		req, err := http.NewRequestWithContext(t.Context(), method, all[1].URL+path, nil)
		require.NoError(t, err)
		res, err := browser.Do(req)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		return res.StatusCode
	}
	require.NotEqual(t, http.StatusOK, status(http.MethodGet, "/link/"))
	require.Equal(t, http.StatusOK, status(http.MethodPost, path), "it leads to the merchant's page")
	require.Equal(t, http.StatusOK, status(http.MethodGet, "/link/"))

	got = mustRun(t, env, "", "link", "revoke", id)
	require.Equal(t, exitOK, got.code, got.err)
	require.NotEqual(t, http.StatusOK, status(http.MethodGet, "/link/"))
	require.NotEqual(t, http.StatusOK, status(http.MethodPost, path))
	require.Equal(t, exitNotFound, mustRun(t, env, "", "link", "revoke", id).code)
	token := strings.TrimPrefix(path, "/link/")
	for _, i := range all {
		require.NotContains(t, i.log(), token)
	}
}

// What a link set was the last thing that an instance did before it died: the endpoint has
// it, and its lane does not. The next one holds what comes until a test succeeded.
func TestAURLThatALinkSetWaitsForATestAfterACrash(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.serve()
	e, _, err := first.CreateEndpoint(t.Context(), &wire.Endpoint{UID: "shop", URL: w.receiver.URL(0), Secret: w.secret.Reveal()})
	require.NoError(t, err)
	first.Kill()
	const records = "{default}:endpoints"
	stored, err := w.rdb.HGet(t.Context(), records, e.ID).Result()
	require.NoError(t, err)
	halfDone, found := strings.CutPrefix(stored, "1 {")
	require.True(t, found, stored)
	require.NoError(t, w.rdb.HSet(t.Context(), records, e.ID, `2 {"unverified":true,`+halfDone).Err())

	i := w.serve()
	env := []string{"HOOKLADDER_URL=" + i.URL}
	i.publish(wire.Message{ID: "waits", Endpoint: "shop"})
	i.untilIt("waits", "ready", func(d wire.Delivery) bool { return d.WaitingFor == "paused" })
	view, err := i.Endpoint(t.Context(), "shop")
	require.NoError(t, err)
	require.Equal(t, "unverified", view.State)
	got := mustRun(t, env, "", "why", "waits")
	require.Contains(t, got.out, "since a link set its URL")
	require.Contains(t, got.out, "hookladder endpoints test "+e.ID)

	got = mustRun(t, env, "", "endpoints", "test", "shop", "--json")
	require.Equal(t, exitOK, got.code, got.err)
	var tested wire.EndpointTest
	require.NoError(t, json.Unmarshal([]byte(got.out), &tested))
	w.receiver.expect(tested.MessageID, &wire.Message{Body: []byte(w.receiver.wait(tested.MessageID, 1).body)})
	i.until("waits", "delivered")
	view, err = i.Endpoint(t.Context(), "shop")
	require.NoError(t, err)
	require.Equal(t, "active", view.State)
}
