// Package script puts the Lua scripts together from their parts.
//
// Most scripts begin with the shared parts in lua/: the names of the keys, the
// clock, the records and the state of lanes. Each package that has scripts
// embeds its own texts and makes the scripts here.
package script

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"strings"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// parts are the shared parts. The header of each says what it is for and what it needs.
//
//go:embed lua/*.lua
var parts embed.FS

// part returns the texts of some shared parts.
func part(names ...string) string {
	var b strings.Builder
	for _, name := range names {
		text, err := parts.ReadFile("lua/" + name + ".lua")
		if err != nil {
			panic(err) // the binary has no such part
		}
		b.Write(text)
	}
	return b.String()
}

// The shared parts. Each needs the parts above it at most.
var (
	Common     = part("common")                                                                                     // the names, the clock and the records: before each script of Make
	ahead      = part("tenant", "subject", "limits", "lane_state", "slots", "progress", "sums", "leases", "finish") // behind Common in each script of Make
	Position   = part("position")                                                                                   // the order of the entries of :attempts
	Server     = part("server")                                                                                     // the process that runs a script
	Read       = part("read")                                                                                       // where a delivery is
	Named      = part("named")                                                                                      // messages that come for some of their lanes
	Cut        = part("cut")                                                                                        // ended deliveries are forgotten
	Order      = part("ends", "order")                                                                              // how deliveries end, and which one is next
	LeaseReady = part("lease_ready")                                                                                // leases from ready lists, behind Order
	Outcome    = part("outcome", "verdict")                                                                         // what settle does by the outcome of an attempt, behind Order
	Taken      = part("taken")                                                                                      // leases of consumers, behind Order
	Reach      = part("reach")                                                                                      // deliveries in the middle of a ready list, behind Order
	Expiry     = part("expiry")                                                                                     // the end of deliveries whose message expires, behind Order, and behind Reach in move
	Job        = part("job")                                                                                        // the counts of jobs
)

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

// Make is a script of parts behind the parts that all share. A script of a test reads the
// clock of the test instead of Redis' clock.
func Make(ofTest bool, name string, parts ...string) Script {
	shared := Common + ahead
	if ofTest {
		shared = strings.Replace(shared, realClock, testClock, 1)
		shared = strings.ReplaceAll(shared, realID, testID)
	}
	return New(name, Prune(shared+strings.Join(parts, "")))
}
