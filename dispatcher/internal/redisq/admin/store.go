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
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// projectStore is the store of a project: the queue, the endpoints, and their connection.
type projectStore struct {
	*redisq.Store
	conn *conn.Client
}

func newStore(s *redisq.Store) *projectStore { return &projectStore{s, s.Conn()} }

func (s *projectStore) instances() string { return s.conn.Tag(conn.Home) + keys.Instances }
