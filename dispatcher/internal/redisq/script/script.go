// Package script puts the Lua scripts together from their parts.
//
// Most scripts begin with the shared parts in lua/: the names of the keys, the
// clock, the records and the bookkeeping of lanes. Each package that has scripts
// embeds its own texts and makes the scripts here.
package script

import (
	"crypto/sha1"
	_ "embed" // the shared parts
	"encoding/hex"
	"strings"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// Common has the names, the clock and the records; it is put before each script
// of Make.
//
//go:embed lua/common.lua
var Common string

//go:embed lua/state.lua
var state string // lanes, counts and the end of each script: put behind Common

// tenant knows what lists of deliveries a tenant has. It is put between Common and state.
//
//go:embed lua/tenant.lua
var tenant string

// subject finds messages by their subjects. It is put behind tenant.
//
//go:embed lua/subject.lua
var subject string

// Read tells where a delivery stands. It is a part for scripts that read.
//
//go:embed lua/read.lua
var Read string

// Reach takes deliveries out of the middle of a ready list. It is a part for scripts that
// end them there, put behind Order.
//
//go:embed lua/reach.lua
var Reach string

// Order tells which delivery is next, and ends deliveries. It is a part for
// scripts that end a delivery or put one in line.
//
//go:embed lua/order.lua
var Order string

// Taken ends leases that end by themselves. It is a part for scripts that take them
// over, put behind Order.
//
//go:embed lua/taken.lua
var Taken string

// Expiry ends deliveries when their message expires. It is a part for scripts that have
// them wait, put behind Order, and for move, put behind Reach.
//
//go:embed lua/expiry.lua
var Expiry string

// Job counts what a script changes for a job. It is a part for scripts that jobs
// call too.
//
//go:embed lua/job.lua
var Job string

// Position orders the entries of :attempts by their ids. It is a part for scripts that
// know how far they are archived.
//
//go:embed lua/position.lua
var Position string

// Server names the process that runs a script. It is a part for scripts that read by the
// cursor of another call.
//
//go:embed lua/server.lua
var Server string

// Named keeps messages that come from elsewhere for some of their lanes. It is a part
// for scripts that bring them.
//
//go:embed lua/named.lua
var Named string

// Cut forgets deliveries that ended. It is a part for scripts that do so.
//
//go:embed lua/cut.lua
var Cut string

// Script is one change of state, known to Redis by the SHA-1 of its text.
type Script struct {
	Name string // the word of the flow, for errors
	Text string
	SHA  string
}

// New is a script that has no shared parts.
func New(name, text string) Script {
	sum := sha1.Sum([]byte(text))
	return Script{Name: name, Text: text, SHA: hex.EncodeToString(sum[:])}
}

// A test's clock numbers the entries of :attempts too, which go on from the last
// one where it steps back, also from one that was trimmed.
const (
	realID = "'XADD', ATTEMPTS, '*'"
	testID = "'XADD', ATTEMPTS, (function()\n" +
		"  local last = redis.pcall('XREVRANGE', ATTEMPTS, '+', '-', 'COUNT', 1)\n" +
		"  local id, info = last[1] and last[1][1], last[1] and {} or redis.pcall('XINFO', 'STREAM', ATTEMPTS)\n" +
		"  for i = 1, #info, 2 do if info[i] == 'last-generated-id' then id = info[i + 1] end end\n" +
		"  local ms = id and tonumber(match(id, '^%d+')) or 0\n" +
		"  return num(math.max(ms, now)) .. '-*'\n" +
		"end)()"
)

const (
	realClock = "local clock = call('TIME')\n"
	testClock = "local given = call('GET', tag .. '" + keys.Clock + "')\n" +
		"local clock = { math.floor(given / 1000000), given % 1000000 }\n"
)

// AtHome is a script of parts on the project's own keys, which share nothing with those of
// a partition. The first part may read the clock, as common.lua does.
func AtHome(ofTest bool, name string, parts ...string) Script {
	text := strings.Join(parts, "")
	if ofTest {
		text = strings.Replace(text, realClock, testClock, 1)
	}
	return New(name, text)
}

// Make is a script of parts, put behind what all share. A clock of the test's
// stands in place of Redis' where that is asked for.
func Make(ofTest bool, name string, parts ...string) Script {
	common, state := Common, state
	if ofTest {
		common = strings.Replace(common, realClock, testClock, 1)
		state = strings.ReplaceAll(state, realID, testID)
	}
	return New(name, Prune(common+tenant+subject+state+strings.Join(parts, "")))
}
