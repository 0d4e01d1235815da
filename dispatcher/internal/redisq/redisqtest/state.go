package redisqtest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hookladder/hookladder/dispatcher"
)

// Place is the place of a delivery in a store.
type Place string

// The places. A delivery is in exactly one of them.
const (
	PlaceDue       Place = "due"
	PlaceReady     Place = "ready"
	PlaceLeased    Place = "leased"
	PlaceTaken     Place = "taken"  // by a lease that ends by itself
	PlaceBehind    Place = "behind" // not the first of its set, which is due, ready or leased
	PlaceDone      Place = "done"
	PlaceDead      Place = "dead"
	PlaceCancelled Place = "cancelled"
)

// Waits reports whether a delivery in that place has not ended.
func (p Place) Waits() bool {
	return p == PlaceDue || p == PlaceReady || p.Flies() || p == PlaceBehind
}

// Flies reports whether a delivery in that place is in flight.
func (p Place) Flies() bool { return p == PlaceLeased || p == PlaceTaken }

// Found is one place in which a delivery was found.
type Found struct {
	Place  Place
	At     int64  // ms: when it is due, was ready, was claimed or taken, or ended; behind: its score
	Holder string // the instance if it is leased; the owner if it is taken
}

// Taken is a lease that ends by itself.
type Taken struct {
	Since, Until int64 // ms
	Token, Owner string
	Attempt      int
}

// Mark is an end that a delivery gets later because it is ready or leased now.
type Mark string

// The marks.
const (
	MarkNone      Mark = ""
	MarkCancelled Mark = "c"
	MarkDelivered Mark = "d"
)

// Progress is a store's record of a delivery after its first attempt.
type Progress struct {
	Attempts int   // made and settled
	Base     int   // the number of attempts when its ladder of retries began
	Deaths   int   // deaths of its instances after the last settle
	Status   int   // HTTP status of the last attempt
	Asked    int64 // 0: the next attempt is no manual retry; 1: a manual retry starts a new ladder; else ms: the due time that a manual retry replaced
	Reason   dispatcher.DeadReason
	Beside   int // attempts of this ladder that do not count on it

	Snoozes int // how often a handler let it wait on this ladder

	Delivered int64 // ms: the time of the first success, before a resend; 0: there was none
}

// Climbed returns the number of attempts that count on its ladder of retries.
func (p Progress) Climbed() int { return p.Attempts - p.Base - p.Beside }

// WaitsOn returns the due time in ms that a manual retry replaced. It returns 0 if there
// is none.
func (p Progress) WaitsOn() int64 {
	if p.Asked > 1 {
		return p.Asked
	}
	return 0
}

// Stored is a store's record of a message.
type Stored struct {
	Whole   bool                     // false: only its digest is left
	Lanes   map[dispatcher.Lane]bool // the lanes that it names; true: its delivery there still exists
	At      int64                    // ms: the time of its acceptance, by its record
	Owner   string                   // hash of its tenant; empty: it has none
	Apart   string                   // the name in Bodies of a body that is stored apart; empty: it is in the record
	Key     string                   // hash of its ordering key as Set has it; empty: none
	Expires int64                    // ms: when it expires; 0: never
}

// Set is a line in one lane with the deliveries of an ordering key. An ordered lane has
// one line for all deliveries, under the key OneLine.
type Set struct {
	Lane dispatcher.Lane
	Key  string // 16 hex digits of the key's hash
}

// OneLine is the key of all messages to an ordered lane.
const OneLine = "*"

// Queued is a place in a Set.
type Queued struct {
	ID dispatcher.DeliveryID
	At int64 // the score
}

// State is everything that a partition keeps.
type State struct {
	Found     map[dispatcher.DeliveryID][]Found
	Ready     map[dispatcher.Lane][]dispatcher.DeliveryID // head first
	Leases    map[string][]dispatcher.DeliveryID          // earliest claim first
	Taken     map[dispatcher.DeliveryID]Taken
	Last      map[dispatcher.DeliveryID]Taken // deliveries that are not taken now: the last such lease, without its end
	Timer     int64                           // ms: when movers end the first of these leases; 0: no timer is set
	Expiring  map[dispatcher.DeliveryID]int64 // ms: when a mover checks it, because its message expires then or has expired
	Unopened  map[dispatcher.DeliveryID]int64 // ms: since when it waits for a key
	Expiry    int64                           // ms: when movers check the first of them; 0: no timer is set
	Behind    map[Set][]Queued                // the first to go first
	Marks     map[dispatcher.DeliveryID]Mark
	Progress  map[dispatcher.DeliveryID]Progress
	Plain     map[dispatcher.DeliveryID]int // delivered ones: the status if their end has one, because it was not 200
	History   map[dispatcher.DeliveryID]int // number of attempts in it
	Messages  map[string]Stored
	Shelves   map[dispatcher.DeliveryID]int64  // ms: when each was accepted, by its lane's list
	Owned     map[string]bool                  // "<shelf> <hash>" of each shelf that belongs to a tenant
	Owners    map[dispatcher.Lane]string       // the owner of each lane
	Parts     map[dispatcher.DeliveryID]string // the owner of each delivery of a queue, by the tenant's part of its list
	Used      map[dispatcher.Lane]bool         // lanes with counts of deliveries that are kept
	Subjects  map[string]bool                  // "<token> <id>" for the query of a message by its subject
	About     map[string]bool                  // the same by the messages' records
	Digits    map[string]int                   // "<last digits> <token>": how often the list of these digits has the token, of one with * once
	Ending    map[string]int                   // the same by the messages' records
	Bodies    map[string]bool                  // bodies that are stored apart; true: staged for a message that has not arrived yet
	Seen      map[string]int64                 // ms: the time when the message was cut to its digest
	Lanes     map[dispatcher.Lane]LaneState
	Counts    map[dispatcher.Status]int64
	Buried    map[dispatcher.Lane]map[dispatcher.DeadReason]int64
	Ends      map[string]int64                   // "dead <reason>" and "cancelled -": the number of all such ends
	Reported  map[dispatcher.DeliveryID][]string // ends without an attempt, as the stream reports them
	AllPaused bool                               // all lanes are paused
	Now       int64                              // µs: the store's clock
	Latest    int64                              // µs: the latest time that the clock ever reported; less than Now: it was never set back
	Fenced    []string
	Fanned    []string // messages with a list of lanes beside their record
	Unknown   []string // names of keys without a rule
}

