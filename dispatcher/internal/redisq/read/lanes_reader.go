package read

import (
	_ "embed" // the scripts
	"time"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
)

//go:embed lua/lanes.lua
var lanesSrc string

//go:embed lua/busy_lanes.lua
var busySrc string

// LaneScripts are the scripts that query lanes.
type LaneScripts struct{ Lanes, Busy conn.Script }

// NewLaneScripts returns the scripts. If given is set, they use the test's clock instead of the
// clock of Redis.
func NewLaneScripts(given bool) LaneScripts {
	return LaneScripts{
		Lanes: conn.MakeScript(given, "lanes", conn.PartRead, lanesSrc),
		Busy:  conn.MakeScript(given, "busy_lanes", conn.PartRead, conn.PartServer, busySrc),
	}
}

// All returns all scripts.
func (c *LaneScripts) All() []conn.Script { return []conn.Script{c.Lanes, c.Busy} }

// LaneOptions configure a LaneReader.
type LaneOptions struct {
	Conn         *conn.Client
	Scripts      LaneScripts
	FailingAfter time.Duration // a lane that fails for longer is reported as failing; 0: no lane is
}

// LaneReader queries lanes.
type LaneReader struct {
	conn    *conn.Client
	scripts LaneScripts
	busy    *busyQuery

	Pace LanePace // tests change it

	failingAfter time.Duration
}

// NewLaneReader returns a LaneReader.
func NewLaneReader(o LaneOptions) *LaneReader {
	return &LaneReader{conn: o.Conn, scripts: o.Scripts, busy: newBusyQuery(), Pace: usualPace, failingAfter: o.FailingAfter}
}
