package partitions

import (
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// Which partitions a call asks.

// claimLeast is how many permits there have to be for each partition that is
// asked in one claim. A call costs much the same for a few deliveries as for
// many, and deliveries leased together are mostly settled together. With 128 busy
// partitions, five deliveries a call took Redis twice as long as whole batches.
const claimLeast = 32

// Claimable is in how many partitions an instance with free permits may get
// something. waiting says that there is something, if not for so few permits.
func (s *Set) Claimable(free int) (partitions int, waiting bool) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := range s.list {
		p := &s.list[n]
		if p.weight < 0 || p.rests(now) > 0 {
			continue
		}
		waiting = true
		if s.lightEnough(p, free) {
			partitions++
		}
	}
	return partitions, waiting
}

// ToClaim are the partitions that a claim of so many deliveries asks.
func (s *Set) ToClaim(wanted, free int) (partitions []int) {
	now := time.Now()
	most := max(1, wanted/claimLeast)
	s.mu.Lock()
	defer s.mu.Unlock()
	first := s.claim
	for i := range s.list {
		n := (first + i) % len(s.list)
		if p := &s.list[n]; p.weight >= 0 && p.rests(now) == 0 && s.lightEnough(p, free) {
			partitions = append(partitions, n)
			if s.claim = n + 1; len(partitions) == most {
				break
			}
		}
	}
	return partitions
}

// lightEnough reports whether the lightest lane of a partition may be claimed
// from. An instance that holds nothing may always take it; but a permit comes
// back before its attempt is settled, so that here too a claim may get nothing,
// until that is news. mu is held.
func (s *Set) lightEnough(p *partition, free int) bool {
	return free > p.tried && (free >= s.permits || p.weight < share(free, s.permits))
}

// Stalled remembers that claims got nothing with free permits though there was
// something: only more of them, or news, can change that. What was heard since
// then stands, so hints are the claims' own.
func (s *Set) Stalled(free int, hints ...Hint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range hints {
		if p := &s.list[h.Partition]; !p.asOf.After(h.Now) {
			p.tried = free
		}
	}
}

// Ended notes that deliveries ended in a partition: it is trimmed next time.
func (s *Set) Ended(partition int) {
	s.mu.Lock()
	s.list[partition].ended = true
	s.mu.Unlock()
}

// ToTrim are the partitions to trim, but to make room.
func (s *Set) ToTrim(where dispatcher.TrimWhere) (partitions []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if where == dispatcher.TrimAged {
		s.list[s.trim%len(s.list)].ended = true
		s.trim++
	}
	for n := range s.list {
		p := &s.list[n]
		if p.more || p.ended && where != dispatcher.TrimMore {
			p.more, p.ended = false, p.ended && where == dispatcher.TrimMore
			partitions = append(partitions, n)
		}
	}
	return partitions
}

// TrimFrom has the trims by age begin at this partition. A process that makes only a few of
// them would else always trim the first.
func (s *Set) TrimFrom(partition int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trim = partition
}

// Trimmed notes in which partitions a trim found more than a batch, and by its
// error in which it has to be repeated.
func (s *Set) Trimmed(more []int, err error) {
	s.mu.Lock()
	for _, n := range more {
		s.list[n].more = true
	}
	for _, n := range In(err) {
		s.list[n].ended = true
	}
	s.mu.Unlock()
	s.Fail(err)
}

// Full notes whether a partition had memory for what was put there.
func (s *Set) Full(partition int, full bool) {
	if !full && !s.short.Load() {
		return // as nearly always
	}
	s.short.Store(true)
	s.mu.Lock()
	s.list[partition].full = full
	s.mu.Unlock()
}

// emptyFor is how long a partition is left out that had nothing to make room of.
const emptyFor = time.Second

// ToEmpty are the partitions where forgetting may make room, but those that had
// nothing to forget a moment ago. Where each may have a memory of its own, they
// are those that had none left.
func (s *Set) ToEmpty(own bool) (partitions []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	some := false
	for n := range s.list {
		some = some || own && s.list[n].full
	}
	for n := range s.list {
		p := &s.list[n]
		if (p.full || !some) && (p.empty.IsZero() || time.Since(p.empty) >= emptyFor) {
			partitions = append(partitions, n)
		}
	}
	return partitions
}

// Emptied notes that partitions had nothing to make room of.
func (s *Set) Emptied(partitions []int) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range partitions {
		s.list[n].empty = now
	}
}
