package redisq

import (
	_ "embed" // the scripts
	"slices"
	"sync"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/read"
)

//go:embed lua/schedule.lua
var scheduleSrc string

//go:embed lua/move.lua
var moveSrc string

//go:embed lua/claim.lua
var claimSrc string

//go:embed lua/take.lua
var takeSrc string

//go:embed lua/adopt.lua
var adoptSrc string

//go:embed lua/settle.lua
var settleSrc string

//go:embed lua/reap.lua
var reapSrc string

//go:embed lua/begun.lua
var begunSrc string

//go:embed lua/cancel.lua
var cancelSrc string

//go:embed lua/reschedule.lua
var rescheduleSrc string

//go:embed lua/retry.lua
var retrySrc string

//go:embed lua/purge.lua
var purgeSrc string

//go:embed lua/erase.lua
var eraseSrc string

//go:embed lua/lane.lua
var laneSrc string

//go:embed lua/end_waits.lua
var endWaitsSrc string

//go:embed lua/forget.lua
var forgetSrc string

//go:embed lua/sweep.lua
var sweepSrc string

//go:embed lua/trim.lua
var trimSrc string

//go:embed lua/beat.lua
var beatSrc string

// scripts holds all scripts of the queue.
type scripts struct {
	schedule, move, claim, settle, reap, begun conn.Script
	cancel, retry, lane, forget, sweep, trim   conn.Script
	beat, purge, take, adopt, erase, endWaits  conn.Script
	reschedule                                 conn.Script

	read  read.Scripts
	lanes read.LaneScripts
}

// all returns the scripts that are loaded into the server when a store opens. A call of a script
// that is not loaded would fail once and be retried.
func (c *scripts) all() []conn.Script {
	changes := []conn.Script{
		c.schedule, c.move, c.claim, c.settle, c.reap, c.cancel, c.retry, c.lane, c.forget, c.sweep, c.trim,
		c.beat, c.purge, c.take, c.adopt, c.erase, c.begun, c.endWaits, c.reschedule,
	}
	return slices.Concat(changes, c.read.All(), c.lanes.All())
}

// The scripts are built once per process and shared by all stores.
var (
	realScripts = sync.OnceValue(func() scripts { return makeScripts(false) })
	testScripts = sync.OnceValue(func() scripts { return makeScripts(true) })
)

// newScripts returns the scripts. If given is set, they read the clock of the test instead of the
// clock of Redis.
func newScripts(given bool) scripts {
	if given {
		return testScripts()
	}
	return realScripts()
}

func makeScripts(given bool) scripts {
	make := func(name string, parts ...string) conn.Script { return conn.MakeScript(given, name, parts...) }
	return scripts{
		schedule:   conn.MakeQuickScript(given, "schedule", conn.QuickSchedule, conn.PartOrder, conn.PartExpiry, scheduleSrc),
		move:       make("move", conn.PartOrder, conn.PartTaken, conn.PartReach, conn.PartExpiry, moveSrc),
		claim:      conn.MakeQuickScript(given, "claim", conn.QuickClaim, conn.PartOrder, conn.PartLeaseReady, claimSrc),
		take:       make("take", conn.PartOrder, conn.PartLeaseReady, conn.PartTaken, takeSrc),
		adopt:      make("adopt", conn.PartOrder, conn.PartTaken, adoptSrc),
		settle:     conn.MakeQuickScript(given, "settle", conn.QuickSettle, conn.PartOrder, conn.PartOutcome, settleSrc),
		reap:       make("reap", conn.PartOrder, reapSrc),
		begun:      make("begun", begunSrc),
		cancel:     make("cancel", conn.PartOrder, conn.PartReach, conn.PartJob, cancelSrc),
		retry:      make("retry", conn.PartOrder, conn.PartExpiry, conn.PartJob, retrySrc),
		reschedule: make("reschedule", conn.PartOrder, conn.PartReach, rescheduleSrc),
		purge:      make("purge", conn.PartJob, conn.PartCut, purgeSrc),
		erase:      make("erase", conn.PartCut, eraseSrc),
		lane:       make("lane", laneSrc),
		forget:     make("forget", forgetSrc),
		endWaits:   make("end_waits", endWaitsSrc),
		sweep:      make("sweep", conn.PartOrder, sweepSrc),
		trim:       make("trim", conn.PartPosition, conn.PartCut, conn.PartTaken, conn.PartExpiry, trimSrc),

		beat: conn.NewScript("beat", beatSrc),

		read:  read.NewScripts(given),
		lanes: read.NewLaneScripts(given),
	}
}

// ScriptNames returns the names of the scripts that change deliveries, by their SHA-1. The slow log
// of Redis shows only the SHA-1.
func ScriptNames() map[string]string {
	s := newScripts(false)
	names := map[string]string{}
	for _, sc := range []conn.Script{s.schedule, s.move, s.claim, s.take, s.adopt, s.settle, s.reap, s.begun, s.cancel, s.retry, s.purge, s.erase, s.lane, s.endWaits, s.sweep, s.trim} {
		names[sc.SHA()] = sc.Name
	}
	return names
}
