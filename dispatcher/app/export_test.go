package app

import (
	"time"

	"github.com/hookladder/hookladder/dispatcher/internal/embedded"
)

// StopClock has stores in memory be at a time until restore is called.
func StopClock(at time.Time) (restore func()) {
	startDev = func() (*embedded.InMemory, error) {
		r, err := embedded.StartInMemory()
		if err == nil {
			r.SetTime(at)
		}
		return r, err
	}
	return func() { startDev = embedded.StartInMemory }
}

// What the tests of this package look at from inside.
var (
	Listen  = listen
	Reached = reached
)

// Shared is how descriptors are shared out.
type Shared struct{ Attempts, Loans, Idle, Accepted, Reserve int }

// ShareDescriptors shares a limit out.
func ShareDescriptors(limit, permits, connections int) (Shared, error) {
	d, err := shareDescriptors(limit, permits, connections)
	return Shared{d.attempts, d.loans, d.idle, d.accepted, d.reserve}, err
}

// Budget fits options into a limit of descriptors.
func Budget(o *Options, limit int) error {
	_, err := o.budget(limit)
	return err
}
