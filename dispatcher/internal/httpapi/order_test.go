package httpapi_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

func TestAListHasTheOrderOfItsFilter(t *testing.T) {
	f := &fakeService{}
	h := newTestAPI(t, f)
	for query, want := range map[string]dispatcher.Filter{
		"status=dead&status=delivered":            {Order: dispatcher.OrderEnded, Statuses: []dispatcher.Status{"dead", "delivered"}},
		"status=dead&status=ready":                {Statuses: []dispatcher.Status{"dead", "ready"}},
		"order=ended":                             {Order: dispatcher.OrderEnded, Statuses: dispatcher.EndStatuses},
		"order=due":                               {Order: dispatcher.OrderDue, Statuses: []dispatcher.Status{"scheduled", "retrying"}},
		"order=due&status=retrying":               {Order: dispatcher.OrderDue, Statuses: []dispatcher.Status{"retrying"}},
		"destination=u_1":                         {Order: dispatcher.OrderAccepted, Lanes: []dispatcher.Lane{"u_1"}},
		"destination=u_1&status=ready":            {Order: dispatcher.OrderAccepted, Lanes: []dispatcher.Lane{"u_1"}, Statuses: []dispatcher.Status{"ready"}},
		"destination=u_1&status=dead":             {Order: dispatcher.OrderEnded, Lanes: []dispatcher.Lane{"u_1"}, Statuses: []dispatcher.Status{"dead"}},
		"destination=u_1&status=dead&failed=true": {Order: dispatcher.OrderAccepted, Lanes: []dispatcher.Lane{"u_1"}, Statuses: []dispatcher.Status{"dead"}, Failed: true},
		"dead_reason=gone":                        {Order: dispatcher.OrderEnded, Statuses: []dispatcher.Status{"dead"}, Reasons: []dispatcher.DeadReason{"gone"}},
	} {
		decodeAnswer[wire.Page](t, get(h, "/v1/deliveries?"+query), 200)
		f.filter.Limit = 0
		require.Equal(t, want, f.filter, query)
	}
	for query, cure := range map[string]string{
		"order=ended&status=ready": "no other status than delivered", "order=ended&failed=true": "leave failed out",
		"order=accepted": "destination", "order=oldest": "accepted",
		"order=due&status=ready": "scheduled and retrying", "order=due&dead_reason=gone": "leave dead_reason out",
	} {
		requireField(t, get(h, "/v1/deliveries?"+query), "query.order", cure)
	}
}
