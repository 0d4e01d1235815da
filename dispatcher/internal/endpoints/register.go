package endpoints

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/outage"
	"github.com/hookladder/hookladder/signer"
)

// Every change of an endpoint has two steps in this order: first the endpoint in its
// store, which also notifies all instances, then the lane's copy of its limits. A new
// endpoint gets its copy first, because a lane without limits can't be claimed. If an
// instance dies between the steps, the copy has an older version than the endpoint. The
// next claim finds that out (see CheckVersions).

// maxRaces is how many times a change is tried in all if other changes come first.
const maxRaces = 20

// CreateEndpoint registers a valid endpoint and returns it as stored. It sets version and
// times, and an id and a secret if there is none. created is false if an equal endpoint
// with that uid exists already. It returns ErrTaken if an endpoint with that uid is
// different.
func (r *Registry) CreateEndpoint(ctx context.Context, e *dispatcher.Endpoint) (view dispatcher.EndpointView, created bool, err error) {
	return r.createEndpoint(ctx, e, false)
}

// TryCreate returns what CreateEndpoint would return, and stores nothing.
func (r *Registry) TryCreate(ctx context.Context, e *dispatcher.Endpoint) (view dispatcher.EndpointView, created bool, err error) {
	return r.createEndpoint(ctx, e, true)
}

func (r *Registry) createEndpoint(ctx context.Context, e *dispatcher.Endpoint, dry bool) (view dispatcher.EndpointView, created bool, err error) {
	if r.Store == nil {
		return dispatcher.EndpointView{}, false, errNoStore
	}
	if e.UID != "" {
		if existing, err := r.Cache.Named(ctx, e.UID); err == nil {
			return r.sameEndpoint(ctx, e, existing.Endpoint)
		} else if !errors.Is(err, dispatcher.ErrNoEndpoint) {
			return dispatcher.EndpointView{}, false, err
		}
	}
	requested := e
	e = e.Clone()
	e.Version, e.Since = 1, 1
	e.NoteCreator(byLink(ctx))
	e.CreatedAt = r.Queue.Now().Truncate(time.Millisecond)
	e.UpdatedAt = e.CreatedAt
	e.NoteHold(&dispatcher.Endpoint{}, dispatcher.CallerOf(ctx), e.CreatedAt)
	if len(e.Secrets) == 0 {
		e.Secrets = []dispatcher.EndpointSecret{{Secret: e.Signature.NewSecret()}}
	}
	for i := range e.Secrets {
		e.Secrets[i].Since = e.CreatedAt
	}
	for n := range maxRaces {
		if n > 0 || e.ID == "" {
			e.ID = dispatcher.NewEndpointID()
		}
		// Read first, because writing the limits would overwrite the limits of an existing
		// endpoint with this id.
		if existing, err := r.Store.Endpoints(ctx, []string{e.ID}); err != nil {
			return dispatcher.EndpointView{}, false, fmt.Errorf("create endpoint: %w", err)
		} else if existing[0] != nil {
			continue
		}
		if dry {
			taken, err := r.Store.CheckEndpoint(ctx, e)
			switch {
			case taken != nil:
				return r.sameEndpoint(ctx, requested, taken)
			case errors.Is(err, dispatcher.ErrTaken): // the id
				continue
			case err != nil:
				return dispatcher.EndpointView{}, false, fmt.Errorf("create endpoint: %w", err)
			}
			return dispatcher.EndpointView{Endpoint: e, State: stateOf(e, dispatcher.LaneState{})}, true, nil
		}
		if _, err := r.setLimits(ctx, e.Lane(), e.Limits(), ""); err != nil {
			return dispatcher.EndpointView{}, false, fmt.Errorf("create endpoint: %w", err)
		}
		taken, err := r.Store.CreateEndpoint(ctx, e)
		if err == nil {
			r.Cache.OnChange(dispatcher.EndpointChange{ID: e.ID, Tenant: e.Tenant, Version: e.Version})
			return dispatcher.EndpointView{Endpoint: e, State: stateOf(e, dispatcher.LaneState{})}, true, nil
		}
		r.removeLimits(ctx, e, taken, err)
		switch {
		case !errors.Is(err, dispatcher.ErrTaken):
			return dispatcher.EndpointView{}, false, fmt.Errorf("create endpoint: %w", err)
		case taken != nil && taken.ID != e.ID: // another call took that uid first
			return r.sameEndpoint(ctx, requested, taken)
		}
	}
	return dispatcher.EndpointView{}, false, fmt.Errorf("create endpoint: %w", dispatcher.ErrTaken)
}

