package e2e_test

import (
	"net/http"
	"net/http/cookiejar"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
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
