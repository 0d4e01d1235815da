package conn

import (
	"context"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// How long a call waits before it repeats what Redis said it did not carry out. It
// waits for repeatAfter, and for up to half of it more so that instances spread.
// After MOVED it waits between movedLeast and movedMost, while the table of the
// slots is read again. (Measured on a slot that moves: 8 repeats of 100 ms, and
// 95 ms until the new table was there.)
const (
	repeatAfter = 100 * time.Millisecond
	movedLeast  = 20 * time.Millisecond
	movedMost   = 100 * time.Millisecond
)

// patience is how long a call repeats at most, since it holds up the other calls of
// its batch. A slot with ten thousand messages moves in a fraction of that. A
// partition that took longer is tried once a call until it answers again, so that
// it holds up others only once. Where each answer takes long, the time alone
// proves nothing: triesLeast are made whatever they take. In that time the table
// of the slots has been read again.
const (
	patience   = time.Second
	triesLeast = 5
)

// passing are the answers which say that nothing was carried out, for a reason that
// passes. A slot is being moved, its replica takes over, the node loads its data,
// is a replica by now, or is busy with another user's script. ASK is never followed:
// the node that it names does not have the keys that have not moved yet.
var passing = []string{"ASK ", "TRYAGAIN", "CLUSTERDOWN", "MOVED ", "LOADING", "READONLY", "MASTERDOWN", "BUSY "}

// mayRepeat tells whether a call has to be sent again, and after which time. It was
// sent so many times since it began.
func (c *Client) mayRepeat(e *Call, began time.Time, tries int) (after time.Duration, ok bool) {
	impatient := &c.impatient[e.Partition-Home]
	if e.Err == nil {
		if impatient.Load() { // asked first: all callers would write to the same cache line
			impatient.Store(false)
		}
		return 0, false
	}
	word := Word(e.Err)
	if strings.HasPrefix(word, "NOSCRIPT") && !e.loaded {
		// The node was restarted, or took over from another. Scripts are not replicated.
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

// ofWrongType are the calls that met a key of another type than ours, which a
// person wrote. Scripts read before they change anything, so nothing was changed.
func ofWrongType(b *Batch, todo []int) (wrong []int) {
	for _, i := range todo {
		if err := b.Calls[i].Err; err != nil && strings.Contains(err.Error(), "WRONGTYPE") {
			wrong = append(wrong, i)
		}
	}
	return wrong
}

// repair removes the keys of another type that calls met, and answers which calls
// have to be made again. Such a key holds nothing of ours, and it would stop its
// whole partition.
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

// Word is Redis' answer from the word on that tells what it means, or empty where
// Redis did not answer. Before version 7 an error in a script stands behind the
// error of the script: "ERR Error running script (…): … -OOM command …".
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

// Sleep waits for d or until ctx ends, and reports whether ctx goes on.
func Sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
