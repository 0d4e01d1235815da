package httpapi_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/callers"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/apitest"
)

// A browser's call has the scopes that its key has now: a key that was taken away or
// narrowed counts at once.
func TestACallFromInsideHasTheScopesOfItsKey(t *testing.T) {
	keys, err := callers.ParseAPIKeys(apitest.Keys())
	require.NoError(t, err)
	of := func(text string) dispatcher.Browser {
		k, ok := keys.Find(text)
		require.True(t, ok)
		return k.Caller()
	}
	ask := func(f *apitest.Fake, method, path string, c dispatcher.Browser) int {
		r := apitest.NewRequest(method, path, "")
		return apitest.Serve(apitest.New(t, f, apitest.WithKeys(t, apitest.Keys())), r.WithContext(dispatcher.WithBrowser(r.Context(), c))).Code
	}
	require.Equal(t, dispatcher.Browser{Name: "ops", Key: of(apitest.AdminKey).Key, Read: true, Bodies: true, Admin: true}, of(apitest.AdminKey))
	require.False(t, of(apitest.ReadKey).Bodies || of(apitest.ReadKey).Admin)
	require.Equal(t, http.StatusOK, ask(&apitest.Fake{}, "GET", "/v1/stats", of(apitest.ReadKey)))
	require.Equal(t, http.StatusForbidden, ask(&apitest.Fake{}, "GET", "/v1/stats", of(apitest.PublishKey)))
	require.Equal(t, http.StatusForbidden, ask(&apitest.Fake{}, "POST", "/v1/endpoints/merchant:7/pause", of(apitest.ReadKey)))
	removed := of(apitest.AdminKey)
	removed.Key = "0123456789abcdef"
	require.Equal(t, http.StatusUnauthorized, ask(&apitest.Fake{}, "GET", "/v1/stats", removed), "its key was taken away")

	f := &apitest.Fake{}
	require.Equal(t, http.StatusOK, ask(f, "POST", "/v1/lanes/*/pause", of(apitest.AdminKey)))
	f.There = apitest.Endpoint(t)
	require.Equal(t, http.StatusOK, ask(f, "POST", "/v1/endpoints/merchant:7/pause", dispatcher.Browser{Name: "lnk_7", View: dispatcher.View{Tenant: "m7"}, Manage: true}))
	require.Len(t, f.Recorded, 2)
	require.Equal(t, []string{"key:ops", "link:lnk_7"}, []string{f.Recorded[0].By, f.Recorded[1].By})
}

// What people change who came by a link counts as theirs where it is carried out.
func TestACallFromInsideIsItsCallersWhereItIsCarriedOut(t *testing.T) {
	f := &apitest.Fake{}
	r := apitest.NewRequest("POST", "/v1/endpoints", `{"url":"https://shop.example/hook"}`)
	link := dispatcher.Browser{Name: "lnk_7", View: dispatcher.View{Tenant: "m7"}, Manage: true}
	w := apitest.Serve(apitest.New(t, f), r.WithContext(dispatcher.WithBrowser(r.Context(), link)))
	require.Equal(t, http.StatusCreated, w.Code)
	require.Equal(t, link, f.Inside)
	require.Equal(t, "link:lnk_7", f.Caller)
}

// A cursor belongs to the view that it was made for, so each filter has the view.
func TestAListHasTheViewOfItsCaller(t *testing.T) {
	merchant := dispatcher.Browser{Name: "lnk_7", View: dispatcher.View{Tenant: "m7", Endpoint: "ep_123456789"}}
	for path, view := range map[string]func(*apitest.Fake) dispatcher.View{
		"/v1/deliveries": func(f *apitest.Fake) dispatcher.View { return f.Filter.View },
		"/v1/attempts":   func(f *apitest.Fake) dispatcher.View { return f.LogFilter.View },
		"/v1/endpoints":  func(f *apitest.Fake) dispatcher.View { return f.FilterOf.View },
	} {
		for _, c := range []dispatcher.Browser{merchant, {Name: "lnk_8", View: dispatcher.View{Tenant: "m7"}}} {
			if path == "/v1/endpoints" && c.View.Endpoint != "" { // this one has a single endpoint, and no pages
				continue
			}
			f := &apitest.Fake{FakeEndpoints: apitest.FakeEndpoints{There: apitest.Endpoint(t)}}
			r := apitest.NewRequest("GET", path, "")
			require.Equal(t, http.StatusOK, apitest.Serve(apitest.New(t, f), r.WithContext(dispatcher.WithBrowser(r.Context(), c))).Code, path)
			require.Equal(t, c.View, view(f), path)
		}
		f := &apitest.Fake{FakeEndpoints: apitest.FakeEndpoints{There: apitest.Endpoint(t)}}
		require.Equal(t, http.StatusOK, apitest.Serve(apitest.New(t, f), apitest.NewRequest("GET", path, "")).Code, path)
		require.Zero(t, view(f), path)
	}
}

// The numbers of jobs count what an operator did for all tenants.
func TestAnAttemptNamesItsJobOnlyToWhoSeesEverything(t *testing.T) {
	f := &apitest.Fake{LogPage: apitest.LogPage}
	r := apitest.NewRequest("GET", "/v1/attempts", "")
	require.Contains(t, apitest.Serve(apitest.New(t, f), r).Body.String(), `"job":"job_7"`)
	merchant := dispatcher.Browser{Name: "lnk_7", View: dispatcher.View{Tenant: "m7"}}
	require.NotContains(t, apitest.Serve(apitest.New(t, f), r.WithContext(dispatcher.WithBrowser(r.Context(), merchant))).Body.String(), "job_7")
}
