package callers

import "sync"

// Places bounds how many do something at once, in all and by caller.
type Places struct {
	most int
	each map[Rank]int // of one caller; a rank that is not there: most

	mu  sync.Mutex // guards what follows
	n   int
	has map[Identity]int
}

// NewPlaces makes room for so many, of which a caller of a rank takes at most each.
func NewPlaces(most int, each map[Rank]int) *Places {
	return &Places{most: most, each: each, has: map[Identity]int{}}
}

// Enter takes a place for a caller until leave is called; ok is false where there is none
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
