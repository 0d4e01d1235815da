package dispatcher

import (
	"fmt"
	"strings"
	"sync"
)

// readSuccess reads a text by way of the cache. A text that makes no sense is
// remembered too: a batch may hold it a thousand times.
func readSuccess(text string) (*successRules, error) {
	if len(text) > maxSuccessText {
		return nil, fmt.Errorf("success: longer than %d bytes", maxSuccessText)
	}
	if known, ok := successes.find(text); ok {
		return known.rules, known.err
	}
	r, err := parseSuccess(text)
	successes.keep(text, knownSuccess{r, err})
	if err == nil {
		successes.keep(r.text, knownSuccess{rules: r}) // the form in which the store has it
	}
	return r, err
}

func parseSuccess(text string) (r *successRules, err error) {
	text = strings.TrimSpace(text)
	if strings.HasPrefix(text, "{") {
		r, err = successFromJSON([]byte(text))
	} else {
		r, err = successFromList(strings.Split(text, ","))
	}
	if err != nil {
		return nil, fmt.Errorf("success: %w", err)
	}
	return r, nil
}

// The bounds of the cache of texts that were read. A compiled pattern has some
// KiB, the worst that is taken 60 (measured), so that all of them stay below 32 MiB.
const (
	mostSuccesses    = 512
	longestKeptBytes = 2 << 10 // more than a usual text has; a longer one is read each time
)

// successCache remembers what texts say: most messages want what others want.
// Beyond its bound everything is forgotten at once, which costs one more
// parsing for each.
type successCache struct {
	mu    sync.RWMutex // guards known
	known map[string]knownSuccess
}

type knownSuccess struct {
	rules *successRules
	err   error
}

// successes is one for the process: its entries depend on nothing but their text.
var successes successCache

func (c *successCache) find(text string) (knownSuccess, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	known, ok := c.known[text]
	return known, ok
}

func (c *successCache) keep(text string, known knownSuccess) {
	if len(text) > longestKeptBytes {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil || len(c.known) >= mostSuccesses {
		c.known = make(map[string]knownSuccess, mostSuccesses)
	}
	c.known[strings.Clone(text)] = known // a stored text shares the memory of its record
}
