package conn

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"io/fs"
	"strings"
	"sync"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// parts embeds the shared parts. The header of each part describes its purpose and the parts that
// it needs.
//
//go:embed lua/*.lua
var parts embed.FS

var part = Texts(parts)

// The shared parts. A part may only need parts above it.
var (
	PartCommon     = part("common")                                                                           // the names, the clock and the records: before each script of MakeScript
	early          = part("leases", "weight")                                                                 // after PartCommon in each script of MakeScript
	ahead          = part("tenant", "subject", "limits", "lane_state", "slots", "progress", "sums", "finish") // the other parts in front of each script of MakeScript
	PartPosition   = part("position")                                                                         // the order of the entries of :attempts
	PartServer     = part("server")                                                                           // the process that runs a script
	PartRead       = part("read")                                                                             // the place of a delivery
	PartNamed      = part("named")                                                                            // messages sent for only some of their lanes
	PartCut        = part("cut")                                                                              // removal of ended deliveries
	PartOrder      = part("ends", "order")                                                                    // the end of deliveries, and the choice of the next one
	PartLeaseReady = part("lease_ready")                                                                      // leases from ready lists, after PartOrder
	PartOutcome    = part("outcome", "verdict")                                                               // the changes that settle makes for the outcome of an attempt, after PartOrder
	PartTaken      = part("taken")                                                                            // leases of consumers, after PartOrder
	PartReach      = part("reach")                                                                            // deliveries in the middle of a ready list, after PartOrder
	PartExpiry     = part("expiry")                                                                           // the end of deliveries whose message expires, after PartOrder, and in move after PartReach
	PartJob        = part("job")                                                                              // the counts of jobs
)

// Quick is what a script has in front of most of the shared parts, to answer its usual calls. The script
// may use what is in whole, and comes to it in any other call.
type Quick struct{ whole, usual string }

// The scripts that most deliveries meet have a quick part.
var (
	QuickSchedule = Quick{whole: part("messages"), usual: part("quick", "quick_schedule")}
	QuickClaim    = Quick{whole: part("turns"), usual: part("quick", "quick_claim")}
	QuickSettle   = Quick{usual: part("quick", "quick_settle")}
)

// Script is one change of state. Redis knows it by the SHA-1 of its text. The text is made when it is
// first needed: that takes longer than most calls, and a process needs few of all scripts. So a
// package makes each of its scripts once, as a variable.
type Script struct {
	Name   string // the name of the change, for errors
	made   func() madeScript
	ofTest func() madeScript // the same with the test's clock
}

type madeScript struct{ text, sha string }

// Text returns the script as Redis runs it.
func (s Script) Text() string { return s.made().text }

// SHA returns the SHA-1 of the text, in hexadecimal.
func (s Script) SHA() string { return s.made().sha }

// OfTest returns the script that reads the test's clock instead of the clock of Redis. A Client with
// TestClock runs that one.
func (s Script) OfTest() Script {
	s.made = s.ofTest
	return s
}

// Texts returns a function for the texts of a package's scripts. It joins the texts of some files.
func Texts(files fs.ReadFileFS) func(names ...string) string {
	return func(names ...string) string {
		var b strings.Builder
		for _, name := range names {
			text, err := files.ReadFile("lua/" + name + ".lua")
			if err != nil {
				panic(err) // the binary has no such script
			}
			b.Write(text)
		}
		return b.String()
	}
}

// A test's clock also sets the ids of the entries of :attempts. If the clock steps back, the ids
// continue from the last entry, even if that entry was trimmed.
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

// newScript returns a script of some parts. build makes its text of them.
func newScript(name string, parts []string, build func(parts []string) string) Script {
	once := func(clock, id string) func() madeScript {
		return sync.OnceValue(func() madeScript {
			replace := strings.NewReplacer(realClock, clock, realID, id)
			of := make([]string, len(parts))
			for i, text := range parts {
				of[i] = replace.Replace(text)
			}
			made := build(of)
			sum := sha1.Sum([]byte(made))
			return madeScript{text: made, sha: hex.EncodeToString(sum[:])}
		})
	}
	return Script{Name: name, made: once(realClock, realID), ofTest: once(testClock, testID)}
}

// NewScript returns a script of some parts that Redis runs as it is.
func NewScript(name string, parts ...string) Script { return newScript(name, parts, joinParts) }

