package callers

import "sync"

// Places limits how many callers do something at once, in total and for each caller.
type Places struct {
	most int
	each map[Rank]int // the limit of one caller by rank; missing: most

	mu  sync.Mutex // guards the fields below
	n   int
	has map[Identity]int
}

// NewPlaces returns Places for most callers at once. each is the limit of one caller, by
// rank.
func NewPlaces(most int, each map[Rank]int) *Places {
	return &Places{most: most, each: each, has: map[Identity]int{}}
}

// Enter takes a place for a caller until leave is called. ok is false if there is none
// for it.
func (p *Places) Enter(who Identity) (leave func(), ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	limit, limited := p.each[who.Rank]
	if p.n >= p.most || limited && p.has[who] >= limit {
		return nil, false
	}
	p.n++
	p.has[who]++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.n--
		if p.has[who]--; p.has[who] == 0 {
			delete(p.has, who)
		}
	}, true
}
