package home_test

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

var (
	rawKeys      = redisqtest.Keys
	testEndpoint = redisqtest.Endpoint
	mustCreate   = redisqtest.MustCreate
	mustDelete   = redisqtest.MustDelete
	nextVersion  = redisqtest.NextVersion
)

// projects numbers the projects of this process: each store has one of its own.
var projects atomic.Int64

// openTestStore opens a store that is closed with the test. Beside the endpoints
// it has the queue, with which a store of endpoints always goes.
func openTestStore(t testing.TB, options redisq.Options) *redisqtest.Whole {
	t.Helper()
	store, err := redisq.Open(t.Context(), options)
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	return redisqtest.WholeOf(store)
}

func measured(s *redisqtest.Whole) *redisqtest.Gauge { return redisqtest.Measure(s.Client(), nil) }
