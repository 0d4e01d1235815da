package dispatcher

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"time"
)

// Filter selects deliveries. Empty fields match everything, several values of
// one field any of them.
type Filter struct {
	Statuses []Status
	Topics   []string // patterns, see MatchTopic
	Tenants  []string
	Subjects []string
	Failed   bool // only those that are Delivery.Failed
	Lanes    []Lane
	Reasons  []DeadReason
	Since    time.Time // inclusive; of the time of the order
	Until    time.Time // exclusive
	Limit    int
	Cursor   string // of the page before; empty for the first
	Order    Order  `json:",omitzero"`
	View     View   `json:",omitzero"`

	SubjectLike []string `json:",omitempty"` // has the SubjectToken of one of these
	SubjectEnds []string `json:",omitempty"` // its SubjectToken ends with one of these, which are IsLastDigits

	Left bool      `json:"-"`         // reads an emptied store too, without an error
	Part ListPart  `json:",omitzero"` // of the list, if another part continues it
	From *EndPlace `json:",omitzero"` // of PartEnded, in place of a cursor: entries after it; nil: all
}

// View is the part of a list that its caller may see. The zero value is everything.
type View struct {
	Tenant   string `json:",omitempty"` // only its deliveries
	Endpoint string `json:",omitempty"` // and only deliveries to it
}

// ListName returns a name for a list from a word and its filter, which includes the caller's
// view. A cursor is valid only for the list of its name, because it would skip entries of another
// one. The name omits the page and the times, because the next page may have others.
func ListName(word string, filter any) string {
	text, err := json.Marshal(filter)
	if err != nil {
		panic(err) // a filter has only texts, numbers and flags
	}
	return word + " " + string(text)
}

// Order is the order of a list of deliveries. The default lists ended deliveries first, newest
// first. Then come those in flight, the ready ones, and the waiting ones by their next attempt.
type Order string

// The orders of a list. Its since and until are of the same time as its order.
const (
	OrderAccepted Order = "accepted" // newest accepted first, in all states; the filter names an owner
	OrderEnded    Order = "ended"    // finished deliveries only, newest first
	OrderDue      Order = "due"      // deliveries that wait for their next attempt only, earliest first
)

// orders are those that a caller may ask for.
var orders = []Order{OrderAccepted, OrderEnded, OrderDue}

// waiting are the statuses of OrderDue.
var waiting = []Status{StatusScheduled, StatusRetrying}

// Arrange sets the default order of the filter, and the statuses that the order implies. It
// returns an error with the cure if the fields exclude each other.
func (f *Filter) Arrange() error {
	if len(f.Statuses) == 0 && len(f.Reasons) > 0 && !f.Failed {
		f.Statuses = []Status{StatusDead}
	}
	only := func(allowed []Status) bool {
		return !slices.ContainsFunc(f.Statuses, func(s Status) bool { return !slices.Contains(allowed, s) })
	}
	switch {
	case f.Order != "":
	case len(f.Statuses) > 0 && !f.Failed && only(EndStatuses()):
		f.Order = OrderEnded
	case f.OfSome():
		f.Order = OrderAccepted
	}
	switch f.Order {
	case OrderAccepted:
		if !f.OfSome() {
			return errors.New("goes with tenant, destination or subject: name one, or leave the order out")
		}
	case OrderEnded:
		if f.Failed || !only(EndStatuses()) {
			return errors.New("lists ended deliveries: leave failed out, and name no other status than delivered, dead and cancelled")
		}
		if len(f.Statuses) == 0 {
			f.Statuses = EndStatuses()
		}
	case OrderDue:
		if len(f.Reasons) > 0 || !only(waiting) {
			return errors.New("lists deliveries that wait: leave dead_reason out, and name no other status than scheduled and retrying")
		}
		if len(f.Statuses) == 0 {
			f.Statuses = waiting
		}
	}
	return nil
}

// OfSome reports whether the filter names an owner or a subject, so a query reads no other
// deliveries.
func (f *Filter) OfSome() bool { return f.OfOwner() || f.OfSubject() }

// OfSubject reports whether the filter names subjects.
func (f *Filter) OfSubject() bool {
	return len(f.Subjects)+len(f.SubjectLike)+len(f.SubjectEnds) > 0
}

