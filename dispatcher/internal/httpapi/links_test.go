package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/access"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/apikey"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// fakeLinks keeps one link.
type fakeLinks struct {
	token string
	lasts time.Duration
	link  access.Link // as it was made, and is answered
	most  int         // links that were asked for
}

func testLink() access.Link {
	return access.Link{
		ID: access.LinkID("x"), Tenant: "m7", Endpoint: "ep_123456789", Manage: true, Name: "Anna", By: "key:ops",
		CreatedAt: testNow, ExpiresAt: testNow.Add(time.Hour),
	}
}

func (f *fakeService) CreateLink(_ context.Context, l access.Link, lasts time.Duration) (string, access.Link, error) {
	f.called("create link")
	token := access.Key{}.NewLink()
	f.token, f.lasts, f.link = token, lasts, l
	l.ID, l.CreatedAt, l.ExpiresAt = access.LinkID(token), testNow, testNow.Add(lasts)
	return token, l, f.err
}

func (f *fakeService) Link(_ context.Context, id string) (access.Link, error) {
	if id != testLink().ID {
		return access.Link{}, access.ErrNoLink
	}
	return testLink(), f.err
}

func (f *fakeService) Links(_ context.Context, limit int, cursor string) ([]access.Link, string, error) {
	f.called("links")
	f.most, f.behind = limit, cursor
	return []access.Link{testLink(), {ID: access.LinkID("y"), Tenant: "m8", By: "key:ops", CreatedAt: testNow, ExpiresAt: testNow}}, f.next, f.err
}

func (f *fakeService) RevokeLink(_ context.Context, id string) error {
	f.called("revoke link")
	if id != testLink().ID {
		return access.ErrNoLink
	}
	return f.err
}

// keylessOwner is the owner text of a caller without keys: the store has a key of its own.
var keylessOwner = apikey.Key{}.Owner()

func withLinks(o *httpapi.Options) {
	o.LinksTo = &url.URL{Scheme: "https", Host: "hooks.example", Path: "/pay"}
}

func TestALinkIsMadeForATenant(t *testing.T) {
	f := &fakeService{fakeEndpoints: fakeEndpoints{there: testEndpoint(t)}}
	h := newTestAPI(t, f, withLinks)
	w := serve(h, newRequest("POST", "/v1/links", `{"tenant":"m7","for":"2d","manage":true,"endpoint":"merchant:7","name":"Anna"}`))
	require.Equal(t, http.StatusCreated, w.Code, w.Body)
	var made map[string]string
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &made))
	require.Equal(t, map[string]string{
		"id": access.LinkID(f.token), "url": "https://hooks.example/pay/link/" + f.token, "expires_at": "2026-02-02T11:00:00.123Z",
	}, made)
	require.Equal(t, access.Link{Tenant: "m7", Endpoint: "ep_123456789", Manage: true, Name: "Anna", By: "local", Key: keylessOwner}, f.link)
	require.Equal(t, 48*time.Hour, f.lasts)
	require.NotContains(t, fmt.Sprint(f.recorded), f.token)

	before := f.token
	w = serve(h, newRequest("POST", "/v1/links", `{"tenant":"m 7","for":null}`))
	requireProblem(t, w, http.StatusUnprocessableEntity, "invalid")
	w = serve(h, newRequest("POST", "/v1/links", `{"tenant":"unknown","for":null,"manage":null,"endpoint":null,"name":null}`))
	require.Equal(t, http.StatusCreated, w.Code, "a tenant needs no endpoint: %s", w.Body)
	require.Equal(t, access.Link{Tenant: "unknown", By: "local", Key: keylessOwner}, f.link)
	require.Equal(t, 24*time.Hour, f.lasts)
	require.NotEqual(t, before, f.token)
}

func TestALinkThatCantBeIsRefusedByField(t *testing.T) {
	other := testEndpoint(t)
	other.Tenant = "m8"
	for body, path := range map[string]string{
		`{}`:                            "$.tenant",
		`{"tenant":null}`:               "$.tenant",
		`{"tenant":""}`:                 "$.tenant",
		`{"tenant":"a b"}`:              "$.tenant",
		`{"tenant":7}`:                  "$.tenant",
		`{"tenant":"m7","for":"0s"}`:    "$.for",
		`{"tenant":"m7","for":"31d"}`:   "$.for",
		`{"tenant":"m7","for":-1}`:      "$.for",
		`{"tenant":"m7","for":"soon"}`:  "$.for",
		`{"tenant":"m7","manage":1}`:    "$.manage",
		`{"tenant":"m7","name":"a\nb"}`: "$.name",
		`{"tenant":"m7","name":"` + strings.Repeat("é", 129) + `"}`: "$.name",
		`{"tenant":"m7","endpoint":"merchant:7"}`:                   "$.endpoint",
		`{"tenant":"m7","endpoint":"ep_none"}`:                      "$.endpoint",
		`{"tenant":"m7","endpoint":"a b"}`:                          "$.endpoint",
		`{"tenant":"m7","endpoint":""}`:                             "$.endpoint",
		`{"tenant":"m7","right":"manage"}`:                          "$.right",
	} {
		f := &fakeService{fakeEndpoints: fakeEndpoints{there: other}}
		w := serve(newTestAPI(t, f, withLinks), newRequest("POST", "/v1/links", body))
		p := requireProblem(t, w, http.StatusUnprocessableEntity, "invalid")
		require.Len(t, p.Errors, 1, body)
		require.Equal(t, path, p.Errors[0].Path, body)
		require.Empty(t, f.token, body)
		require.Empty(t, f.recorded, body)
	}
}

