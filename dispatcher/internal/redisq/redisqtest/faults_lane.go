package redisqtest

import (
	"cmp"
	"maps"
	"slices"

	"github.com/hookladder/hookladder/dispatcher"
)

// checkOrder reports faults in the sets of ordering keys. Each set is in its order. Its
// first delivery is in one other place, and the others are in no other place.
func (s State) checkOrder(f *Faults) {
	keys := map[dispatcher.Lane]int{}
	in := map[dispatcher.DeliveryID]Set{}
	sets := slices.Collect(maps.Keys(s.Behind))
	slices.SortFunc(sets, func(a, b Set) int { return cmp.Or(cmp.Compare(a.Lane, b.Lane), cmp.Compare(a.Key, b.Key)) })
	for _, set := range sets {
		keys[set.Lane]++
		if len(s.Behind[set]) == 0 {
			f.Add("set %v is kept empty", set)
		}
		for i, q := range s.Behind[set] {
			if other, twice := in[q.ID]; twice {
				f.Add("%s is in the sets %v and %v", q.ID, other, set)
			}
			in[q.ID] = set
			place := s.At(q.ID).Place
			if first := i == 0; first == (place == PlaceBehind) || !place.Waits() {
				f.Add("%s is number %d of set %v, in place %q", q.ID, i, set, place)
			}
			if key := s.Messages[q.ID.Message].Key; set.Key != OneLine && set.Key != key {
				f.Add("%s of the key %q is in set %v", q.ID, key, set)
			}
			if i > 0 && q.At <= s.Behind[set][i-1].At {
				f.Add("%s does not come after the one before it in set %v: %d", q.ID, set, q.At)
			}
		}
	}
	for _, id := range s.Deliveries() {
		if _, stands := in[id]; !stands && s.At(id).Place.Waits() && s.Messages[id.Message].Key != "" {
			f.Add("%s is in %s and in no set, though its message has a key", id, s.At(id).Place)
		}
	}
	for _, name := range SortedKeys(s.Lanes) {
		if l := s.Lanes[name]; l.Keys != keys[name] {
			f.Add("lane %s says %d sets; there are %d", name, l.Keys, keys[name])
		}
	}
}

// checkLanes reports lanes whose numbers of deliveries in flight and waiting differ from
// the places. It also reports impossible values in a lane.
func (s State) checkLanes(f *Faults, setup Setup) {
	flying, waiting := map[dispatcher.Lane]int{}, map[dispatcher.Lane]int{}
	for id, found := range s.Found {
		for _, at := range found {
			switch at.Place {
			case PlaceLeased, PlaceTaken:
				flying[id.Lane]++
			case PlaceDue, PlaceReady, PlaceBehind:
				waiting[id.Lane]++
			}
		}
	}
	all := maps.Clone(s.Lanes)
	for id := range s.Found {
		all[id.Lane] = s.Lanes[id.Lane]
	}
	for _, name := range SortedKeys(all) {
		l := all[name]
		if l.InFlight != flying[name] || l.Waiting != waiting[name] {
			f.Add("lane %s says %d in flight and %d waiting; there are %d and %d",
				name, l.InFlight, l.Waiting, flying[name], waiting[name])
		}
		if busy := flying[name]+waiting[name] > 0; busy && !l.Known {
			f.Add("lane %s has work, but no state of its own", name)
		}
		if (l.Known || l.Limited || l.Leads != "") && l.Noted == 0 {
			f.Add("lane %s has a state or a name and is not noted for trimming", name)
		}
		if l.Known && (l.Window < 1 || l.Fails < 0 || l.Opened < 0 || l.Until < 0 || l.Tat < 0 || l.Slow < 0) {
			f.Add("lane %s has the state %+v", name, l)
		}
		if (l.Egress > 0) != (l.EgressWait > 0) {
			f.Add("lane %s waits for our own network since %d, for %d", name, l.Egress, l.EgressWait)
		}
		if l.Opened > 0 && l.Until == 0 {
			f.Add("lane %s is open without a time", name)
		}
		if l.Limited && l.Limits == (dispatcher.LaneLimits{}) && !name.IsEndpoint() {
			f.Add("lane %s keeps limits that say nothing", name)
		}
		s.checkPlacement(f, setup, name, l)
	}
}

// checkPlacement reports a lane with work that is neither listed with its weight nor
// parked until its time. It also reports a lane without work that is listed or parked.
func (s State) checkPlacement(f *Faults, setup Setup, name dispatcher.Lane, l LaneState) {
	// If the clock was set back, a lane keeps its place until a call changes it or the
	// clock reaches the old time.
	ready, now, latest := len(s.Ready[name]), s.Now/1000, max(s.Now, s.Latest)/1000
	if l.Limits.Pull = l.Limits.Pull || name.IsQueue(); l.Limits.Pull {
		if l.Listed {
			f.Add("lane %s is taken from, and listed for claims: %+v", name, l)
		}
		l.Listed, l.Weight = l.Takeable, setup.Weight(l.Slow, l.InFlight)
	} else if l.Takeable {
		f.Add("lane %s is listed for takers: %+v", name, l)
	}
	opensAt := l.opens() // another clock may have set it, and then it remains until a call changes the lane
	l = l.ByClock(s.Now)
	open := l.Limits.Mode == dispatcher.LaneNormal || l.Limits.Mode == dispatcher.LaneCut
	may := ready > 0 && l.InFlight < l.Slots(setup) && open && (l.Limited || !name.IsEndpoint())
	switch {
	case l.Listed && l.Parked != 0:
		f.Add("lane %s is listed and parked: %+v", name, l)
	case l.Ended() && ready > 0:
		if l.Listed || l.Parked == 0 || l.Parked > latest {
			f.Add("lane %s is to end %d ready ones, and no mover will come to it: %+v", name, ready, l)
		}
	case !may:
		if l.Listed || l.Parked != 0 {
			f.Add("lane %s is listed or parked: %d ready, window %d, %+v", name, ready, l.Slots(setup), l)
		}
	case !l.Listed && l.Parked == opensAt && opensAt > now:
	case l.opens() > now:
		if l.Listed && l.opens() > latest || !l.Listed && l.Parked != l.opens() {
			f.Add("lane %s should be parked until %d: %+v", name, l.opens(), l)
		}
	case !l.Listed && (l.Parked == 0 || l.Parked != l.opens()):
		f.Add("lane %s should be listed at %d: %d ready, window %d, %+v", name, now, ready, l.Slots(setup), l)
	}
	if l.Listed && l.Weight != setup.Weight(l.Slow, l.InFlight) {
		f.Add("lane %s is listed at weight %d; it has %d in flight and class %d", name, l.Weight, l.InFlight, l.Slow)
	}
}
