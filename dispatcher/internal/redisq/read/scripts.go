package read

import (
	"embed"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
)

//go:embed lua/*.lua
var files embed.FS

var lua = conn.Texts(files)

// The scripts that query messages, deliveries and lanes.
var (
	lookScript       = conn.MakeScript("look", conn.PartRead, lua("look"))
	standScript      = conn.MakeScript("stand", conn.PartRead, lua("stand"))
	listScript       = conn.MakeScript("list", conn.PartRead, conn.PartServer, lua("list"))
	readyLanesScript = conn.MakeScript("ready_lanes", conn.PartRead, conn.PartServer, lua("ready_lanes"))
	endedScript      = conn.MakeScript("ended", conn.PartRead, lua("ended"))
	upcomingScript   = conn.MakeScript("upcoming", lua("upcoming"))
	lanesScript      = conn.MakeScript("lanes", conn.PartRead, lua("lanes"))
	busyScript       = conn.MakeScript("busy_lanes", conn.PartRead, conn.PartServer, lua("busy_lanes"))
	shelfScript      = conn.MakeScript("shelf", conn.PartRead, lua("shelf"))
	subjectsScript   = conn.MakeScript("subjects", lua("subjects"))

	DigestsScript = conn.MakeScript("digests", lua("digests")) // DigestsScript is called before schedule writes anything.
)

// Scripts are those that are loaded when a store opens.
var Scripts = []conn.Script{
	lookScript, standScript, DigestsScript, listScript, readyLanesScript, endedScript, upcomingScript, lanesScript, busyScript,
}