func TestWithoutAPlaceToLeadToThereAreNoLinks(t *testing.T) {
	f := &fakeService{}
	h := newTestAPI(t, f, func(o *httpapi.Options) { o.NoLinks = "PUBLIC_URL is not set" })
	p := requireProblem(t, serve(h, newRequest("POST", "/v1/links", `{"tenant":"m7"}`)), http.StatusUnprocessableEntity, "invalid")
	require.Equal(t, "PUBLIC_URL is not set", p.Detail)
	require.Empty(t, f.token)
	require.Equal(t, http.StatusOK, get(h, "/v1/links").Code, "those that there are can be seen and revoked")
	require.Equal(t, http.StatusNoContent, serve(h, newRequest("DELETE", "/v1/links/"+testLink().ID, "")).Code)
}

func TestLinksAreListedWithoutWhatOpensThem(t *testing.T) {
	f := &fakeService{fakeEndpoints: fakeEndpoints{next: "77"}}
	w := get(newTestAPI(t, f), "/v1/links?limit=2&cursor=99")
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, 2, f.most)
	require.Equal(t, "99", f.behind)
	require.JSONEq(t, `{"data":[
		{"id":"`+testLink().ID+`","tenant":"m7","endpoint":"ep_123456789","manage":true,"name":"Anna","by":"key:ops",
		"created_at":"2026-01-31T11:00:00.123Z","expires_at":"2026-01-31T12:00:00.123Z"},
		{"id":"`+access.LinkID("y")+`","tenant":"m8","manage":false,"by":"key:ops","created_at":"2026-01-31T11:00:00.123Z","expires_at":"2026-01-31T11:00:00.123Z"}
	],"next_cursor":"77"}`, w.Body.String())
	f.err = dispatcher.ErrCursor
	requireProblem(t, get(newTestAPI(t, f), "/v1/links?cursor=x"), http.StatusUnprocessableEntity, "invalid")
}

func TestALinkIsRevokedOnce(t *testing.T) {
	f := &fakeService{}
	h := newTestAPI(t, f)
	w := serve(h, newRequest("DELETE", "/v1/links/"+testLink().ID, ""))
	require.Equal(t, http.StatusNoContent, w.Code)
	require.Empty(t, w.Body.Bytes())
	require.Empty(t, w.Header().Get("Content-Type"))
	requireProblem(t, serve(h, newRequest("DELETE", "/v1/links/"+access.LinkID("other"), "")), http.StatusNotFound, "not-found")
	requireProblem(t, serve(h, newRequest("DELETE", "/v1/links/ep_1", "")), http.StatusNotFound, "not-found")
	require.Equal(t, []string{"revoke link", "revoke link"}, f.calls)
	f.err = dispatcher.ErrUnavailable
	requireProblem(t, serve(h, newRequest("DELETE", "/v1/links/"+testLink().ID, "")), http.StatusServiceUnavailable, "unavailable")
	f.err = access.ErrLinks
	requireProblem(t, serve(newTestAPI(t, f, withLinks), newRequest("POST", "/v1/links", `{"tenant":"m7"}`)), http.StatusUnprocessableEntity, "link-limit")
}

// Links are for the operator: a link is no way to make another.
func TestOnlyAnAdminSeesLinks(t *testing.T) {
	h := newTestAPI(t, &fakeService{}, withLinks, withKeys(t, testKeys()))
	for _, r := range []struct{ method, path, body string }{
		{"GET", "/v1/links", ""}, {"POST", "/v1/links", `{"tenant":"m7"}`}, {"DELETE", "/v1/links/" + testLink().ID, ""},
	} {
		for _, key := range []string{readKey, publishKey} {
			q := newRequest(r.method, r.path, r.body)
			q.Header.Set("Authorization", "Bearer "+key)
			require.Equal(t, http.StatusForbidden, serve(h, q).Code, "%s %s", r.method, key)
		}
		require.Equal(t, http.StatusUnauthorized, serve(h, newRequest(r.method, r.path, r.body)).Code)
	}
}

func TestTheClientMakesAndRevokesALink(t *testing.T) {
	f := &fakeService{}
	var log bytes.Buffer
	c := newTestClient(t, f, withLinks, withLog(&log))
	made, err := c.CreateLink(t.Context(), wire.LinkRequest{Tenant: "m7", For: wire.Duration(time.Hour), Name: "Anna"})
	require.NoError(t, err)
	require.Equal(t, "https://hooks.example/pay/link/"+f.token, made.URL)
	require.Equal(t, testNow.Add(time.Hour).Truncate(time.Millisecond).UTC(), made.ExpiresAt.Time)
	require.Equal(t, access.Link{Tenant: "m7", Name: "Anna", By: "key:ops", Key: f.link.Key}, f.link)
	require.NoError(t, c.RevokeLink(t.Context(), testLink().ID))
	require.Error(t, c.RevokeLink(t.Context(), access.LinkID("other")))
	require.NotContains(t, log.String(), f.token)
}
