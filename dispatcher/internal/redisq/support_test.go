package redisq_test

import (
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

var (
	rawKeys      = redisqtest.Keys
	testEndpoint = redisqtest.Endpoint
	faultEntries = redisqtest.Entries
	laneOf       = redisqtest.LaneOf
	bulky        = redisqtest.Bulky

	mustCreate  = redisqtest.MustCreate
	mustDelete  = redisqtest.MustDelete
	nextVersion = redisqtest.NextVersion
)

// measured gives a store a gauge.
func measured(s *redisqtest.Raw) *redisqtest.Gauge {
	return redisqtest.Measure(s.Client(), redisq.SHAs())
}
