// Package archive keeps a durable copy of every message, every attempt with its proof, and the
// unfinished deliveries. It copies the store's log into the archive, queries both, and restores a
// lost store. It knows no technology: its ports are in ports.go.
//
// Package app runs one Archiver in each instance. A pass does the following:
//   - lease partitions of the archive (Archive.Lease),
//   - read their logs as Parts, in the order of the log (Source.Read),
//   - write the Parts, each with its end position in one transaction, so that a Part that is
//     read twice is stored once (Archive.Write). Fold computes from them which deliveries are
//     unfinished,
//   - report to the store what is archived, so that it may trim its log (Source.Archived),
//   - compare one page of unfinished deliveries, if a comparison is due (walk.go,
//     records.go).
//
// Deliveries never wait for it. While the archive is down, the store keeps its log up to
// ARCHIVE_BACKLOG, and the archiver continues at its last position.
//
// Each partition is archived by one instance at a time. If the instance stops, its lease
// ends after LeaseTime and another instance continues at the archive's position.
//
// A Lookup queries deliveries in the store and in the archive (lookup.go), so that callers need
// not know which of them has a delivery. The store is queried first, because it has the
// current state. The archive, a Finder, has the deliveries that the store deleted. While the
// archive is down, the store's result is returned. It reports how far back it is complete.
//
// Restore restores a lost store, a Target, from its archive, a Vault (restore.go): endpoints,
// paused lanes, known ids and all unfinished deliveries, each at its rung of the ladder. The
// restore command calls it. It runs these steps in order:
//   - lock the archive and find out what was lost,
//   - stop instances from archiving older data (Vault.Sever),
//   - stop the store from accepting messages and making attempts (Target.Hold),
//   - restore endpoints, known ids, unfinished and then dead deliveries,
//   - record the restore and release the store.
//
// A restore may be stopped at any time, even by a crash, and run again, because existing
// data are not changed. Until it ends, the store accepts no message, because a repeat of a
// delivered message would look new.
package archive

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// Errors of an archive.
var (
	// ErrUnavailable says that the archive could not be reached, did not respond, or
	// accepts no writes now. Whether something was stored is unknown.
	ErrUnavailable = errors.New("archive unavailable")
	// ErrMoved says that another instance owns a partition, or has archived more of it.
	// Nothing was stored.
	ErrMoved = errors.New("another instance archives this partition")
	// ErrVersion says that the archive's tables are newer than this program, or older and
	// its role may not migrate them.
	ErrVersion = errors.New("the archive's tables have another version")
	// ErrServerChanged says that the cursor comes from another process of the store's server. The
	// walk must start again.
	ErrServerChanged = errors.New("the store's server was restarted or replaced")
)

// Position is a place in the log of one partition: the id of an entry. The zero value is
// before all entries.
type Position struct {
	MS  int64 // by the partition's clock
	Seq uint64
}

// String returns the position as the log writes it: ms-seq.
func (p Position) String() string {
	return strconv.FormatInt(p.MS, 10) + "-" + strconv.FormatUint(p.Seq, 10)
}

// ParsePosition parses the result of String.
func ParsePosition(text string) (p Position, err error) {
	ms, seq, found := strings.Cut(text, "-")
	if p.MS, err = strconv.ParseInt(ms, 10, 64); err == nil && found {
		p.Seq, err = strconv.ParseUint(seq, 10, 64)
	}
	if err != nil || !found || p.MS < 0 {
		return Position{}, fmt.Errorf("%q is not a position in a log", text)
	}
	return p, nil
}

// After reports whether p is after q.
func (p Position) After(q Position) bool {
	return p.MS > q.MS || p.MS == q.MS && p.Seq > q.Seq
}

// Kind is the kind of an event.
type Kind byte

// The kinds of events. A delivery ends with Delivered, Dead, Cancelled, Lost or Forgotten.
const (
	Delivered Kind = 'd'
	Retry     Kind = 'r' // an attempt failed, and another one is due
	Dead      Kind = 'x'
	Cancelled Kind = 'c'
	Late      Kind = 'l' // an attempt without effect, because its delivery had ended
	Resent    Kind = 's' // an attempt was requested
	Restored  Kind = 'o' // it was restored into a store
	Forgotten Kind = 'f' // it was erased from the store on request
	Snoozed   Kind = 'z' // its handler let it wait without an attempt; no row has it, it only changes the unfinished delivery
	Lost      Kind = '?' // it ended, but the log was cut before its end was read
)

// Ends reports whether a delivery ends with such an event. It may be resent later.
func (k Kind) Ends() bool {
	return k == Delivered || k == Dead || k == Cancelled || k == Lost || k == Forgotten
}

// Status returns the final status of a delivery that ended with such an event, or empty if
// the kind has none. A lost delivery counts as dead, because its outcome is unknown and an
// operator should check it.
func (k Kind) Status() dispatcher.Status {
	switch k {
	case Delivered:
		return dispatcher.StatusDelivered
	case Dead, Lost:
		return dispatcher.StatusDead
	case Cancelled:
		return dispatcher.StatusCancelled
	}
	return ""
}