// removeLimits removes the lane's limits if it is certain that no endpoint was created.
// Otherwise they stay, and a comparison finds them.
func (r *Registry) removeLimits(ctx context.Context, e, taken *dispatcher.Endpoint, err error) {
	if errors.Is(err, dispatcher.ErrUnavailable) || taken != nil && taken.ID == e.ID {
		return // the endpoint exists, or may exist
	}
	if errors.Is(err, dispatcher.ErrTaken) && taken == nil {
		return // another endpoint has the id, and so the lane
	}
	call, cancel := outage.Within(context.WithoutCancel(ctx))
	defer cancel()
	_, err = r.Queue.ForgetLane(call, r.Name(), dispatcher.LaneVersion{Lane: e.Lane(), Version: e.Version}, 0)
	r.Outages.Report("limit", err)
}

var errNoStore = errors.New("this dispatcher has no store of endpoints")

// sameEndpoint returns the existing endpoint if it equals the requested one, or ErrTaken.
func (r *Registry) sameEndpoint(ctx context.Context, requested, existing *dispatcher.Endpoint) (dispatcher.EndpointView, bool, error) {
	if !requested.Same(existing) {
		return dispatcher.EndpointView{}, false, fmt.Errorf("uid %s: %w", requested.UID, dispatcher.ErrTaken)
	}
	views, err := r.views(ctx, []*dispatcher.Endpoint{existing})
	if err != nil {
		return dispatcher.EndpointView{}, false, err
	}
	return views[0], false, nil
}

// Endpoint returns an endpoint by its id or its uid, or ErrNoEndpoint.
func (r *Registry) Endpoint(ctx context.Context, name string) (dispatcher.EndpointView, error) {
	e, err := r.Stored(ctx, name)
	if err != nil {
		return dispatcher.EndpointView{}, err
	}
	return r.view(ctx, e)
}

// Stored reads an endpoint from the store and bypasses the cache.
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

// Endpoints returns a page of endpoints, newest first.
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

// view is views of one endpoint.
func (r *Registry) view(ctx context.Context, e *dispatcher.Endpoint) (dispatcher.EndpointView, error) {
	views, err := r.views(ctx, []*dispatcher.Endpoint{e})
	if err != nil {
		return dispatcher.EndpointView{}, err
	}
	return views[0], nil
}

// views adds the states of the lanes to endpoints.
func (r *Registry) views(ctx context.Context, list []*dispatcher.Endpoint) ([]dispatcher.EndpointView, error) {
	lanes := make([]dispatcher.Lane, len(list))
	for i, e := range list {
		lanes[i] = e.Lane()
	}
	states, err := r.LaneReads.LaneStates(ctx, lanes)
	if err != nil {
		return nil, fmt.Errorf("read lanes: %w", err)
	}
	views := make([]dispatcher.EndpointView, len(list))
	for i, e := range list {
		views[i] = dispatcher.EndpointView{Endpoint: e, State: stateOf(e, states[i]), Failing: states[i].Failing, LaneCount: states[i].LaneCount, LastFailure: states[i].LastFailure}
	}
	return views, nil
}

// stateOf returns an endpoint's state from its own fields and the breaker of its lane.
func stateOf(e *dispatcher.Endpoint, lane dispatcher.LaneState) dispatcher.EndpointState {
	lane.Limits = e.Limits()
	state := lane.State()
	if state == dispatcher.StatePaused && !e.Paused {
		return dispatcher.StateUnverified
	}
	return state
}

// ChangeEndpoint applies change to a copy of an endpoint and stores it. If another change
// came first it starts again. Waiting deliveries use the new version. If change changes
// nothing, nothing is stored.
func (r *Registry) ChangeEndpoint(ctx context.Context, name string, change func(*dispatcher.Endpoint) error) (dispatcher.EndpointView, error) {
	return r.changeEndpoint(ctx, name, change, false)
}

// TryChange returns what ChangeEndpoint would return, and stores nothing.
func (r *Registry) TryChange(ctx context.Context, name string, change func(*dispatcher.Endpoint) error) (dispatcher.EndpointView, error) {
	before, err := r.Stored(ctx, name)
	if err != nil {
		return dispatcher.EndpointView{}, err
	}
	e, err := r.changed(ctx, before, change, false)
	if err != nil {
		return dispatcher.EndpointView{}, err
	}
	return r.view(ctx, e)
}

