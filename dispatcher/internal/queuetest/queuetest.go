// Package queuetest has the tests of the queue, which every store of an engine must pass:
// readable cases for each method and rule. Package model compares the store with a model
// after every random step.
//
// The cases check the stored state too, not only the returned values. Package redisqtest
// reads all keys and returns a stored.State. Nothing here sleeps, because the test sets the clock.
package queuetest

import (
	"math"
	"testing"

	"github.com/hookladder/hookladder/dispatcher/internal/queuetest/deliveries"
	"github.com/hookladder/hookladder/dispatcher/internal/queuetest/lanes"
	"github.com/hookladder/hookladder/dispatcher/internal/queuetest/rig"
)

// groups contains all cases by topic.
var groups = []struct {
	name  string
	cases []rig.Case
}{
	{"schedule", deliveries.ScheduleCases},
	{"move", deliveries.MoveCases},
	{"many due at once", lanes.ShareCases},
	{"claim", deliveries.ClaimCases},
	{"window and weight", lanes.WeightCases},
	{"new lanes", lanes.NewcomerCases},
	{"settle", deliveries.SettleCases},
	{"late settle", deliveries.LateCases},
	{"leases", deliveries.LeaseCases},
	{"taken", deliveries.TakenCases},
	{"last lease", deliveries.LastLeaseCases},
	{"expiry", lanes.ExpiryCases},
	{"instances", deliveries.InstanceCases},
	{"cancel", deliveries.CancelCases},
	{"retry", deliveries.RetryCases},
	{"beside the ladder", deliveries.BesideCases},
	{"sent again", deliveries.ResentCases},
	{"reap", deliveries.ReapCases},
	{"trim", deliveries.TrimCases},
	{"trim for room", deliveries.RoomCases},
	{"ends", deliveries.EndCases},
	{"look and stats", deliveries.ReadCases},
	{"blocked", lanes.BlockedCases},
	{"list", deliveries.ListCases},
	{"list by acceptance", deliveries.AcceptedCases},
	{"list of all", deliveries.MovedCases},
	{"ended", deliveries.EndedCases},
	{"log", deliveries.LogCases},
	{"follow", deliveries.FollowCases},
	{"proof", deliveries.ProofCases},
	{"dead", deliveries.DeadCases},
	{"wake", deliveries.WakeCases},
	{"partitions and sizes", deliveries.SizeCases},
	{"large bodies", deliveries.BodyCases},
	{"limits", lanes.LimitCases},
	{"paused", lanes.PausedCases},
	{"copies of limits", lanes.CopyCases},
	{"disabled and deleted", lanes.EndingCases},
	{"rate", lanes.RateCases},
	{"another clock", lanes.ClockCases},
	{"breaker", lanes.BreakerCases},
	{"failing", lanes.FailingCases},
	{"our own network", lanes.EgressCases},
	{"order", lanes.OrderCases},
	{"ordered lanes", lanes.OrderedCases},
	{"full lanes", lanes.FullCases},
	{"take", lanes.TakeCases},
	{"consumers", lanes.ConsumerCases},
	{"fan-out", deliveries.FanCases},
	{"lanes", lanes.LaneCases},
	{"names of lanes", lanes.NameCases},
	{"reasons why lanes wait", lanes.WaitCases},
	{"hints of lanes", lanes.HintCases},
	{"what comes next", lanes.NextCases},
	{"several at once", deliveries.CrowdCases},
}

// Run runs every case on a store that open returns.
func Run(t *testing.T, open rig.OpenFunc) { t.Helper(); run(t, open, math.MaxInt) }

// RunFirst runs the first case of each group. It is enough to see that a store can run every
// script.
func RunFirst(t *testing.T, open rig.OpenFunc) { t.Helper(); run(t, open, 1) }

func run(t *testing.T, open rig.OpenFunc, most int) {
	t.Helper()
	for _, group := range groups {
		t.Run(group.name, func(t *testing.T) {
			t.Parallel() // each case has its own store
			for _, c := range group.cases[:min(most, len(group.cases))] {
				t.Run(c.Name, func(t *testing.T) {
					r := rig.NewRig(t, open, c.Setup)
					c.Run(r)
					r.MustBeSound()
				})
			}
		})
	}
}
