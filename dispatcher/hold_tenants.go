package dispatcher

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"strings"
)

// Bounds of one call about the other tenants of an origin, which looks at the
// names of all lanes: a tenth of a second of reads for tenantNames, and as long
// for the scripts of tenantLanes. It ends behind the page that reaches one.
const (
	tenantNames = 100_000
	tenantLanes = 1000
)

// LaneName is what the lane of a bare URL is for.
type LaneName struct {
	Lane Lane
	Name string // as URLLaneName tells it
}

// OtherTenants are the lanes that other tenants have at the origin of a URL.
type OtherTenants struct {
	Lanes   int    // the call found so many
	Changed int    // of these, so many were paused or resumed
	Failed  int    // lanes that could not be changed, and partitions that could not be read to their end
	Next    string // where another call goes on; empty: all partitions were looked at
}

// OtherTenants counts the lanes that other tenants have at the origin of a URL:
// what Pause and Resume of that URL leave as they are.
func (d *Dispatcher) OtherTenants(ctx context.Context, destination, tenant string) (OtherTenants, error) {
	u, err := ParseURL(destination)
	if err != nil {
		return OtherTenants{}, err
	}
	if err := d.lists.enter(ctx); err != nil {
		return OtherTenants{}, err
	}
	defer d.lists.leave()
	return d.eachTenant(ctx, &tenantWalk{origin: u, but: URLLane(u, tenant)})
}

// PauseTenants pauses the lanes of all tenants at the origin of a URL, each in
// a step of its own, but not that of messages without a tenant. It may be
// repeated, and goes on from a cursor, which is Next of the call before.
func (d *Dispatcher) PauseTenants(ctx context.Context, destination, cursor string) (OtherTenants, error) {
	return d.holdTenants(ctx, destination, cursor, true)
}

// ResumeTenants lets them go on.
func (d *Dispatcher) ResumeTenants(ctx context.Context, destination, cursor string) (OtherTenants, error) {
	return d.holdTenants(ctx, destination, cursor, false)
}

func (d *Dispatcher) holdTenants(ctx context.Context, destination, cursor string, held bool) (OtherTenants, error) {
	u, err := ParseURL(destination)
	if err != nil {
		return OtherTenants{}, err
	}
	w := &tenantWalk{origin: u, but: URLLane(u, "")}
	if err := w.from(cursor, d.engine.queue.Partitions()); err != nil {
		return OtherTenants{}, err
	}
	w.change = func(lane Lane) error {
		limits := LaneLimits{By: callerOf(ctx)}
		if held {
			limits.Held = HeldPaused
		}
		_, err := d.engine.setLimits(ctx, lane, limits, !held)
		return err
	}
	found, err := d.eachTenant(ctx, w)
	text := "lanes of all tenants resumed"
	if held {
		text = "lanes of all tenants paused"
	}
	d.engine.log.LogAttrs(ctx, slog.LevelInfo, text, byCaller(ctx), slog.String("url", u.Scheme+"://"+u.Host),
		slog.Int("changed", found.Changed), slog.Int("failed", found.Failed))
	return found, err
}

// tenantWalk is one walk over the names of all lanes.
type tenantWalk struct {
	origin    *url.URL
	but       Lane             // is left out
	change    func(Lane) error // nil: they are only counted
	partition int
	cursor    string // in the partition; empty: its start
}

// from sets where a walk begins: <partition>-<cursor>.
func (w *tenantWalk) from(text string, partitions int) error {
	if text == "" {
		return nil
	}
	number, cursor, ok := strings.Cut(text, "-")
	n, err := strconv.Atoi(number)
	if !ok || err != nil || n < 0 || n >= partitions {
		return fmt.Errorf("%w: %q", ErrCursor, text)
	}
	w.partition, w.cursor = n, cursor
	return nil
}

// eachTenant walks until there is no more, or as far as one call goes.
func (d *Dispatcher) eachTenant(ctx context.Context, w *tenantWalk) (found OtherTenants, err error) {
	for looked := 0; w.partition < d.engine.queue.Partitions(); {
		if looked >= tenantNames || found.Changed+found.Failed >= tenantLanes {
			found.Next = strconv.Itoa(w.partition) + "-" + w.cursor
			return found, nil
		}
		page, next, err := d.engine.queue.LaneNames(ctx, w.partition, w.cursor)
		if ctx.Err() != nil {
			return found, ctx.Err()
		}
		if err != nil {
			found.Failed++ // the other partitions are no worse for it
			next = ""
		}
		looked += len(page)
		w.take(page, &found)
		if w.cursor = next; next == "" {
			w.partition++
		}
	}
	return found, nil
}

// take counts the lanes of a page that are meant, and changes them.
func (w *tenantWalk) take(page []LaneName, found *OtherTenants) {
	host := strings.ToLower(w.origin.Hostname())
	for _, l := range page {
		if l.Lane == w.but || !strings.Contains(l.Name, host) || !w.means(l) {
			continue
		}
		found.Lanes++
		switch {
		case w.change == nil:
		case w.change(l.Lane) != nil:
			found.Failed++
		default:
			found.Changed++
		}
	}
}

// means reports whether a lane is one of the origin: its key says so too, since
// a name may tell the port or not.
func (w *tenantWalk) means(l LaneName) bool {
	origin, tenant, _ := strings.Cut(l.Name, " ")
	u, err := url.Parse(origin)
	return err == nil && URLLane(u, tenant) == l.Lane && URLLane(u, "") == URLLane(w.origin, "")
}