// changed returns the next version of an endpoint, or before itself if change changes
// nothing.
func (r *Registry) changed(ctx context.Context, before *dispatcher.Endpoint, change func(*dispatcher.Endpoint) error, clear bool) (*dispatcher.Endpoint, error) {
	if len(before.Secrets) == 0 {
		return nil, fmt.Errorf("change endpoint %s: %w", before.ID, dispatcher.ErrSealed) // its secrets can't be read, and would be lost
	}
	e := before.Clone()
	if err := change(e); err != nil {
		return nil, err
	}
	e.Unverified = unverified(ctx, before, e, clear)
	e.NoteSetter(before, byLink(ctx))
	if !clear && e.Unchanged(before) {
		return before, nil
	}
	e.Version++
	if clear || e.URL != before.URL || before.Disabled && !e.Disabled {
		e.Since = e.Version
	}
	e.UpdatedAt = r.Queue.Now().Truncate(time.Millisecond)
	if !e.UpdatedAt.After(before.UpdatedAt) { // a client compares it to learn whether it changed
		e.UpdatedAt = before.UpdatedAt.Add(time.Millisecond)
	}
	e.NoteHold(before, dispatcher.CallerOf(ctx), e.UpdatedAt)
	return e, nil
}

// changeEndpoint makes a change. With clear it is a resume, which closes the lane's
// breaker and drops a Retry-After. A new URL does so too.
func (r *Registry) changeEndpoint(ctx context.Context, name string, change func(*dispatcher.Endpoint) error, clear bool) (dispatcher.EndpointView, error) {
	var e *dispatcher.Endpoint
	var was bool
	for n := 1; ; n++ {
		before, copied, err := r.storedAboveLane(ctx, name)
		if err != nil {
			return dispatcher.EndpointView{}, err
		}
		if e, err = r.changed(ctx, before, change, clear); err != nil {
			return dispatcher.EndpointView{}, err
		}
		was = before.Disabled
		if e == before {
			if copied {
				return r.view(ctx, e)
			}
			break // an earlier call stored this and then failed
		}
		err = r.Store.ChangeEndpoint(ctx, e)
		if err == nil {
			break
		}
		if !errors.Is(err, dispatcher.ErrStale) || n == maxRaces {
			return dispatcher.EndpointView{}, fmt.Errorf("change endpoint %s: %w", e.ID, err)
		}
	}
	r.Cache.OnChange(dispatcher.EndpointChange{ID: e.ID, Tenant: e.Tenant, Version: e.Version})
	r.logDisabled(ctx, e, was)
	why := dispatcher.WhyChanged
	if clear {
		why = dispatcher.WhyResumed
	}
	if _, err := r.setLimits(ctx, e.Lane(), e.Limits(), clears(why, e.Since == e.Version)); err != nil {
		return dispatcher.EndpointView{}, fmt.Errorf("change endpoint %s: %w", e.ID, err)
	}
	r.OnActivity() // the log has the change by now
	if e.Disabled {
		r.repairs.sweep(e.Lane(), 0)
	}
	return r.view(ctx, e)
}

// unverified reports whether an endpoint's URL waits for a test after a change. A URL
// that was set through a link waits until a test succeeded (see Works), or until the
// operator resumes the endpoint or sets another URL.
func unverified(ctx context.Context, before, e *dispatcher.Endpoint, resume bool) bool {
	switch moved := e.URL != before.URL; {
	case byLink(ctx):
		return e.Unverified || moved
	case moved, resume:
		return false
	}
	return e.Unverified
}

// logDisabled logs that an endpoint was disabled or enabled, and publishes a notice. was
// is the state before.
func (r *Registry) logDisabled(ctx context.Context, e *dispatcher.Endpoint, was bool) {
	text := "endpoint disabled"
	switch {
	case e.Disabled == was:
		return
	case was:
		text = "endpoint enabled"
	}
	attrs := []slog.Attr{byCaller(ctx), slog.String("lane", e.ID), slog.String("url", NewDestination(e).Origin())}
	if e.Cause != "" {
		attrs = append(attrs, slog.String("why", string(e.Cause)))
	}
	r.Log.LogAttrs(ctx, slog.LevelInfo, text, attrs...)
	r.notify(e)
}

