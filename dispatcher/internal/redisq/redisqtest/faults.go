package redisqtest

import (
	"fmt"
	"maps"

	"github.com/hookladder/hookladder/dispatcher"
)

// Faults collects the faults of a State.
type Faults []string

// Add adds one fault to the list.
func (f *Faults) Add(format string, args ...any) {
	*f = append(*f, fmt.Sprintf(format, args...))
}

// Faults returns every fault in the places, marks, records, lanes and counts of the
// state. A fault does not depend on earlier events.
func (s State) Faults(setup Setup) []string {
	var f Faults
	s.checkPlaces(&f)
	s.checkTaken(&f)
	s.checkExpiring(&f)
	for _, id := range SortedIDs(s.Unopened) {
		if !s.At(id).Place.Waits() {
			f.Add("%s is in %q, and waits for a key", id, s.At(id).Place)
		}
	}
	s.checkMarks(&f)
	s.checkMessages(&f)
	s.checkShelves(&f)
	s.checkTenants(&f)
	s.checkBodies(&f)
	s.checkLeftovers(&f)
	s.checkOrder(&f)
	s.checkLanes(&f, setup)
	s.checkCounts(&f)
	for _, name := range s.Unknown {
		f.Add("unexplained: %s", name)
	}
	return f
}

// checkPlaces reports a delivery that is not in exactly one place.
func (s State) checkPlaces(f *Faults) {
	for _, id := range s.Deliveries() {
		if found := s.Found[id]; len(found) != 1 {
			f.Add("%s is in %d places: %v", id, len(found), found)
		}
	}
}

// checkTaken reports a mover's timer that is later than the first lease that ends by
// itself. It also reports a last lease of a delivery that has ended.
func (s State) checkTaken(f *Faults) {
	first := int64(0)
	for _, id := range SortedIDs(s.Last) {
		if !s.At(id).Place.Waits() {
			f.Add("%s is %q, and its last lease is kept: %+v", id, s.At(id).Place, s.Last[id])
		}
	}
	for _, t := range s.Taken {
		if first == 0 || t.Until < first {
			first = t.Until
		}
	}
	if (s.Timer == 0) != (first == 0) || s.Timer > first {
		f.Add("the timer of the leases is %d; the first ends at %d", s.Timer, first)
	}
}

// checkExpiring reports an entry for an expiry that is missing or that no delivery needs.
// A delivery needs one if it has not ended and its message expires. checkExpiring also
// reports a mover's timer that is later than the first entry.
func (s State) checkExpiring(f *Faults) {
	first := int64(0)
	for _, id := range s.Deliveries() {
		at, known := s.Expiring[id]
		expires := s.Messages[id.Message].Expires
		if waits := s.At(id).Place.Waits(); known != (waits && expires > 0) {
			f.Add("%s is in %q, its message expires at %d, and it is known to expire: %v", id, s.At(id).Place, expires, known)
		}
		if known && at < expires && at > s.Now/1000 { // a mover corrects an entry that it checks too early
			f.Add("%s is checked at %d, before it expires at %d", id, at, expires)
		}
	}
	for _, id := range SortedIDs(s.Expiring) {
		if len(s.Found[id]) == 0 {
			f.Add("%s is nowhere, and known to expire", id)
		}
		first = earlier(first, s.Expiring[id])
	}
	latest := first
	if now := max(s.Now, s.Latest) / 1000; first <= now { // movers pause after a long search, and the clock may have stepped back after that
		latest = now + 1000
	}
	if first > 0 && (s.Expiry == 0 || s.Expiry > latest) {
		f.Add("the timer of the expiries is %d; the first is at %d", s.Expiry, first)
	}
}

// checkMarks reports a mark that is unknown, or on a delivery that is neither ready nor in
// flight.
func (s State) checkMarks(f *Faults) {
	for _, id := range SortedIDs(s.Marks) {
		if m := s.Marks[id]; m != MarkCancelled && m != MarkDelivered {
			f.Add("%s has an unknown mark %q", id, m)
		}
		if p := s.At(id).Place; p != PlaceReady && !p.Flies() {
			f.Add("%s is marked %q in place %q", id, s.Marks[id], p)
		}
	}
}

