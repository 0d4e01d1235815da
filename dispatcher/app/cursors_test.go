package app_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
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

// ask makes a call as boss, and returns the status and the body.
func (p *process) ask(method, path string, q url.Values) (int, string) {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), method, p.api+path+"?"+q.Encode(), http.NoBody)
	require.NoError(p.t, err)
	r.Header.Set("Authorization", "Bearer "+peoplesKeys["boss"])
	resp, err := http.DefaultClient.Do(r)
	require.NoError(p.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(p.t, err)
	return resp.StatusCode, string(text)
}

// cursorOf is the cursor behind the first entry of a list.
func (p *process) cursorOf(path string, q url.Values) string {
	p.t.Helper()
	first := url.Values{"limit": {"1"}}
	for name, values := range q {
		first[name] = values
	}
	status, text := p.ask("GET", path, first)
	require.Equal(p.t, http.StatusOK, status, text)
	var page struct {
		NextCursor string `json:"next_cursor"`
	}
	require.NoError(p.t, json.Unmarshal([]byte(text), &page))
	require.NotEmpty(p.t, page.NextCursor, "%s has a second page: %s", path, text)
	return page.NextCursor
}

// fillLists gives each list two entries at least. It returns the endpoint that has ends.
func (p *process) fillLists() string {
	p.t.Helper()
	ctx, c, at := p.t.Context(), p.boss(), newTestTaker(p.t)
	var ids []string
	for _, tenant := range []string{"A", "B"} {
		e, _, err := c.CreateEndpoint(ctx, &wire.Endpoint{Tenant: tenant, URL: at, Signature: "standard-ed25519"})
		require.NoError(p.t, err)
		ids = append(ids, e.ID)
		_, err = c.CreateLink(ctx, wire.LinkRequest{Tenant: tenant})
		require.NoError(p.t, err)
		_, err = c.StartJob(ctx, "purge", wire.JobRequest{Tenant: []string{tenant}})
		require.NoError(p.t, err)
	}
	for i := range 2 {
		p.mustDeliver(fmt.Sprintf("m%d", i), "A", ids[0])
		queue := fmt.Sprintf("gone%d", i)
		_, err := c.Publish(ctx, &wire.Message{
			ID: queue, Topic: "a.b", Queue: queue, Body: json.RawMessage(`1`), ExpiresAt: wire.Time{Time: time.Now().Add(time.Second)},
		})
		require.NoError(p.t, err)
	}
	require.Eventually(p.t, func() bool {
		page, err := c.Dead(ctx, client.DeadFilter{})
		return err == nil && len(page.Data) == 2
	}, patience, 10*time.Millisecond)
	return ids[0]
}

// A cursor opens at its own list, with its own filter, at each instance. Anywhere else it is
// refused with the cure.
func TestACursorOpensItsOwnListAndNoOther(t *testing.T) {
	redis := redistest.Start(t)
	one, two := start(t, peoplesOptions(t, redis.URL())), start(t, peoplesOptions(t, redis.URL()))
	strange := peoplesOptions(t, redis.URL())
	strange.Project = "strange"
	other := start(t, strange)
	endpoint := one.fillLists()
	lists := map[string]url.Values{ // a filter that changes the list; nil: there is none
		"/v1/deliveries": {"topic": {"a.b"}},
		"/v1/dead":       {"dead_reason": {"expired"}},
		"/v1/attempts":   {"tenant": {"A"}},
		"/v1/endpoints":  {"tenant": {"A"}},
		"/v1/endpoints/" + endpoint + "/deliveries": {"status": {"delivered"}},
		"/v1/audit":                 {"by": {"key:boss"}},
		"/v1/lanes":                 nil,
		"/v1/instances":             nil,
		"/v1/links":                 nil,
		"/v1/jobs":                  nil,
		"/.well-known/webhook-keys": nil,
	}
	refused := func(p *process, path string, q url.Values, cursor, why string) {
		t.Helper()
		with := url.Values{"cursor": {cursor}}
		for name, values := range q {
			with[name] = values
		}
		status, text := p.ask("GET", path, with)
		require.Equal(t, http.StatusUnprocessableEntity, status, "%s at %s: %s", why, path, text)
		var problem wire.Problem
		require.NoError(t, json.Unmarshal([]byte(text), &problem))
		require.Len(t, problem.Errors, 1)
		require.Equal(t, "query.cursor", problem.Errors[0].Path)
		require.Contains(t, problem.Errors[0].Detail, "leave it out to begin at the first page")
	}
	cursors := map[string]string{}
	for path := range lists {
		cursors[path] = one.cursorOf(path, nil)
		status, text := two.ask("GET", path, url.Values{"cursor": {cursors[path]}})
		require.Equal(t, http.StatusOK, status, "%s at another instance: %s", path, text)
	}
	for path, filter := range lists {
		own := cursors[path]
		for from, cursor := range cursors {
			if from != path {
				refused(one, path, nil, cursor, "the cursor of "+from)
			}
		}
		if path == "/v1/deliveries" { // its cursors are not sealed yet
			continue
		}
		if filter != nil {
			refused(one, path, filter, own, "the cursor of another filter")
		}
		if path != "/v1/endpoints/"+endpoint+"/deliveries" { // it has no such endpoint
			refused(other, path, nil, own, "the cursor of another project")
		}
		middle := len(own) / 2
		flipped := own[:middle] + string(own[middle]^1) + own[middle+1:]
		for _, wrong := range []string{own[:len(own)-1], own[:1], own[1:], flipped, own + own, " ", "0", "-1", "0-0", "1-2-3-4", "9223372036854775808", "job_1", endpoint} {
			refused(one, path, nil, wrong, fmt.Sprintf("%q", wrong))
		}
	}
	for _, path := range []string{"/v1/attempts", "/v1/audit", "/v1/endpoints/" + endpoint + "/deliveries"} { // other times are no other list
		status, text := one.ask("GET", path, url.Values{"cursor": {cursors[path]}, "since": {"2020-01-01T00:00:00Z"}})
		require.Equal(t, http.StatusOK, status, text)
	}
	require.NoError(t, one.end())
	require.NoError(t, two.end())
	require.NoError(t, other.end())
}