// notify publishes a notice if an endpoint is disabled. An instance may do so again (see
// repair.go), because the key is made of the stored endpoint, so equal notices are stored
// once.
func (r *Registry) notify(e *dispatcher.Endpoint) {
	if !e.Disabled {
		return
	}
	news := dispatcher.News{
		Notice: dispatcher.NoticeDisabled, Lane: e.Lane(), Key: dispatcher.Summary(e.StoppedAt, 0),
		Since: e.StoppedAt, Reason: string(cmp.Or(e.Cause, dispatcher.WhyOperator)), Detail: "by " + cmp.Or(e.StoppedBy, dispatcher.System),
	}
	if e.Cause == dispatcher.WhyGone {
		news.Status = http.StatusGone
	}
	r.Notify(news)
}

// DeleteEndpoint deletes an endpoint. It cancels the waiting deliveries and returns their
// number. A delivery in flight ends with its attempt. For an endpoint that was deleted
// before, it counts the deliveries that still wait.
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
	r.deleting.Store(id, true) // so no comparison cancels, and counts, its deliveries
	defer func() {
		if r.deleting.Delete(id); err != nil && !errors.Is(err, dispatcher.ErrNoEndpoint) {
			r.Suspect() // because this may leave it half deleted
		}
	}()
	end, err := r.Store.DeleteEndpoint(ctx, id)
	if err != nil {
		return 0, fmt.Errorf("delete endpoint %s: %w", id, err)
	}
	if e != nil {
		r.Cache.OnChange(dispatcher.EndpointChange{ID: id, Tenant: e.Tenant})
	}
	if cancelled, err = r.deleteLane(ctx, id, end); err != nil {
		return 0, fmt.Errorf("delete endpoint %s: %w", id, err)
	}
	r.OnActivity()
	return cancelled, nil
}

// RotateSecret sets the secret of an endpoint to next, or to a generated one if next is zero.
// For overlap the old secrets sign too, up to the limit of a signature.
func (r *Registry) RotateSecret(ctx context.Context, name string, next signer.Secret, overlap time.Duration) (dispatcher.EndpointView, error) {
	return r.ChangeEndpoint(ctx, name, func(e *dispatcher.Endpoint) error {
		secret := next
		if secret.IsZero() {
			secret = e.Signature.NewSecret()
		}
		if _, err := e.NewSigner(secret); err != nil {
			return fmt.Errorf("rotate secret of %s: %w", e.ID, err) // the signature may have changed in the meantime
		}
		now := r.Queue.Now()
		until := now.Add(overlap).Truncate(time.Millisecond)
		secrets := []dispatcher.EndpointSecret{{Secret: secret, Since: now.Truncate(time.Millisecond)}}
		for _, old := range e.Secrets {
			if old.Secret.Equal(secret) && (old.Until.IsZero() || old.Until.After(now)) {
				secrets[0].Since = old.Since
			}
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

// Disable disables an endpoint because its receiver responded 410, or failed for too
// long. called is the endpoint as it was called. If it fails, the next such response
// tries again. Concurrent calls make one change.
func (r *Registry) Disable(called *dispatcher.Endpoint, cause dispatcher.LaneWhy) {
	if now := r.Cache.Cached(called.Lane()); now != nil && !justifies(called, now) {
		return
	}
	flight := called.ID + " " + strconv.FormatInt(called.Version, 10)
	_, _, _ = r.gone.Do(flight, func() (any, error) {
		ctx, cancel := outage.Within(context.Background())
		defer cancel()
		var once sync.Once // the change may run again
		_, err := r.changeEndpoint(ctx, called.ID, func(e *dispatcher.Endpoint) error {
			if !justifies(called, e) {
				return errAlready
			}
			e.Disabled, e.Cause = true, cause
			once.Do(func() {
				r.record(ctx, dispatcher.AuditEntry{What: "endpoint.disable", Target: e.ID, Tenant: e.Tenant, Detail: disableReasons[cause]})
			})
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

// disableReasons are the details in the audit log of an endpoint that no person disabled.
var disableReasons = map[dispatcher.LaneWhy]string{
	dispatcher.WhyGone:    "its receiver answered 410",
	dispatcher.WhyFailing: "none of its attempts succeeded for too long",
}

// justifies reports whether a response to called is a reason to disable the endpoint in its
// current state. It is a reason if the URL is the same and was not set again, and the endpoint
// was not resumed.
func justifies(called, now *dispatcher.Endpoint) bool {
	return !now.Disabled && now.URL == called.URL && called.Version >= now.Since
}

var errAlready = errors.New("the change is already made, or no longer needed")
