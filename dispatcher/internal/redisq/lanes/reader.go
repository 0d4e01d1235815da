// Package lanes queries the lanes: the state of each, the paused lanes, and the lanes with the
// most work. It changes nothing.
package lanes

import (
	_ "embed" // the scripts
	"time"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
)

//go:embed lua/lanes.lua
var lanesSrc string

//go:embed lua/busy_lanes.lua
var busySrc string

// Scripts are the scripts that query lanes.
type Scripts struct{ Lanes, Busy conn.Script }

// NewScripts returns the scripts. If given is set, they use the test's clock instead of the
// clock of Redis.
func NewScripts(given bool) Scripts {
	return Scripts{
		Lanes: conn.MakeScript(given, "lanes", conn.PartRead, lanesSrc),
		Busy:  conn.MakeScript(given, "busy_lanes", conn.PartRead, conn.PartServer, busySrc),
	}
}

// All returns all scripts.
func (c *Scripts) All() []conn.Script { return []conn.Script{c.Lanes, c.Busy} }

// Options configure a Reader.
type Options struct {
	Conn         *conn.Client
	Scripts      Scripts
	Sealer       *conn.Sealer
	FailingAfter time.Duration // a lane that fails for longer is reported as failing; 0: no lane is
}

// Reader queries lanes.
type Reader struct {
	conn    *conn.Client
	scripts Scripts
	sealer  *conn.Sealer
	busy    *busyQuery

	Pace Pace // tests change it

	failingAfter time.Duration
}

// New returns a Reader.
func New(o Options) *Reader {
	return &Reader{conn: o.Conn, scripts: o.Scripts, sealer: o.Sealer, busy: newBusyQuery(), Pace: usualPace, failingAfter: o.FailingAfter}
}
