package stored

import (
	"fmt"
	"maps"

	"github.com/hookladder/hookladder/dispatcher"
)

// Faults collects what is wrong with a State.
type Faults []string

// Add notes one fault.
func (f *Faults) Add(format string, args ...any) {
	*f = append(*f, fmt.Sprintf(format, args...))
}

// Faults names every rule that the state itself breaks, whatever happened
// before: places, marks, records, lanes, counts.
func (s State) Faults(setup Setup) []string {
	var f Faults
	s.checkPlaces(&f)
	s.checkTaken(&f)
	s.checkExpiring(&f)
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

// checkPlaces checks that each delivery is in one place, once.
func (s State) checkPlaces(f *Faults) {
	for _, id := range s.Deliveries() {
		if found := s.Found[id]; len(found) != 1 {
			f.Add("%s is in %d places: %v", id, len(found), found)
		}
	}
}

// checkTaken checks that movers are told of the first lease that ends by itself, and
// no later. The last lease is known only of what has not ended.
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
		f.Add("movers are told to end a lease at %d; the first ends at %d", s.Timer, first)
	}
}

// checkExpiring checks that each delivery that has not ended is known to expire, if its message
// does, and no other one. Movers are told of the first of them, and no later.
func (s State) checkExpiring(f *Faults) {
	first := int64(0)
	for _, id := range s.Deliveries() {
		at, known := s.Expiring[id]
		expires := s.Messages[id.Message].Expires
		if waits := s.At(id).Place.Waits(); known != (waits && expires > 0) {
			f.Add("%s is in %q, its message expires at %d, and it is known to expire: %v", id, s.At(id).Place, expires, known)
		}
		if known && at < expires && at > s.Now/1000 { // a mover corrects what it looks at too early
			f.Add("%s is looked at by %d, before it expires at %d", id, at, expires)
		}
	}
	for _, id := range SortedIDs(s.Expiring) {
		if len(s.Found[id]) == 0 {
			f.Add("%s is nowhere, and known to expire", id)
		}
		first = earlier(first, s.Expiring[id])
	}
	latest := first
	if now := max(s.Now, s.Latest) / 1000; first <= now { // after a long search movers make a pause; the clock may have stepped back since
		latest = now + 1000
	}
	if first > 0 && (s.Expiry == 0 || s.Expiry > latest) {
		f.Add("movers are told to look at %d at what expires; the first does at %d", s.Expiry, first)
	}
}

// checkMarks checks that only ready and leased deliveries have a mark.
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

// checkMessages checks that each record has its deliveries, and each delivery
// its record.
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

// checkBodies checks that each body that lies apart belongs to a message, or is
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

// checkLeftovers checks that no progress and no history is left without its
// delivery.
func (s State) checkLeftovers(f *Faults) {
	for _, id := range SortedIDs(s.Progress) {
		p := s.Progress[id]
		if len(s.Found[id]) == 0 {
			f.Add("%s left its progress behind", id)
		}
		if p.Climbed() < 0 || p.Deaths < 0 || p.Deaths > 6 {
			f.Add("%s has the progress %+v", id, p)
		}
		if p.Asked != 0 && p.Deaths < 2 && s.At(id).Place == PlaceDue { // a suspect may have to wait for its turn
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

// checkCounts checks that the counters equal a recount, and that none is kept
// at 0.
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
