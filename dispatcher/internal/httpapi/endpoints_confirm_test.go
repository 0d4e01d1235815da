package httpapi_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

const confirmPath = patchPath + "/confirm"

// withheldEndpoint is one whose URL a link set, in place of the operator's.
func withheldEndpoint(t testing.TB) *dispatcher.Endpoint {
	e := Endpoint(t)
	e.Linked, e.Unverified = true, true
	e.HeadersFor = map[string]string{"authorization": "https://former.example/", "x-b": "https://former.example/"}
	require.Equal(t, []string{"Authorization", "x-b"}, e.HeldHeaders())
	return e
}

func TestAConfirmedURLIsTheOperators(t *testing.T) {
	f := &Fake{FakeEndpoints: FakeEndpoints{There: withheldEndpoint(t), Races: 1}}
	h := newTestAPI(t, f)
	held := DecodeAnswer[wire.EndpointView](t, Get(h, patchPath), 200)
	require.True(t, held.HeadersHeld)
	require.Equal(t, map[string]string{"Authorization": "***", "x-b": "***"}, held.Headers)
	got := DecodeAnswer[wire.EndpointView](t, Serve(h, newTestRequest("POST", confirmPath, `{"url":"https://shop.example/hooks?k=1&l=2"}`)), 200)
	require.False(t, got.HeadersHeld)
	require.Equal(t, []string{"Authorization", "x-b"}, got.ReleasedHeaders)
	require.Equal(t, Endpoint(t), f.There)
	got = DecodeAnswer[wire.EndpointView](t, Serve(h, newTestRequest("POST", confirmPath, `{"url":"https://shop.example/hooks?k=1&l=2"}`)), 200)
	require.False(t, got.HeadersHeld, "again it is as it was")
	require.Empty(t, got.ReleasedHeaders)
}

func TestAURLThatIsNotTheEndpointsIsNotConfirmed(t *testing.T) {
	f := &Fake{FakeEndpoints: FakeEndpoints{There: withheldEndpoint(t)}}
	h := newTestAPI(t, f)
	for _, other := range []string{"https://former.example/", "https://shop.example/hooks", "https://shop.example/hooks?k=1&l=3"} {
		p := RequireProblem(t, Serve(h, newTestRequest("POST", confirmPath, `{"url":"`+other+`"}`)), 409, "changed")
		require.Contains(t, p.Detail, "another url by now")
	}
	for body, path := range map[string]string{`{}`: "$.url", `{"url":""}`: "$.url", `{"url":null}`: "$.url", `{"url":1}`: "$.url", `{"url":"x"}`: "$.url", `{"url":"https://shop.example/hooks?k=1&l=2#"}`: "$.url", `{"link":"x"}`: "$.link", `[]`: "$"} {
		w := Serve(h, newTestRequest("POST", confirmPath, body))
		p := RequireProblem(t, w, 422, "invalid")
		require.Equal(t, path, p.Errors[0].Path, body)
	}
	require.Equal(t, withheldEndpoint(t), f.There)

	f.There.URL = "http://10.1.2.3/"
	RequireField(t, Serve(h, newTestRequest("POST", confirmPath, `{"url":"http://10.1.2.3/"}`)), "$.url", "ALLOW_NETS=10.1.2.3/32")
	require.True(t, f.There.Linked, "the operator's networks hold for it from then on")
	f.There.Secrets = nil
	RequireProblem(t, Serve(h, newTestRequest("POST", confirmPath, `{"url":"http://10.1.2.3/"}`)), 500, "sealed")
	f.There = &dispatcher.Endpoint{ID: "ep_123456789", Pull: true, Secrets: Endpoint(t).Secrets}
	RequireProblem(t, Serve(h, newTestRequest("POST", confirmPath, `{"url":"https://shop.example/"}`)), 409, "changed")
}

