package app_test

import (
	"fmt"
	"html"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

var (
	secretText = regexp.MustCompile(`whsec_[A-Za-z0-9+/]+=*`)
	shownID    = regexp.MustCompile(`/console/endpoints/(ep_[a-z0-9]+)"`)
	waitsFor   = regexp.MustCompile(`<b>(\d+)</b> waiting`)
)

func TestPeopleMakeChangeAndDeleteAnEndpoint(t *testing.T) {
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusTeapot)
		_, _ = w.Write([]byte("<b>short</b> and stout"))
	}))
	t.Cleanup(receiver.Close)
	p := start(t, newTestOptions(redistest.Start(t).URL()))
	who := newPerson(t, p.api)

	empty := who.do("GET", "/console/endpoints", nil)
	require.Contains(t, empty.text, "hookladder endpoints create")

	wrong := who.post("/console/endpoints", url.Values{"url": {"ftp://<i>"}, "topics": {"a, b c!"}, "max_in_flight": {"many"}, "description": {"typed"}})
	require.Equal(t, http.StatusUnprocessableEntity, wrong.StatusCode)
	require.Contains(t, wrong.text, "must be a whole number")
	require.Contains(t, wrong.text, `value="ftp://&lt;i&gt;"`)
	require.Contains(t, wrong.text, "<details open>", "what is wrong is not hidden")
	wrong = who.post("/console/endpoints", url.Values{"url": {"ftp://<i>"}, "topics": {"a, b c!"}, "description": {"typed"}})
	require.Equal(t, http.StatusUnprocessableEntity, wrong.StatusCode)
	require.Contains(t, wrong.text, `id="w-url"`)
	require.Contains(t, wrong.text, `id="w-topics"`)
	require.Contains(t, wrong.text, ">typed</textarea>", "the form keeps what was typed")
	require.NotContains(t, wrong.text, "<i>")

	made := who.post("/console/endpoints", url.Values{
		"url": {receiver.URL}, "uid": {"main"}, "tenant": {"shop"}, "topics": {"a.*"}, "headers": {"x-token: hidden\nx-other: kept"}, "rate": {"50/s"},
	})
	require.Equal(t, http.StatusOK, made.StatusCode)
	require.Equal(t, "no-store", made.Header.Get("Cache-Control"))
	first := shownSecrets(made)[0]
	require.NotEmpty(t, first)
	id := shownID.FindStringSubmatch(made.text)[1]
	path := "/console/endpoints/" + id

	list := who.do("GET", "/console/endpoints?tenant=shop", nil)
	require.Contains(t, list.text, `href="`+path+`"`)
	require.NotContains(t, who.do("GET", "/console/endpoints?tenant=other", nil).text, path)
	shown := who.do("GET", path, nil)
	require.Contains(t, shown.text, "x-token: (hidden)")
	require.NotContains(t, shown.text, "x-token: hidden")
	require.NotContains(t, html.UnescapeString(shown.text), first)
	require.Contains(t, shown.text, "None in the last 24 hours")

	// Of two people with the same form, each changes what they edited.
	edit := url.Values{"url": {receiver.URL}, "topics": {"a.*"}, "rate": {"50/s"}, "headers": {"x-other: ***\nx-token: ***"}, "signature": {"standard"}}
	for name, values := range edit {
		edit["was."+name] = values
	}
	_, err := p.client().PatchEndpoint(t.Context(), id, map[string]any{"description": "of another person"})
	require.NoError(t, err)
	edit["rate"], edit["headers"] = []string{"7/s"}, []string{"x-other: ***\nx-new: 1"}
	require.Equal(t, path+"?told=changed", who.post(path, edit).Header.Get("Location"))
	after, err := p.client().Endpoint(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, "of another person", after.Description)
	require.Equal(t, "7/s", after.Rate)
	require.Equal(t, map[string]string{"x-other": wire.Hidden, "x-new": wire.Hidden}, after.Headers)
	edit["rate"] = []string{"<b>"}
	wrong = who.post(path, edit)
	require.Equal(t, http.StatusUnprocessableEntity, wrong.StatusCode)
	require.Contains(t, wrong.text, `id="w-rate"`)
	require.Contains(t, wrong.text, `value="&lt;b&gt;"`)

	tested := who.post(path+"/test", url.Values{})
	require.Equal(t, http.StatusOK, tested.StatusCode)
	require.Contains(t, tested.text, "The test failed")
	require.Contains(t, tested.text, ">418<")
	require.Contains(t, tested.text, "&lt;b&gt;short&lt;/b&gt; and stout")

	require.Equal(t, path+"?told=paused", who.post(path+"/pause", url.Values{}).Header.Get("Location"))
	paused := who.do("GET", path+"?told=paused", nil)
	require.Contains(t, paused.text, "It is paused, by local.")
	require.Contains(t, paused.text, path+"/resume")
	require.NotContains(t, paused.text, path+"/pause")
	m := message("waits", "")
	m.Tenant = "shop"
	_, err = p.client().Publish(t.Context(), m)
	require.NoError(t, err)

	rotate := who.do("GET", path+"/rotate", nil)
	require.Contains(t, rotate.text, "signs too for")
	require.Contains(t, who.post(path+"/rotate", url.Values{"overlap": {"soon"}}).text, `id="w-overlap"`)
	rotated := who.post(path+"/rotate", url.Values{"overlap": {"1h"}})
	second := shownSecrets(rotated)[0]
	require.NotEqual(t, first, second)
	require.Contains(t, rotated.text, "The secret before signs too, until")
	secrets := who.post(path+"/secret", url.Values{})
	require.ElementsMatch(t, []string{second, first}, unique(shownSecrets(secrets)))

	ask := who.do("GET", path+"/delete", nil)
	require.Equal(t, "1", waitsFor.FindStringSubmatch(ask.text)[1])
	require.Contains(t, who.post(path+"/delete", url.Values{}).text, "1 waiting delivery was cancelled")
	require.Equal(t, http.StatusNotFound, who.do("GET", path, nil).StatusCode)
	require.NoError(t, p.end())
}