// checkMessages reports a record without its deliveries, and a delivery without its
// record.
func (s State) checkMessages(f *Faults) {
	for _, name := range SortedKeys(s.Messages) {
		m := s.Messages[name]
		_, seen := s.Seen[name]
		if m.Whole == seen {
			f.Add("message %s: whole %v, among the seen %v", name, m.Whole, seen)
		}
		left := 0
		for _, lane := range SortedKeys(m.Lanes) {
			id := dispatcher.DeliveryID{Lane: lane, Message: name}
			exists := len(s.Found[id]) > 0
			if exists {
				left++
			}
			if m.Lanes[lane] != exists {
				f.Add("message %s: lane %s named as there %v, in a place %v", name, lane, m.Lanes[lane], exists)
			}
		}
		if m.Whole && left == 0 {
			f.Add("message %s is kept whole without a delivery", name)
		}
	}
	for _, id := range s.Deliveries() {
		if m, ok := s.Messages[id.Message]; !ok || !m.Whole {
			f.Add("%s lies in %s without a record", id, s.At(id).Place)
		} else if _, named := m.Lanes[id.Lane]; !named {
			f.Add("%s lies in %s, but its message does not name the lane", id, s.At(id).Place)
		}
	}
	for _, name := range SortedKeys(s.Seen) {
		if _, ok := s.Messages[name]; !ok {
			f.Add("message %s is among the seen without a digest", name)
		}
	}
	for _, name := range s.Fanned {
		if m, ok := s.Messages[name]; !ok || !m.Whole || len(m.Lanes) < 2 {
			f.Add("message %s has a list of lanes, which only one of several lanes needs", name)
		}
	}
}

// checkBodies reports a body that is stored apart, but belongs to no message and is not
// staged for one.
func (s State) checkBodies(f *Faults) {
	owned := map[string]bool{}
	for _, name := range SortedKeys(s.Messages) {
		if m := s.Messages[name]; m.Apart != "" {
			owned[m.Apart] = true
			if staged, there := s.Bodies[m.Apart]; !there || staged {
				f.Add("message %s: its body is there %v, staged %v", name, there, staged)
			}
		}
	}
	for _, name := range SortedKeys(s.Bodies) {
		if !owned[name] && !s.Bodies[name] {
			f.Add("body %s has no message", name)
		}
	}
}

// checkLeftovers reports progress and history without their delivery, and impossible
// values in them.
func (s State) checkLeftovers(f *Faults) {
	for _, id := range SortedIDs(s.Progress) {
		p := s.Progress[id]
		if len(s.Found[id]) == 0 {
			f.Add("%s left its progress behind", id)
		}
		if p.Climbed() < 0 || p.Deaths < 0 || p.Deaths > 6 {
			f.Add("%s has the progress %+v", id, p)
		}
		if p.Asked != 0 && p.Deaths < 2 && s.Unopened[id] == 0 && s.At(id).Place == PlaceDue { // a suspect may wait for its turn, and another for a key
			f.Add("%s waits for its time, and is asked for still", id)
		}
		if dead := s.At(id).Place == PlaceDead; dead != (p.Reason != "") {
			f.Add("%s in %s has the dead reason %q", id, s.At(id).Place, p.Reason)
		}
	}
	for _, id := range SortedIDs(s.History) {
		if len(s.Found[id]) == 0 {
			f.Add("%s left its history behind", id)
		}
		if n := s.History[id]; n < 1 || n > 32 {
			f.Add("%s has %d attempts in its history", id, n)
		}
	}
	for _, id := range s.Deliveries() {
		if _, ok := s.Progress[id]; !ok && s.At(id).Place == PlaceDead {
			f.Add("%s is dead without a reason", id)
		}
	}
}

// checkCounts reports counters that differ from a recount, and counters at 0.
func (s State) checkCounts(f *Faults) {
	counts := map[dispatcher.Status]int64{}
	buried := map[dispatcher.Lane]map[dispatcher.DeadReason]int64{}
	for id, found := range s.Found {
		for _, at := range found {
			counts[s.placeStatus(id, at.Place)]++
			if at.Place != PlaceDead {
				continue
			}
			if buried[id.Lane] == nil {
				buried[id.Lane] = map[dispatcher.DeadReason]int64{}
			}
			buried[id.Lane][s.Progress[id].Reason]++
		}
	}
	if !maps.Equal(counts, s.Counts) {
		f.Add("counts are %v; a recount gives %v", s.Counts, counts)
	}
	if !maps.EqualFunc(buried, s.Buried, maps.Equal) {
		f.Add("buried are %v; a recount gives %v", s.Buried, buried)
	}
}