// OfOwner reports whether the filter names tenants or destinations.
func (f *Filter) OfOwner() bool { return len(f.Tenants)+len(f.Lanes) > 0 }

// Matches reports whether a filter selects a delivery, whose time in the order of the list is
// at; zero: it has none.
func (f *Filter) Matches(d *Delivery, at time.Time) bool {
	any := func(n int, has bool) bool { return n == 0 || has }
	return any(len(f.Statuses), slices.Contains(f.Statuses, d.Status)) &&
		any(len(f.Topics), slices.ContainsFunc(f.Topics, func(pattern string) bool { return MatchTopic(pattern, d.Topic) })) &&
		any(len(f.Tenants), slices.Contains(f.Tenants, d.Tenant)) &&
		any(len(f.Subjects), slices.Contains(f.Subjects, d.Subject)) &&
		(len(f.SubjectLike) == 0 || SubjectLike(f.SubjectLike, d.Subject)) &&
		(len(f.SubjectEnds) == 0 || SubjectEnds(f.SubjectEnds, d.Subject)) &&
		(!f.Failed || d.Failed()) &&
		any(len(f.Lanes), slices.Contains(f.Lanes, d.ID.Lane)) &&
		any(len(f.Reasons), slices.Contains(f.Reasons, d.Reason)) &&
		(f.Since.IsZero() || !at.Before(f.Since)) &&
		(f.Until.IsZero() || !at.IsZero() && at.Before(f.Until)) // an entry without a time is in no span
}

// ListPart is a part of a list of deliveries.
type ListPart uint8

// The parts of a list, in its order.
const (
	PartAll        ListPart = iota
	PartUnfinished          // unfinished deliveries
	PartEnded               // finished deliveries, by completion time
)

// EndPlace is the place of a finished delivery in the order of ends: by time, and at one time by
// the name of the delivery. The part of a time below a ms only orders the ends of that ms.
type EndPlace struct {
	At time.Time
	ID string
}

// Compare orders places, the oldest first.
func (p EndPlace) Compare(q EndPlace) int {
	return cmp.Or(p.At.Compare(q.At), cmp.Compare(p.ID, q.ID))
}

// OfMessage reports whether the filter needs fields of the message, which the name, the end
// and the reason of a delivery don't have.
func (f *Filter) OfMessage() bool {
	return len(f.Topics)+len(f.Tenants) > 0 || f.OfSubject()
}

// Page is a part of a list, newest first.
type Page struct {
	Deliveries []Delivery // without history
	Next       string     // cursor of the next page; empty when this is the last
	LookedAt   int        // entries that were read for this page
	Reached    *EndPlace  // of PartEnded: the last entry that was read; nil: all were read

	// CompleteSince is set with an archive: the list has every end from then on. Zero: all ends.
	CompleteSince time.Time
}

// EndedFilter selects the finished deliveries of one lane.
type EndedFilter struct {
	Lane     Lane
	Statuses []Status  // empty: delivered, dead and cancelled
	Since    time.Time `json:"-"` // inclusive; of the end
	Until    time.Time `json:"-"` // exclusive
	Limit    int       `json:"-"`
	Cursor   string    `json:"-"` // Resume of a page before, with the same lane and statuses; empty for the first
	Left     bool      `json:"-"` // reads an emptied store too, without an error
	View     View
}

// EndedPage is a page of finished deliveries, oldest first.
type EndedPage struct {
	Deliveries    []Delivery // without history
	More          bool       // more deliveries have ended already: Resume continues with them
	Resume        string     // cursor for later ends: it skips no delivery
	LookedAt      int        // ends that were read for this page
	CompleteSince time.Time  // it is complete from then on; zero: nothing was ever forgotten
	Lane          Lane       // their lane
	Now           time.Time  // by the clock of the queue: all earlier ends were read, unless there is More
	From          EndPlace   // of the cursor; zero: there was none
	Place         EndPlace   // of Resume; zero: nothing has ended
}

// Forgotten is the newest end that a queue deleted, by status. Zero: it deleted none. It is exact
// to the ms.
type Forgotten struct {
	Finished time.Time // delivered or cancelled
	Dead     time.Time
}

