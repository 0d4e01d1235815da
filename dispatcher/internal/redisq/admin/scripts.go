package admin

import (
	"embed"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
)

//go:embed lua/*.lua
var files embed.FS

var lua = conn.Texts(files)

// The scripts are called so rarely that each is loaded at its first call.
var (
	walkScript      = doctorScript("doctor walk", conn.PartServer, lua("doctor_walk"))
	judgeScript     = doctorScript("doctor judge", lua("doctor_judge"))
	recordsScript   = doctorScript("doctor records", lua("doctor_records"))
	lanesScript     = doctorScript("doctor lanes", conn.PartTaken, lua("doctor_lanes"))
	countScript     = doctorScript("doctor count", lua("doctor_count"))
	addScript       = doctorScript("doctor add", lua("doctor_add"))
	valuesScript    = doctorScript("doctor values", lua("doctor_values"))
	putRecordScript = doctorScript("doctor put", lua("doctor_put"))
	shelvesScript   = doctorScript("doctor shelves", lua("doctor_shelves"))
	tornScript      = conn.MakeScript("torn", lua("torn"))

	endpointIndexScript  = conn.NewScript("compare indexes of endpoints", lua("endpoint_index"))
	endpointAstrayScript = conn.NewScript("check entries of endpoint indexes", lua("endpoint_astray"))

	pageScript = conn.MakeScript("repartition_page", conn.PartServer, lua("repartition_page"))
	putScript  = conn.MakeScript("repartition_put", conn.PartNamed, lua("repartition_put"))
	keepScript = conn.MakeScript("repartition_keep", conn.PartNamed, lua("repartition_keep"))
	endsScript = conn.MakeScript("repartition_ends", lua("repartition_ends"))

	restoreHoldScript  = conn.MakeScript("restore_hold", lua("restore_hold"))
	restoreKnownScript = conn.MakeScript("restore_known", lua("restore_known"))
	restorePutScript   = conn.MakeScript("restore_put", conn.PartOrder, conn.PartExpiry, conn.PartNamed, lua("restore_put"))

	stateScript      = conn.GuardedScript("archive_state", conn.PartCommon, conn.PartPosition, lua("archive_state"))
	archivedScript   = conn.GuardedScript("archived", conn.PartCommon, conn.PartPosition, lua("archived"))
	unfinishedScript = conn.PrunedScript("unfinished", conn.PartCommon, conn.PartServer, lua("unfinished"))

	putJobScript  = conn.NewScript("put job", lua("job_put"))
	jobTurnScript = conn.MakeScript("job turn", lua("job_turn"))
	jobPageScript = conn.MakeScript("job page", conn.PartRead, lua("job_page"))
)

func doctorScript(name string, parts ...string) conn.Script {
	return conn.MakeScript(name, append([]string{conn.PartOrder, conn.PartExpiry, lua("doctor")}, parts...)...)
}
