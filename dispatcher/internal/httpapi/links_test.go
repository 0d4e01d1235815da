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
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/apitest"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// keylessOwner is the owner text of a caller without keys: the store has a key of its own.
var keylessOwner = callers.APIKey{}.Owner()

func TestALinkIsMadeForATenant(t *testing.T) {
	f := &apitest.Fake{FakeEndpoints: apitest.FakeEndpoints{There: apitest.Endpoint(t)}}
	h := apitest.New(t, f, apitest.WithLinks)
	w := apitest.Serve(h, apitest.NewRequest("POST", "/v1/links", `{"tenant":"m7","for":"2d","manage":true,"endpoint":"merchant:7","name":"Anna"}`))
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
	w = apitest.Serve(h, apitest.NewRequest("POST", "/v1/links", `{"tenant":"m 7","for":null}`))
	apitest.RequireProblem(t, w, http.StatusUnprocessableEntity, "invalid")
	w = apitest.Serve(h, apitest.NewRequest("POST", "/v1/links", `{"tenant":"unknown","for":null,"manage":null,"endpoint":null,"name":null}`))
	require.Equal(t, http.StatusCreated, w.Code, "a tenant needs no endpoint: %s", w.Body)
	require.Equal(t, dispatcher.Link{Tenant: "unknown", By: "local", Key: keylessOwner}, f.Made)
	require.Equal(t, 24*time.Hour, f.Lasts)
	require.NotEqual(t, before, f.Token)
}

func TestALinkThatCantBeIsRefusedByField(t *testing.T) {
	other := apitest.Endpoint(t)
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
		f := &apitest.Fake{FakeEndpoints: apitest.FakeEndpoints{There: other}}
		w := apitest.Serve(apitest.New(t, f, apitest.WithLinks), apitest.NewRequest("POST", "/v1/links", body))
		p := apitest.RequireProblem(t, w, http.StatusUnprocessableEntity, "invalid")
		require.Len(t, p.Errors, 1, body)
		require.Equal(t, path, p.Errors[0].Path, body)
		require.Empty(t, f.Token, body)
		require.Empty(t, f.Recorded, body)
	}
}

func TestWithoutAPlaceToLeadToThereAreNoLinks(t *testing.T) {
	f := &apitest.Fake{}
	h := apitest.New(t, f, func(o *httpapi.Options) { o.NoLinks = "PUBLIC_URL is not set" })
	p := apitest.RequireProblem(t, apitest.Serve(h, apitest.NewRequest("POST", "/v1/links", `{"tenant":"m7"}`)), http.StatusUnprocessableEntity, "invalid")
	require.Equal(t, "PUBLIC_URL is not set", p.Detail)
	require.Empty(t, f.Token)
	require.Equal(t, http.StatusOK, apitest.Get(h, "/v1/links").Code, "those that there are can be seen and revoked")
	require.Equal(t, http.StatusNoContent, apitest.Serve(h, apitest.NewRequest("DELETE", "/v1/links/"+apitest.Link().ID, "")).Code)
}

func TestLinksAreListedWithoutWhatOpensThem(t *testing.T) {
	f := &apitest.Fake{FakeEndpoints: apitest.FakeEndpoints{Next: "77"}}
	w := apitest.Get(apitest.New(t, f), "/v1/links?limit=2&cursor=99")
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, 2, f.Most)
	require.Equal(t, "99", f.Behind)
	require.JSONEq(t, `{"data":[
		{"id":"`+apitest.Link().ID+`","tenant":"m7","endpoint":"ep_123456789","manage":true,"name":"Anna","by":"key:ops",
		"created_at":"2026-01-31T11:00:00.123Z","expires_at":"2026-01-31T12:00:00.123Z"},
		{"id":"`+dispatcher.LinkID("y")+`","tenant":"m8","manage":false,"by":"key:ops","created_at":"2026-01-31T11:00:00.123Z","expires_at":"2026-01-31T11:00:00.123Z"}
	],"next_cursor":"77"}`, w.Body.String())
	f.Err = dispatcher.ErrCursor
	apitest.RequireProblem(t, apitest.Get(apitest.New(t, f), "/v1/links?cursor=x"), http.StatusUnprocessableEntity, "invalid")
}

func TestALinkIsRevokedOnce(t *testing.T) {
	f := &apitest.Fake{}
	h := apitest.New(t, f)
	w := apitest.Serve(h, apitest.NewRequest("DELETE", "/v1/links/"+apitest.Link().ID, ""))
	require.Equal(t, http.StatusNoContent, w.Code)
	require.Empty(t, w.Body.Bytes())
	require.Empty(t, w.Header().Get("Content-Type"))
	apitest.RequireProblem(t, apitest.Serve(h, apitest.NewRequest("DELETE", "/v1/links/"+dispatcher.LinkID("other"), "")), http.StatusNotFound, "not-found")
	apitest.RequireProblem(t, apitest.Serve(h, apitest.NewRequest("DELETE", "/v1/links/ep_1", "")), http.StatusNotFound, "not-found")
	require.Equal(t, []string{"revoke link", "revoke link"}, f.Calls)
	f.Err = dispatcher.ErrUnavailable
	apitest.RequireProblem(t, apitest.Serve(h, apitest.NewRequest("DELETE", "/v1/links/"+apitest.Link().ID, "")), http.StatusServiceUnavailable, "unavailable")
	f.Err = dispatcher.ErrLinks
	apitest.RequireProblem(t, apitest.Serve(apitest.New(t, f, apitest.WithLinks), apitest.NewRequest("POST", "/v1/links", `{"tenant":"m7"}`)), http.StatusUnprocessableEntity, "link-limit")
}

// Links are for the operator: a link is no way to make another.
func TestOnlyAnAdminSeesLinks(t *testing.T) {
	h := apitest.New(t, &apitest.Fake{}, apitest.WithLinks, apitest.WithKeys(t, apitest.Keys()))
	for _, r := range []struct{ method, path, body string }{
		{"GET", "/v1/links", ""}, {"POST", "/v1/links", `{"tenant":"m7"}`}, {"DELETE", "/v1/links/" + apitest.Link().ID, ""},
	} {
		for _, key := range []string{apitest.ReadKey, apitest.PublishKey} {
			q := apitest.NewRequest(r.method, r.path, r.body)
			q.Header.Set("Authorization", "Bearer "+key)
			require.Equal(t, http.StatusForbidden, apitest.Serve(h, q).Code, "%s %s", r.method, key)
		}
		require.Equal(t, http.StatusUnauthorized, apitest.Serve(h, apitest.NewRequest(r.method, r.path, r.body)).Code)
	}
}

func TestTheClientMakesAndRevokesALink(t *testing.T) {
	f := &apitest.Fake{}
	var log bytes.Buffer
	c := apitest.NewClient(t, f, apitest.WithLinks, apitest.WithLog(&log))
	made, err := c.CreateLink(t.Context(), wire.LinkRequest{Tenant: "m7", For: wire.Duration(time.Hour), Name: "Anna"})
	require.NoError(t, err)
	require.Equal(t, "https://hooks.example/pay/link/"+f.Token, made.URL)
	require.Equal(t, apitest.Now.Add(time.Hour).Truncate(time.Millisecond).UTC(), made.ExpiresAt.Time)
	require.Equal(t, dispatcher.Link{Tenant: "m7", Name: "Anna", By: "key:ops", Key: f.Made.Key}, f.Made)
	require.NoError(t, c.RevokeLink(t.Context(), apitest.Link().ID))
	require.Error(t, c.RevokeLink(t.Context(), dispatcher.LinkID("other")))
	require.NotContains(t, log.String(), f.Token)
}
