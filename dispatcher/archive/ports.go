package archive

import (
	"context"
	"iter"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// State is the progress of archiving one partition, as the store knows it.
type State struct {
	Partition int
	Epoch     string    // never empty, because reading creates it
	At        Position  // the log is archived up to here
	First     time.Time // of the first entry after At; zero if there is none
	Last      Position  // of the newest entry
	Now       time.Time // by the partition's clock
	Backlog   int64     // bytes that are kept only because they are not archived
	Dropped   int64     // lines that were ever cut before they were archived
	Gap       Position  // the log is complete from here on; zero if nothing was cut before it was archived
}

// Source is the store whose log is archived.
type Source interface {
	// All returns the numbers of all partitions of the log.
	All() []int
	// Begin makes all partitions log the messages they accept, keep the log until it is
	// archived, and create missing epochs. It may be repeated.
	Begin(ctx context.Context) error
	// Lost compares the store with the archive's data id and epochs, and records the loss.
	// It returns the present id, or empty while a loss is neither restored nor given up.
	Lost(ctx context.Context, id string, epochs map[int]string) (present string, err error)
	// States reads the progress of some partitions.
	States(ctx context.Context, partitions []int) ([]State, error)
	// Read reads a partition's log after a position: whole entries, up to a number of lines
	// or bytes of bodies.
	Read(ctx context.Context, partition int, from Position, lines, bytes int) (Part, error)
	// Archived reports to the store which parts are archived, so it may trim its log. A
	// lower position than before is ignored. If the store's log ends before the position,
	// it lost its newest data, and a later Read reports that.
	Archived(ctx context.Context, parts []Part) error
	// Unfinished reads a page of the unfinished deliveries of a partition, with the head
	// and body that a restore needs. Their Pos is PosAt of the time when they were accepted
	// or joined the queue of their key. A cursor is valid for one process of the store's
	// server. Another process returns ErrServerChanged.
	Unfinished(ctx context.Context, partition int, cursor string) (Page, error)
	// UnfinishedOf reads which of some deliveries are unfinished in a partition.
	UnfinishedOf(ctx context.Context, partition int, ids []dispatcher.DeliveryID) (Page, error)
	// Endpoints reads a page of the records of all endpoints as they are stored, sealed.
	// Endpoints that are created or changed meanwhile may be missing, because the log has
	// them. next is empty on the last page.
	Endpoints(ctx context.Context, cursor string) (page []Endpoint, next string, err error)
	// Deleted returns which of the archive's endpoints the store deleted. It omits
	// endpoints that the store lost, because those have another Home.
	Deleted(ctx context.Context, kept []Endpoint) ([]Endpoint, error)
	// PausedLanes reads which lanes of a partition are paused, except lanes of endpoints, whose
	// records have it. kept are the archive's paused lanes. The result also has those of
	// them that were resumed.
	PausedLanes(ctx context.Context, partition int, kept []PausedLane) (PausedLanes, error)
}

// Page is a page of the unfinished deliveries of a partition.
type Page struct {
	Epoch string // of the data when it was read
	Open  []Open
	Next  string // cursor of the next page; empty if there is none

	// Messages is the number read for this page, Total is the partition's.
	Messages, Total int
}

// Endpoint is an endpoint's record.
type Endpoint struct {
	ID      string
	Home    string // identifies the store's data when the record was read; see Part.Epoch
	Version int64
	Record  []byte // as stored; empty if the archive should keep its own
	Deleted bool
}

// PausedLane is a lane that is paused or was resumed.
type PausedLane struct {
	Lane    dispatcher.Lane // or dispatcher.AllLanes
	Epoch   string          // of its partition's data; empty if unknown
	Resumed bool            // it is not paused any more; the fields below are empty then
	Name    string          // the lane's destination, see dispatcher.URLLaneName; empty if unknown
	Since   time.Time
	By      string
}

// PausedLanes are paused and resumed lanes of one partition.
type PausedLanes struct {
	Partition int
	Epoch     string
	Lanes     []PausedLane
}

// PartitionLease is an instance's lease on a partition: only this instance may archive it.
type PartitionLease struct {
	Partition int
	Epoch     string
	At        Position // archived up to here, as the archive knows it
	Last      int64    // the highest Pos so far
	Began     bool     // this epoch was never compared: the store may have older deliveries
	Gap       Position // the newest gap in the log before At
	Walked    Position // the newest gap that a comparison closed
	Dropped   int64    // lines that were cut before they were archived, when At was written
	Orphans   int64    // unfinished deliveries of its other epochs: Redis was emptied
}

// Want is a partition that an instance wants to archive.
type Want struct {
	Partition int
	Epoch     string
	At        Position // the start of its log, if the epoch is new to the archive
	Old       bool     // the store was read some time ago and may have other data now
}

// Archive stores parts. It returns ErrUnavailable for every error that may be temporary.
type Archive interface {
	// Lease renews the instance's leases, leases free partitions of want, and releases the
	// others. A lease ends after LeaseTime without renewal. ErrMoved says that a free
	// partition has another epoch in the archive and its Want is Old.
	Lease(ctx context.Context, by string, want []Want) ([]PartitionLease, error)
	// Write stores numbered parts. It returns ErrMoved unless the instance owns the
	// partitions and each part begins at the archive's position. A row that can't be stored
	// as it is gets changed, or is counted and skipped.
	Write(ctx context.Context, by string, parts []Part) (Written, error)
	// See stores a page of a walk. It adds the deliveries and messages that the archive
	// lacks, and marks all of them as seen by that walk.
	See(ctx context.Context, by string, w Walk, page []Open) error
	// Unseen returns at most UnseenMost deliveries that a walk has not seen and that may
	// have ended in its gap.
	Unseen(ctx context.Context, by string, w Walk) ([]dispatcher.DeliveryID, error)
	// EndLost ends deliveries as Lost if a walk still has not seen them, and counts them. The
	// Pos of their events is after last.
	EndLost(ctx context.Context, by string, w Walk, last int64, ids []dispatcher.DeliveryID) (lost int, err error)
	// EndWalk ends a walk and closes its gap.
	EndWalk(ctx context.Context, by string, w Walk) error
	// KeepEndpoints stores records that are newer than the archive's.
	KeepEndpoints(ctx context.Context, page []Endpoint) error
	// Endpoints reads a page of the endpoints that were not deleted, ordered by id and
	// without records. The page begins after the id behind.
	Endpoints(ctx context.Context, behind string) ([]Endpoint, error)
	// PausedLanes reads the paused lanes whose epoch is the given one or unknown.
	PausedLanes(ctx context.Context, epoch string) ([]PausedLane, error)
	// KeepPausedLanes stores which lanes of a partition were paused and resumed. It returns
	// ErrMoved if the instance does not own the partition.
	KeepPausedLanes(ctx context.Context, by string, h PausedLanes) error
	// Home reads the id of the archived data and the epochs of the partitions. Both are
	// empty before the first write.
	Home(ctx context.Context) (id string, epochs map[int]string, err error)
	// KeepHome stores the id of the archived data.
	KeepHome(ctx context.Context, id string) error
	// Maintain creates the tables of the coming months and drops those older than
	// retention.
	Maintain(ctx context.Context, retention time.Duration) error
	// Release releases all partitions of an instance.
	Release(ctx context.Context, by string) error
	// Close closes all connections.
	Close()
}

// LeaseTime is the time after which a lease that is not renewed ends, by the archive's clock.
const LeaseTime = 6 * time.Second

// Written counts the stored rows.
type Written struct {
	Messages, Events int
	Changed          int // rows with a text that was replaced, because the archive can't store it
	Passed           int // rows that were rejected and skipped
}

// UnseenMost is how many deliveries Unseen returns. The store needs some 20 ms to read
// them.
const UnseenMost = 1000

// Walk is one comparison of a partition's unfinished deliveries in the store with the
// archive's.
type Walk struct {
	Partition int
	Epoch     string
	Name      int64    // unique, marks the rows that it saw
	Gap       Position // the newest gap when it began
	Left      float64  // the share that is not compared yet, for other processes to read
}

// Comparison is how far a partition is compared, as the archive knows it.
type Comparison struct {
	PartitionLease
	Left float64 // the share that is not compared yet, if a comparison is due
}

// Due reports whether the partition must be compared with the store, whose state is s.
func (c *Comparison) Due(s *State) bool {
	return c.Began || c.Epoch != s.Epoch || c.Gap.After(c.Walked) || s.Gap.After(c.Walked)
}

// Until is the highest Pos of deliveries that may have ended in the gap. The log has the
// end of all later ones. It is negative without a gap.
func (w *Walk) Until() int64 {
	if w.Gap == (Position{}) {
		return -1
	}
	return PosAt(time.UnixMilli(w.Gap.MS+1)) - 1
}

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

// Found is a message in the archive.
type Found struct {
	Message dispatcher.Message // Body is nil if HasBody is false
	HasBody bool
	Size    int // of the body, even if the body is not kept
	Head    []byte

	Deliveries []FoundDelivery // by lane
}

// FoundDelivery is a delivery and its events.
type FoundDelivery struct {
	ID     dispatcher.DeliveryID
	Events []Event // oldest first
	Open   *Open   // nil after it finished
}

// Finder queries an archive for the API. It fails fast: an archive that is away or slow is
// an ErrUnavailable.
type Finder interface {
	// Find reads a message and its events, or returns dispatcher.ErrNotFound.
	Find(ctx context.Context, id string) (*Found, error)
	// Ends reads a page of ends.
	Ends(ctx context.Context, f Filter) (EndPage, error)
	// Since returns the time from which the archive is complete. A delivery that ended
	// later is in the archive or still in the store.
	Since(ctx context.Context) (time.Time, error)
}

// Filter selects ends of deliveries. At least one of Tenants, Subjects, SubjectLike and
// Lanes is set, because only these have an index. A field matches if one of its values
// does.
type Filter struct {
	Tenants  []string
	Subjects []string
	Lanes    []dispatcher.Lane
	Topics   []string // patterns, see dispatcher.MatchTopic
	Statuses []dispatcher.Status
	Reasons  []dispatcher.DeadReason
	Since    time.Time // inclusive; the time of the end, or of the acceptance if Accepted
	Until    time.Time // exclusive; zero if there is no limit
	Oldest   bool      // oldest first, else newest first
	Accepted bool      // ordered by acceptance, newest first
	Limit    int
	After    *dispatcher.EndPlace // the page begins after it; nil for the first page

	SubjectLike []string // see dispatcher.SubjectToken
}

// End is the newest end of a delivery, for lists.
type End struct {
	Event
	Created time.Time // of its message; zero if unknown
	Head    []byte    // of its record; nil if the record is gone

	Base       int       // attempts before its last ladder began
	Delivered  time.Time // when it was first delivered; zero if never
	LastStatus int       // of its last attempt
	LastError  string    // of its last attempt
}

// Place returns the end's place in the order of ends.
func (e *End) Place() dispatcher.EndPlace { return dispatcher.EndPlace{At: e.At, ID: e.ID.String()} }

// EndPage is a page of a list of ends. Deliveries that were resent later are not in it.
type EndPage struct {
	Ends     []End
	LookedAt int                  // ends that were read to find these
	Reached  *dispatcher.EndPlace // all ends up to and including this place were read; nil if all were
}

// Selection selects messages to erase or export. At least one field is set.
type Selection struct {
	Tenant  string
	Subject string
	Since   time.Time // inclusive; when the message was accepted
	Before  time.Time // exclusive
}

// Chosen is a message of a Selection.
type Chosen struct {
	ID      string
	Created time.Time
}

// Erased counts the erased rows.
type Erased struct {
	Messages int64 `json:"messages"`
	Events   int64 `json:"events"`
	Open     int64 `json:"open"`   // unfinished deliveries of the messages
	Months   int   `json:"months"` // tables that were dropped as a whole; their events are not counted
}
