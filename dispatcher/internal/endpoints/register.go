package endpoints

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/outage"
	"github.com/hookladder/hookladder/signer"
)

// Every change of an endpoint is made in one order: the truth, which by the
// same step tells all instances, then the copy that its lane keeps. A new one
// has its copy first, so that nothing lies in a lane that may not be claimed
// from. An instance that stops between the two leaves a lane of an older version than the
// truth; the next claim finds that out (see CheckVersions).

// raceTries is how often a change is made again because another came first.
const raceTries = 20

// CreateEndpoint registers an endpoint and answers it as stored. It must be
// valid; its id, version and times are set here, and a secret where it has
// none. created is false where one with that uid was there already and equal;
// ErrTaken says that it is another.
func (r *Registry) CreateEndpoint(ctx context.Context, e *dispatcher.Endpoint) (view dispatcher.EndpointView, created bool, err error) {
	if r.Store == nil {
		return dispatcher.EndpointView{}, false, errNoStore
	}
	if e.UID != "" {
		if there, err := r.Cache.Named(ctx, e.UID); err == nil {
			return r.sameEndpoint(ctx, e, there.Endpoint)
		} else if !errors.Is(err, dispatcher.ErrNoEndpoint) {
			return dispatcher.EndpointView{}, false, err
		}
	}
	asked := e
	e = e.Clone()
	e.Version, e.Since = 1, 1
	e.CreatedAt = r.Queue.Now().Truncate(time.Millisecond)
	e.UpdatedAt = e.CreatedAt
	e.NoteHold(&dispatcher.Endpoint{}, dispatcher.CallerOf(ctx), e.CreatedAt)
	if len(e.Secrets) == 0 {
		e.Secrets = []dispatcher.EndpointSecret{{Secret: e.Signature.NewSecret()}}
	}
	for range raceTries {
		e.ID = newEndpointID()
		// Before its lane has limits: those of another with that id must stay.
		if there, err := r.Store.Endpoints(ctx, []string{e.ID}); err != nil {
			return dispatcher.EndpointView{}, false, fmt.Errorf("create endpoint: %w", err)
		} else if there[0] != nil {
			continue
		}
		if _, err := r.setLimits(ctx, e.Lane(), e.Limits(), false); err != nil {
			return dispatcher.EndpointView{}, false, fmt.Errorf("create endpoint: %w", err)
		}
		taken, err := r.Store.CreateEndpoint(ctx, e)
		if err == nil {
			r.Cache.OnChange(dispatcher.EndpointChange{ID: e.ID, Tenant: e.Tenant, Version: e.Version})
			return dispatcher.EndpointView{Endpoint: e, State: stateOf(e, dispatcher.LaneState{})}, true, nil
		}
		r.unmade(ctx, e, taken, err)
		switch {
		case !errors.Is(err, dispatcher.ErrTaken):
			return dispatcher.EndpointView{}, false, fmt.Errorf("create endpoint: %w", err)
		case taken != nil && taken.ID != e.ID: // another call took that uid first
			return r.sameEndpoint(ctx, asked, taken)
		}
	}
	return dispatcher.EndpointView{}, false, fmt.Errorf("create endpoint: %w", dispatcher.ErrTaken)
}

// unmade takes the lane's limits away again where it is certain that no endpoint
// was made. Otherwise they stay, and the finisher finds them.
func (r *Registry) unmade(ctx context.Context, e, taken *dispatcher.Endpoint, err error) {
	if errors.Is(err, dispatcher.ErrUnavailable) || taken != nil && taken.ID == e.ID {
		return // it may be there, or is
	}
	if errors.Is(err, dispatcher.ErrTaken) && taken == nil {
		return // the id is another's, and so is its lane
	}
	call, cancel := outage.Within(context.WithoutCancel(ctx))
	defer cancel()
	_, err = r.Queue.ForgetLane(call, r.Name(), dispatcher.LaneVersion{Lane: e.Lane(), Version: e.Version}, 0)
	r.Outages.Report("limit", err)
}

var errNoStore = errors.New("this dispatcher has no store of endpoints")

// newEndpointID is ep_ and 9 of the 32 characters of base32: 45 random bits.
// One that is taken is made anew.
func newEndpointID() string { return dispatcher.EndpointPrefix + strings.ToLower(rand.Text()[:9]) }

// sameEndpoint answers the one that is there where it is what was asked for.
func (r *Registry) sameEndpoint(ctx context.Context, asked, there *dispatcher.Endpoint) (dispatcher.EndpointView, bool, error) {
	if !asked.Same(there) {
		return dispatcher.EndpointView{}, false, fmt.Errorf("uid %s: %w", asked.UID, dispatcher.ErrTaken)
	}
	views, err := r.views(ctx, []*dispatcher.Endpoint{there})
	if err != nil {
		return dispatcher.EndpointView{}, false, err
	}
	return views[0], false, nil
}

