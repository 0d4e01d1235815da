package conn

import (
	"context"
	_ "embed" // the script
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/partitions"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/script"
)

// Each process of Redis hashes with a seed of its own. After a restart, or on a replica
// that took over, the same hash has another order, so that a cursor of SCAN skips a part
// of it. A scan that takes several calls asks for the process with each page, in the same
// round trip. If the process is another one, the scan begins again.

//go:embed lua/which_server.lua
var serverSrc string

var serverScript = script.New("which_server", script.Server+serverSrc)

// betweenServer stands in a cursor between the place and the process.
const betweenServer = "@"

// Scan reads a page of a hash or of a sorted set, from a cursor of the page before; empty:
// from the start. An entry may be in several pages. next is empty at the end.
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

// Walk reads a hash or a sorted set of each of several partitions to its end. An entry may
// be in several pages.
type Walk struct {
	Left    []int          // partitions of which there is more to read
	Cursors map[int]string // where it goes on in each; empty: from the start
	Again   bool           // it began again somewhere

	conn  *Client
	doing string
}

// Walk makes a walk through some partitions.
func (c *Client) Walk(doing string, in []int) *Walk {
	return &Walk{Left: in, Cursors: map[int]string{}, conn: c, doing: doing}
}

// Pages reads a page of each partition that has more, all in one round trip. A partition
// that does not answer is left out from then on, and its error is answered.
func (w *Walk) Pages(ctx context.Context, scan func(p redis.Pipeliner, partition int, at uint64) *redis.ScanCmd, take func(partition int, page []string)) error {
	var errs []error
	w.round(ctx, scan, func(n int, page []string, err error) {
		if err != nil {
			errs = append(errs, w.conn.InPartition(n, err))
			return
		}
		take(n, page)
	})
	return partitions.Join(errs...)
}

// round reads a page of each partition. None is taken of a partition in which it has to
// begin again.
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
		if of.at != 0 && of.server != "" && now != of.server { // empty: callers carried it
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

// KeyNames goes through the names of the keys that match, of all masters, about count at a
// time. It ends with the first error. A name may come twice.
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

// ScanKeys reads a page of the names of a master's keys that match, as Scan does. No key of
// a project need lie there, so that no script tells the process.
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
		_, id, _ := strings.Cut(info.Val(), "run_id:") // empty where a service hides it
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

// ServerName is what a cursor has of the process of a server, whose id it told. Where a
// service hides that, it is the number of connections that were ever made: a restart needs
// a new one, so a scan begins again after each.
func (c *Client) ServerName(id string) string {
	if id == "" {
		return hidden + strconv.FormatInt(c.conns.made.Load(), 10)
	}
	return ProcessName(id)
}

// hidden stands before a number of connections. An id has no such letter.
const hidden = "~"

// ProcessName is what a cursor that callers carry has of a process. It is empty where a
// service hides its id: each instance counts connections of its own. Then a scan goes on.
func ProcessName(id string) string { return id[:min(len(id), serverDigits)] }

// Carried is a cursor as callers carry it.
func Carried(cursor string) string {
	if at, _, yes := strings.Cut(cursor, betweenServer+hidden); yes {
		return at
	}
	return cursor
}

// serverDigits of a process's id tell it from others: it has 40, of which 64 bits do.
const serverDigits = 16

// ParseCursor reads a cursor that CursorText made; empty: from the start.
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

// CursorText is the cursor of a process's scan; empty: the scan is at its end.
func CursorText(at uint64, server string) string {
	if at == 0 {
		return ""
	}
	return strconv.FormatUint(at, 10) + betweenServer + server
}
