package httpapi_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/callers"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// keylessOwner is the owner text of a caller without keys: the store has a key of its own.
var keylessOwner = callers.APIKey{}.Owner()

func TestALinkIsMadeForATenant(t *testing.T) {
	f := &Fake{FakeEndpoints: FakeEndpoints{There: Endpoint(t)}}
	h := newTestAPI(t, f, WithLinks)
	w := Serve(h, newTestRequest("POST", "/v1/links", `{"tenant":"m7","for":"2d","manage":true,"endpoint":"merchant:7","name":"Anna"}`))
	require.Equal(t, http.StatusCreated, w.Code, w.Body)
	var made map[string]string
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &made))
	require.Equal(t, map[string]string{
		"id": dispatcher.LinkID(f.Token), "url": "https://hooks.example/pay/link/" + f.Token, "expires_at": "2026-02-02T11:00:00.123Z",
	}, made)
	require.Equal(t, dispatcher.Link{Tenant: "m7", Endpoint: "ep_123456789", Manage: true, Name: "Anna", By: "local", Key: keylessOwner}, f.Made)
	require.Equal(t, 48*time.Hour, f.Lasts)
	require.NotContains(t, fmt.Sprint(f.Recorded), f.Token)

	before := f.Token
	w = Serve(h, newTestRequest("POST", "/v1/links", `{"tenant":"m 7","for":null}`))
	RequireProblem(t, w, http.StatusUnprocessableEntity, "invalid")
	w = Serve(h, newTestRequest("POST", "/v1/links", `{"tenant":"unknown","for":null,"manage":null,"endpoint":null,"name":null}`))
	require.Equal(t, http.StatusCreated, w.Code, "a tenant needs no endpoint: %s", w.Body)
	require.Equal(t, dispatcher.Link{Tenant: "unknown", By: "local", Key: keylessOwner}, f.Made)
	require.Equal(t, 24*time.Hour, f.Lasts)
	require.NotEqual(t, before, f.Token)
}

func TestALinkThatCantBeIsRefusedByField(t *testing.T) {
	other := Endpoint(t)
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
		f := &Fake{FakeEndpoints: FakeEndpoints{There: other}}
		w := Serve(newTestAPI(t, f, WithLinks), newTestRequest("POST", "/v1/links", body))
		p := RequireProblem(t, w, http.StatusUnprocessableEntity, "invalid")
		require.Len(t, p.Errors, 1, body)
		require.Equal(t, path, p.Errors[0].Path, body)
		require.Empty(t, f.Token, body)
		require.Empty(t, f.Recorded, body)
	}
}

func TestWithoutAPlaceToLeadToThereAreNoLinks(t *testing.T) {
	f := &Fake{}
	h := newTestAPI(t, f, func(o *httpapi.Options) { o.NoLinks = "PUBLIC_URL is not set" })
	p := RequireProblem(t, Serve(h, newTestRequest("POST", "/v1/links", `{"tenant":"m7"}`)), http.StatusUnprocessableEntity, "invalid")
	require.Equal(t, "PUBLIC_URL is not set", p.Detail)
	require.Empty(t, f.Token)
	require.Equal(t, http.StatusOK, Get(h, "/v1/links").Code, "those that there are can be seen and revoked")
	require.Equal(t, http.StatusNoContent, Serve(h, newTestRequest("DELETE", "/v1/links/"+Link().ID, "")).Code)
}

func TestLinksAreListedWithoutWhatOpensThem(t *testing.T) {
	f := &Fake{FakeEndpoints: FakeEndpoints{Next: "77"}}
	w := Get(newTestAPI(t, f), "/v1/links?limit=2&cursor=99")
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, 2, f.Most)
	require.Equal(t, "99", f.Behind)
	require.JSONEq(t, `{"data":[
		{"id":"`+Link().ID+`","tenant":"m7","endpoint":"ep_123456789","manage":true,"name":"Anna","by":"key:ops",
		"created_at":"2026-01-31T11:00:00.123Z","expires_at":"2026-01-31T12:00:00.123Z"},
		{"id":"`+dispatcher.LinkID("y")+`","tenant":"m8","manage":false,"by":"key:ops","created_at":"2026-01-31T11:00:00.123Z","expires_at":"2026-01-31T11:00:00.123Z"}
	],"next_cursor":"77"}`, w.Body.String())
	f.Err = dispatcher.ErrCursor
	RequireProblem(t, Get(newTestAPI(t, f), "/v1/links?cursor=x"), http.StatusUnprocessableEntity, "invalid")
}

func TestALinkIsRevokedOnce(t *testing.T) {
	f := &Fake{}
	h := newTestAPI(t, f)
	w := Serve(h, newTestRequest("DELETE", "/v1/links/"+Link().ID, ""))
	require.Equal(t, http.StatusNoContent, w.Code)
	require.Empty(t, w.Body.Bytes())
	require.Empty(t, w.Header().Get("Content-Type"))
	RequireProblem(t, Serve(h, newTestRequest("DELETE", "/v1/links/"+dispatcher.LinkID("other"), "")), http.StatusNotFound, "not-found")
	RequireProblem(t, Serve(h, newTestRequest("DELETE", "/v1/links/ep_1", "")), http.StatusNotFound, "not-found")
	require.Equal(t, []string{"revoke link", "revoke link"}, f.Calls)
	f.Err = dispatcher.ErrUnavailable
	RequireProblem(t, Serve(h, newTestRequest("DELETE", "/v1/links/"+Link().ID, "")), http.StatusServiceUnavailable, "unavailable")
	f.Err = dispatcher.ErrLinks
	RequireProblem(t, Serve(newTestAPI(t, f, WithLinks), newTestRequest("POST", "/v1/links", `{"tenant":"m7"}`)), http.StatusUnprocessableEntity, "link-limit")
}

// Links are for the operator: a link is no way to make another.
func TestOnlyAnAdminSeesLinks(t *testing.T) {
	h := newTestAPI(t, &Fake{}, WithLinks, WithKeys(t, Keys()))
	for _, r := range []struct{ method, path, body string }{
		{"GET", "/v1/links", ""}, {"POST", "/v1/links", `{"tenant":"m7"}`}, {"DELETE", "/v1/links/" + Link().ID, ""},
	} {
		for _, key := range []string{ReadKey, PublishKey} {
			q := newTestRequest(r.method, r.path, r.body)
			q.Header.Set("Authorization", "Bearer "+key)
			require.Equal(t, http.StatusForbidden, Serve(h, q).Code, "%s %s", r.method, key)
		}
		require.Equal(t, http.StatusUnauthorized, Serve(h, newTestRequest(r.method, r.path, r.body)).Code)
	}
}

func TestTheClientMakesAndRevokesALink(t *testing.T) {
	f := &Fake{}
	var log bytes.Buffer
	c := newTestClient(t, f, WithLinks, WithLog(&log))
	made, err := c.CreateLink(t.Context(), wire.LinkRequest{Tenant: "m7", For: wire.Duration(time.Hour), Name: "Anna"})
	require.NoError(t, err)
	require.Equal(t, "https://hooks.example/pay/link/"+f.Token, made.URL)
	require.Equal(t, Now.Add(time.Hour).Truncate(time.Millisecond).UTC(), made.ExpiresAt.Time)
	require.Equal(t, dispatcher.Link{Tenant: "m7", Name: "Anna", By: "key:ops", Key: f.Made.Key}, f.Made)
	require.NoError(t, c.RevokeLink(t.Context(), Link().ID))
	require.Error(t, c.RevokeLink(t.Context(), dispatcher.LinkID("other")))
	require.NotContains(t, log.String(), f.Token)
}
