package httpapi_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/api"
	"github.com/hookladder/hookladder/signer"
)

// A caller of each kind, in the order of the cells of rightsOf.
var rightsCallers = []struct {
	name string
	key  string              // of API_KEYS; empty: none
	link *dispatcher.Browser // nil: it came with a key, or as a stranger
}{
	{name: "stranger"},
	{name: "publish", key: "publish-key-for-rights"},
	{name: "read", key: "read-key-for-the-rights"},
	{name: "read+bodies", key: "bodies-key-for-the-rights"},
	{name: "tick", key: "tick-key-for-the-rights"},
	{name: "consume", key: "consume-key-for-the-rights"},
	{name: "admin", key: "admin-key-for-the-rights"},
	{name: "link", link: &dispatcher.Browser{Name: "lnk_view", View: dispatcher.View{Tenant: "of a"}}},
	{name: "managing link", link: &dispatcher.Browser{Name: "lnk_manage", View: dispatcher.View{Tenant: "of a"}, Manage: true}},
	{name: "link of one endpoint", link: &dispatcher.Browser{Name: "lnk_one", View: dispatcher.View{Tenant: "of a", Endpoint: "ep_123456789"}, Manage: true}},
	{name: "link of no tenant", link: &dispatcher.Browser{Name: "lnk_none", Manage: true}},
}

const rightsKeys = "publish-key-for-rights:publish:publish,read-key-for-the-rights:read:read,bodies-key-for-the-rights:read+bodies:bodies," +
	"tick-key-for-the-rights:tick:tick,consume-key-for-the-rights:consume:consume,admin-key-for-the-rights:admin:admin"

// Rows that many operations share. A plus means that the call is let in, whatever comes of it. A
// minus means that it is refused, and that nothing is called.
const (
	//                s p r b t c a  v m 1 0
	rightsAll      = "+++++++" + "----"
	rightsPublish  = "-+----+" + "----"
	rightsRead     = "--++--+" + "----"
	rightsTick     = "----+-+" + "----"
	rightsConsume  = "-----++" + "----"
	rightsAdmin    = "------+" + "----"
	rightsReadView = "--++--+" + "+++-" // links see their own too
	rightsManage   = "------+" + "-++-" // and change it
)

// rightsOf says who may call which operation.
var rightsOf = map[string]string{
	"healthz": rightsAll, "readyz": rightsAll, "webhook-keys": rightsAll,

	"publish": rightsPublish, "publish-batch": rightsPublish, "cancel-message": rightsPublish,
	"retry-message": "-+----+" + "-++-",
	"get-message":   rightsReadView,

	"list-deliveries": rightsReadView, "list-attempts": rightsReadView,
	"list-endpoint-deliveries": rightsRead, "list-dead": rightsRead,
	"retry-deliveries": rightsAdmin, "cancel-deliveries": rightsAdmin, "purge-deliveries": rightsAdmin,
	"list-jobs": rightsRead, "get-job": rightsReadView, "retry-endpoint": rightsManage, "stop-job": rightsAdmin, "resume-job": rightsAdmin,

	"list-endpoints": rightsReadView, "get-endpoint": rightsReadView,
	"create-endpoint": "------+" + "-+--",
	"patch-endpoint":  rightsManage, "pause-endpoint": rightsManage, "resume-endpoint": rightsManage,
	"rotate-secret": rightsManage, "test-endpoint": rightsManage,
	"delete-endpoint": rightsAdmin, "confirm-endpoint": rightsAdmin, "get-secret": rightsAdmin,

	"list-lanes": rightsReadView, "pause-lane": rightsAdmin, "resume-lane": rightsAdmin,
	"take": rightsConsume, "settle": rightsConsume,
	"create-link": rightsAdmin, "list-links": rightsAdmin, "revoke-link": rightsAdmin, "list-audit": rightsAdmin,
	"stats": rightsRead, "list-instances": rightsRead, "metrics": rightsRead, "tick": rightsTick,
}

// apiOperation is an operation of the document.
type apiOperation struct{ id, method, path string }

func apiOperations(t *testing.T) (all []apiOperation) {
	t.Helper()
	var doc struct {
		Paths map[string]map[string]struct{ OperationID string }
	}
	h := newTestAPI(t, &Fake{}, func(o *httpapi.Options) { o.Metrics = http.NotFoundHandler() })
	require.NoError(t, json.Unmarshal(Get(h, "/openapi.json").Body.Bytes(), &doc))
	for path, methods := range doc.Paths {
		for method, o := range methods {
			all = append(all, apiOperation{o.OperationID, strings.ToUpper(method), path})
		}
	}
	return all
}

