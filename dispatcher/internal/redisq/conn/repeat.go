package conn

import (
	"context"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// The wait before a retry of a call that Redis did not run. It is repeatAfter with up to
// half of it added, so that instances spread. After MOVED it is between movedLeast and
// movedMost, while the table of the slots is read again. (Measured on a moving slot: 8
// retries of 100 ms, and 95 ms until the new table was read.)
const (
	repeatAfter = 100 * time.Millisecond
	movedLeast  = 20 * time.Millisecond
	movedMost   = 100 * time.Millisecond
)

// patience is how long a call may retry, because it delays the other calls of its batch.
// A slot with ten thousand messages moves in a fraction of that. After a partition took
// longer, each call tries it only once until it responds again. If each response takes
// long, the time alone says nothing, so triesLeast tries are always made. By then the
// table of the slots has been read again.
const (
	patience   = time.Second
	triesLeast = 5
)

// loadsMost is how often the script of one call is loaded. A server that forgets it at once is no store.
const loadsMost = 3

// passing are the responses for a temporary reason, which say that nothing was done. A
// slot is being moved, its replica takes over, or the node loads its data, is a replica
// by now, or is busy with another script. ASK is never followed, because that node does
// not have the keys that have not moved yet.
var passing = []string{"ASK ", "TRYAGAIN", "CLUSTERDOWN", "MOVED ", "LOADING", "READONLY", "MASTERDOWN", "BUSY "}

// mayRepeat reports whether a call must be sent again, and after which wait. It has been
// sent tries times.
func (c *Client) mayRepeat(e *Call, began time.Time, tries int) (after time.Duration, ok bool) {
	impatient := &c.impatient[e.Partition-Home]
	if e.Err == nil {
		if impatient.Load() { // checked first, because all callers would write to the same cache line
			impatient.Store(false)
		}
		return 0, false
	}
	word := Word(e.Err)
	if strings.HasPrefix(word, "NOSCRIPT") && e.loads < loadsMost {
		// The node was restarted, or took over from another. Scripts are not replicated. Somebody may flush
		// the scripts between the load and the call.
		e.load = true
		return 0, true
	}
	for _, prefix := range passing {
		if !strings.HasPrefix(word, prefix) {
			continue
		}
		c.reload(context.Background())
		if prefix == "MOVED " || prefix == "READONLY" {
			c.NoteTakeover()
		}
		switch {
		case impatient.Load():
			return 0, false
		case tries >= triesLeast && time.Since(began) > patience:
			impatient.Store(true)
			return 0, false
		case prefix == "MOVED ":
			return movedLeast + rand.N(movedMost-movedLeast), true
		}
		return repeatAfter + rand.N(repeatAfter/2), true
	}
	return 0, false
}

// ofWrongType returns the calls that failed because of a key with a wrong type, which a
// person wrote. Scripts read before they write, so nothing was changed.
func ofWrongType(b *Batch, todo []int) (wrong []int) {
	for _, i := range todo {
		if err := b.Calls[i].Err; err != nil && strings.Contains(err.Error(), "WRONGTYPE") {
			wrong = append(wrong, i)
		}
	}
	return wrong
}

// repair removes the keys of wrong types, and returns the calls to retry. Such a key has
// no data of ours, and it would stop its whole partition.
func (c *Client) repair(ctx context.Context, b *Batch, wrong []int) (again []int) {
	if c.options.Repair == nil {
		return nil
	}
	removed := map[int]bool{}
	for _, i := range wrong {
		n := b.Calls[i].Partition
		if _, done := removed[n]; !done {
			removed[n] = c.options.Repair(ctx, n)
		}
		if removed[n] {
			again = append(again, i)
		}
	}
	return again
}

// Word returns the error response of Redis from its first significant word, or "" without
// a response. Before version 7 an error in a script comes after the error of the script:
// "ERR Error running script (…): … -OOM command …".
func Word(err error) string {
	var answer redis.Error
	if !asAnswer(err, &answer) {
		return ""
	}
	text := answer.Error()
	if strings.HasPrefix(text, "ERR Error running script") {
		if at := strings.LastIndex(text, ": -"); at >= 0 {
			return text[at+len(": -"):]
		}
	}
	return text
}
