package httpapi_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

func TestAListHasTheOrderOfItsFilter(t *testing.T) {
	f := &Fake{}
	h := newTestAPI(t, f)
	for query, want := range map[string]dispatcher.Filter{
		"status=dead&status=delivered":            {Order: dispatcher.OrderEnded, Statuses: []dispatcher.Status{"dead", "delivered"}},
		"status=dead&status=ready":                {Statuses: []dispatcher.Status{"dead", "ready"}},
		"order=ended":                             {Order: dispatcher.OrderEnded, Statuses: dispatcher.EndStatuses()},
		"order=due":                               {Order: dispatcher.OrderDue, Statuses: []dispatcher.Status{"scheduled", "retrying"}},
		"order=due&status=retrying":               {Order: dispatcher.OrderDue, Statuses: []dispatcher.Status{"retrying"}},
		"destination=u_1":                         {Order: dispatcher.OrderAccepted, Lanes: []dispatcher.Lane{"u_1"}},
		"destination=u_1&status=ready":            {Order: dispatcher.OrderAccepted, Lanes: []dispatcher.Lane{"u_1"}, Statuses: []dispatcher.Status{"ready"}},
		"destination=u_1&status=dead":             {Order: dispatcher.OrderEnded, Lanes: []dispatcher.Lane{"u_1"}, Statuses: []dispatcher.Status{"dead"}},
		"destination=u_1&status=dead&failed=true": {Order: dispatcher.OrderAccepted, Lanes: []dispatcher.Lane{"u_1"}, Statuses: []dispatcher.Status{"dead"}, Failed: true},
		"tenant=t":                                {Order: dispatcher.OrderAccepted, Tenants: []string{"t"}},
		"dead_reason=gone":                        {Order: dispatcher.OrderEnded, Statuses: []dispatcher.Status{"dead"}, Reasons: []dispatcher.DeadReason{"gone"}},
	} {
		DecodeAnswer[wire.Page](t, Get(h, "/v1/deliveries?"+query), 200)
		f.Filter.Limit = 0
		require.Equal(t, want, f.Filter, query)
	}
	for query, cure := range map[string]string{
		"order=ended&status=ready": "no other status than delivered", "order=ended&failed=true": "leave failed out",
		"order=accepted": "destination", "order=oldest": "accepted",
		"order=due&status=ready": "scheduled and retrying", "order=due&dead_reason=gone": "leave dead_reason out",
	} {
		RequireField(t, Get(h, "/v1/deliveries?"+query), "query.order", cure)
	}
}

func TestAShortPageSaysHowFarItLooked(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	f := &Fake{Page: dispatcher.Page{LookedAt: 7, Next: "c", Reached: &dispatcher.EndPlace{At: at, ID: "u_1:m"}}}
	h := newTestAPI(t, f)
	got := DecodeAnswer[wire.Page](t, Get(h, "/v1/deliveries?tenant=t"), 200)
	require.Equal(t, 7, got.LookedAt)
	require.True(t, at.Equal(got.LookedUntil.Time))
	f.Page.Next, f.Page.Reached = "", nil
	require.Zero(t, DecodeAnswer[wire.Page](t, Get(h, "/v1/deliveries?tenant=t"), 200).LookedUntil)
}
