// Package lanes reads the lanes: the state of each, those that are paused, and those with the
// most work. It changes nothing.
package lanes

import (
	_ "embed" // the scripts
	"time"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/cursor"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/script"
)

//go:embed lua/lanes.lua
var lanesSrc string

//go:embed lua/busy_lanes.lua
var busySrc string

// Scripts are the scripts that read lanes.
type Scripts struct{ Lanes, Busy script.Script }

// NewScripts makes the scripts. With given time they read the test's clock instead of Redis'.
func NewScripts(given bool) Scripts {
	return Scripts{
		Lanes: script.Make(given, "lanes", script.Read, lanesSrc),
		Busy:  script.Make(given, "busy_lanes", script.Read, script.Server, busySrc),
	}
}

// All are all of them.
func (c *Scripts) All() []script.Script { return []script.Script{c.Lanes, c.Busy} }

// Options are what a Reader needs of the store.
type Options struct {
	Conn         *conn.Client
	Scripts      Scripts
	Sealer       *cursor.Sealer
	FailingAfter time.Duration // a lane that fails for longer is reported as failing; 0: none is
}

// Reader reads lanes.
type Reader struct {
	conn    *conn.Client
	scripts Scripts
	sealer  *cursor.Sealer
	busy    *busyLook

	Pace Pace // tests change it

	failingAfter time.Duration
}

// New makes a Reader.
func New(o Options) *Reader {
	return &Reader{conn: o.Conn, scripts: o.Scripts, sealer: o.Sealer, busy: newBusyLook(), Pace: usualPace, failingAfter: o.FailingAfter}
}
