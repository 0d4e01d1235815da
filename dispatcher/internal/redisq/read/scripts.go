package read

import (
	_ "embed" // the scripts

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
)

//go:embed lua/look.lua
var lookSrc string

//go:embed lua/stand.lua
var standSrc string

//go:embed lua/digests.lua
var digestsSrc string

//go:embed lua/list.lua
var listSrc string

//go:embed lua/ready_lanes.lua
var readyLanesSrc string

//go:embed lua/ended.lua
var endedSrc string

//go:embed lua/upcoming.lua
var upcomingSrc string

// Scripts are the scripts that query messages and deliveries.
type Scripts struct {
	Look, Stand, Digests, List, ReadyLanes, Ended, Upcoming conn.Script
}

// NewScripts returns the scripts. If given is set, they use the test's clock instead of the
// clock of Redis.
func NewScripts(given bool) Scripts {
	make := func(name string, parts ...string) conn.Script { return conn.MakeScript(given, name, parts...) }
	return Scripts{
		Look:       make("look", conn.PartRead, lookSrc),
		Stand:      make("stand", conn.PartRead, standSrc),
		Digests:    make("digests", digestsSrc),
		List:       make("list", conn.PartRead, conn.PartServer, listSrc),
		ReadyLanes: make("ready_lanes", conn.PartRead, conn.PartServer, readyLanesSrc),
		Ended:      make("ended", conn.PartRead, endedSrc),
		Upcoming:   make("upcoming", upcomingSrc),
	}
}

// All returns all scripts.
func (c *Scripts) All() []conn.Script {
	return []conn.Script{c.Look, c.Stand, c.Digests, c.List, c.ReadyLanes, c.Ended, c.Upcoming}
}
