package api_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/api"
)

// The store orders the ends of one ms by a smaller part, which is no time.
func TestTheTimeOfAnEndHasWholeMilliseconds(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 6, 7, int(8*time.Millisecond), time.UTC)
	placed := at.Add(204 * time.Microsecond)
	d := api.Delivery(&dispatcher.Delivery{Status: dispatcher.StatusDelivered, Ended: placed, Delivered: placed})
	require.Equal(t, []time.Time{at, at}, []time.Time{d.EndedAt.Time, d.DeliveredAt.Time})
	require.True(t, api.Delivery(&dispatcher.Delivery{}).EndedAt.IsZero())
}
