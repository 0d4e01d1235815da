package redisqtest

import (
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/stretchr/testify/require"
)

// Retention settings that cases pass to trim.
var (
	KeepAll = dispatcher.Keep{
		Finished: 24 * time.Hour, FinishedMax: 100_000, SeenMax: 1_000_000, Dead: 720 * time.Hour, DeadMax: 250_000,
	}
	// KeepDigests forgets the messages, but knows their ids.
	KeepDigests = dispatcher.Keep{
		Finished: 24 * time.Hour, FinishedMax: 0, SeenMax: 1_000_000, Dead: 720 * time.Hour, DeadMax: 250_000,
	}
	// KeepNothing forgets all work that has ended.
	KeepNothing = dispatcher.Keep{}
)

// KeepAnHour forgets deliveries that ended an hour ago.
var KeepAnHour = dispatcher.Keep{Finished: time.Hour, FinishedMax: 1000, SeenMax: 1000, Dead: time.Hour, DeadMax: 1000}

// RoomLeaves is the age that a message must have before a trim for room takes
// it.
const RoomLeaves = 15 * time.Second

// Trim trims until there is no more and returns the sum.
func (r *Rig) Trim(keep dispatcher.Keep) Trimmed {
	r.Helper()
	var sum Trimmed
	for range 1000 {
		got := r.TrimOnce(keep, false)
		sum.Finished += got.Finished
		sum.Seen += got.Seen
		sum.Dead += got.Dead
		sum.DeadCut += got.DeadCut
		sum.Lanes += got.Lanes
		sum.Unused = append(sum.Unused, got.Unused...)
		sum.Hints = append(sum.Hints, got.Hints...)
		if !got.More {
			return sum
		}
	}
	r.Fatal("trim never ends")
	return sum
}

// TrimOnce trims one batch of every partition.
func (r *Rig) TrimOnce(keep dispatcher.Keep, room bool) Trimmed {
	r.Helper()
	got, err := r.Queue.Trim(r.Ctx, One, r.All(), keep, room)
	require.NoError(r, err)
	return got
}
