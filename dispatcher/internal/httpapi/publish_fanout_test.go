package httpapi_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

func TestAMessageGoesToAnEndpointOrToAllThatMatch(t *testing.T) {
	to := func(lane dispatcher.Lane, m *dispatcher.Message, status dispatcher.Status) dispatcher.Delivery {
		return dispatcher.Delivery{ID: dispatcher.DeliveryID{Lane: lane, Message: m.ID}, URL: "http://a", Status: status}
	}
	f := &Fake{OnPublish: func(all []*dispatcher.Message) ([]dispatcher.Published, error) {
		m := all[0]
		p := dispatcher.Published{Result: dispatcher.Accepted, CreatedAt: Now}
		if m.Endpoint != "" {
			p.Deliveries = []dispatcher.Delivery{to("ep_1", m, dispatcher.StatusInFlight)}
		} else {
			p.Deliveries = []dispatcher.Delivery{to("ep_1", m, dispatcher.StatusReady), to("ep_2", m, dispatcher.StatusDead)}
		}
		return []dispatcher.Published{p}, nil
	}}
	h := newTestAPI(t, f)
	got := DecodeAnswer[wire.Published](t, Post(h, "/v1/messages", Bare+`,"endpoint":"merchant:7","ordering_key":"order-7"}`), 202)
	require.Equal(t, 1, got.Matched)
	require.Equal(t, "merchant:7", f.Published[0].Endpoint)
	require.Equal(t, "order-7", f.Published[0].OrderingKey)

	got = DecodeAnswer[wire.Published](t, Post(h, "/v1/messages", Bare+`}`), 202)
	require.Equal(t, 2, got.Matched)
	require.Equal(t, "ep_2", got.Deliveries[1].Destination)
	require.Equal(t, "dead", got.Deliveries[1].Status)
	require.Empty(t, f.Published[1].URL+f.Published[1].Endpoint)

	f.OnPublish = func([]*dispatcher.Message) ([]dispatcher.Published, error) {
		return []dispatcher.Published{{Result: dispatcher.Accepted, CreatedAt: Now}}, nil
	}
	w := Post(h, "/v1/messages", Bare+`,"id":"a"}`)
	require.Equal(t, 200, w.Code, "a 202 means kept")
	require.Contains(t, w.Body.String(), `"matched":0,"deliveries":[]`)
	all := DecodeAnswer[wire.Results](t, Post(h, "/v1/messages/batch", `{"messages":[`+Bare+`,"id":"a"}]}`), 202)
	require.Equal(t, 200, all.Results[0].Status)
}

func TestWhyADestinationTakesNothing(t *testing.T) {
	for _, c := range []struct {
		published dispatcher.Published
		status    int
		word      string
		path      string
	}{
		{dispatcher.Published{Err: fmt.Errorf("publish a: %w", dispatcher.ErrNoEndpoint)}, 422, "invalid", "endpoint"},
		{dispatcher.Published{Err: fmt.Errorf("publish a: %w", dispatcher.ErrTenant)}, 422, "invalid", "endpoint"},
		{dispatcher.Published{Err: fmt.Errorf("publish a: %w", dispatcher.ErrFanOut)}, 422, "too-many-endpoints", ""},
		{dispatcher.Published{Result: dispatcher.LaneFull}, 429, "lane-full", ""},
	} {
		f := &Fake{OnPublish: func(all []*dispatcher.Message) ([]dispatcher.Published, error) {
			if len(all) == 1 {
				return []dispatcher.Published{c.published}, nil
			}
			return []dispatcher.Published{Accepted(all[0]), c.published}, nil
		}}
		h := newTestAPI(t, f)
		w := Post(h, "/v1/messages", Bare+`,"endpoint":"a"}`)
		p := RequireProblem(t, w, c.status, c.word)
		require.Equal(t, c.status == 429, w.Header().Get("Retry-After") != "")
		results := DecodeAnswer[wire.Results](t, Post(h, "/v1/messages/batch", Batch(Message(""), Bare+`,"endpoint":"a"}`)), 202).Results
		require.Equal(t, 202, results[0].Status)
		require.Equal(t, c.status, results[1].Status)
		require.Equal(t, "/problems/"+c.word, results[1].Problem.Type)
		if c.path != "" {
			require.Equal(t, "$."+c.path, p.Errors[0].Path)
			require.Equal(t, "$.messages[1]."+c.path, results[1].Problem.Errors[0].Path)
		}
	}
}

func TestAMessageReadTellsItsEndpoint(t *testing.T) {
	f := &Fake{View: dispatcher.MessageView{Message: dispatcher.Message{
		ID: "a", Topic: "t", Endpoint: "ep_1", OrderingKey: "k", Body: []byte("1"), ContentType: "application/json",
	}}}
	w := Get(newTestAPI(t, f), "/v1/messages/a")
	got := DecodeAnswer[wire.MessageView](t, w, 200)
	require.Equal(t, "ep_1", got.Endpoint)
	require.Equal(t, "k", got.OrderingKey)
	require.NotContains(t, w.Body.String(), `"url"`)
}
