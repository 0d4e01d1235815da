package dispatcher

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
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

// possible says why no answer can have a status asked for. A stored text is read
// all the same: it was taken before this was refused.
func (r *successRules) possible() error {
	const highest = 599 // of HTTP
	for i, span := range r.status {
		if span.high > highest && span.pattern != "*" {
			return fmt.Errorf("success: %w", FieldError{
				fmt.Sprintf("$.status[%d]", i), span.pattern + " never holds: no status is above 599; write 2xx, 200 or *",
			})
		}
	}
	return nil
}

// readMembers reads an object of known members. One that is null counts as left
// out. Errors name the member in the caller's words, not in those of Go.
func readMembers(text []byte, known map[string]*jsontext.Value) error {
	var all map[string]jsontext.Value
	if err := json.Unmarshal(text, &all); err != nil {
		var syntax *jsontext.SyntacticError
		if errors.As(err, &syntax) {
			return syntax
		}
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		to, ok := known[name]
		switch {
		case !ok:
			return FieldError{memberPath(name), "is unknown; known are " + strings.Join(slices.Sorted(maps.Keys(known)), ", ")}
		case all[name].Kind() != 'n':
			*to = all[name]
		}
	}
	return nil
}

// memberPath is the JSON path of a member of an object.
func memberPath(name string) string {
	if isWord(name) {
		return "$." + name
	}
	return "$[" + Clip(name) + "]"
}

// inside puts a step of a JSON path before what an error says of a part.
func inside(step string, err error) error {
	var part FieldError
	if errors.As(err, &part) {
		return FieldError{"$" + step + strings.TrimPrefix(part.Path, "$"), part.Detail}
	}
	return FieldError{"$" + step, err.Error()}
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
