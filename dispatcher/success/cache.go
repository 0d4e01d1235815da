package success

import (
	"fmt"
	"strings"
	"sync"
)

// Limits of the cache of parsed rules. A compiled pattern has some KiB, at most 60
// (measured), so all of them stay below 32 MiB.
const (
	mostTexts        = 512
	longestKeptBytes = 2 << 10 // longer than usual; a longer rule is not cached
)

// textCache caches parsed rules by their text, because most messages have the same rule.
// If it is full, it is emptied, and each rule is parsed once more.
type textCache struct {
	mu    sync.RWMutex // guards known
	known map[string]parsed
}

type parsed struct {
	parts *parts
	err   error
}

// cache is shared by the process, because its entries depend only on their text.
var cache textCache

// cachedParts parses a rule through the cache. It also caches errors, because a batch may
// have the same bad text a thousand times.
func cachedParts(text string) (*parts, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("success: longer than %d bytes", maxText)
	}
	if known, ok := cache.find(text); ok {
		return known.parts, known.err
	}
	p, err := parse(text)
	cache.keep(text, parsed{p, err})
	if err == nil {
		cache.keep(p.text, parsed{parts: p}) // the form in the store
	}
	return p, err
}

func (c *textCache) find(text string) (parsed, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	known, ok := c.known[text]
	return known, ok
}

func (c *textCache) keep(text string, known parsed) {
	if len(text) > longestKeptBytes {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil || len(c.known) >= mostTexts {
		c.known = make(map[string]parsed, mostTexts)
	}
	c.known[strings.Clone(text)] = known // a stored text shares the memory of its record
}