// Endpoint reads an endpoint by its id or its uid, or answers ErrNoEndpoint.
func (r *Registry) Endpoint(ctx context.Context, name string) (dispatcher.EndpointView, error) {
	e, err := r.Stored(ctx, name)
	if err != nil {
		return dispatcher.EndpointView{}, err
	}
	views, err := r.views(ctx, []*dispatcher.Endpoint{e})
	if err != nil {
		return dispatcher.EndpointView{}, err
	}
	return views[0], nil
}

// Stored reads an endpoint from the store, whatever is known of it here.
func (r *Registry) Stored(ctx context.Context, name string) (*dispatcher.Endpoint, error) {
	id, err := r.Cache.id(ctx, name)
	if err != nil {
		return nil, err
	}
	if r.Store == nil {
		return nil, fmt.Errorf("endpoint %s: %w", id, dispatcher.ErrNoEndpoint)
	}
	list, err := r.Store.Endpoints(ctx, []string{id})
	if err != nil {
		return nil, fmt.Errorf("read endpoint %s: %w", id, err)
	}
	if len(list) == 0 || list[0] == nil {
		return nil, fmt.Errorf("endpoint %s: %w", id, dispatcher.ErrNoEndpoint)
	}
	return list[0], nil
}

// Endpoints reads a page of endpoints, newest first.
func (r *Registry) Endpoints(ctx context.Context, f dispatcher.EndpointFilter) ([]dispatcher.EndpointView, string, error) {
	if r.Store == nil {
		return nil, "", nil
	}
	page, next, err := r.Store.ListEndpoints(ctx, f)
	if err != nil {
		return nil, "", err
	}
	views, err := r.views(ctx, page)
	return views, next, err
}

// views adds how the lanes stand.
func (r *Registry) views(ctx context.Context, list []*dispatcher.Endpoint) ([]dispatcher.EndpointView, error) {
	lanes := make([]dispatcher.Lane, len(list))
	for i, e := range list {
		lanes[i] = e.Lane()
	}
	states, err := r.Queue.LaneStates(ctx, lanes)
	if err != nil {
		return nil, fmt.Errorf("read lanes: %w", err)
	}
	views := make([]dispatcher.EndpointView, len(list))
	for i, e := range list {
		views[i] = dispatcher.EndpointView{Endpoint: e, State: stateOf(e, states[i]), LaneCount: states[i].LaneCount}
	}
	return views, nil
}

// stateOf is an endpoint's state: what it says itself, and the breaker of its lane.
func stateOf(e *dispatcher.Endpoint, lane dispatcher.LaneState) dispatcher.EndpointState {
	lane.Limits = e.Limits()
	return lane.State()
}

// ChangeEndpoint applies change to a copy of an endpoint and stores it, and does so
// again where another change came first. Waiting deliveries use the new version.
func (r *Registry) ChangeEndpoint(ctx context.Context, name string, change func(*dispatcher.Endpoint) error) (dispatcher.EndpointView, error) {
	return r.changeEndpoint(ctx, name, change, false)
}

// changeEndpoint makes a change; with clear it is a resume. As after a change of
// URL, the lane's breaker is closed too, and a Retry-After is forgotten.
func (r *Registry) changeEndpoint(ctx context.Context, name string, change func(*dispatcher.Endpoint) error, clear bool) (dispatcher.EndpointView, error) {
	var e *dispatcher.Endpoint
	var was bool
	for try := 1; ; try++ {
		before, err := r.Stored(ctx, name)
		if err != nil {
			return dispatcher.EndpointView{}, err
		}
		if len(before.Secrets) == 0 {
			return dispatcher.EndpointView{}, fmt.Errorf("change endpoint %s: %w", before.ID, dispatcher.ErrSealed) // what can't be read would be lost
		}
		e, was = before.Clone(), before.Disabled
		if err := change(e); err != nil {
			return dispatcher.EndpointView{}, err
		}
		e.Version++
		if clear || e.URL != before.URL || before.Disabled && !e.Disabled {
			e.Since = e.Version
		}
		e.UpdatedAt = r.Queue.Now().Truncate(time.Millisecond)
		e.NoteHold(before, dispatcher.CallerOf(ctx), e.UpdatedAt)
		err = r.Store.ChangeEndpoint(ctx, e)
		if err == nil {
			break
		}
		if !errors.Is(err, dispatcher.ErrStale) || try == raceTries {
			return dispatcher.EndpointView{}, fmt.Errorf("change endpoint %s: %w", e.ID, err)
		}
	}
	r.Cache.OnChange(dispatcher.EndpointChange{ID: e.ID, Tenant: e.Tenant, Version: e.Version})
	r.tellDisabled(ctx, e, was)
	if _, err := r.setLimits(ctx, e.Lane(), e.Limits(), e.Since == e.Version); err != nil {
		return dispatcher.EndpointView{}, fmt.Errorf("change endpoint %s: %w", e.ID, err)
	}
	if e.Disabled {
		r.sweeper.put(e.Lane(), 0)
	}
	views, err := r.views(ctx, []*dispatcher.Endpoint{e})
	if err != nil {
		return dispatcher.EndpointView{}, err
	}
	return views[0], nil
}

