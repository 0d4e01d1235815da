package httpapi_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/access"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/apikey"
)

// A browser's call has the scopes that its key has now: a key that was taken away or
// narrowed counts at once.
func TestACallFromInsideHasTheScopesOfItsKey(t *testing.T) {
	keys, err := apikey.Parse(testKeys())
	require.NoError(t, err)
	of := func(text string) access.Caller {
		k, ok := keys.Find(text)
		require.True(t, ok)
		return k.Caller()
	}
	ask := func(f *fakeService, method, path string, c access.Caller) int {
		r := newRequest(method, path, "")
		return serve(newTestAPI(t, f, withKeys(t, testKeys())), r.WithContext(access.WithCaller(r.Context(), c))).Code
	}
	require.Equal(t, access.Caller{Name: "ops", Key: of(adminKey).Key, Read: true, Bodies: true, Admin: true}, of(adminKey))
	require.False(t, of(readKey).Bodies || of(readKey).Admin)
	require.Equal(t, http.StatusOK, ask(&fakeService{}, "GET", "/v1/stats", of(readKey)))
	require.Equal(t, http.StatusForbidden, ask(&fakeService{}, "GET", "/v1/stats", of(publishKey)))
	require.Equal(t, http.StatusForbidden, ask(&fakeService{}, "POST", "/v1/endpoints/merchant:7/pause", of(readKey)))
	removed := of(adminKey)
	removed.Key = "0123456789abcdef"
	require.Equal(t, http.StatusUnauthorized, ask(&fakeService{}, "GET", "/v1/stats", removed), "its key was taken away")

	f := &fakeService{}
	require.Equal(t, http.StatusOK, ask(f, "POST", "/v1/lanes/*/pause", of(adminKey)))
	require.Equal(t, http.StatusOK, ask(f, "POST", "/v1/lanes/*/pause", access.Caller{Name: "lnk_7"}))
	require.Len(t, f.recorded, 2)
	require.Equal(t, []string{"key:ops", "link:lnk_7"}, []string{f.recorded[0].By, f.recorded[1].By})
}

// What people change who came by a link counts as theirs where it is carried out.
func TestACallFromInsideIsItsCallersWhereItIsCarriedOut(t *testing.T) {
	f := &fakeService{}
	r := newRequest("POST", "/v1/endpoints", `{"url":"https://shop.example/hook"}`)
	w := serve(newTestAPI(t, f), r.WithContext(access.WithCaller(r.Context(), access.Caller{Name: "lnk_7"})))
	require.Equal(t, http.StatusCreated, w.Code)
	require.Equal(t, access.Caller{Name: "lnk_7"}, f.inside)
	require.Equal(t, "link:lnk_7", f.caller)
}

// A cursor belongs to the view that it was made for, so each filter has the view.
func TestAListHasTheViewOfItsCaller(t *testing.T) {
	merchant := access.Caller{Name: "lnk_7", View: dispatcher.View{Tenant: "m7", Endpoint: "ep_123456789"}}
	for path, view := range map[string]func(*fakeService) dispatcher.View{
		"/v1/deliveries":                        func(f *fakeService) dispatcher.View { return f.filter.View },
		"/v1/attempts":                          func(f *fakeService) dispatcher.View { return f.logFilter.View },
		"/v1/endpoints":                         func(f *fakeService) dispatcher.View { return f.filterOf.View },
		"/v1/endpoints/ep_123456789/deliveries": func(f *fakeService) dispatcher.View { return f.endedOf[0].View },
		"/v1/dead":                              func(f *fakeService) dispatcher.View { return f.dead.View },
		"/v1/audit":                             func(f *fakeService) dispatcher.View { return f.auditOf.View },
	} {
		for _, c := range []access.Caller{merchant, {Name: "lnk_8", View: dispatcher.View{Tenant: "m7"}}} {
			f := &fakeService{fakeEndpoints: fakeEndpoints{there: testEndpoint(t)}}
			r := newRequest("GET", path, "")
			require.Equal(t, http.StatusOK, serve(newTestAPI(t, f), r.WithContext(access.WithCaller(r.Context(), c))).Code, path)
			require.Equal(t, c.View, view(f), path)
		}
		f := &fakeService{fakeEndpoints: fakeEndpoints{there: testEndpoint(t)}}
		require.Equal(t, http.StatusOK, serve(newTestAPI(t, f), newRequest("GET", path, "")).Code, path)
		require.Zero(t, view(f), path)
	}
}

// The numbers of jobs count what an operator did for all tenants.
func TestAnAttemptNamesItsJobOnlyToWhoSeesEverything(t *testing.T) {
	f := &fakeService{logPage: testLogPage}
	r := newRequest("GET", "/v1/attempts", "")
	require.Contains(t, serve(newTestAPI(t, f), r).Body.String(), `"job":"job_7"`)
	merchant := access.Caller{Name: "lnk_7", View: dispatcher.View{Tenant: "m7"}}
	require.NotContains(t, serve(newTestAPI(t, f), r.WithContext(access.WithCaller(r.Context(), merchant))).Body.String(), "job_7")
}
