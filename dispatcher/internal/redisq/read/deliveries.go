// Package read queries messages and their deliveries, for people and for the engine: one
// message, lists, counts, and the instances that attempt them. It changes nothing.
package read

import (
	"context"
	"log/slog"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/attempts"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/lanes"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/shelf"
)

// Options configure Deliveries.
type Options struct {
	Conn    *conn.Client
	Scripts Scripts
	Sealer  *conn.Sealer
	Lanes   *lanes.Reader
	Log     *attempts.Reader
	Shelf   *shelf.Reader
	Keep    dispatcher.Keep // Stats compares with it to report the retention

	Heard  func(conn.Hint)                                     // receives the hints of Upcoming
	Info   func(context.Context) (dispatcher.StoreInfo, error) // reads the state of the store, for Stats
	Logger *slog.Logger
}

// Deliveries queries messages and their deliveries.
type Deliveries struct {
	conn    *conn.Client
	scripts Scripts
	sealer  *conn.Sealer
	lanes   *lanes.Reader
	proofs  *attempts.Reader
	shelf   *shelf.Reader
	dead    *DeadCounts
	keep    dispatcher.Keep
	heard   func(conn.Hint)
	info    func(context.Context) (dispatcher.StoreInfo, error)
	log     *slog.Logger
}

// New returns Deliveries.
func New(o Options) *Deliveries {
	return &Deliveries{
		conn: o.Conn, scripts: o.Scripts, sealer: o.Sealer, lanes: o.Lanes, proofs: o.Log, shelf: o.Shelf,
		dead: NewDeadCounts(o.Conn, 0), keep: o.Keep, heard: o.Heard, info: o.Info, log: o.Logger,
	}
}
