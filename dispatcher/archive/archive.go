// Package archive has the words of what is kept beyond the store: every message, each
// attempt with its proof, and what has not finished. It knows no technology.
//
// The store writes a log. A reader of it makes Parts of that log, each of them of one
// partition, in the order in which things happened there. An archive keeps Parts, and
// where each ended, in one transaction. So a part that is read twice is kept once.
package archive

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// What an archive may answer besides success.
var (
	// ErrUnavailable says that the archive could not be reached, did not answer, or
	// takes nothing now. Whether something was kept is unknown.
	ErrUnavailable = errors.New("archive unavailable")
	// ErrMoved says that a partition is held by another instance, or was kept further
	// than this instance knows. Nothing was kept.
	ErrMoved = errors.New("another instance archives this partition")
	// ErrVersion says that the archive's tables are newer than this program, or older
	// and may not be changed by it.
	ErrVersion = errors.New("the archive's tables are of another version")
	// ErrAnew says that another process of the store's server answered than the one that
	// the cursor is of. The walk has to begin again.
	ErrAnew = errors.New("the store's server was restarted or replaced")
)

// Position is a place in the log of one partition: the id of an entry. The zero value
// is before all.
type Position struct {
	MS  int64 // by the partition's clock
	Seq uint64
}

// String is the position as the log has it: ms-seq.
func (p Position) String() string {
	return strconv.FormatInt(p.MS, 10) + "-" + strconv.FormatUint(p.Seq, 10)
}

// ParsePosition reads what String wrote.
func ParsePosition(text string) (p Position, err error) {
	ms, seq, found := strings.Cut(text, "-")
	if p.MS, err = strconv.ParseInt(ms, 10, 64); err == nil && found {
		p.Seq, err = strconv.ParseUint(seq, 10, 64)
	}
	if err != nil || !found || p.MS < 0 {
		return Position{}, fmt.Errorf("%q is no position in a log", text)
	}
	return p, nil
}

// After reports whether p is behind q.
func (p Position) After(q Position) bool {
	return p.MS > q.MS || p.MS == q.MS && p.Seq > q.Seq
}

// Kind is what an event tells of its delivery.
type Kind byte

// The kinds of events. Those that end a delivery are Delivered, Dead, Cancelled, Lost
// and Forgotten.
const (
	Delivered Kind = 'd'
	Retry     Kind = 'r' // an attempt failed, and another one is due
	Dead      Kind = 'x'
	Cancelled Kind = 'c'
	Late      Kind = 'l' // an attempt of which nothing came, since its delivery had ended, or ended otherwise
	Resent    Kind = 's' // an attempt was asked for
	Restored  Kind = 'o' // it was put into a store again
	Forgotten Kind = 'f' // it was taken out of the store on request
	Lost      Kind = '?' // it ended, and the log that told how was cut before it was read
)

// Ends reports whether a delivery has ended by such an event, until it is resent.
func (k Kind) Ends() bool {
	return k == Delivered || k == Dead || k == Cancelled || k == Lost || k == Forgotten
}

// Status is that of a delivery which ended by such an event; empty: it does not tell one.
// How one ended that is lost is not known. It is told as dead, so that somebody looks.
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

// Event is something that happened to a delivery.
type Event struct {
	ID      dispatcher.DeliveryID
	Pos     int64     // orders the events and the accepted messages of a partition; see Part.Number
	At      time.Time // when it was written, by the partition's clock; of an end, when that was
	Kind    Kind
	Attempt dispatcher.Attempt // Number: those so far; At is zero where none was made
	Wait    time.Duration      // of Retry: until the next attempt
	Reason  dispatcher.DeadReason
	Anew    bool      // of Resent: a new ladder begins
	Due     time.Time // of Resent, unless Anew: the due time that the attempt interrupted
	By      string    // of Resent: the caller that asked, as the audit has it; empty: that is not known
	Repeats bool      // of Delivered: the attempt that succeeded has an event of its own, before this one

	// Of the message, where it is known. Archive.Write fills them in.
	Topic, Tenant, Subject string
	Accepted               time.Time // zero: that is not known
}

// verdicts are those of attempts by what became of them.
var verdicts = map[Kind]dispatcher.Verdict{
	Delivered: dispatcher.Delivered, Retry: dispatcher.Retry, Dead: dispatcher.Dead, Cancelled: dispatcher.Retry,
}

// Made is the attempt of an event, as a history has it. made is false where there was none,
// or nothing came of it. url is the message's own.
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

// Accepted is a message that one partition took.
type Accepted struct {
	ID    string
	Lanes []dispatcher.Lane // deliveries that were made and have not ended at once
	Pos   int64
	At    time.Time // when it was written
	Due   time.Time // of the first attempts; zero: they wait for others of their key
	Again bool      // the message was kept before: it is resent, or has more lanes

	// Message is what its head says; nil: its record had gone before it was read.
	Message *dispatcher.Message
	Head    []byte // of the record, as it is stored, without the body
	Body    []byte // as published
}

// Part is what happened in one partition from one position to another.
type Part struct {
	Partition int
	Epoch     string // names the partition's data: an emptied store makes another
	From, To  Position
	Accepted  []Accepted // in the order of Pos, as Events; a Pos stands in one of them only
	Events    []Event
	Endpoints []Endpoint // that were changed, as they are now or later
	Holds     []Hold     // likewise
	Bytes     int64      // of the records accepted: so much the backlog shrinks
	Missing   int        // messages whose record had gone
	TailLost  bool       // the store lost what it took last before, of which some is archived
	More      bool       // there is more behind To
	Gap       Position   // the newest gap in the log; zero: there was none
	Dropped   int64      // lines that were ever cut before they were archived, as State.Dropped
	Waits     bool       // what follows is a change of an endpoint which the endpoint does not have yet
}

// WaitFor is how long a reader waits for an endpoint to have a change that the log has. The
// call that makes the change ends sooner.
const WaitFor = 10 * time.Second

// posShift leaves a ms so many places: 2^20 things that happen in one ms, until the
// year 2248.
const posShift = 20

// Number gives the events and accepted messages of a part their Pos: in their order, and
// behind last, which is the partition's highest so far. It answers the highest now. Where
// things happened is not known more closely than by entries, whose ms are in At.
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

// PosAt is the lowest Pos of a time.
func PosAt(at time.Time) int64 { return max(at.UnixMilli(), 0) << posShift }