// Since returns the time from which a queue has all ends of some statuses; zero: it has all of
// them. No statuses mean all.
func (f Forgotten) Since(statuses []Status) (since time.Time) {
	for _, st := range EndStatuses() {
		if len(statuses) > 0 && !slices.Contains(statuses, st) {
			continue
		}
		at := f.Finished
		if st == StatusDead {
			at = f.Dead
		}
		if !at.IsZero() && !at.Before(since) {
			since = at.Add(time.Millisecond)
		}
	}
	return since
}

// DeadFilter selects groups of dead deliveries. Empty fields match everything,
// several values of one field any of them.
type DeadFilter struct {
	Tenants []string
	Owned   []Lane `json:"-"` // the endpoints of Tenants, because the queue does not know their tenants; they may change between two pages
	Lanes   []Lane
	Reasons []DeadReason
	Limit   int    `json:"-"`
	Cursor  string `json:"-"` // of the page before; empty for the first
	View    View
}

// DeadGroup counts the dead deliveries of one destination and reason.
type DeadGroup struct {
	Lane        Lane
	URL, Tenant string // of a bare URL's lane: its origin, if known; else its endpoint's
	UID         string // of its endpoint
	Reason      DeadReason
	Count       int64

	Newest     time.Time // zero: its end is too old to be queried
	LastStatus int       // of that one's last attempt
	LastError  string
}

// DeadPage is a page of groups, the largest first.
type DeadPage struct {
	Groups []DeadGroup
	Next   string // cursor of the next page; empty when this is the last
}

// ErrCursor reports that this queue did not make a cursor.
var ErrCursor = errors.New("unknown cursor")

// Upcoming is the time of the next work.
type Upcoming struct {
	At    time.Time     // the earliest time of an attempt or an end; zero: nothing waits for a time
	Wait  time.Duration // until At, by the clock of that part of the queue; 0: the work is due now
	Paced time.Duration // until the rate of a lane allows its ready deliveries, if only that delays them; 0: no lane waits so
}

// Sooner returns the earlier of two times.
func (u Upcoming) Sooner(v Upcoming) Upcoming {
	if u.At.IsZero() || !v.At.IsZero() && (v.Wait < u.Wait || v.Wait == u.Wait && v.At.Before(u.At)) {
		u.At, u.Wait = v.At, v.Wait
	}
	if u.Paced == 0 || v.Paced > 0 && v.Paced < u.Paced {
		u.Paced = v.Paced
	}
	return u
}

// Tick is the result of a call that waits until nothing is due.
type Tick struct {
	Attempted int // attempts while it waited, for other callers as well, failed ones included
	Delivered int
	Dead      int
	Next      time.Time // when to tick again; zero: when there is something new
}

// Stats counts the whole queue. Counts include cancelled deliveries until their lane's turn
// comes.
type Stats struct {
	Counts       map[Status]int64
	Dead         map[DeadReason]int64
	EverDead     map[DeadReason]int64 // deliveries that ever died, including those retried or deleted later
	Cancelled    int64                // deliveries that were ever cancelled, likewise
	OldestDue    time.Time            // of all deliveries that may be attempted; zero: nothing is due
	BlockedSince time.Time            // since when a lane with waiting deliveries is paused, unverified, sealed or missing, or a delivery waits for a key; zero: none is and none does
	Blocked      map[LaneWhy]int64    // deliveries that are due but must wait, by reason
	LanesBy      map[EndpointState]int64
	Partial      bool // Dead, OldestDue, Blocked, LanesBy and Lanes cover only some of the lanes, because there are too many to read at once
	Now          time.Time
	Instances    int
	Retention    time.Duration // the time that finished deliveries are kept whole now, in the partition that keeps them shortest
	Lanes        []LaneState   // the 50 with the most waiting deliveries, paused ones first
	Store        StoreInfo
}

// Standing is the stored state of a message that was published again.
type Standing struct {
	Result     Result    // Duplicate; Conflict: another message has its id; 0: none
	CreatedAt  time.Time // of the first one
	Deliveries []Delivery
	Err        error // of a partition that did not report it
}