// tellDisabled logs that an endpoint was disabled, or is not any more.
func (r *Registry) tellDisabled(ctx context.Context, e *dispatcher.Endpoint, was bool) {
	text := "endpoint disabled"
	switch {
	case e.Disabled == was:
		return
	case was:
		text = "endpoint enabled"
	}
	attrs := []slog.Attr{byCaller(ctx), slog.String("lane", e.ID), slog.String("url", NewDestination(e).Origin())}
	if e.Gone {
		attrs = append(attrs, slog.Int("status", http.StatusGone))
	}
	r.Log.LogAttrs(ctx, slog.LevelInfo, text, attrs...)
}

// DeleteEndpoint forgets an endpoint. What waits for it is cancelled, and
// counted; what is in flight ends with its attempt. Of one that was deleted
// already, while something waits still, it counts what is left.
func (r *Registry) DeleteEndpoint(ctx context.Context, name string) (cancelled int, err error) {
	id, err := r.Cache.id(ctx, name)
	if err != nil {
		return 0, err
	}
	if r.Store == nil {
		return 0, fmt.Errorf("endpoint %s: %w", id, dispatcher.ErrNoEndpoint)
	}
	e, err := r.Stored(ctx, id)
	if err != nil && !errors.Is(err, dispatcher.ErrNoEndpoint) {
		return 0, err
	}
	end, err := r.Store.DeleteEndpoint(ctx, id)
	if err != nil {
		return 0, fmt.Errorf("delete endpoint %s: %w", id, err)
	}
	if e != nil {
		r.Cache.OnChange(dispatcher.EndpointChange{ID: id, Tenant: e.Tenant})
	}
	if cancelled, err = r.sweeper.delete(ctx, id, end); err != nil {
		return 0, fmt.Errorf("delete endpoint %s: %w", id, err)
	}
	return cancelled, nil
}

// RotateSecret gives an endpoint a new secret, a zero one: one that is made
// here. Those it has go on signing besides for overlap, where the signature has
// room for several.
func (r *Registry) RotateSecret(ctx context.Context, name string, next signer.Secret, overlap time.Duration) (dispatcher.EndpointView, error) {
	return r.ChangeEndpoint(ctx, name, func(e *dispatcher.Endpoint) error {
		secret := next
		if secret.IsZero() {
			secret = e.Signature.NewSecret()
		}
		if _, err := e.Signature.NewSigner(secret); err != nil {
			return fmt.Errorf("rotate secret of %s: %w", e.ID, err) // the signature may have changed meanwhile
		}
		now := r.Queue.Now()
		until := now.Add(overlap).Truncate(time.Millisecond)
		secrets := []dispatcher.EndpointSecret{{Secret: secret}}
		for _, old := range e.Secrets {
			if old.Until.IsZero() || until.Before(old.Until) {
				old.Until = until
			}
			if old.Until.After(now) && len(secrets) < signer.MaxSecrets && !old.Secret.Equal(secret) {
				secrets = append(secrets, old)
			}
		}
		e.Secrets = secrets
		return nil
	})
}

// DisableGone disables an endpoint whose receiver answered 410 when it was
// called as it was then. Where that can't be done now the next message does it.
// Many that are told so at once are one change.
func (r *Registry) DisableGone(called *dispatcher.Endpoint) {
	if now := r.Cache.Cached(called.Lane()); now != nil && !says(called, now) {
		return
	}
	flight := called.ID + " " + strconv.FormatInt(called.Version, 10)
	_, _, _ = r.gone.Do(flight, func() (any, error) {
		ctx, cancel := outage.Within(context.Background())
		defer cancel()
		_, err := r.changeEndpoint(ctx, called.ID, func(e *dispatcher.Endpoint) error {
			if !says(called, e) {
				return errAlready
			}
			e.Disabled, e.Gone = true, true
			return nil
		}, false)
		lane := slog.String("lane", called.ID)
		switch {
		case err == nil, errors.Is(err, errAlready), errors.Is(err, dispatcher.ErrNoEndpoint):
		default:
			r.Log.LogAttrs(ctx, slog.LevelError, "endpoint not disabled", lane, slog.Any("err", err))
		}
		return nil, nil
	})
}

// says reports whether a 410 to called is a reason to disable the endpoint as it is
// now: it still has the same URL, and neither that nor a resume came since.
func says(called, now *dispatcher.Endpoint) bool {
	return !now.Disabled && now.URL == called.URL && called.Version >= now.Since
}

var errAlready = errors.New("it is so already, or was corrected meanwhile")
