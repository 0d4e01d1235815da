package console_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/internal/console"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// fakeAPI answers as the API would, or with more than was asked for, and takes notes.
type fakeAPI struct {
	callers []string // of each call
	calls   []string // method and path
	queries []string
	bodies  []string
	spent   []string
	refusal *wire.Problem // of each change; nil: it is made
	wait    time.Duration

	endpoints []wire.EndpointView
	messages  []wire.MessageView
	broken    bool
}

func newFakeAPI() *fakeAPI {
	e := func(id, tenant string) wire.EndpointView {
		return wire.EndpointView{ID: id, State: "active", Endpoint: wire.Endpoint{
			UID: "uid-" + id, Tenant: tenant, URL: "https://" + tenant + ".example/", Metadata: map[string]string{"risk": "high"}, Headers: map[string]string{"x-inner": "***"},
		}}
	}
	d := func(to string) wire.Delivery {
		return wire.Delivery{
			DeliveryRef: wire.DeliveryRef{ID: to + ":m", Destination: to}, WaitingFor: "permits",
			LastError: "10.1.2.3 is private; allow it with ALLOW_NETS=10.1.2.3/32",
			History:   []wire.Attempt{{Attempt: 1, Address: "10.0.0.9:3128", Error: "proxy 10.0.0.9:3128: refused"}},
		}
	}
	m := func(id, tenant string, to ...string) wire.MessageView {
		v := wire.MessageView{Message: wire.Message{ID: id, Tenant: tenant}}
		for _, lane := range to {
			v.Deliveries = append(v.Deliveries, d(lane))
		}
		return v
	}
	return &fakeAPI{
		endpoints: []wire.EndpointView{e("ep_aaaaaaaaa", "A"), e("ep_bbbbbbbbb", "A"), e("ep_ccccccccc", "B"), e("ep_ddddddddd", "")},
		messages: []wire.MessageView{
			m("of_a", "A", "ep_aaaaaaaaa", "ep_bbbbbbbbb", "u_0123456789", "q_orders"), m("queued", "A", "q_orders"),
			m("of_b", "B", "ep_ccccccccc"), m("of_none", "", "ep_aaaaaaaaa"), m("second", "A", "ep_bbbbbbbbb"),
		},
	}
}

func (f *fakeAPI) visitor(t testing.TB, v console.Visitor) *console.VisitorClient {
	t.Helper()
	c, err := client.New("http://localhost", "", client.WithHTTPClient(&http.Client{Transport: f}), client.WithRepeats(client.Repeats{Tries: 1}))
	require.NoError(t, err)
	return console.NewVisitorClient(v, c, console.LinkMeter{
		Spend: func(_ context.Context, link string) (time.Duration, error) {
			f.spent = append(f.spent, link)
			return f.wait, nil
		},
		TakeBack: func(context.Context, string) error {
			f.spent = f.spent[:len(f.spent)-1]
			return nil
		},
	})
}

// RoundTrip answers a call.
func (f *fakeAPI) RoundTrip(r *http.Request) (*http.Response, error) {
	c, _ := dispatcher.BrowserOf(r.Context())
	f.callers = append(f.callers, c.By())
	f.calls = append(f.calls, r.Method+" "+r.URL.Path)
	f.queries = append(f.queries, r.URL.RawQuery)
	body := ""
	if r.Body != nil {
		text, _ := io.ReadAll(r.Body)
		body = string(text)
	}
	f.bodies = append(f.bodies, body)
	if f.broken {
		return nil, errors.New("broken")
	}
	w := httptest.NewRecorder()
	status, answer := f.answer(r)
	w.Header().Set("Content-Type", "application/json")
	if status >= 400 {
		w.Header().Set("Content-Type", "application/problem+json")
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer)
	return w.Result(), nil
}

func (f *fakeAPI) answer(r *http.Request) (int, any) {
	missing := wire.Problem{Type: "/problems/not-found", Title: "There is no such thing", Status: 404, Detail: "never was"}
	if f.refusal != nil && r.Method != "GET" {
		return f.refusal.Status, f.refusal
	}
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/v1/"), "/")
	switch {
	case r.Method == "GET" && r.URL.Path == "/v1/endpoints":
		return 200, wire.EndpointPage{Data: f.endpoints} // of all: the client must not rely on the filter
	case parts[0] == "endpoints" && len(parts) > 1:
		at := slices.IndexFunc(f.endpoints, func(e wire.EndpointView) bool { return e.ID == parts[1] || e.UID == parts[1] })
		if at < 0 {
			return 404, missing
		}
		if len(parts) > 2 && parts[2] == "deliveries" {
			return 200, wire.EndedPage{Data: []wire.Delivery{f.messages[3].Deliveries[0], own(f.messages[0])}}
		}
		if len(parts) > 2 && parts[2] == "test" {
			return 200, wire.EndpointTest{Outcome: "failed", Error: "10.1.2.3 is private; allow it with ALLOW_NETS=10.1.2.3/32"}
		}
		return 200, f.endpoints[at]
	case parts[0] == "messages":
		at := slices.IndexFunc(f.messages, func(m wire.MessageView) bool { return m.ID == parts[1] })
		if at < 0 {
			return 404, missing
		}
		if len(parts) > 2 {
			return 200, wire.Retried{ID: parts[1], Deliveries: []wire.RetriedDelivery{{Delivery: f.messages[at].Deliveries[0], Retried: true}}}
		}
		return 200, f.messages[at]
	case r.URL.Path == "/v1/deliveries":
		var all wire.Page
		for _, m := range f.messages {
			for _, d := range m.Deliveries {
				d.Tenant = m.Tenant
				all.Data = append(all.Data, d)
			}
		}
		return 200, all
	case r.URL.Path == "/v1/attempts":
		return 200, wire.LoggedPage{Data: []wire.LoggedAttempt{
			{Destination: "ep_aaaaaaaaa", Tenant: "A", Address: "10.0.0.9:1", Error: "set EGRESS_PROXY"}, {Destination: "q_orders", Tenant: "A"}, {Destination: "ep_ccccccccc", Tenant: "B"},
		}}
	case r.URL.Path == "/v1/lanes":
		if slices.Contains(r.URL.Query()["destination"], "ep_gone00000") {
			return 404, missing
		}
		return 200, wire.LanePage{Data: []wire.LaneState{{Lane: "ep_aaaaaaaaa", Tenant: "A", By: "boss", UID: "uid"}, {Lane: "ep_ccccccccc", Tenant: "B"}}}
	}
	return 200, struct{}{}
}

func own(m wire.MessageView) wire.Delivery {
	d := m.Deliveries[0]
	d.Tenant = m.Tenant
	return d
}
