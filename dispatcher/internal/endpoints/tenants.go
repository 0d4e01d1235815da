package endpoints

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"strings"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/outage"
)

// Limits of one call about the tenants of an origin, which reads the names of all lanes.
// Reading tenantNames takes a tenth of a second, and so do the scripts of tenantLanes.
// The call returns after the page that reaches a limit.
const (
	tenantNames = 100_000
	tenantLanes = 1000
)

// OtherTenants counts the lanes of other tenants at the origin of a URL, because Pause
// and Resume of that URL do not change them.
func (r *Registry) OtherTenants(ctx context.Context, destination, tenant string) (dispatcher.OtherTenants, error) {
	u, err := dispatcher.ParseURL(destination)
	if err != nil {
		return dispatcher.OtherTenants{}, err
	}
	_, leave, err := r.Lists.Enter(ctx)
	if err != nil {
		return dispatcher.OtherTenants{}, err
	}
	defer leave()
	return r.eachTenant(ctx, &tenantWalk{origin: u, but: dispatcher.URLLane(u, tenant)})
}

// PauseTenants pauses the lanes of all tenants at the origin of a URL, each in its own
// step. It skips the lane of messages without a tenant. It may be repeated. cursor is
// Next of the call before.
func (r *Registry) PauseTenants(ctx context.Context, destination, cursor string) (dispatcher.OtherTenants, error) {
	return r.setTenantsPaused(ctx, destination, cursor, true)
}

// ResumeTenants resumes these lanes in the same way.
func (r *Registry) ResumeTenants(ctx context.Context, destination, cursor string) (dispatcher.OtherTenants, error) {
	return r.setTenantsPaused(ctx, destination, cursor, false)
}

func (r *Registry) setTenantsPaused(ctx context.Context, destination, cursor string, paused bool) (dispatcher.OtherTenants, error) {
	u, err := dispatcher.ParseURL(destination)
	if err != nil {
		return dispatcher.OtherTenants{}, err
	}
	w := &tenantWalk{origin: u, but: dispatcher.URLLane(u, ""), cursor: cursor}
	w.change = func(lane dispatcher.Lane) error {
		limits := dispatcher.LaneLimits{By: dispatcher.CallerOf(ctx)}
		if paused {
			limits.Mode = dispatcher.LanePaused
		}
		_, err := r.setLimits(ctx, lane, limits, clears(dispatcher.WhyResumed, !paused))
		return err
	}
	found, err := r.eachTenant(ctx, w)
	if errors.Is(err, dispatcher.ErrCursor) {
		return found, err
	}
	text := "lanes of all tenants resumed"
	if paused {
		text = "lanes of all tenants paused"
	}
	r.Log.LogAttrs(ctx, slog.LevelInfo, text, byCaller(ctx), slog.String("url", u.Scheme+"://"+u.Host),
		slog.Int("changed", found.Changed), slog.Int("failed", found.Failed))
	return found, err
}

// tenantWalk is one walk over the names of all lanes.
type tenantWalk struct {
	origin *url.URL
	but    dispatcher.Lane             // skipped
	change func(dispatcher.Lane) error // nil: the lanes are only counted
	cursor string                      // of the call before; empty: start
}

// list returns the name of the list in its cursors.
func (w *tenantWalk) list() string {
	return dispatcher.ListName("tenants", dispatcher.URLLane(w.origin, ""))
}

// eachTenant walks to the last page, or until a limit of one call.
func (r *Registry) eachTenant(ctx context.Context, w *tenantWalk) (found dispatcher.OtherTenants, err error) {
	at := ""
	if err := r.Queue.OpenCursor(ctx, w.list(), w.cursor, &at); err != nil {
		return found, err
	}
	for read := 0; ; {
		page, next, err := r.LaneReads.LaneNames(ctx, at)
		if ctx.Err() != nil {
			return found, ctx.Err()
		}
		if _, rest := outage.Split(err); rest != nil {
			return found, rest // an invalid cursor
		}
		if err != nil {
			found.Failed++ // the other parts of the queue can still be read
		}
		read += len(page)
		w.take(page, &found)
		if at = next; next == "" {
			return found, nil
		}
		if read >= tenantNames || found.Changed+found.Failed >= tenantLanes {
			found.Next, err = r.Queue.SealCursor(ctx, w.list(), at)
			return found, err
		}
	}
}

// take counts and changes the lanes of a page that belong to the origin.
func (w *tenantWalk) take(page []dispatcher.LaneName, found *dispatcher.OtherTenants) {
	host := strings.ToLower(strings.TrimSuffix(w.origin.Hostname(), "."))
	for _, l := range page {
		if l.Lane == w.but || !strings.Contains(l.Name, host) || !w.matches(l) {
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

// matches reports whether a lane belongs to the origin. It compares lane ids, because a
// name may have the default port or not.
func (w *tenantWalk) matches(l dispatcher.LaneName) bool {
	origin, tenant, _ := strings.Cut(l.Name, " ")
	u, err := url.Parse(origin)
	return err == nil && dispatcher.URLLane(u, tenant) == l.Lane && dispatcher.URLLane(u, "") == dispatcher.URLLane(w.origin, "")
}
