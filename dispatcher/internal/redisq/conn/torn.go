package conn

import (
	"maps"
	"slices"
	"strings"
	"sync"
)

// tornWord begins the reply of a script in a partition in which an error ended a script in its
// middle.
const tornWord = "TORN"

// torn has the partitions whose scripts reply so, until they are mended.
type torn struct {
	mu   sync.Mutex
	set  map[int]bool
	wake chan struct{} // capacity 1
}

// Torn returns the partitions that this instance knows to be torn, in order.
func (c *Client) Torn() []int {
	c.torn.mu.Lock()
	defer c.torn.mu.Unlock()
	return slices.Sorted(maps.Keys(c.torn.set))
}

// TornSignal receives after a partition was found torn.
func (c *Client) TornSignal() <-chan struct{} { return c.torn.wake }

// Mended notes that a partition is not torn any more.
func (c *Client) Mended(partition int) {
	c.torn.mu.Lock()
	defer c.torn.mu.Unlock()
	delete(c.torn.set, partition)
}

// noteTorn notes the partition of a call that failed because it is torn.
func (c *Client) noteTorn(e *Call) {
	if !strings.HasPrefix(Word(e.Err), tornWord) {
		return
	}
	c.torn.mu.Lock()
	c.torn.set[e.Partition] = true
	c.torn.mu.Unlock()
	select {
	case c.torn.wake <- struct{}{}:
	default:
	}
}
