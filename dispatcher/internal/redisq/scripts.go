package redisq

import (
	"embed"
	"slices"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/read"
)

//go:embed lua/*.lua
var files embed.FS

var lua = conn.Texts(files)

// The scripts of the queue.
var (
	scheduleScript   = conn.MakeQuickScript("schedule", conn.QuickSchedule, conn.PartOrder, conn.PartExpiry, lua("schedule"))
	moveScript       = conn.MakeScript("move", conn.PartOrder, conn.PartTaken, conn.PartReach, conn.PartExpiry, lua("move"))
	claimScript      = conn.MakeQuickScript("claim", conn.QuickClaim, conn.PartOrder, conn.PartLeaseReady, lua("claim"))
	takeScript       = conn.MakeScript("take", conn.PartOrder, conn.PartLeaseReady, conn.PartTaken, lua("take"))
	adoptScript      = conn.MakeScript("adopt", conn.PartOrder, conn.PartTaken, lua("adopt"))
	settleScript     = conn.MakeQuickScript("settle", conn.QuickSettle, conn.PartOrder, conn.PartOutcome, lua("settle"))
	reapScript       = conn.MakeScript("reap", conn.PartOrder, lua("reap"))
	begunScript      = conn.MakeScript("begun", lua("begun"))
	cancelScript     = conn.MakeScript("cancel", conn.PartOrder, conn.PartReach, conn.PartJob, lua("cancel"))
	retryScript      = conn.MakeScript("retry", conn.PartOrder, conn.PartExpiry, conn.PartJob, lua("retry"))
	rescheduleScript = conn.MakeScript("reschedule", conn.PartOrder, conn.PartReach, lua("reschedule"))
	purgeScript      = conn.MakeScript("purge", conn.PartJob, conn.PartCut, lua("purge"))
	eraseScript      = conn.MakeScript("erase", conn.PartCut, lua("erase"))
	laneScript       = conn.MakeScript("lane", lua("lane"))
	forgetScript     = conn.MakeScript("forget", lua("forget"))
	endWaitsScript   = conn.MakeScript("end_waits", lua("end_waits"))
	sweepScript      = conn.MakeScript("sweep", conn.PartOrder, lua("sweep"))
	trimScript       = conn.MakeScript("trim", conn.PartPosition, conn.PartCut, conn.PartTaken, conn.PartExpiry, lua("trim"))
	beatScript       = conn.NewScript("beat", lua("beat"))
)

// loaded are the scripts that are loaded into the server when a store opens. A call of a script
// that is not loaded would fail once and be retried.
func loaded() []conn.Script {
	return slices.Concat([]conn.Script{
		scheduleScript, moveScript, claimScript, takeScript, adoptScript, settleScript, reapScript, begunScript, cancelScript, retryScript,
		rescheduleScript, purgeScript, eraseScript, laneScript, forgetScript, endWaitsScript, sweepScript, trimScript, beatScript,
	}, read.Scripts)
}

// ScriptNames returns the names of these scripts by their SHA-1. The slow log of Redis shows only the
// SHA-1.
func ScriptNames() map[string]string {
	names := map[string]string{}
	for _, sc := range loaded() {
		names[sc.SHA()] = sc.Name
	}
	return names
}
