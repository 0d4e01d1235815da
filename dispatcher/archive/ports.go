package archive

import (
	"context"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// State is how far the log of a partition is archived, by what the store knows.
type State struct {
	Partition int
	Epoch     string    // never empty: it is made where there is none
	At        Position  // archived up to here
	First     time.Time // of the first entry behind At; zero: there is none
	Last      Position  // of the newest entry
	Now       time.Time // by the partition's clock
	Backlog   int64     // bytes that are kept only since they are not archived
	Dropped   int64     // lines that were ever cut before they were archived
	Gap       Position  // the log is whole from here on; zero: nothing was cut before it was archived
}

// Source is the store whose log is archived.
type Source interface {
	// Partitions is how many parts the log has.
	Partitions() int
	// Begin has all partitions name what they accept in their log, and keep what is not
	// archived, and makes their epochs where there are none. It may be repeated.
	Begin(ctx context.Context) error
	// Lost notes what the store lost by what the archive has: the id of the project's data
	// and the epochs of its partitions. It answers the present id; empty: something is lost,
	// and neither restored nor given up.
	Lost(ctx context.Context, id string, epochs map[int]string) (present string, err error)
	// States reads how far some partitions are archived.
	States(ctx context.Context, partitions []int) ([]State, error)
	// Read reads what happened in a partition behind a position: whole entries, until
	// there are so many lines or bytes of bodies.
	Read(ctx context.Context, partition int, from Position, lines, bytes int) (Part, error)
	// Archived tells the store what is safe: it may trim it. A lower position than it
	// was told before changes nothing. Where the store lacks what it is told last, it
	// lost its tail: a part that is read later tells that.
	Archived(ctx context.Context, parts []Part) error
	// Unfinished reads a page of the deliveries that a partition has not finished, with
	// what a restore needs of them: head and body too. Their Pos is PosAt of when they were
	// accepted, or joined the line of their key. A cursor is valid for one process of the
	// store's server: if another one answers, the error is ErrAnew.
	Unfinished(ctx context.Context, partition int, cursor string) (Page, error)
	// UnfinishedOf reads those of some deliveries that a partition has not finished.
	UnfinishedOf(ctx context.Context, partition int, ids []dispatcher.DeliveryID) (Page, error)
	// Endpoints reads a page of the records of all endpoints as they are stored, sealed.
	// Those that are created or changed meanwhile may be left out, since the log has them.
	// next is empty at the end.
	Endpoints(ctx context.Context, cursor string) (page []Endpoint, next string, err error)
	// Deleted answers which of some endpoints, as an archive has them, the store deleted.
	// It answers none that the store lost: those have another Home.
	Deleted(ctx context.Context, kept []Endpoint) ([]Endpoint, error)
	// Holds reads which lanes of a partition are paused, without those of endpoints: their
	// records say it. kept are those that an archive has: it answers those that were resumed.
	Holds(ctx context.Context, partition int, kept []Hold) (Holds, error)
}

// Page is a page of what a partition has not finished.
type Page struct {
	Epoch string // of the data that it was read from
	Open  []Open
	Next  string // cursor of the next page; empty: there is none

	// Messages were read for this page, of so many that the partition has.
	Messages, Total int
}

// Endpoint is an endpoint's record.
type Endpoint struct {
	ID      string
	Home    string // names the data of the store that the record was read from; see Part.Epoch
	Version int64
	Record  []byte // as it is stored; empty: the archive keeps the one that it has
	Deleted bool
}

// Hold is a lane that is paused, or was resumed.
type Hold struct {
	Lane    dispatcher.Lane // or dispatcher.AllLanes
	Epoch   string          // of its partition's data; empty: that is not known
	Resumed bool            // it is not paused any more; the rest is empty then
	Name    string          // what the lane is for, as dispatcher.URLLaneName has it; empty: that is not known
	Since   time.Time
	By      string
}

// Holds are lanes of one partition.
type Holds struct {
	Partition int
	Epoch     string
	Lanes     []Hold
}

// Held is a partition that an instance may archive.
type Held struct {
	Partition int
	Epoch     string
	At        Position // archived up to here, as the archive knows it
	Last      int64    // the highest Pos so far
	Began     bool     // this epoch was never compared: the archive does not know what the store had already
	Gap       Position // the newest gap that At has passed
	Walked    Position // the newest gap that a comparison has closed
	Dropped   int64    // lines of which the log was cut before they were archived, when At was written
	Orphans   int64    // deliveries of other epochs of it that have not finished: Redis was emptied
}

// Want is a partition that an instance would archive.
type Want struct {
	Partition int
	Epoch     string
	At        Position // where its log begins to be archived, if the epoch is new to the archive
	Old       bool     // the store was read some time ago, and may hold other data by now
}

// Archive is where parts are kept. Every error that time may mend is an ErrUnavailable.
type Archive interface {
	// Hold renews what an instance holds, takes what is free of what it wants, and
	// gives up the rest. What is not renewed for HoldFor is free. ErrMoved says that the
	// archive has another epoch of something free, and that what is wanted is Old.
	Hold(ctx context.Context, by string, want []Want) ([]Held, error)
	// Write keeps parts, if all begin where the archive's partitions end and are held by
	// the instance, else ErrMoved. They are numbered already. What can't be kept as it
	// is, is kept changed, or counted and passed over.
	Write(ctx context.Context, by string, parts []Part) (Written, error)
	// See takes in a page of a walk: what the archive lacks is added, messages too, and all
	// is marked as seen by that walk.
	See(ctx context.Context, by string, w Walk, page []Open) error
	// Unseen names deliveries that a walk has not seen and that may have ended in its gap,
	// at most UnseenMost of them.
	Unseen(ctx context.Context, by string, w Walk) ([]dispatcher.DeliveryID, error)
	// Miss ends as Lost those of some deliveries that a walk still has not seen, and counts
	// them. Their events stand behind the Pos last.
	Miss(ctx context.Context, by string, w Walk, last int64, ids []dispatcher.DeliveryID) (lost int, err error)
	// Compared ends a walk: its gap is closed.
	Compared(ctx context.Context, by string, w Walk) error
	// KeepEndpoints keeps records that are newer than those it has.
	KeepEndpoints(ctx context.Context, page []Endpoint) error
	// Endpoints reads a page of the endpoints that it has and that were not deleted, without
	// their records, in the order of their ids. The page begins behind an id.
	Endpoints(ctx context.Context, behind string) ([]Endpoint, error)
	// Holds are the lanes that it has as paused, of these data of a partition or of unknown ones.
	Holds(ctx context.Context, epoch string) ([]Hold, error)
	// KeepHolds keeps which lanes of a partition were paused and resumed. ErrMoved says that
	// the instance does not hold the partition.
	KeepHolds(ctx context.Context, by string, h Holds) error
	// Home is the id of the data that are archived, and the epochs of the partitions; empty:
	// nothing was archived so far.
	Home(ctx context.Context) (id string, epochs map[int]string, err error)
	// KeepHome keeps that id.
	KeepHome(ctx context.Context, id string) error
	// Maintain makes the tables of the months to come, and drops those that are too old.
	Maintain(ctx context.Context, retention time.Duration) error
	// Release gives up what an instance holds.
	Release(ctx context.Context, by string) error
	// Close ends all connections.
	Close()
}

// HoldFor is how long a partition is held without being renewed, by the archive's clock.
const HoldFor = 6 * time.Second

// Written counts what was kept.
type Written struct {
	Messages, Events int
	Changed          int // rows of which a text was replaced, since the archive does not take it
	Passed           int // rows that it did not take in any case
}

// UnseenMost is how many deliveries Unseen names: asking the store for them takes some
// 20 ms.
const UnseenMost = 1000

// Walk is a comparison of what a partition has not finished with what the archive has.
type Walk struct {
	Partition int
	Epoch     string
	Name      int64    // marks what it saw
	Gap       Position // the newest gap that was known when it began
	Left      float64  // the share that is still to compare, for other processes to read
}

// Comparison is how far a partition is compared, as the archive knows.
type Comparison struct {
	Held
	Left float64 // the share that is still to compare, where a comparison is due
}

// Due reports whether a partition is still to be compared, whose store is in a state.
func (c *Comparison) Due(s *State) bool {
	return c.Began || c.Epoch != s.Epoch || c.Gap.After(c.Walked) || s.Gap.After(c.Walked)
}

// Until is the highest Pos of what may have ended in the gap without the archive's
// knowledge: what began later has its end in the log. Without a gap it is negative.
func (w *Walk) Until() int64 {
	if w.Gap == (Position{}) {
		return -1
	}
	return PosAt(time.UnixMilli(w.Gap.MS+1)) - 1
}