// PrunedScript returns a script of some parts without what prune removes.
func PrunedScript(name string, parts ...string) Script { return newScript(name, parts, pruneParts) }

// GuardedScript returns a pruned script that marks its partition if an error ends it after its first
// write.
func GuardedScript(name string, parts ...string) Script {
	return newScript(name, parts, func(parts []string) string { return guardBegin + pruneParts(parts) + guardEnd })
}

// MakeScript returns a guarded script of the given parts, after the parts that all scripts share.
func MakeScript(name string, parts ...string) Script {
	return GuardedScript(name, append([]string{PartCommon, early, ahead}, parts...)...)
}

// MakeQuickScript does the same, with quick in front of most of the shared parts. A call that it answers
// creates none of their functions and tables.
func MakeQuickScript(name string, quick Quick, parts ...string) Script {
	return GuardedScript(name, append([]string{PartCommon, early, quick.whole, quick.usual, ahead}, parts...)...)
}

// MakeWholeScript does the same without the part that answers usual calls. Tests compare the two.
func MakeWholeScript(name string, quick Quick, parts ...string) Script {
	quick.usual = ""
	return MakeQuickScript(name, quick, parts...)
}

func joinParts(parts []string) string { return strings.Join(parts, "") }

// pruneParts joins parts without what prune removes.
func pruneParts(parts []string) string {
	var pieces []piece
	for _, part := range parts {
		pieces = append(pieces, cut(part)...)
	}
	return prune(pieces)
}

// Redis checks the rights of the user at each command of a script, and rolls nothing back. So a
// right that is taken away while instances work can tear a script in its middle: a delivery is
// then in no list, or a lane without its turn. The checks that Redis makes at the first write only
// (memory, disk, replicas) are met by first_write of common.lua, before anything has changed.
//
// To try the rights of all commands before the first write would cost each call as much as several
// deliveries, and a check once in a while leaves a gap. The guard costs 0.8 µs of Redis' time at
// each call (5.6 µs for an empty script instead of 4.8), and less in schedule, claim and settle:
// they look for the mark together with other keys that mostly do not exist. A script that is torn, by a missing right
// or by any other error, leaves the mark itself, in the partition: the key of its tag. No script
// changes a marked partition, but those that repair, or that may be repeated. Whichever instance
// meets the mark repairs the partition and removes it (see admin.KeepMended), so an instance may
// die in between.
const (
	guardBegin = "local begun\nlocal done, answer = pcall(function()\n"
	// The right to SET may be the one that is missing. OOM and its like come at a first write, which
	// after first_addition is the first addition.
	guardEnd = "end)\n" +
		"if done then return answer end\n" +
		"if begun == false then return redis.error_reply('TORN an error ended a script of this partition in its middle') end\n" +
		"local text = type(answer) == 'table' and answer.err or tostring(answer)\n" +
		"local refused = false\n" +
		"for _, word in ipairs({ 'OOM', 'READONLY', 'MISCONF', 'NOREPLICAS' }) do refused = refused or string.find(text, word, 1, true) end\n" +
		"if begun and not refused then\n" +
		"  for _, mark in ipairs({ { 'SET', KEYS[1], '-' }, { 'HSET', KEYS[1], '-', '-' }, { 'ZADD', KEYS[1], '0', '-' }, { 'RPUSH', KEYS[1], '-' } }) do\n" +
		"    local set = redis.pcall(unpack(mark))\n" +
		"    if type(set) ~= 'table' or not set.err then break end\n" +
		"  end\n" +
		"  return redis.error_reply('TORN ' .. text)\n" + // the caller knows it at once, also if nothing else comes to this partition
		"end\n" +
		"if string.find(text, '^%u+ ') then return redis.error_reply(text) end\n" + // raised again, READONLY would begin with ERR
		"error(answer, 0)\n"
)

// Several scripts have the same parts.
var (
	pieced sync.Map // part → its pieces
	worded sync.Map // text of a piece → its words, sorted, each once
)

// cut returns the pieces of a part, which must not be changed.
func cut(part string) []piece {
	pieces, ok := pieced.Load(part)
	if !ok {
		pieces, _ = pieced.LoadOrStore(part, piecesOf(part))
	}
	return pieces.([]piece)
}