// A page shows its first page in place of one that can't be shown.
func TestAPageWithAWrongCursorGoesToItsFirstPage(t *testing.T) {
	p := start(t, peoplesOptions(t, redistest.Start(t).URL()))
	endpoint := p.fillLists()
	boss := newPerson(t, p.api)
	boss.signIn(peoplesKeys["boss"])
	merchants := map[string]*person{}
	for _, tenant := range []string{"A", "B"} {
		path, _ := p.mustLink(wire.LinkRequest{Tenant: tenant})
		merchants[tenant] = newPerson(t, p.api)
		merchants[tenant].post(path, nil)
	}
	key := p.cursorOf("/v1/endpoints", nil)
	first := func(who *person, at, want string) {
		t.Helper()
		got := who.get(at)
		require.Equal(t, http.StatusSeeOther, got.StatusCode, at)
		require.Equal(t, want, got.Header.Get("Location"))
		require.Equal(t, http.StatusOK, who.get(want).StatusCode)
	}
	for _, list := range []string{"deliveries", "endpoints", "lanes", "audit", "links", "jobs", "dead"} {
		first(boss, "/console/"+list+"?cursor=wrong", "/console/"+list)
	}
	for _, list := range []string{"deliveries", "endpoints"} {
		first(merchants["A"], "/link/"+list+"?cursor=wrong", "/link/"+list)
		first(merchants["B"], "/link/"+list+"?cursor="+key, "/link/"+list)
	}
	first(merchants["A"], "/link/deliveries?subject=x&cursor=wrong", "/link/deliveries?subject=x")
	require.Contains(t, merchants["A"].get("/link/endpoints").text, endpoint)
	require.False(t, strings.Contains(merchants["B"].get("/link/endpoints").text, endpoint))
	require.NoError(t, p.end())
}

// What a merchant's people get is the same, whatever another tenant does meanwhile.
func TestPagesOfALinkAreTheSameWhateverAnotherTenantDoes(t *testing.T) {
	p := start(t, peoplesOptions(t, redistest.Start(t).URL()))
	at := newTestTaker(t)
	endpoint := p.mustEndpoint("A", at)
	for i := range 60 { // of which a page has 50
		p.mustDeliver(fmt.Sprintf("own_%d", i), "A", endpoint)
	}
	path, _ := p.mustLink(wire.LinkRequest{Tenant: "A"})
	who := p.openedLink(path)
	paths := []string{
		"/link/", "/link/deliveries", "/link/deliveries?status=delivered", "/link/deliveries?subject=order-of-A", "/link/deliveries?status=scheduled",
		"/link/endpoints", "/link/endpoints/" + endpoint, "/link/messages/own_1",
	}
	before := pagesOf(who, paths...)
	require.Contains(t, strings.Join(before, "\n"), "own_59", "it shows its own")

	other := p.mustEndpoint("OTHERTENANT", at)
	var batch []wire.Message
	for i := range 300 {
		m := wire.Message{ID: fmt.Sprintf("other_%d", i), Tenant: "OTHERTENANT", Topic: "other.topic", Endpoint: other, Body: json.RawMessage(`1`)}
		if i%2 == 0 {
			m.Delay = wire.Duration(time.Hour)
		}
		batch = append(batch, m)
	}
	results, err := p.boss().PublishBatch(t.Context(), batch)
	require.NoError(t, err)
	require.Len(t, results, len(batch))
	p.mustDeliver("other_last", "OTHERTENANT", other)

	after := pagesOf(who, paths...)
	require.Equal(t, before, after)
	for _, text := range after {
		for _, foreign := range []string{"other_", "OTHERTENANT", other, "looked at"} {
			require.NotContains(t, text, foreign)
		}
	}
	require.NoError(t, p.end())
}

// Cursors differ each time, since they are sealed, and so do the times that pass.
var (
	cursorsOf = regexp.MustCompile(`cursor=([A-Za-z0-9_%-]+)`)
	older     = regexp.MustCompile(`href="(/link/[^"]*)" rel="next"`)
)

// pagesOf gets pages of a link, and those that follow them. It answers them with their
// addresses, without the cursors, of which it requires that they open to nothing.
func pagesOf(who *person, paths ...string) (pages []string) {
	who.t.Helper()
	for _, at := range paths {
		for at != "" {
			got := who.get(at)
			require.Equal(who.t, http.StatusOK, got.StatusCode, at)
			for _, found := range cursorsOf.FindAllStringSubmatch(at+got.text, -1) {
				opened, err := base64.RawURLEncoding.DecodeString(found[1])
				require.NoError(who.t, err)
				require.NotContains(who.t, string(opened), "other_")
			}
			text := cursorsOf.ReplaceAllString(at+"\n"+got.text, "cursor=")
			pages = append(pages, passing.ReplaceAllString(text, ""))
			at = ""
			if next := older.FindStringSubmatch(got.text); next != nil {
				at = html.UnescapeString(next[1])
			}
		}
	}
	return pages
}

// passing are the parts of a page that change with the clock.
var passing = regexp.MustCompile(`(?s)<svg.*?</svg>|<meta name="now" content="[^"]*">|>[^<]*</time>`)
