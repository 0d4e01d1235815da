package app_test

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

var secretText = regexp.MustCompile(`whsec_[A-Za-z0-9+/]+=*`)

// shownSecrets are the secrets that a page shows, and one empty text if it shows none. A page
// has a + of theirs as an entity of HTML.
func shownSecrets(p page) []string {
	if all := secretText.FindAllString(html.UnescapeString(p.text), -1); len(all) > 0 {
		return all
	}
	return []string{""}
}

// The reload of a rotation, a colleague with its URL, and somebody who reads Redis.
func TestAReloadOfWhatIsShownOnceActsNeverAgain(t *testing.T) {
	server := redistest.Start(t)
	p := start(t, peoplesOptions(t, server.URL()))
	e := p.mustEndpoint("A", newTestTaker(t))
	who, colleague := p.signedIn("boss"), p.signedIn("boss")
	done := who.act("/console/endpoints/"+e+"/rotate", url.Values{"overlap": {"1h"}})
	require.Equal(t, http.StatusSeeOther, done.StatusCode)
	require.Empty(t, shownSecrets(done)[0])
	to := done.Header.Get("Location")
	secret := shownSecrets(who.get(to))[0]
	require.NotEmpty(t, secret)
	secrets, err := p.boss().EndpointSecret(t.Context(), e)
	require.NoError(t, err)
	require.Equal(t, secret, secrets.Secrets[0].Secret)
	require.Equal(t, secret, shownSecrets(who.get(to))[0], "a reload shows it again")
	again, err := p.boss().EndpointSecret(t.Context(), e)
	require.NoError(t, err)
	require.Equal(t, secrets, again, "and rotates nothing")
	copied := colleague.get(to)
	require.Equal(t, "/console/endpoints/"+e+"?told=gone", copied.Header.Get("Location"), "the same key, but another session")

	path, _ := p.mustLink(wire.LinkRequest{Tenant: "A", Manage: true})
	merchant := p.openedLink(path)
	require.Equal(t, http.StatusNotFound, newPerson(t, p.api).get(strings.Replace(to, "/console/", "/link/", 1)).StatusCode)
	require.Contains(t, merchant.get(strings.Replace(to, "/console/", "/link/", 1)).Header.Get("Location"), "told=gone")
	wrong := merchant.act("/link/endpoints/"+e, url.Values{"url": {"no url"}}).Header.Get("Location")
	require.Contains(t, merchant.get(wrong).text, `value="no url"`)

	options, err := redis.ParseURL(server.URL())
	require.NoError(t, err)
	client := redis.NewClient(options)
	defer client.Close() //nolint:errcheck // the test is over
	names, err := client.Keys(t.Context(), "*:shown:*").Result()
	require.NoError(t, err)
	require.Len(t, names, 2, "of the session and the link")
	for _, name := range names {
		require.Positive(t, client.PTTL(t.Context(), name).Val())
		for id, page := range client.HGetAll(t.Context(), name).Val() {
			for _, text := range []string{id, page} {
				require.NotContains(t, text, secret)
				require.NotContains(t, text, "<html", "it is sealed")
				require.NotContains(t, to, text)
			}
		}
	}
	require.NoError(t, p.end())
}

func TestAnActionWithoutRedisLeadsToAPageThatSaysSo(t *testing.T) {
	server := redistest.Start(t)
	p := start(t, peoplesOptions(t, server.URL()))
	e := p.mustEndpoint("A", newTestTaker(t))
	who := p.signedIn("boss")
	server.Stop()
	who.away = true
	done := who.act("/console/endpoints/"+e+"/rotate", url.Values{"overlap": {"1h"}})
	require.Equal(t, http.StatusSeeOther, done.StatusCode)
	require.Equal(t, "/console/endpoints/"+e+"/rotate?told=unknown", done.Header.Get("Location"))
	require.Equal(t, http.StatusServiceUnavailable, who.get(done.Header.Get("Location")).StatusCode)
	server.Restart()
	who.away = false
	require.Eventually(t, func() bool {
		return strings.Contains(who.get(done.Header.Get("Location")).text, "It is unknown whether this was done")
	}, patience, 10*time.Millisecond)
}
