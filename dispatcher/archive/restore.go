package archive

import (
	"context"
	"iter"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// Target is a store into which an archive is restored. Each method may be repeated, even by
// another process after a crash: data that exist are not changed.
type Target interface {
	// Emptied compares the store with the archive's data id and epochs, and records the
	// loss. It reports whether there is a loss that is neither restored nor given up. The
	// other methods then change only the lost partitions.
	Emptied(ctx context.Context, id string, epochs map[int]string) (bool, error)
	// Epochs returns the epochs of its partitions and creates missing ones. drained reports
	// whether all of its log is archived. Then a delivery that is unfinished in the archive
	// is unfinished in the store too, or the store lost it.
	Epochs(ctx context.Context) (epochs []string, drained bool, err error)
	// ID is the id of the store's present data.
	ID() string
	// Hold stops the store from accepting messages and making attempts until Release.
	Hold(ctx context.Context) error
	// PutEndpoints restores endpoints, except deleted ones, and paused lanes. It returns
	// how many were missing.
	PutEndpoints(ctx context.Context, endpoints []Endpoint, holds []PausedLane) (int, error)
	// OpensEndpoint reports whether the store has the key of an endpoint's record.
	OpensEndpoint(e *Endpoint) bool
	// Opens reports whether the store has the key of the headers of a delivery's message.
	Opens(o *Open) bool
	// PutKnown restores known ids, so that a repeat of one is a duplicate.
	PutKnown(ctx context.Context, known []Known) error
	// Put restores unfinished deliveries, ordered by Pos. It returns one result for each.
	Put(ctx context.Context, open []Open) ([]Put, error)
	// Lost returns the lanes that have unfinished deliveries but no endpoint, although the
	// endpoint was not deleted, with the number of deliveries.
	Lost(ctx context.Context) (map[dispatcher.Lane]int64, error)
	// PutDead restores dead deliveries into the dead list.
	PutDead(ctx context.Context, dead []DeadOne) ([]Put, error)
	// Release lets the store accept messages and make attempts again, unless it was paused
	// before Hold. The loss is then over.
	Release(ctx context.Context) error
}

// Put is the result of restoring one delivery.
type Put uint8

// The results. The zero value is none of them.
const (
	_             Put = iota
	PutNew            // it was restored
	PutExists         // it existed, or its message had ended
	PutConflict       // another message has its id
	PutUnreadable     // its record can't be read, or was not archived
	putKind           // the number of results
)

// Puts is the number of results.
const Puts = int(putKind)

// Known is an id whose deliveries have ended.
type Known struct {
	ID     string
	Digest [dispatcher.DigestSize]byte
	Lane   dispatcher.Lane // of one of its deliveries; an id with several is listed several times
	Ended  time.Time
}

// DeadOne is a dead delivery.
type DeadOne struct {
	Open             // with Head and Body
	Ended  time.Time // when it died
	Reason dispatcher.DeadReason
	Status int // of the last response
}

// Ends are the times until which the lost partitions are archived.
type Ends struct {
	First, Last time.Time // of the partition that is furthest behind, and of the one furthest ahead; zero if none was archived
	Gap         time.Time // the log was cut until then and the archive was not compared since; zero if not
	Now         time.Time // by the archive's clock
}

// Vault reads an archive for a restore. The sequences stop at the first error.
type Vault interface {
	// Lock prevents other restores until it is released.
	Lock(ctx context.Context) (release func(), err error)
	// Ends returns until when the partitions are archived, except those with the given
	// epochs.
	Ends(ctx context.Context, but []string) (Ends, error)
	// Home reads the id of the archived data and the epochs of the partitions.
	Home(ctx context.Context) (id string, epochs map[int]string, err error)
	// Sever stops instances from archiving data of other epochs than the present ones,
	// which they read before the loss.
	Sever(ctx context.Context, present []string) error
	// KeepHome stores the id of the archived data.
	KeepHome(ctx context.Context, id string) error
	// CountOpen counts unfinished deliveries, except of the given epochs.
	CountOpen(ctx context.Context, but []string) (int64, error)
	// Open reads these deliveries ordered by Pos, with head and body.
	Open(ctx context.Context, but []string) iter.Seq2[Open, error]
	// History fills in the newest attempts of deliveries that were attempted.
	History(ctx context.Context, of []*Open) error
	// Endpoints reads all endpoints and paused lanes.
	Endpoints(ctx context.Context) ([]Endpoint, []PausedLane, error)
	// Known reads the ids of deliveries that ended since then, newest first, at most most.
	Known(ctx context.Context, since time.Time, most int) iter.Seq2[Known, error]
	// Dead reads deliveries that died since then and were not resent, newest first, at most
	// most.
	Dead(ctx context.Context, since time.Time, most int) iter.Seq2[DeadOne, error]
	// Note writes an entry into the archive's audit.
	Note(ctx context.Context, by, what string, detail map[string]any) error
}