func TestOnlyAPatchThatNamesTheURLSendsItsOwnHeadersThere(t *testing.T) {
	const all = "Authorization x-b"
	for body, held := range map[string]string{
		`{}`:                                           all,
		`{"description":"new"}`:                        all,
		`{"headers":{"x-b":"***"}}`:                    all,
		`{"headers":{"X-B":"***"}}`:                    all,
		`{"headers":{}}`:                               all,
		`{"headers":{"x-c":null}}`:                     all,
		`{"headers":{"x-b":null}}`:                     "Authorization",
		`{"url":"https://third.example/"}`:             all,
		`{"url":"https://shop.example/hooks?k=1&l=2"}`: all,
		`{"headers_held":false}`:                       all,
		`{"held_headers":[]}`:                          all,
		`{"disabled":false,"topics_allowed":["*"]}`:    all,
		`{"headers":{"x-b":"9"}}`:                      all,
		`{"headers":{"X-B":"9"}}`:                      "Authorization X-B",
		`{"headers":{"x-c":"9"}}`:                      all + " x-c",
		`{"headers":{"x-b":"***","x-c":"9"}}`:          all + " x-c",
		`{"headers":null}`:                             "", // there are none any more
		`{"headers":{"x-b":"9"},"url":"https://shop.example/hooks?k=1&l=2"}`:             "Authorization",
		`{"url":"https://shop.example/hooks?k=1&l=2","headers":{"x-b":"hunter3"}}`:       "Authorization", // the same value
		`{"url":"https://shop.example/hooks?k=1&l=2","headers":{"x-b":"***","x-c":"9"}}`: all,
		`{"headers":{"x-c":"9"},"url":"https://third.example/","ordered":false}`:         all,
		`{"headers":{"x-b":"9","authorization":"9"},"url":"https://third.example/"}`:     "",
		`{"headers":{"x-c":"9","x-b":"***"},"url":"https://former.example/"}`:            "", // the operator's own
		`{"headers":{"x-b":null,"Authorization":"***"},"url":"https://third.example/"}`:  "Authorization",
		`{"headers":{"AUTHORIZATION":"9"},"url":"https://shop.example/hooks?k=1&l=2"}`:   "x-b",
	} {
		f := &Fake{FakeEndpoints: FakeEndpoints{There: withheldEndpoint(t)}}
		got := DecodeAnswer[wire.EndpointView](t, patch(newTestAPI(t, f), body), 200)
		require.Equal(t, held, strings.Join(got.HeldHeaders, " "), body)
		require.Equal(t, held != "", got.HeadersHeld, body)
	}
}

func TestTheOperatorsListOfTopics(t *testing.T) {
	f := &Fake{FakeEndpoints: FakeEndpoints{There: Endpoint(t)}}
	h := newTestAPI(t, f)
	require.NotContains(t, Get(h, patchPath).Body.String(), "topics_allowed")
	for body, want := range map[string][]string{`["order.*","*"]`: {"order.*", "*"}, `[]`: {}, `null`: nil} {
		got := DecodeAnswer[wire.EndpointView](t, patch(h, `{"topics_allowed":`+body+`}`), 200)
		require.Equal(t, want, got.TopicsAllowed)
		require.Equal(t, want, f.There.TopicsAllowed)
	}
	RequireField(t, patch(h, `{"topics_allowed":["a b"]}`), "$.topics_allowed[0]", "must be a topic")
	RequireField(t, patch(h, `{"topics_allowed":"*"}`), "$.topics_allowed", "list")
}

// asLink makes a call on behalf of a link.
func asLink(h http.Handler, view dispatcher.View, method, path, body string) *httptest.ResponseRecorder {
	r := newTestRequest(method, path, body)
	return Serve(h, r.WithContext(dispatcher.WithBrowser(r.Context(), dispatcher.Browser{Name: "lnk_7", View: view, Manage: true})))
}

var (
	tenantLink = dispatcher.View{Tenant: "m7"}
	singleLink = dispatcher.View{Tenant: "m7", Endpoint: "ep_123456789"}
)

