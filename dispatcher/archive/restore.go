package archive

import (
	"context"
	"iter"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// Target is a store into which an archive is put back. Each of its methods may be
// repeated, also by another process after a crash: what is there already stays as it is.
type Target interface {
	// Emptied notes what the store lost by what the archive has: the id of the project's data
	// and the epochs of its partitions. It reports whether something was lost, and neither
	// restored nor given up. Then the other methods leave alone what was not.
	Emptied(ctx context.Context, id string, epochs map[int]string) (bool, error)
	// Epochs are those of its partitions, which it makes where there are none. drained says
	// that all of its log is archived: what the archive has as unfinished then is so, or
	// the store lost it.
	Epochs(ctx context.Context) (epochs []string, drained bool, err error)
	// ID is that of the data that the store has now.
	ID() string
	// Hold has the store take no message and attempt nothing until Release.
	Hold(ctx context.Context) error
	// PutEndpoints puts endpoints back, deleted ones apart, and what is held. It counts
	// those that were not there.
	PutEndpoints(ctx context.Context, endpoints []Endpoint, holds []Hold) (int, error)
	// PutKnown has ids be known, so that a repeat of one is a duplicate.
	PutKnown(ctx context.Context, known []Known) error
	// Put puts unfinished deliveries back, in the order of Pos. The answers are in the
	// order of the deliveries.
	Put(ctx context.Context, open []Open) ([]Put, error)
	// Lost are the lanes with unfinished deliveries whose endpoint the store does not have and
	// did not delete, and how many that are.
	Lost(ctx context.Context) (map[dispatcher.Lane]int64, error)
	// PutDead puts dead deliveries back into the dead list.
	PutDead(ctx context.Context, dead []DeadOne) ([]Put, error)
	// Release has the store take messages, and attempt what is due, unless that was held
	// before Hold. Then nothing counts as lost.
	Release(ctx context.Context) error
}

// Put is what became of a delivery that was put back.
type Put uint8

// What may become of it. The zero value is none of them.
const (
	_       Put = iota
	PutNew      // it was put back
	PutOld      // it was there, or its message had ended there
	PutOdd      // another message has its id
	PutBad      // its record can't be read, or is not kept
	putKind     // how many there are
)

// Puts are the kinds of Put.
const Puts = int(putKind)

// Known is an id whose deliveries have ended.
type Known struct {
	ID     string
	Digest [dispatcher.DigestSize]byte
	Lane   dispatcher.Lane // one of its deliveries'; an id with several comes several times
	Ended  time.Time
}

// DeadOne is a delivery that died.
type DeadOne struct {
	Open             // Head and Body too
	Ended  time.Time // when it died
	Reason dispatcher.DeadReason
	Status int // of the last answer
}

// Ends are how far an archive goes of the partitions that were lost.
type Ends struct {
	First, Last time.Time // in the one that is furthest behind, and furthest ahead; zero: nothing was archived
	Gap         time.Time // the log was cut until then, and the archive not compared with the store since; zero: it was not cut
	Now         time.Time // by the archive's clock
}

// Vault is what a lost store is made of again. The sequences end with the first error.
type Vault interface {
	// Lock keeps others from restoring until it is released.
	Lock(ctx context.Context) (release func(), err error)
	// Ends are when something was archived last, of data that do not have the given epochs.
	Ends(ctx context.Context, but []string) (Ends, error)
	// Home is the id of the data that were archived, and the epochs of the partitions.
	Home(ctx context.Context) (id string, epochs map[int]string, err error)
	// Sever keeps instances from archiving what they read before the loss, of data that do not
	// have the present epochs.
	Sever(ctx context.Context, present []string) error
	// KeepHome notes that the archive is of the data with this id.
	KeepHome(ctx context.Context, id string) error
	// CountOpen counts unfinished deliveries, but for those of the given epochs.
	CountOpen(ctx context.Context, but []string) (int64, error)
	// Open are they, in the order of Pos, with head and body.
	Open(ctx context.Context, but []string) iter.Seq2[Open, error]
	// History fills in the newest attempts of deliveries that were attempted.
	History(ctx context.Context, of []*Open) error
	// Endpoints are all endpoints, and what is held.
	Endpoints(ctx context.Context) ([]Endpoint, []Hold, error)
	// Known are the ids of what ended since then, newest first, at most so many.
	Known(ctx context.Context, since time.Time, most int) iter.Seq2[Known, error]
	// Dead are what died since then, and was not resent, newest first, at most so many.
	Dead(ctx context.Context, since time.Time, most int) iter.Seq2[DeadOne, error]
	// Note writes into the archive's audit.
	Note(ctx context.Context, by, what string, detail map[string]any) error
}
