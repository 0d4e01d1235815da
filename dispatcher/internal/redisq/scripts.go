package redisq

import (
	"crypto/sha1"
	_ "embed" // the scripts
	"encoding/hex"
	"strings"
)

//go:embed lua/common.lua
var commonSrc string // names, clock and bookkeeping: what every script shares, put before each

//go:embed lua/read.lua
var readSrc string // where a delivery stands: put before look and list

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

//go:embed lua/trim.lua
var trimSrc string

//go:embed lua/look.lua
var lookSrc string

//go:embed lua/list.lua
var listSrc string

//go:embed lua/beat.lua
var beatSrc string

// script is one change of state, known to Redis by the SHA-1 of its text.
type script struct {
	name string // the word of the flow, for errors
	text string
	sha  string
}

// scripts are all of them.
type scripts struct {
	schedule, move, claim, settle, reap, cancel, retry, trim, look, list, beat script
}

const (
	realClock = "local clock = call('TIME')\n"
	testClock = "local given = call('GET', tag .. '" + keyClock + "')\n" +
		"local clock = { math.floor(given / 1000000), given % 1000000 }\n"
)

// newScripts puts the scripts together. With given time they read the test's
// clock instead of Redis'.
func newScripts(given bool) scripts {
	common := commonSrc
	if given {
		common = strings.Replace(common, realClock, testClock, 1)
	}
	make := func(name string, src ...string) script {
		return newScript(name, common+strings.Join(src, ""))
	}
	return scripts{
		schedule: make("schedule", scheduleSrc),
		move:     make("move", moveSrc),
		claim:    make("claim", claimSrc),
		settle:   make("settle", settleSrc),
		reap:     make("reap", reapSrc),
		cancel:   make("cancel", cancelSrc),
		retry:    make("retry", retrySrc),
		trim:     make("trim", trimSrc),
		look:     make("look", readSrc, lookSrc),
		list:     make("list", readSrc, listSrc),
		beat:     newScript("beat", beatSrc),
	}
}

func newScript(name, text string) script {
	sum := sha1.Sum([]byte(text))
	return script{name: name, text: text, sha: hex.EncodeToString(sum[:])}
}
