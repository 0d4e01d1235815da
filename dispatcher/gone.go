package dispatcher

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
)

// DisableGone disables an endpoint whose receiver answered 410 when it was
// called as it was then. Where that can't be done now the next message does it.
// Many that are told so at once are one change.
func (r *Registry) DisableGone(called *Endpoint) {
	if now := r.Cache.Cached(called.Lane()); now != nil && !says(called, now) {
		return
	}
	flight := called.ID + " " + strconv.FormatInt(called.Version, 10)
	_, _, _ = r.gone.Do(flight, func() (any, error) {
		ctx, cancel := within(context.Background())
		defer cancel()
		_, err := r.changeEndpoint(ctx, called.ID, func(e *Endpoint) error {
			if !says(called, e) {
				return errAlready
			}
			e.Disabled, e.Gone = true, true
			return nil
		}, false)
		lane := slog.String("lane", called.ID)
		switch {
		case err == nil, errors.Is(err, errAlready), errors.Is(err, ErrNoEndpoint):
		default:
			r.Log.LogAttrs(ctx, slog.LevelError, "endpoint not disabled", lane, slog.Any("err", err))
		}
		return nil, nil
	})
}

// says reports whether what the receiver answered to called is a reason to
// disable the endpoint as it is now: it has the same URL still, and neither that
// nor a resume came since.
func says(called, now *Endpoint) bool {
	return !now.Disabled && now.URL == called.URL && called.Version >= now.Since
}

var errAlready = errors.New("it is so already, or was corrected meanwhile")
