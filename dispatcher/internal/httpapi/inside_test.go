package httpapi_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/callers"
)

// A browser's call has the scopes that its key has now: a key that was taken away or
// narrowed counts at once.
func TestACallFromInsideHasTheScopesOfItsKey(t *testing.T) {
	keys, err := callers.ParseAPIKeys(Keys())
	require.NoError(t, err)
	of := func(text string) dispatcher.Browser {
		k, ok := keys.Find(text)
		require.True(t, ok)
		return k.Caller()
	}
	ask := func(f *Fake, method, path string, c dispatcher.Browser) int {
		r := newTestRequest(method, path, "")
		return Serve(newTestAPI(t, f, WithKeys(t, Keys())), r.WithContext(dispatcher.WithBrowser(r.Context(), c))).Code
	}
	require.Equal(t, dispatcher.Browser{Name: "ops", Key: of(AdminKey).Key, Read: true, Bodies: true, Admin: true}, of(AdminKey))
	require.False(t, of(ReadKey).Bodies || of(ReadKey).Admin)
	require.Equal(t, http.StatusOK, ask(&Fake{}, "GET", "/v1/stats", of(ReadKey)))
	require.Equal(t, http.StatusForbidden, ask(&Fake{}, "GET", "/v1/stats", of(PublishKey)))
	require.Equal(t, http.StatusForbidden, ask(&Fake{}, "POST", "/v1/endpoints/merchant:7/pause", of(ReadKey)))
	removed := of(AdminKey)
	removed.Key = "0123456789abcdef"
	require.Equal(t, http.StatusUnauthorized, ask(&Fake{}, "GET", "/v1/stats", removed), "its key was taken away")

	f := &Fake{}
	require.Equal(t, http.StatusOK, ask(f, "POST", "/v1/lanes/*/pause", of(AdminKey)))
	f.There = Endpoint(t)
	require.Equal(t, http.StatusOK, ask(f, "POST", "/v1/endpoints/merchant:7/pause", dispatcher.Browser{Name: "lnk_7", View: dispatcher.View{Tenant: "m7"}, Manage: true}))
	require.Len(t, f.Recorded, 2)
	require.Equal(t, []string{"key:ops", "link:lnk_7"}, []string{f.Recorded[0].By, f.Recorded[1].By})
}

// What people change who came by a link counts as theirs where it is carried out.
func TestACallFromInsideIsItsCallersWhereItIsCarriedOut(t *testing.T) {
	f := &Fake{}
	r := newTestRequest("POST", "/v1/endpoints", `{"url":"https://shop.example/hook"}`)
	link := dispatcher.Browser{Name: "lnk_7", View: dispatcher.View{Tenant: "m7"}, Manage: true}
	w := Serve(newTestAPI(t, f), r.WithContext(dispatcher.WithBrowser(r.Context(), link)))
	require.Equal(t, http.StatusCreated, w.Code)
	require.Equal(t, link, f.Inside)
	require.Equal(t, "link:lnk_7", f.Caller)
}

// A cursor belongs to the view that it was made for, so each filter has the view.
func TestAListHasTheViewOfItsCaller(t *testing.T) {
	merchant := dispatcher.Browser{Name: "lnk_7", View: dispatcher.View{Tenant: "m7", Endpoint: "ep_123456789"}}
	for path, view := range map[string]func(*Fake) dispatcher.View{
		"/v1/deliveries": func(f *Fake) dispatcher.View { return f.Filter.View },
		"/v1/attempts":   func(f *Fake) dispatcher.View { return f.LogFilter.View },
		"/v1/endpoints":  func(f *Fake) dispatcher.View { return f.FilterOf.View },
	} {
		for _, c := range []dispatcher.Browser{merchant, {Name: "lnk_8", View: dispatcher.View{Tenant: "m7"}}} {
			if path == "/v1/endpoints" && c.View.Endpoint != "" { // this one has a single endpoint, and no pages
				continue
			}
			f := &Fake{FakeEndpoints: FakeEndpoints{There: Endpoint(t)}}
			r := newTestRequest("GET", path, "")
			require.Equal(t, http.StatusOK, Serve(newTestAPI(t, f), r.WithContext(dispatcher.WithBrowser(r.Context(), c))).Code, path)
			require.Equal(t, c.View, view(f), path)
		}
		f := &Fake{FakeEndpoints: FakeEndpoints{There: Endpoint(t)}}
		require.Equal(t, http.StatusOK, Serve(newTestAPI(t, f), newTestRequest("GET", path, "")).Code, path)
		require.Zero(t, view(f), path)
	}
}

// The numbers of jobs count what an operator did for all tenants.
func TestAnAttemptNamesItsJobOnlyToWhoSeesEverything(t *testing.T) {
	f := &Fake{LogPage: LogPage}
	r := newTestRequest("GET", "/v1/attempts", "")
	require.Contains(t, Serve(newTestAPI(t, f), r).Body.String(), `"job":"job_7"`)
	merchant := dispatcher.Browser{Name: "lnk_7", View: dispatcher.View{Tenant: "m7"}}
	require.NotContains(t, Serve(newTestAPI(t, f), r.WithContext(dispatcher.WithBrowser(r.Context(), merchant))).Body.String(), "job_7")
}