// Event is one change of a delivery.
type Event struct {
	ID      dispatcher.DeliveryID
	Pos     int64     // order of the events and accepted messages of a partition; see Part.Number
	At      time.Time // when it was written, by the partition's clock; for an end, when it ended
	Kind    Kind
	Attempt dispatcher.Attempt // Number counts all attempts so far; At is zero if there was no attempt
	Wait    time.Duration      // of Retry: until the next attempt
	Reason  dispatcher.DeadReason
	Anew    bool      // of Resent: a new ladder begins
	Due     time.Time // of Resent, unless Anew: the due time that the attempt interrupted
	By      string    // of Resent: the caller as in the audit; empty if unknown
	Repeats bool      // of Delivered: an earlier event has the attempt that succeeded

	// Fields of the message, if it is known. Archive.Write fills them in.
	Topic, Tenant, Subject string
	Accepted               time.Time // zero if unknown
}

// verdicts maps the kinds with an attempt to its verdict.
var verdicts = map[Kind]dispatcher.Verdict{
	Delivered: dispatcher.Delivered, Retry: dispatcher.Retry, Dead: dispatcher.Dead, Cancelled: dispatcher.Retry,
}

// MarkRepeated changes an event of an attempt that may be there already. An error in the middle of a
// script leaves its lines in the log, and so does a Redis that makes the first commands of a script
// which a crash cut. The attempt is settled again, or there is another one. same: the archive has this
// attempt, so the event is left out. ended: its delivery is not open, and ended so before. Then the event
// is no end.
func (e *Event) MarkRepeated(same, ended bool) {
	switch {
	case same:
		e.Kind = 0
	case ended && e.Kind.Ends():
		e.Kind = Late
	}
}

// Made returns the attempt of an event for a history. made is false if there was no
// attempt, or if it had no effect. url is the message's own.
func (e *Event) Made(url string) (a dispatcher.Attempt, made bool) {
	a = e.Attempt
	if a.Verdict = verdicts[e.Kind]; a.Verdict == 0 || a.At.IsZero() {
		return dispatcher.Attempt{}, false
	}
	if e.Kind == Retry {
		a.Next = e.At.Add(e.Wait)
	}
	if a.URL == "" && a.Address != "" {
		a.URL = url
	}
	if e.ID.Lane.IsQueue() {
		a.Status = 0
	}
	return a, true
}

// Accepted is a message that one partition accepted.
type Accepted struct {
	ID    string
	Lanes []dispatcher.Lane // its deliveries, except those that ended at once
	Pos   int64
	At    time.Time // when it was written
	Due   time.Time // of the first attempts; zero if they wait for others of their ordering key
	Again bool      // the message was archived before: it is resent, or has more lanes

	// Message is decoded from Head. It is nil if the record was gone before it was read.
	Message *dispatcher.Message
	Head    []byte // of the record, as it is stored, without the body
	Body    []byte // as published
}

// Part is the log of one partition from one position to another.
type Part struct {
	Partition   int
	Epoch       string // identifies the partition's data; an emptied store gets a new one
	From, To    Position
	Accepted    []Accepted // ordered by Pos, like Events; each Pos is in one of the two lists
	Events      []Event
	Endpoints   []Endpoint   // that changed, in their present state or a later one
	PausedLanes []PausedLane // lanes that were paused or resumed, likewise
	Bytes       int64        // size of the accepted records, by which the backlog shrinks
	Missing     int          // messages whose record was gone
	TailLost    bool         // the store lost its newest data, and some of it is archived
	More        bool         // the log has more after To
	Gap         Position     // the newest gap in the log; zero: there was none
	Dropped     int64        // lines that were ever cut before they were archived, like State.Dropped
	Waits       bool         // the next line is a change of an endpoint that the endpoint does not have yet
}

// WaitFor is how long a reader waits until an endpoint has a change that is in the log. The
// call that makes the change has a shorter timeout.
const WaitFor = 10 * time.Second

// posShift leaves room for 2^20 events in one millisecond, until the year 2248.
const posShift = 20

// Number sets the Pos of a part's events and accepted messages, in their order and after
// last, the partition's highest Pos so far. It returns the new highest Pos. Times are exact
// to the entry of the log, whose ms are in At.
func (p *Part) Number(last int64) int64 {
	a, e := p.Accepted, p.Events
	for len(a)+len(e) > 0 {
		if len(e) == 0 || len(a) > 0 && a[0].Pos < e[0].Pos {
			last = max(last+1, PosAt(a[0].At))
			a[0].Pos, a = last, a[1:]
			continue
		}
		last = max(last+1, PosAt(e[0].At))
		e[0].Pos, e = last, e[1:]
	}
	return last
}

// PosAt returns the lowest Pos of a time.
func PosAt(at time.Time) int64 { return max(at.UnixMilli(), 0) << posShift }
