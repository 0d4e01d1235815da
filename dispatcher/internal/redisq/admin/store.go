// Package admin checks and changes all stored data of a project. Examine is the doctor:
// it checks the data and repairs them while instances work. Repartition moves a project
// to another number of partitions while no instance runs. SealEndpoints and SealMessages
// encrypt with a new key. The commands of cmd/hookladder call them.
//
// All read the keys with one walker, by the table keys.Kinds, and count in one way.
//
// A JobStore keeps jobs and runs their steps (jobs.go). A job's record has the project's own
// hash tag. The progress in a partition is kept in that partition and is written by the script
// that makes the step. So a crash between two steps loses no count, and the partitions refuse a
// holder that was replaced.
//
// A Feed reads the log of a store for an archive, and reports to the store how far it is archived
// (feed.go). It reads the messages that the log names. At the start, and after a gap, it reads
// all unfinished deliveries. A RestoreTarget puts the data of an archive back into a store that
// lost them (restore.go).
package admin

import (
	_ "embed" // the scripts
	"sync"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

//go:embed lua/doctor.lua
var doctorSrc string // put before each of the other scripts of doctor

//go:embed lua/doctor_walk.lua
var walkSrc string

//go:embed lua/doctor_judge.lua
var judgeSrc string

//go:embed lua/doctor_records.lua
var recordsSrc string

//go:embed lua/doctor_lanes.lua
var lanesSrc string

//go:embed lua/doctor_count.lua
var countSrc string

//go:embed lua/doctor_add.lua
var addSrc string

//go:embed lua/doctor_shelves.lua
var shelvesSrc string

//go:embed lua/doctor_values.lua
var valuesSrc string

//go:embed lua/doctor_put.lua
var putRecordSrc string

//go:embed lua/torn.lua
var tornSrc string

//go:embed lua/repartition_page.lua
var pageSrc string

//go:embed lua/repartition_put.lua
var putSrc string

//go:embed lua/repartition_keep.lua
var keepSrc string

//go:embed lua/repartition_ends.lua
var endsSrc string

// adminScripts has the scripts of the doctor and of a repartition.
type adminScripts struct {
	walk, judge, records, lanes, count, add, values conn.Script
	page, put, keep, ends, putRecord, shelves, torn conn.Script
}

// The scripts are built once for all stores of a process.
var (
	realScripts = sync.OnceValue(func() adminScripts { return makeScripts(false) })
	testScripts = sync.OnceValue(func() adminScripts { return makeScripts(true) })
)

func makeScripts(testClock bool) adminScripts {
	doctor := func(name string, parts ...string) conn.Script {
		return conn.MakeScript(testClock, "doctor "+name, append([]string{conn.PartOrder, conn.PartExpiry, doctorSrc}, parts...)...)
	}
	repartition := func(name string, parts ...string) conn.Script {
		return conn.MakeScript(testClock, "repartition_"+name, parts...)
	}
	return adminScripts{
		walk: doctor("walk", conn.PartServer, walkSrc), judge: doctor("judge", judgeSrc), records: doctor("records", recordsSrc), lanes: doctor("lanes", conn.PartTaken, lanesSrc),
		count: doctor("count", countSrc), add: doctor("add", addSrc), values: doctor("values", valuesSrc),
		putRecord: doctor("put", putRecordSrc), shelves: doctor("shelves", shelvesSrc),
		page: repartition("page", conn.PartServer, pageSrc), put: repartition("put", conn.PartNamed, putSrc), keep: repartition("keep", conn.PartNamed, keepSrc),
		ends: repartition("ends", endsSrc), torn: conn.MakeScript(testClock, "torn", tornSrc),
	}
}

// projectStore is the store of a project: the queue, the endpoints, and their connection.
type projectStore struct {
	*redisq.Store
	conn    *conn.Client
	project string
	tags    []string // by partition
	scripts adminScripts
}

// newStore returns the projectStore of a store.
func newStore(s *redisq.Store) *projectStore {
	a := &projectStore{Store: s, conn: s.Conn(), project: s.Conn().Project(), scripts: realScripts()}
	if s.Conn().TestClock() {
		a.scripts = testScripts()
	}
	a.divide()
	return a
}

// divide reads the partitions from the connection.
func (s *projectStore) divide() {
	s.tags = nil
	for n := range s.conn.Partitions() {
		s.tags = append(s.tags, s.conn.Tag(n))
	}
}

func (s *projectStore) home() string { return s.conn.Tag(conn.Home) }

func (s *projectStore) instances() string { return s.home() + keys.Instances }

// partition returns the partition of a lane.
func (s *projectStore) partition(lane dispatcher.Lane) int {
	return keys.Partition(string(lane), len(s.tags))
}
