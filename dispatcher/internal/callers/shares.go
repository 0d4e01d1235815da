package callers

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"sync"
)

// ErrCrowdedOut is the cause of the context of a call that lost its place to another
// caller.
var ErrCrowdedOut = errors.New("another caller needed the place")

var errTaken = errors.New("all places are taken")

// Of each caller up to callerWaits calls may wait for a turn, and of all callers together up to
// listsWait.
const (
	callerWaits = 16
	listsWait   = 256
)

// Shares gives a number of places to the calls of callers. If there are too few, the caller with
// the most loses one to a caller with fewer, so that it leaves some to the others.
type Shares struct {
	most  int          // places
	each  map[Rank]int // most places of one caller, by its rank; missing: all
	crowd crowd
	full  error // returned to a call that gets no place

	mu      sync.Mutex // guards the fields below
	taken   int
	waiting int
	callers map[Identity]*sharer
	round   []*sharer // those that wait, the next one first
}

// crowd says what becomes of a call that finds no free place.
type crowd uint8

const (
	refuses crowd = iota // it is refused
	waits                // it waits for its turn
	evicts               // it gets the oldest place of the caller with the most
)

// sharer is one caller with places, or with calls that wait for one.
type sharer struct {
	who   Identity
	has   []*place // oldest first
	waits []*place // calls that wait, oldest first
}

// place is the place of one call, or the one that it waits for.
type place struct {
	come chan struct{}           // closed when its turn has come, or is refused; nil: it does not wait
	err  error                   // why it is refused; nil: it has come
	lose context.CancelCauseFunc // ends the call; nil: it keeps its place
}

// NewTurns returns Shares whose calls wait for their turn, round robin by caller. All links of a
// tenant together have one turn at a time. Enter returns full if too many wait.
func NewTurns(most int, full error) *Shares {
	return newShares(most, waits, map[Rank]int{Linked: 1}, full)
}

// NewPlaces returns Shares that refuse a call with full if there is no free place for its caller.
// each is the limit of one caller, by rank.
func NewPlaces(most int, each map[Rank]int, full error) *Shares {
	return newShares(most, refuses, each, full)
}

// NewWaiting returns Shares for calls that last, because each occupies a connection. If all places
// are taken, the caller with the most loses its oldest: the context of that call ends. Enter
// returns an error if the new caller would have no fewer places than that one.
func NewWaiting(most int) *Shares {
	return newShares(max(most, 1), evicts, nil, errTaken)
}

func newShares(most int, crowd crowd, each map[Rank]int, full error) *Shares {
	return &Shares{most: most, each: each, crowd: crowd, full: full, callers: map[Identity]*sharer{}}
}

// Enter takes a place for the context's caller until leave is called, or returns an error. It may
// wait for one until ctx ends. The context that it returns ends with ErrCrowdedOut as its cause
// when the call loses its place.
func (s *Shares) Enter(ctx context.Context) (held context.Context, leave func(), err error) {
	p, held := &place{}, ctx
	if s.crowd == evicts {
		held, p.lose = context.WithCancelCause(ctx)
	}
	c, err := s.enter(Of(ctx), p)
	leave = func() { s.leave(c, p) }
	if err == nil && p.come != nil {
		select {
		case <-p.come:
			err = p.err
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if err != nil {
		leave() // its turn may have come since ctx ended
		return ctx, nil, err
	}
	return held, leave, nil
}

// enter gives a place at once, or one among those that wait.
func (s *Shares) enter(who Identity, p *place) (*sharer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.callers[who]
	if c == nil {
		c = &sharer{who: who}
		s.callers[who] = c
	}
	switch {
	case s.crowd == waits:
		if len(c.waits) >= callerWaits || s.waiting >= listsWait && !s.refuse(c) {
			return c, s.full
		}
		if len(c.waits) == 0 {
			s.round = append(s.round, c)
		}
		p.come = make(chan struct{})
		c.waits = append(c.waits, p)
		s.waiting++
		s.next()
	case s.free(c) || s.crowd == evicts && s.evict(c):
		s.take(c, p)
	default:
		return c, s.full
	}
	return c, nil
}

// free reports whether there is a place for a caller.
func (s *Shares) free(c *sharer) bool {
	limit, limited := s.each[c.who.Rank]
	return s.taken < s.most && (!limited || len(c.has) < limit)
}

func (s *Shares) take(c *sharer, p *place) {
	s.taken++
	c.has = append(c.has, p)
}

// next gives free places to waiting callers, one to each in the round.
func (s *Shares) next() {
	for i := 0; i < len(s.round) && s.taken < s.most; {
		c := s.round[i]
		if !s.free(c) { // it has its share
			i++
			continue
		}
		p := c.waits[0]
		s.remove(c, p)
		if len(c.waits) > 0 { // to the end of the round
			s.round = append(slices.Delete(s.round, i, i+1), c)
		}
		s.take(c, p)
		close(p.come)
	}
}

// refuse refuses the newest waiting call of the caller with the most, if c has fewer.
func (s *Shares) refuse(c *sharer) bool {
	most := greediest(c, slices.Values(s.round), func(c *sharer) int { return len(c.waits) })
	if most == nil {
		return false
	}
	p := most.waits[len(most.waits)-1]
	p.err = s.full
	close(p.come)
	s.remove(most, p)
	return true
}

// evict takes the oldest place of the caller with the most, if c has fewer.
func (s *Shares) evict(c *sharer) bool {
	most := greediest(c, maps.Values(s.callers), func(c *sharer) int { return len(c.has) })
	if most == nil {
		return false
	}
	p := most.has[0]
	p.lose(ErrCrowdedOut)
	s.remove(most, p)
	return true
}

// greediest returns the caller with the most, or nil if c would then have no fewer.
func greediest(c *sharer, all iter.Seq[*sharer], count func(*sharer) int) *sharer {
	most := c
	for other := range all {
		if count(other) > count(most) {
			most = other
		}
	}
	if count(most) <= count(c)+1 {
		return nil
	}
	return most
}

// leave ends a call that has a place, waits for one, or lost it.
func (s *Shares) leave(c *sharer, p *place) {
	if p.lose != nil {
		p.lose(nil)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(c, p)
	if len(c.has) == 0 && len(c.waits) == 0 && s.callers[c.who] == c {
		delete(s.callers, c.who)
	}
	s.next()
}

// remove takes a place from its caller, or a call from those that wait. After the last one the
// caller leaves the round.
func (s *Shares) remove(c *sharer, p *place) {
	if i := slices.Index(c.has, p); i >= 0 {
		c.has = slices.Delete(c.has, i, i+1)
		s.taken--
	}
	if i := slices.Index(c.waits, p); i >= 0 {
		c.waits = slices.Delete(c.waits, i, i+1)
		s.waiting--
		if len(c.waits) == 0 {
			s.round = slices.DeleteFunc(s.round, func(one *sharer) bool { return one == c })
		}
	}
}

// CrowdedOut reports whether a call lost its place.
func CrowdedOut(ctx context.Context) bool { return context.Cause(ctx) == ErrCrowdedOut }
