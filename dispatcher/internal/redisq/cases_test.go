package redisq_test

import (
	"math"
	"testing"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// groups contains all cases of the queue, by topic: readable cases for each method and rule. They
// check the stored state too, not only the returned values. Nothing in them sleeps, because the test
// sets the clock. Package model compares the store with a model after every random step.
var groups = []struct {
	name  string
	cases []redisqtest.Case
}{
	{"schedule", ScheduleCases},
	{"move", MoveCases},
	{"many due at once", ShareCases},
	{"claim", ClaimCases},
	{"window and weight", WeightCases},
	{"new lanes", NewcomerCases},
	{"settle", SettleCases},
	{"late settle", LateCases},
	{"leases", LeaseCases},
	{"taken", TakenCases},
	{"last lease", LastLeaseCases},
	{"expiry", ExpiryCases},
	{"instances", InstanceCases},
	{"cancel", CancelCases},
	{"retry", RetryCases},
	{"beside the ladder", BesideCases},
	{"sent again", ResentCases},
	{"reap", ReapCases},
	{"trim", TrimCases},
	{"trim for room", RoomCases},
	{"ends", EndCases},
	{"look and stats", ReadCases},
	{"blocked", BlockedCases},
	{"list", ListCases},
	{"list by acceptance", AcceptedCases},
	{"list of all", MovedCases},
	{"ended", EndedCases},
	{"log", LogCases},
	{"follow", FollowCases},
	{"proof", ProofCases},
	{"dead", DeadCases},
	{"wake", WakeCases},
	{"partitions and sizes", SizeCases},
	{"large bodies", BodyCases},
	{"limits", LimitCases},
	{"paused", PausedCases},
	{"copies of limits", CopyCases},
	{"disabled and deleted", EndingCases},
	{"rate", RateCases},
	{"another clock", ClockCases},
	{"breaker", BreakerCases},
	{"failing", FailingCases},
	{"our own network", EgressCases},
	{"order", OrderCases},
	{"ordered lanes", OrderedCases},
	{"full lanes", FullCases},
	{"take", TakeCases},
	{"consumers", ConsumerCases},
	{"fan-out", FanCases},
	{"lanes", LaneCases},
	{"names of lanes", NameCases},
	{"reasons why lanes wait", WaitCases},
	{"hints of lanes", HintCases},
	{"what comes next", NextCases},
	{"several at once", CrowdCases},
}

// runCases runs every case on a store that open returns.
func runCases(t *testing.T, open redisqtest.FixtureFunc) { t.Helper(); runGroups(t, open, math.MaxInt) }

// runFirstCases runs the first case of each group. It is enough to see that a store can run every
// script.
func runFirstCases(t *testing.T, open redisqtest.FixtureFunc) { t.Helper(); runGroups(t, open, 1) }

func runGroups(t *testing.T, open redisqtest.FixtureFunc, most int) {
	t.Helper()
	for _, group := range groups {
		t.Run(group.name, func(t *testing.T) {
			t.Parallel() // each case has its own store
			for _, c := range group.cases[:min(most, len(group.cases))] {
				t.Run(c.Name, func(t *testing.T) {
					r := redisqtest.NewRig(t, open, c.Setup)
					c.Run(r)
					r.MustBeSound()
				})
			}
		})
	}
}
