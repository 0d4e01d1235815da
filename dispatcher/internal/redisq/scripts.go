package redisq

import (
	"crypto/sha1"
	_ "embed" // the scripts
	"encoding/hex"
	"strings"
	"sync"
)

//go:embed lua/common.lua
var commonSrc string // names, clock and records: what every script shares, put before each

//go:embed lua/state.lua
var stateSrc string // lanes, counts and the end of each script: put behind common

//go:embed lua/read.lua
var readSrc string // where a delivery stands: put before look, list and lanes

//go:embed lua/order.lua
var orderSrc string // who is next, and what ends: put before each script that ends a delivery or puts one in line

//go:embed lua/digests.lua
var digestsSrc string

//go:embed lua/schedule.lua
var scheduleSrc string

//go:embed lua/move.lua
var moveSrc string

//go:embed lua/claim.lua
var claimSrc string

//go:embed lua/settle.lua
var settleSrc string

//go:embed lua/reap.lua
var reapSrc string

//go:embed lua/cancel.lua
var cancelSrc string

//go:embed lua/retry.lua
var retrySrc string

//go:embed lua/lane.lua
var laneSrc string

//go:embed lua/forget.lua
var forgetSrc string

//go:embed lua/sweep.lua
var sweepSrc string

//go:embed lua/trim.lua
var trimSrc string

//go:embed lua/look.lua
var lookSrc string

//go:embed lua/stand.lua
var standSrc string

//go:embed lua/list.lua
var listSrc string

//go:embed lua/ready_lanes.lua
var readyLanesSrc string

//go:embed lua/busy_lanes.lua
var busyLanesSrc string

//go:embed lua/lanes.lua
var lanesSrc string

//go:embed lua/survey.lua
var surveySrc string

//go:embed lua/beat.lua
var beatSrc string

//go:embed lua/repartition_page.lua
var repartitionPageSrc string

//go:embed lua/repartition_name.lua
var repartitionNameSrc string // how a message is kept for some of its lanes: put before the next two

//go:embed lua/repartition_put.lua
var repartitionPutSrc string

//go:embed lua/repartition_keep.lua
var repartitionKeepSrc string

//go:embed lua/repartition_ends.lua
var repartitionEndsSrc string

// script is one change of state, known to Redis by the SHA-1 of its text.
type script struct {
	name string // the word of the flow, for errors
	text string
	sha  string
}

// scripts are all of them.
type scripts struct {
	digests, schedule, move, claim, settle, reap script
	cancel, retry, lane, forget, sweep, trim     script
	look, stand, list, readyLanes, busyLanes     script
	lanes, beat                                  script

	repartitionPage, repartitionPut, repartitionKeep, repartitionEnds script
	survey                                                            script
	doctor                                                            doctorScripts
}

const (
	realClock = "local clock = call('TIME')\n"
	testClock = "local given = call('GET', tag .. '" + keyClock + "')\n" +
		"local clock = { math.floor(given / 1000000), given % 1000000 }\n"
)

// The scripts are put together once for all stores of a process.
var (
	realScripts = sync.OnceValue(func() scripts { return makeScripts(false) })
	testScripts = sync.OnceValue(func() scripts { return makeScripts(true) })
)

// newScripts answers the scripts. With given time they read the test's clock
// instead of Redis'.
func newScripts(given bool) scripts {
	if given {
		return testScripts()
	}
	return realScripts()
}

func makeScripts(given bool) scripts {
	common := commonSrc
	if given {
		common = strings.Replace(common, realClock, testClock, 1)
	}
	make := func(name string, src ...string) script {
		return newScript(name, prune(common+stateSrc+strings.Join(src, "")))
	}
	return scripts{
		digests:  make("digests", digestsSrc),
		schedule: make("schedule", orderSrc, scheduleSrc),
		move:     make("move", orderSrc, moveSrc),
		claim:    make("claim", orderSrc, claimSrc),
		settle:   make("settle", orderSrc, settleSrc),
		reap:     make("reap", orderSrc, reapSrc),
		cancel:   make("cancel", orderSrc, cancelSrc),
		retry:    make("retry", orderSrc, retrySrc),
		lane:     make("lane", laneSrc),
		forget:   make("forget", forgetSrc),
		sweep:    make("sweep", orderSrc, sweepSrc),
		trim:     make("trim", trimSrc),
		look:     make("look", readSrc, lookSrc),
		stand:    make("stand", readSrc, standSrc),
		list:     make("list", readSrc, listSrc),
		lanes:    make("lanes", readSrc, lanesSrc),

		readyLanes: make("ready_lanes", readSrc, readyLanesSrc),
		busyLanes:  make("busy_lanes", readSrc, busyLanesSrc),

		beat:            newScript("beat", beatSrc),
		repartitionPage: make("repartition_page", repartitionPageSrc),
		repartitionPut:  make("repartition_put", repartitionNameSrc, repartitionPutSrc),
		repartitionKeep: make("repartition_keep", repartitionNameSrc, repartitionKeepSrc),
		repartitionEnds: make("repartition_ends", repartitionEndsSrc),
		survey:          make("survey", surveySrc),
		doctor:          newDoctorScripts(make),
	}
}

func newScript(name, text string) script {
	sum := sha1.Sum([]byte(text))
	return script{name: name, text: text, sha: hex.EncodeToString(sum[:])}
}
