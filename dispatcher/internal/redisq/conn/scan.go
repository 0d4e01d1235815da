package conn

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
)

// Each Redis process hashes with its own seed. After a restart, or on a replica that took
// over, the same hash has another order, so a cursor of SCAN would skip a part of it. A
// scan with several calls reads the id of the process with each page, in the same round
// trip. If the process has changed, the scan starts again.

var serverScript = NewScript("which_server", PartServer, part("which_server"))

// betweenServer separates the place and the process in a cursor.
const betweenServer = "@"

// Scan reads a page of a hash or of a sorted set. cursor is next of the page before;
// empty: start. An entry may be in several pages. next is empty at the end.
func (c *Client) Scan(ctx context.Context, doing string, partition int, cursor string, scan func(p redis.Pipeliner, at uint64) *redis.ScanCmd) (found []string, next string, err error) {
	w := c.Walk(doing, []int{partition})
	for w.Cursors[partition] = cursor; found == nil && err == nil; {
		w.round(ctx, func(p redis.Pipeliner, _ int, at uint64) *redis.ScanCmd { return scan(p, at) }, func(_ int, page []string, failed error) {
			found, err = append([]string{}, page...), failed
		})
	}
	if err != nil {
		return nil, "", err
	}
	return found, w.Cursors[partition], nil
}

// Walk reads a hash or a sorted set of each of several partitions to its end. An entry
// may be in several pages.
type Walk struct {
	Left    []int          // partitions with more to read
	Cursors map[int]string // the next cursor of each; empty: start
	Again   bool           // a scan started again

	conn  *Client
	doing string
}

// Walk returns a walk through some partitions.
func (c *Client) Walk(doing string, in []int) *Walk {
	return &Walk{Left: in, Cursors: map[int]string{}, conn: c, doing: doing}
}

// Pages reads the next page of each partition that has more, in one round trip. It skips
// a partition after an error, and returns the error.
func (w *Walk) Pages(ctx context.Context, scan func(p redis.Pipeliner, partition int, at uint64) *redis.ScanCmd, take func(partition int, page []string)) error {
	var errs []error
	w.round(ctx, scan, func(n int, page []string, err error) {
		if err != nil {
			errs = append(errs, w.conn.InPartition(n, err))
			return
		}
		take(n, page)
	})
	return JoinErrors(errs...)
}

// round reads a page of each partition. It takes no page of a partition whose scan starts
// again.
func (w *Walk) round(ctx context.Context, scan func(p redis.Pipeliner, partition int, at uint64) *redis.ScanCmd, take func(n int, page []string, err error)) {
	type place struct {
		at     uint64
		server string
		page   *redis.ScanCmd
	}
	var places []*place
	var calls []Call
	for _, n := range w.Left {
		at, server, err := ParseCursor(w.Cursors[n])
		if err != nil {
			take(n, nil, err)
			continue
		}
		of := &place{at: at, server: server}
		places = append(places, of)
		calls = append(calls, Call{Partition: n, Fill: func(p redis.Pipeliner) { of.page = scan(p, n, at) }})
	}
	var left []int
	for i, r := range w.conn.Send(ctx, Batch{Script: serverScript, Doing: w.doing, Calls: calls}) {
		n, of := r.Partition, places[i]
		if r.Err != nil {
			take(n, nil, r.Err)
			continue
		}
		now := w.conn.ServerName(r.Text())
		if of.at != 0 && of.server != "" && now != of.server { // empty: the cursor came from a caller
			w.Cursors[n], w.Again = "", true
			left = append(left, n)
			continue
		}
		page, next := of.page.Val()
		w.Cursors[n] = CursorText(next, now)
		if take(n, page, nil); next != 0 {
			left = append(left, n)
		}
	}
	w.Left = left
}

// KeyNames yields the names of the keys that match, on all masters, in pages of about
// count. It ends with the first error. A name may come twice.
func (c *Client) KeyNames(ctx context.Context, pattern string, count int64) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		masters, err := c.Masters(ctx)
		if err != nil {
			yield("", err)
			return
		}
		for _, master := range masters {
			for cursor, more := "", true; more; more = cursor != "" {
				var names []string
				if names, cursor, err = c.ScanKeys(ctx, master, cursor, pattern, count); err != nil {
					yield("", err)
					return
				}
				for _, name := range names {
					if !yield(name, nil) {
						return
					}
				}
			}
		}
	}
}

// ScanKeys is Scan for the names of a master's keys that match. It does not use a script
// for the process, because the master may have no key of the project.
func (c *Client) ScanKeys(ctx context.Context, master *redis.Client, cursor, pattern string, count int64) (names []string, next string, err error) {
	at, server, err := ParseCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	for {
		var page *redis.ScanCmd
		var info *redis.StringCmd
		_, _ = master.Pipelined(ctx, func(p redis.Pipeliner) error {
			page, info = p.Scan(ctx, at, pattern, count), p.Info(ctx, "server")
			return nil
		})
		if err := page.Err(); err != nil {
			return nil, "", Failed("read keys", err)
		}
		_, id, _ := strings.Cut(info.Val(), "run_id:") // empty if a service hides it
		id, _, _ = strings.Cut(id, "\r")
		now := c.ServerName(id)
		if at != 0 && now != server {
			at = 0
			continue
		}
		names, at = page.Val()
		return names, CursorText(at, now), nil
	}
}

// ServerName returns the name of a process in a cursor, from the id of the process. If a
// service hides the id, it is the number of connections ever made: a restart needs a new
// connection, so a scan starts again after each.
func (c *Client) ServerName(id string) string {
	if id == "" {
		return hidden + strconv.FormatInt(c.conns.made.Load(), 10)
	}
	return ProcessName(id)
}

// hidden is the prefix of a number of connections. No id has this letter.
const hidden = "~"

// ProcessName returns the name of a process in a cursor for callers. It is empty if a
// service hides the id, because each instance counts its own connections. Then a scan
// continues.
func ProcessName(id string) string { return id[:min(len(id), serverDigits)] }

// Carried returns a cursor in the form for callers.
func Carried(cursor string) string {
	if at, _, yes := strings.Cut(cursor, betweenServer+hidden); yes {
		return at
	}
	return cursor
}

// serverDigits is how many digits of a process's id are used. Of its 40 digits, 64 bits
// are enough.
const serverDigits = 16

// ParseCursor parses a cursor from CursorText; empty: start.
func ParseCursor(text string) (at uint64, server string, err error) {
	if text == "" {
		return 0, "", nil
	}
	place, server, _ := strings.Cut(text, betweenServer)
	if at, err = strconv.ParseUint(place, 10, 64); err != nil {
		return 0, "", fmt.Errorf("%w: %q", dispatcher.ErrCursor, text)
	}
	return at, server, nil
}

// CursorText returns the cursor of a process's scan; empty: end.
func CursorText(at uint64, server string) string {
	if at == 0 {
		return ""
	}
	return strconv.FormatUint(at, 10) + betweenServer + server
}