// NewState returns an empty State.
func NewState() State {
	return State{
		Found:    map[dispatcher.DeliveryID][]Found{},
		Ready:    map[dispatcher.Lane][]dispatcher.DeliveryID{},
		Leases:   map[string][]dispatcher.DeliveryID{},
		Taken:    map[dispatcher.DeliveryID]Taken{},
		Last:     map[dispatcher.DeliveryID]Taken{},
		Expiring: map[dispatcher.DeliveryID]int64{},
		Unopened: map[dispatcher.DeliveryID]int64{},
		Behind:   map[Set][]Queued{},
		Reported: map[dispatcher.DeliveryID][]string{},
		Marks:    map[dispatcher.DeliveryID]Mark{},
		Progress: map[dispatcher.DeliveryID]Progress{},
		Plain:    map[dispatcher.DeliveryID]int{},
		History:  map[dispatcher.DeliveryID]int{},
		Messages: map[string]Stored{},
		Shelves:  map[dispatcher.DeliveryID]int64{},
		Owned:    map[string]bool{},
		Owners:   map[dispatcher.Lane]string{},
		Parts:    map[dispatcher.DeliveryID]string{},
		Used:     map[dispatcher.Lane]bool{},
		Subjects: map[string]bool{},
		About:    map[string]bool{},
		Digits:   map[string]int{},
		Ending:   map[string]int{},
		Bodies:   map[string]bool{},
		Seen:     map[string]int64{},
		Lanes:    map[dispatcher.Lane]LaneState{},
		Counts:   map[dispatcher.Status]int64{},
		Buried:   map[dispatcher.Lane]map[dispatcher.DeadReason]int64{},
		Ends:     map[string]int64{},
	}
}

// Merged returns the state of several partitions together. A message in several of them
// is whole if one of them has it whole.
func Merged(states []State) State {
	all := NewState()
	for _, s := range states {
		maps.Copy(all.Found, s.Found)
		maps.Copy(all.Ready, s.Ready)
		maps.Copy(all.Taken, s.Taken)
		maps.Copy(all.Last, s.Last)
		maps.Copy(all.Expiring, s.Expiring)
		maps.Copy(all.Unopened, s.Unopened)
		all.Timer, all.Expiry = earlier(all.Timer, s.Timer), earlier(all.Expiry, s.Expiry)
		maps.Copy(all.Behind, s.Behind)
		maps.Copy(all.Reported, s.Reported)
		maps.Copy(all.Marks, s.Marks)
		maps.Copy(all.Progress, s.Progress)
		maps.Copy(all.Plain, s.Plain)
		maps.Copy(all.History, s.History)
		maps.Copy(all.Seen, s.Seen)
		maps.Copy(all.Shelves, s.Shelves)
		maps.Copy(all.Owned, s.Owned)
		maps.Copy(all.Owners, s.Owners)
		maps.Copy(all.Parts, s.Parts)
		maps.Copy(all.Used, s.Used)
		maps.Copy(all.Subjects, s.Subjects)
		maps.Copy(all.About, s.About)
		maps.Copy(all.Bodies, s.Bodies)
		maps.Copy(all.Lanes, s.Lanes)
		maps.Copy(all.Buried, s.Buried)
		for end, n := range s.Ends {
			all.Ends[end] += n
		}
		for name, ids := range s.Leases {
			all.Leases[name] = append(all.Leases[name], ids...)
		}
		for id, m := range s.Messages {
			was := all.Messages[id]
			lanes := maps.Clone(m.Lanes)
			maps.Copy(lanes, was.Lanes)
			all.Messages[id] = Stored{Whole: m.Whole || was.Whole, Lanes: lanes, At: cmp.Or(m.At, was.At), Owner: cmp.Or(m.Owner, was.Owner), Apart: cmp.Or(m.Apart, was.Apart), Key: cmp.Or(m.Key, was.Key), Expires: max(m.Expires, was.Expires)}
		}
		for status, n := range s.Counts {
			all.Counts[status] += n
		}
		all.AllPaused, all.Now = all.AllPaused || s.AllPaused, max(all.Now, s.Now)
		all.Fenced = append(all.Fenced, s.Fenced...)
		all.Fanned = append(all.Fanned, s.Fanned...)
		all.Unknown = append(all.Unknown, s.Unknown...)
	}
	return all
}

