package conn

import (
	"context"
	_ "embed" // the script
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
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
	at, server, err := ParseCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	for {
		var page *redis.ScanCmd
		call := Call{Partition: partition, Fill: func(p redis.Pipeliner) { page = scan(p, at) }}
		r := c.Send(ctx, Batch{Script: serverScript, Doing: doing, Calls: []Call{call}})[0]
		if r.Err != nil {
			return nil, "", r.Err
		}
		now := c.ServerName(r.Text())
		if at != 0 && now != server {
			at = 0
			continue
		}
		found, at = page.Val()
		return found, CursorText(at, now), nil
	}
}

// ServerName is what a cursor has of the process of a server, whose id it told. Where a
// service hides that, it is the number of connections that were ever made: a restart needs
// a new one, so a scan begins again after each.
func (c *Client) ServerName(id string) string {
	if id == "" {
		return "c" + strconv.FormatInt(c.conns.made.Load(), 10)
	}
	return id[:min(len(id), serverDigits)]
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
