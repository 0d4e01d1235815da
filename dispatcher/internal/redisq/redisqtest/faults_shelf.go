package redisqtest

import (
	"maps"

	"github.com/hookladder/hookladder/dispatcher"
)

// checkShelves reports a delivery that is not in its lane's list at the time of its
// acceptance, and an entry without a delivery.
func (s State) checkShelves(f *Faults) {
	for _, id := range s.Deliveries() {
		if at, listed := s.Shelves[id]; !listed || at != s.Messages[id.Message].At {
			f.Add("%s is listed in its lane %v, at %d; it was accepted at %d", id, listed, at, s.Messages[id.Message].At)
		}
	}
	for _, id := range SortedIDs(s.Shelves) {
		if len(s.Found[id]) == 0 {
			f.Add("%s left its entry in its lane's list behind", id)
		}
	}
}

// checkTenants reports wrong lists and parts of lists of tenants. A tenant has exactly the
// ones with a delivery of its own. A lane without a delivery has no counts. A query by
// subject returns a message while its record is kept.
func (s State) checkTenants(f *Faults) {
	owned, owners, parts, used := map[string]bool{}, map[dispatcher.Lane]string{}, map[dispatcher.DeliveryID]string{}, map[dispatcher.Lane]bool{}
	for _, id := range s.Deliveries() {
		used[id.Lane] = true
		owner := s.Messages[id.Message].Owner
		switch {
		case owner == "":
		case id.Lane.IsQueue():
			parts[id] = owner
			owned[string(id.Lane)+"~"+owner+" "+owner] = true
		default:
			owners[id.Lane] = owner
			owned[string(id.Lane)+" "+owner] = true
		}
	}
	if !maps.Equal(s.Owned, owned) {
		f.Add("tenants are said to have the lists %v, and have %v", s.Owned, owned)
	}
	if !maps.Equal(s.Owners, owners) {
		f.Add("lanes are said to be of tenants %v, and are of %v", s.Owners, owners)
	}
	if !maps.Equal(s.Parts, parts) {
		f.Add("queues are said to have parts %v, and have %v", s.Parts, parts)
	}
	if !maps.Equal(s.Subjects, s.About) {
		f.Add("messages are found by the subjects %v, and have %v", s.Subjects, s.About)
	}
	if !maps.Equal(s.Digits, s.Ending) {
		f.Add("subjects are found by the last digits %v, and have %v", s.Digits, s.Ending)
	}
	for _, lane := range SortedKeys(s.Used) {
		if !used[lane] {
			f.Add("lane %s has counts without a delivery", lane)
		}
	}
}
