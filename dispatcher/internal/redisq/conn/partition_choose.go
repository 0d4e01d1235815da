package conn

import (
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// This file chooses the partitions that a call asks.

// claimLeast is the minimum number of permits for each partition that one claim asks. A call costs
// about the same for a few deliveries as for many. Deliveries that are leased together are usually
// settled together. With 128 busy partitions, Redis took twice as long for calls of five deliveries
// as for calls of whole batches.
const claimLeast = 32

// Claimable returns the number of partitions from which an instance with free permits may claim
// deliveries. It reports in waiting whether any deliveries are ready, even if they need more
// permits.
func (s *PartitionSet) Claimable(free int) (partitions int, waiting bool) {
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

// ToClaim returns the partitions that a claim of wanted deliveries asks.
func (s *PartitionSet) ToClaim(wanted, free int) (partitions []int) {
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

// lightEnough reports whether the lightest lane of a partition may be claimed from. An instance
// without leases may always claim from it. A permit returns before its attempt is settled. So a
// claim may find no delivery until the attempt is settled and the store reports it. The caller must
// lock mu.
func (s *PartitionSet) lightEnough(p *partition, free int) bool {
	return free > p.tried && (free >= s.permits || p.weight < share(free, s.permits))
}

// Stalled records that claims found no delivery with this number of free permits, although a lane
// was ready. Only more permits or a newer hint can change that. The caller passes the hints of its
// own claims, so that newer hints stay valid.
func (s *PartitionSet) Stalled(free int, hints ...Hint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range hints {
		if p := &s.list[h.Partition]; !p.asOf.After(h.Now) {
			p.tried = free
		}
	}
}

// A trim costs a partition the same for one delivery as for many. So a partition is trimmed for
// trimCount deliveries that ended, or trimWait after the first of fewer.
const (
	trimCount = 64
	trimWait  = time.Second
)

// Ended records that n deliveries ended in a partition.
func (s *PartitionSet) Ended(partition, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &s.list[partition]
	if p.ended == 0 {
		p.since = time.Now()
	}
	p.ended += n
}

// ToTrim returns the partitions that a trim asks, and how many deliveries ended in partitions that it
// leaves for a later one. It is not for trims that make room.
func (s *PartitionSet) ToTrim(where dispatcher.TrimWhere) (partitions []int, left int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	turn := -1
	if where == dispatcher.TrimAged {
		turn = s.trim % len(s.list)
		s.trim++
	}
	for n := range s.list {
		p := &s.list[n]
		switch {
		case p.more || n == turn:
		case p.ended == 0 || where == dispatcher.TrimMore:
			continue
		case where == dispatcher.TrimEnded && p.ended < trimCount && time.Since(p.since) < trimWait:
			left += p.ended
			continue
		}
		if p.more = false; where != dispatcher.TrimMore {
			p.ended = 0
		}
		partitions = append(partitions, n)
	}
	return partitions, left
}

// TrimFrom sets the partition at which trims by age begin. Without it, a process that makes only a
// few of these trims would always trim the first partition.
func (s *PartitionSet) TrimFrom(partition int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trim = partition
}

// Trimmed records the partitions in which a trim found more than one batch. From the error of the
// trim, it records the partitions that must be retried.
func (s *PartitionSet) Trimmed(more []int, err error) {
	s.mu.Lock()
	for _, n := range more {
		s.list[n].more = true
	}
	for _, n := range FailedPartitions(err) {
		s.list[n].ended = trimCount
	}
	s.mu.Unlock()
	s.Fail(err)
}

// Full records whether a partition had memory for new messages.
func (s *PartitionSet) Full(partition int, full bool) {
	if !full && !s.short.Load() {
		return // the usual case
	}
	s.short.Store(true)
	s.mu.Lock()
	s.list[partition].full = full
	s.mu.Unlock()
}

// emptyFor is how long ToEmpty skips a partition that had nothing to remove.
const emptyFor = time.Second

// ToEmpty returns the partitions in which a trim may make room. It skips partitions that had
// nothing to remove a moment ago. If own is set, each partition may have its own memory, and
// ToEmpty returns only partitions with full memory.
func (s *PartitionSet) ToEmpty(own bool) (partitions []int) {
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

// Emptied records that partitions had nothing to remove to make room.
func (s *PartitionSet) Emptied(partitions []int) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range partitions {
		s.list[n].empty = now
	}
}
