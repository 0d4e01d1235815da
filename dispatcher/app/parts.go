package app

import (
	"slices"
	"sync"
)

// Parts has the names of the parts of a process that run, so that a stop that hangs can say
// for which part it waits. A nil Parts has none.
type Parts struct {
	mu    sync.Mutex // guards names
	names []string   // those that began first come first
}

// Running returns the names of the parts that have not ended.
func (p *Parts) Running() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.names)
}

// run runs a part.
func (p *Parts) run(name string, part func() error) error {
	if p == nil {
		return part()
	}
	p.mu.Lock()
	p.names = append(p.names, name)
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		at := slices.Index(p.names, name)
		p.names = slices.Delete(p.names, at, at+1)
	}()
	return part()
}
