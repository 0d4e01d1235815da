package conn

import (
	"context"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// How long a call waits before it repeats what Redis said it did not carry out:
// repeatAfter, up to half as much more so that instances spread, and after
// MOVED between movedLeast and movedMost, since the table of the slots is read
// again meanwhile. (Measured on a slot that moves: 8 repeats of 100 ms, and 95 ms
// until the new table was there.)
const (
	repeatAfter = 100 * time.Millisecond
	movedLeast  = 20 * time.Millisecond
	movedMost   = 100 * time.Millisecond
)

// patience is how long a call repeats at most: it holds up what goes with it to
// other partitions. A slot with ten thousand messages moves in a fraction of
// that. A partition that took longer is tried once a call until it answers
// again, so that it holds up others only once. Where each answer takes long the
// time alone proves nothing: triesLeast are made whatever they take, which
// outlast a table of slots that is read again.
const (
	patience   = time.Second
	triesLeast = 5
)

// passing are the answers that tell that nothing was carried out and that this
// passes: a slot is being moved, its replica takes over, the node loads its
// data, is a replica by now, or is busy with a script of somebody else. ASK is
// never followed: the node it names would see what has not moved as missing.
var passing = []string{"ASK ", "TRYAGAIN", "CLUSTERDOWN", "MOVED ", "LOADING", "READONLY", "MASTERDOWN", "BUSY "}

// mayRepeat tells whether, and after which time, a call has to be sent again
// that was sent so many times since then.
func (c *Client) mayRepeat(e *Call, began time.Time, tries int) (after time.Duration, ok bool) {
	impatient := &c.impatient[e.Partition-Home]
	if e.Err == nil {
		if impatient.Load() { // asked first: a store is written to by all that call
			impatient.Store(false)
		}
		return 0, false
	}
	word := Word(e.Err)
	if strings.HasPrefix(word, "NOSCRIPT") && !e.loaded {
		// The node was restarted, or took over from another, whose scripts it does not get.
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

// Word is what Redis answered, from the word on that tells what it means;
// empty where it did not answer. Before version 7 an error in a script is told
// behind the script's own: "ERR Error running script (…): … -OOM command …".
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

// Sleep waits, or until ctx ends, and reports whether it had not ended.
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