func TestALinkSetsTopicsWithinTheOperatorsList(t *testing.T) {
	given := func(e *dispatcher.Endpoint) { e.Topics = []string{"payment.*", "hookladder.endpoint.failing"} }
	allowed := func(e *dispatcher.Endpoint) { e.TopicsAllowed = []string{"order.*"} }
	narrowed := func(e *dispatcher.Endpoint) {
		e.Topics, e.TopicsGiven = []string{"payment.paid"}, []string{"payment.*"}
	}
	for _, c := range []struct {
		of     func(*dispatcher.Endpoint)
		view   dispatcher.View
		topics string
		wrong  string
	}{
		{given, singleLink, `["payment.paid"]`, ""},
		{given, singleLink, `["payment.*"]`, ""},
		{given, singleLink, `[]`, ""},
		{given, singleLink, `["hookladder.endpoint.failing"]`, ""},
		{given, singleLink, `["payment.paid","*"]`, "$.topics[1]"},
		{given, singleLink, `null`, "$.topics[0]"},
		{given, singleLink, `["hookladder.*"]`, "$.topics[0]"},
		{given, singleLink, `["hookladder.delivery.dead"]`, "$.topics[0]"},
		{given, singleLink, `["refund.made"]`, "$.topics[0]"},
		{given, tenantLink, `["refund.made","*"]`, ""},
		{given, tenantLink, `["hookladder.endpoint.failing"]`, ""},
		{given, tenantLink, `["hookladder.*"]`, "$.topics[0]"},
		{allowed, singleLink, `["order.paid"]`, ""},
		{allowed, singleLink, `["payment.paid"]`, "$.topics[0]"},
		{allowed, singleLink, `["payment.*"]`, ""}, // it is so already
		{narrowed, singleLink, `["payment.*"]`, ""},
		{narrowed, singleLink, `["*"]`, "$.topics[0]"},
	} {
		f := &Fake{FakeEndpoints: FakeEndpoints{There: Endpoint(t)}}
		c.of(f.There)
		before := f.There.Clone()
		w := asLink(newTestAPI(t, f), c.view, "PATCH", patchPath, `{"topics":`+c.topics+`}`)
		if c.wrong == "" {
			require.Equal(t, http.StatusOK, w.Code, "%+v: %s", c, w.Body)
			continue
		}
		RequireField(t, w, c.wrong, "ask the operator")
		require.Equal(t, before, f.There)
	}
	f := &Fake{}
	RequireField(t, asLink(newTestAPI(t, f), tenantLink, "POST", "/v1/endpoints", `{"url":"https://a.example/","topics":["hookladder.delivery.dead"]}`), "$.topics[0]", "ask the operator")
	require.Equal(t, http.StatusCreated, asLink(newTestAPI(t, f), tenantLink, "POST", "/v1/endpoints", `{"url":"https://a.example/"}`).Code)
	f = &Fake{FakeEndpoints: FakeEndpoints{There: Endpoint(t)}}
	require.Equal(t, http.StatusOK, patch(newTestAPI(t, f), `{"topics":["hookladder.*"]}`).Code, "an operator sets any")
}

// A URL that passed for an operator has not passed for a link.
func TestALinksURLIsJudgedByItsOwnNetworks(t *testing.T) {
	f := &Fake{FakeEndpoints: FakeEndpoints{There: Endpoint(t)}}
	h := newTestAPI(t, f, func(o *httpapi.Options) {
		o.Policy.CheckURL = nil
		o.Policy.CheckLinkURL = func(u *url.URL) error {
			if u.Hostname() == "10.1.2.3" {
				return errors.New("not for links")
			}
			return nil
		}
	})
	const inside = `{"url":"http://10.1.2.3/"}`
	for range 2 {
		require.Equal(t, http.StatusCreated, Post(h, "/v1/endpoints", inside).Code)
		RequireField(t, asLink(h, tenantLink, "POST", "/v1/endpoints", inside), "$.url", "not for links")
		f.There = Endpoint(t)
		RequireField(t, asLink(h, singleLink, "PATCH", patchPath, inside), "$.url", "not for links")
		require.Equal(t, http.StatusOK, asLink(h, singleLink, "PATCH", patchPath, `{"url":"http://10.1.2.4/"}`).Code)
		require.Equal(t, http.StatusOK, patch(h, inside).Code)
	}
}
