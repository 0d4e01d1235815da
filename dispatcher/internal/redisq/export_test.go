package redisq

import (
	"context"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/read"
	"github.com/redis/go-redis/v9"
)

// Internals that the tests of this package use.
var (
	CommonSrc   = conn.PartCommon
	ParseHint   = parseHint
	ParseChange = parseChange
	Turn        = float64(keys.Turn)
)

// Codes are the letters of the verdicts in settle.lua.
var Codes = verdicts

// QuickScripts returns a script with its quick part and without it, on the test's clock, and its quick
// part alone, which fails in a call that is not usual.
func QuickScripts(name string) (quick, whole, only conn.Script) {
	part, parts := conn.QuickSchedule, []string{conn.PartOrder, conn.PartExpiry, lua(name)}
	switch name {
	case "claim":
		part, parts = conn.QuickClaim, []string{conn.PartOrder, conn.PartLeaseReady, lua(name)}
	case "settle":
		part, parts = conn.QuickSettle, []string{conn.PartOrder, conn.PartOutcome, lua(name)}
	}
	return conn.MakeQuickScript(name, part, parts...).OfTest(), conn.MakeWholeScript(name, part, parts...).OfTest(),
		conn.MakeQuickScript(name, part, "error('not usual')\n").OfTest()
}

// Stall makes a call that is not answered, while others are.
func (s *Store) Stall(ctx context.Context) error {
	return s.conn.At(ctx, "stall", conn.Home, func(p redis.Pipeliner) { p.Do(ctx, "blpop", s.home()+":nothing", 0) })
}

// Doze makes a store's last beat older, as after a sleep.
func (s *Store) Doze(d time.Duration) { s.conn.Beaten(time.Now().Add(-d)) }

// ReadSettled reads the reply to the outcomes of some deliveries.
func ReadSettled(reply *conn.Reply, batch []dispatcher.Settlement) (settled []dispatcher.Settled, ended int) {
	share := make([]int, len(batch))
	for i := range share {
		share[i] = i
	}
	settled = make([]dispatcher.Settled, len(batch))
	ended = readSettled(reply, batch, share, settled)
	return settled, ended
}

// NoteTakeover makes a store believe that another node took over.
func (s *Store) NoteTakeover() { s.conn.NoteTakeover() }

// ScriptTexts are the texts of all scripts by their names.
func ScriptTexts() map[string]string {
	texts := map[string]string{}
	for _, sc := range loaded() {
		texts[sc.Name] = sc.Text()
	}
	return texts
}

// Readers are the turns in which bodies are read.
type Readers = readers

// Enter waits for a turn to read so many bytes from a node.
func (r *readers) Enter(ctx context.Context, node string, size int64) (leave func(), err error) {
	return r.of(node).enter(ctx, size)
}

// ReadAllLanes makes Stats read all lanes each time, to the end, however long that
// takes. So a slow machine changes no answer.
func (s *Store) ReadAllLanes() {
	s.LaneReader.Pace = read.LanePace{Within: time.Hour, Quick: time.Hour, Old: time.Hour}
}

// ReadLanesWithin bounds the time for which one call of Stats reads lanes.
func (s *Store) ReadLanesWithin(d time.Duration) { s.LaneReader.Pace.Within = d }

// ForgetPolls has no result of Stats' queries be used again.
func (s *Store) ForgetPolls() { s.LaneReader.Pace.Old = 0 }

// Buried reads the counts of the dead, and orders at most so many groups at a time.
func (s *Store) Buried(most int) *read.DeadCounts { return read.NewDeadCounts(s.conn, most) }

// What the tests of this package look at from inside.
var (
	JudgeStart    = judge
	StartWarnings = warnings
	Unverified    = unverified
)
