package success

import (
	"fmt"
	"strings"
	"sync"
)

// The bounds of the cache of texts that were read. A compiled pattern has some
// KiB, the worst that is taken 60 (measured), so that all of them stay below 32 MiB.
const (
	mostTexts        = 512
	longestKeptBytes = 2 << 10 // more than a usual text has; a longer one is read each time
)

// textCache remembers what texts say: most messages want what others want. Beyond its
// bound everything is forgotten at once, which costs one more parsing for each.
type textCache struct {
	mu    sync.RWMutex // guards known
	known map[string]parsed
}

type parsed struct {
	parts *parts
	err   error
}

// cache is one for the process: its entries depend on nothing but their text.
var cache textCache

// cachedParts parses a text by way of the cache. A text that makes no sense is
// remembered too: a batch may hold it a thousand times.
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
		cache.keep(p.text, parsed{parts: p}) // the form in which the store has it
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