// shownSecrets are the secrets that a page shows, and one empty text if it shows none. A page
// has a + of theirs as an entity of HTML.
func shownSecrets(p page) []string {
	if all := secretText.FindAllString(html.UnescapeString(p.text), -1); len(all) > 0 {
		return all
	}
	return []string{""}
}

func unique(all []string) (out []string) {
	seen := map[string]bool{}
	for _, one := range all {
		if !seen[one] {
			seen[one] = true
			out = append(out, one)
		}
	}
	return out
}

// What fails of an endpoint stands first, grouped, and what the receiver sent is text.
func TestAnEndpointShowsItsFailuresFirst(t *testing.T) {
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	t.Cleanup(receiver.Close)
	p := start(t, newTestOptions(redistest.Start(t).URL()))
	who := newPerson(t, p.api)
	e, _, err := p.client().CreateEndpoint(t.Context(), &wire.Endpoint{URL: receiver.URL, Description: "<script>alert(1)</script>\nmore"})
	require.NoError(t, err)
	for _, id := range []string{"one", "two"} {
		_, err := p.client().Publish(t.Context(), message(id, ""))
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool {
		log, err := p.client().Attempts(t.Context(), client.AttemptFilter{Destinations: []string{e.ID}})
		return err == nil && len(log.Data) == 2
	}, patience, 10*time.Millisecond)
	page := who.do("GET", "/console/endpoints/"+e.ID, nil)
	require.Equal(t, http.StatusOK, page.StatusCode)
	require.Contains(t, page.text, `2×</span> <span>answered with a status 5xx</span>`)
	require.Equal(t, 1, strings.Count(page.text, `<b>503</b></span> <span>`), "an error of several deliveries is shown once")
	require.Contains(t, page.text, `href="/console/messages/one"`)
	require.Contains(t, page.text, `href="/console/messages/two"`)
	require.NotContains(t, page.text, "<script>alert")
	again := who
	again.header.Set("If-None-Match", page.Header.Get("ETag"))
	require.Equal(t, http.StatusNotModified, again.do("GET", "/console/endpoints/"+e.ID, nil).StatusCode)
	require.NoError(t, p.end())
}

// An endpoint behind an open breaker makes few attempts, and the log of attempts is of all.
func TestAnEndpointShowsItsFailuresHoweverMuchOthersDo(t *testing.T) {
	receiver := httptest.NewUnstartedServer(http.NotFoundHandler())
	receiver.Config.ErrorLog = log.New(io.Discard, "", 0) // of each handshake
	receiver.StartTLS()
	t.Cleanup(receiver.Close)
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(other.Close)
	o := newTestOptions(redistest.Start(t).URL())
	o.BreakerFailures, o.BreakerWait, o.Engine.Keep.FinishedMax = 3, time.Hour, 5000
	o.Engine.MaxInFlight = 1 // so that each attempt has an entry of its own in the log
	p := start(t, o)
	who := newPerson(t, p.api)
	e, _, err := p.client().CreateEndpoint(t.Context(), &wire.Endpoint{URL: receiver.URL, Tenant: "shop"})
	require.NoError(t, err)
	for i := range 3 {
		m := message(fmt.Sprintf("order_%d", i), "")
		m.Tenant = "shop"
		_, err := p.client().Publish(t.Context(), m)
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool {
		lanes, err := p.client().LanesOf(t.Context(), "", e.ID)
		return err == nil && len(lanes.Data) == 1 && lanes.Data[0].State == "open"
	}, patience, 10*time.Millisecond)

	for batch := range 2 {
		var many []wire.Message
		for i := range 1000 {
			many = append(many, *message(fmt.Sprintf("other_%d_%d", batch, i), other.URL))
		}
		_, err := p.client().PublishBatch(t.Context(), many)
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool {
		stats, err := p.client().Stats(t.Context())
		return err == nil && stats.Counts["delivered"] == 2000
	}, patience, 10*time.Millisecond)
	page := who.do("GET", "/console/endpoints/"+e.ID, nil)
	require.Contains(t, page.text, `3×</span> <span>TLS`)
	require.Contains(t, page.text, `TLS: the certificate is not trusted, or the handshake failed</span>`)
	require.Contains(t, page.text, "Errors of its newest deliveries")
	require.Contains(t, page.text, "certificate")
	require.NotContains(t, page.text, "None ")
	require.NoError(t, p.end())
}
