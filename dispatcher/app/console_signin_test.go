package app_test

import (
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/app"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

func TestSignInsWithAKeyAreLimitedAtAllInstancesTogether(t *testing.T) {
	at := redistest.Start(t).URL()
	instances := []*process{start(t, peoplesOptions(t, at)), start(t, peoplesOptions(t, at))}
	for i := range dispatcher.SignIns {
		instances[i%2].signedIn("audit")
	}
	for _, p := range instances {
		who := newPerson(t, p.api)
		refused := who.act("/console/sign-in", url.Values{"key": {peoplesKeys["audit"]}})
		wait, err := strconv.Atoi(refused.Header.Get("Retry-After"))
		require.NoError(t, err)
		require.InDelta(t, 30, wait, 31)
		require.Empty(t, refused.Cookies())
		got := who.get(refused.Header.Get("Location"))
		require.Equal(t, http.StatusTooManyRequests, got.StatusCode)
		require.Contains(t, got.text, "Too many people signed in with this key")
		p.signedIn("boss")
	}
}

func TestAFullStoreSaysThatNobodyNewCanSignIn(t *testing.T) {
	server := redistest.Start(t)
	p := start(t, peoplesOptions(t, server.URL()))
	before := p.signedIn("boss")
	opts, err := redis.ParseURL(server.URL())
	require.NoError(t, err)
	raw := redis.NewClient(opts)
	t.Cleanup(func() { _ = raw.Close() })
	require.NoError(t, raw.ConfigSet(t.Context(), "maxmemory", "1").Err())
	got := newPerson(t, p.api).signIn(peoplesKeys["boss"])
	require.Equal(t, http.StatusServiceUnavailable, got.StatusCode)
	require.Contains(t, got.text, "Redis has no memory left")
	require.Contains(t, got.text, "maxmemory")
	require.Empty(t, got.Cookies())
	require.Equal(t, http.StatusOK, before.get("/console/").StatusCode, "those who are in stay in")
}

func TestALinkEndsWithItsKeyAndTheLogSaysHowMany(t *testing.T) {
	o := peoplesOptions(t, redistest.Start(t).URL())
	o.Keys = mustParseKeys(t, peoplesKeys["boss"]+":admin:boss,"+peoplesKeys["shop"]+":admin:leaver")
	var log logged
	o.Log = slog.New(slog.NewTextHandler(&log, nil))
	renew := make(chan app.Renewal)
	o.Renew = renew
	p := start(t, o)
	var theirs []*person
	leaver, err := client.New(p.api, peoplesKeys["shop"])
	require.NoError(t, err)
	for range 3 {
		made, err := leaver.CreateLink(t.Context(), wire.LinkRequest{Tenant: "A"})
		require.NoError(t, err)
		theirs = append(theirs, p.openedLink(strings.TrimPrefix(made.URL, "http://console.test")))
	}
	path, id := p.mustLink(wire.LinkRequest{Tenant: "A"})
	ours := p.openedLink(path)
	require.Equal(t, http.StatusOK, theirs[0].get("/link/").StatusCode)

	done := make(chan error, 1)
	renew <- app.Renewal{Keys: mustParseKeys(t, peoplesKeys["boss"]+":admin:boss"), Secrets: o.Engine.Secrets, Done: done}
	require.NoError(t, <-done)
	for _, who := range theirs {
		require.Equal(t, http.StatusNotFound, who.get("/link/").StatusCode)
	}
	require.Equal(t, http.StatusOK, ours.get("/link/").StatusCode)
	page, err := p.boss().Links(t.Context(), 10, "")
	require.NoError(t, err)
	require.Len(t, page.Data, 4)
	for _, l := range page.Data {
		require.Equal(t, l.ID != id, l.Ended == dispatcher.EndedKey, "%+v", l)
	}
	require.Eventually(t, func() bool {
		return strings.Contains(log.String(), `msg="links ended with their keys" keys=1 links=3`)
	}, patience, time.Millisecond)
	require.NoError(t, p.boss().RevokeLink(t.Context(), page.Data[0].ID))
}