// earlier returns the earlier of two times. A time of 0 is none.
func earlier(a, b int64) int64 {
	if a == 0 || b == 0 {
		return a + b
	}
	return min(a, b)
}

// At returns the one place of a delivery. It returns the zero Found if there is none.
func (s State) At(id dispatcher.DeliveryID) Found {
	if found := s.Found[id]; len(found) > 0 {
		return found[0]
	}
	return Found{}
}

// Status returns the status that queries report, by a delivery's place and mark. It
// returns an empty status if the delivery is in no place.
func (s State) Status(id dispatcher.DeliveryID) dispatcher.Status {
	switch s.Marks[id] {
	case MarkCancelled:
		return dispatcher.StatusCancelled
	case MarkDelivered:
		return dispatcher.StatusDelivered
	}
	place := s.At(id).Place
	if place.Waits() && !place.Flies() && s.Lanes[id.Lane].Limits.Mode == dispatcher.LaneDeleted {
		return dispatcher.StatusCancelled
	}
	return s.placeStatus(id, place)
}

// placeStatus returns the status under which a delivery is counted. A mark changes it
// only when the mark is carried out.
func (s State) placeStatus(id dispatcher.DeliveryID, place Place) dispatcher.Status {
	switch place {
	case PlaceDue:
		if s.Progress[id].Climbed() > 0 {
			return dispatcher.StatusRetrying
		}
		return dispatcher.StatusScheduled
	case PlaceBehind:
		return dispatcher.StatusScheduled
	case PlaceReady:
		return dispatcher.StatusReady
	case PlaceLeased, PlaceTaken:
		return dispatcher.StatusInFlight
	case PlaceDone:
		return dispatcher.StatusDelivered
	case PlaceDead:
		return dispatcher.StatusDead
	case PlaceCancelled:
		return dispatcher.StatusCancelled
	}
	return ""
}

// String returns the whole state in a fixed order, with one item a line. A reader can
// compare two states because the order is fixed.
func (s State) String() string {
	var b strings.Builder
	dump(&b, "found", s.Found)
	dump(&b, "ready", s.Ready)
	dump(&b, "leases", s.Leases)
	dump(&b, "taken", s.Taken)
	dump(&b, "last", s.Last)
	dump(&b, "expiring", s.Expiring)
	dump(&b, "unopened", s.Unopened)
	dump(&b, "behind", s.Behind)
	dump(&b, "mark", s.Marks)
	dump(&b, "progress", s.Progress)
	dump(&b, "history", s.History)
	dump(&b, "message", s.Messages)
	dump(&b, "shelf", s.Shelves)
	dump(&b, "owned", s.Owned)
	dump(&b, "owner", s.Owners)
	dump(&b, "part", s.Parts)
	dump(&b, "used", s.Used)
	dump(&b, "subject", s.Subjects)
	dump(&b, "body", s.Bodies)
	dump(&b, "seen", s.Seen)
	dump(&b, "lane", s.Lanes)
	dump(&b, "count", s.Counts)
	dump(&b, "buried", s.Buried)
	dump(&b, "ends", s.Ends)
	dump(&b, "told", s.Reported)
	fmt.Fprintf(&b, "timer %d\nexpiry %d\nall paused %v\nfenced %v\nfanned %v\nunknown %v\n", s.Timer, s.Expiry, s.AllPaused, s.Fenced, s.Fanned, s.Unknown)
	return b.String()
}

func dump[K comparable, V any](b *strings.Builder, what string, m map[K]V) {
	lines := make([]string, 0, len(m))
	for k, v := range m {
		lines = append(lines, fmt.Sprintf("%s %v %+v\n", what, k, v))
	}
	slices.Sort(lines)
	b.WriteString(strings.Join(lines, ""))
}

// Deliveries returns the deliveries of all places in a fixed order.
func (s State) Deliveries() []dispatcher.DeliveryID { return SortedIDs(s.Found) }

// SortedIDs returns the keys of a map in a fixed order, so that failures repeat.
func SortedIDs[V any](m map[dispatcher.DeliveryID]V) []dispatcher.DeliveryID {
	ids := make([]dispatcher.DeliveryID, 0, len(m))
	for id := range m {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b dispatcher.DeliveryID) int { return cmp.Compare(a.String(), b.String()) })
	return ids
}

// SortedKeys returns the keys of a map in their order.
func SortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
