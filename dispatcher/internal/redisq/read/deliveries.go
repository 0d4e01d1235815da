// Package read queries messages and their deliveries, for people and for the engine: one
// message, lists, counts, and the instances that attempt them. It changes nothing.
//
// A LaneReader queries the lanes (lanes.go): the state of each, the paused lanes, and the lanes
// with the most work.
//
// A LogReader reads :attempts, the log of deliveries (log_read.go). Each attempt has one line in
// the log, with its evidence: time, address, URL, duration and response of the receiver.
//
// A ShelfReader pages the lists of all deliveries of a lane (shelf.go). A delivery is in the
// list from its acceptance until it is forgotten, in any state.
package read

import (
	"context"
	"log/slog"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
)

// Options configure Deliveries.
type Options struct {
	Conn  *conn.Client
	Lanes *LaneReader
	Log   *LogReader
	Shelf *ShelfReader
	Keep  dispatcher.Keep // Stats compares with it to report the retention

	Heard  func(conn.Hint)                                     // receives the hints of Upcoming
	Info   func(context.Context) (dispatcher.StoreInfo, error) // reads the state of the store, for Stats
	Logger *slog.Logger
}

// Deliveries queries messages and their deliveries.
type Deliveries struct {
	conn   *conn.Client
	lanes  *LaneReader
	proofs *LogReader
	shelf  *ShelfReader
	dead   *DeadCounts
	keep   dispatcher.Keep
	heard  func(conn.Hint)
	info   func(context.Context) (dispatcher.StoreInfo, error)
	log    *slog.Logger
}

// New returns Deliveries.
func New(o Options) *Deliveries {
	return &Deliveries{
		conn: o.Conn, lanes: o.Lanes, proofs: o.Log, shelf: o.Shelf,
		dead: NewDeadCounts(o.Conn, 0), keep: o.Keep, heard: o.Heard, info: o.Info, log: o.Logger,
	}
}