func TestWhoMayCallEachOperation(t *testing.T) {
	seen := 0
	for _, o := range apiOperations(t) {
		cells, ok := rightsOf[o.id]
		require.True(t, ok, "say in rightsOf who may call %s (%s %s)", o.id, o.method, o.path)
		require.Len(t, cells, len(rightsCallers), o.id)
		seen++
		id := "a"
		switch {
		case strings.Contains(o.path, "/endpoints/"):
			id = "ep_123456789"
		case strings.Contains(o.path, "/jobs/"):
			id = "job_7"
		case strings.Contains(o.path, "/links/"):
			id = Link().ID
		}
		path := strings.NewReplacer("{id}", id, "{lane}", "u_1", "{name}", "a").Replace(o.path)
		if o.id == "retry-message" {
			path += "?destination=u_1"
		}
		for i, c := range rightsCallers {
			about := o.id + " by " + c.name
			f := &Fake{View: Record(t), FakeEndpoints: FakeEndpoints{There: Endpoint(t), Secret: MustSecret(t, signer.Standard, SecretNew)}}
			f.There.Tenant, f.View.Message.Tenant = "of a", "of a"
			f.OneJob.Filter.Lanes = []dispatcher.Lane{f.There.Lane()}
			to := path
			if c.link != nil && c.link.View.Endpoint != "" {
				f.View.Deliveries[0].ID.Lane = f.There.Lane()
				to = strings.Replace(path, "u_1", f.There.ID, 1)
			}
			r := newTestRequest(o.method, to, "")
			if c.key != "" {
				r.Header.Set("Authorization", "Bearer "+c.key)
			}
			if c.link != nil {
				r = r.WithContext(dispatcher.WithBrowser(r.Context(), *c.link))
			}
			served := false
			w := Serve(newTestAPI(t, f, WithKeys(t, rightsKeys), func(o *httpapi.Options) {
				o.Metrics = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served = true })
			}), r)
			if cells[i] == '+' {
				require.NotContains(t, []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound}, w.Code, "%s: %s", about, w.Body)
				continue
			}
			want := http.StatusForbidden
			switch {
			case c.link != nil: // it is not told what else there is
				want = http.StatusNotFound
			case c.key == "":
				want = http.StatusUnauthorized
			}
			require.Equal(t, want, w.Code, "%s: %s", about, w.Body)
			require.False(t, served, about)
			require.Empty(t, f.Calls, "%s: nothing was called", about)
			require.Empty(t, f.Recorded, about)
		}
	}
	require.Len(t, rightsOf, seen, "these operations are no longer there")
}

// The pages offer nothing to a link that the API would refuse, and to a key nothing beside reading
// without the scope admin.
func TestPagesOfferWhatTheAPIAllows(t *testing.T) {
	for id, cells := range rightsOf {
		if id == "metrics" { // it is of no page
			continue
		}
		for i, c := range rightsCallers {
			if c.link == nil || c.link.View.Endpoint != "" {
				continue
			}
			may, known := httpapi.May(*c.link, id)
			require.True(t, known, id)
			require.Equal(t, cells[i] == '+', may, "%s by %s", id, c.name)
		}
		for _, c := range []struct {
			who dispatcher.Browser
			may bool
		}{
			{dispatcher.Browser{Key: "1", Admin: true}, true},
			{dispatcher.Browser{Key: "1", Read: true}, cells[2] == '+' && cells[0] == '-'},
			{dispatcher.Browser{Key: "1"}, false},
		} {
			may, known := httpapi.May(c.who, id)
			require.True(t, known, id)
			require.Equal(t, c.may, may, "%s by %+v", id, c.who)
		}
	}
	_, known := httpapi.May(dispatcher.Browser{Key: "1", Admin: true}, "eat-message")
	require.False(t, known)
}

func TestWhatIsALinksOwn(t *testing.T) {
	all, single := dispatcher.View{Tenant: "A"}, dispatcher.View{Tenant: "A", Endpoint: "ep_aaaaaaaaa"}
	for name, c := range map[string]struct {
		view   dispatcher.View
		tenant string
		at     dispatcher.Lane
		own    bool
	}{
		"its endpoint":                      {all, "A", "ep_aaaaaaaaa", true},
		"a bare URL of its tenant":          {all, "A", "u_0123456789", true},
		"a queue is the operator's":         {all, "A", "q_orders", false},
		"another tenant's":                  {all, "B", "ep_aaaaaaaaa", false},
		"of no tenant":                      {all, "", "ep_aaaaaaaaa", false},
		"the endpoint of its link":          {single, "A", "ep_aaaaaaaaa", true},
		"another endpoint of its tenant":    {single, "A", "ep_bbbbbbbbb", false},
		"a bare URL, of an endpoint's link": {single, "A", "u_0123456789", false},
		"keys own all":                      {dispatcher.View{}, "A", "q_orders", true},
	} {
		require.Equal(t, c.own, (&api.Request{View: c.view}).Owns(c.tenant, c.at), name)
	}
}
