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
	"github.com/hookladder/hookladder/dispatcher/access"
	"github.com/hookladder/hookladder/dispatcher/internal/outage"
	"github.com/hookladder/hookladder/signer"
)

// Every change of an endpoint has two steps in one order: first the endpoint in its store,
// which also tells all instances, then the copy of its limits that its lane keeps. A new
// endpoint gets its copy first, since a lane without limits can't be claimed from. If an
// instance dies between the two steps, the copy has an older version than the endpoint.
// The next claim finds that out (see CheckVersions).

// raceTries is how often a change is tried in all while others come first.
const raceTries = 20

// CreateEndpoint registers a valid endpoint and answers it as stored. It sets version
// and times, and an id and a secret where there is none. created is false where an equal endpoint
// with that uid exists already. ErrTaken says that an endpoint with that uid is another.
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
	e.NoteCreator(byLink(ctx))
	e.CreatedAt = r.Queue.Now().Truncate(time.Millisecond)
	e.UpdatedAt = e.CreatedAt
	e.NoteHold(&dispatcher.Endpoint{}, dispatcher.CallerOf(ctx), e.CreatedAt)
	if len(e.Secrets) == 0 {
		e.Secrets = []dispatcher.EndpointSecret{{Secret: e.Signature.NewSecret()}}
	}
	for n := range raceTries {
		if n > 0 || e.ID == "" {
			e.ID = dispatcher.NewEndpointID()
		}
		// Ask before the limits are written: those of an endpoint that has this id must stay.
		if there, err := r.Store.Endpoints(ctx, []string{e.ID}); err != nil {
			return dispatcher.EndpointView{}, false, fmt.Errorf("create endpoint: %w", err)
		} else if there[0] != nil {
			continue
		}
		if _, err := r.setLimits(ctx, e.Lane(), e.Limits(), ""); err != nil {
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

// unmade removes the lane's limits where it is certain that no endpoint was created.
// Otherwise they stay, and the finisher finds them.
func (r *Registry) unmade(ctx context.Context, e, taken *dispatcher.Endpoint, err error) {
	if errors.Is(err, dispatcher.ErrUnavailable) || taken != nil && taken.ID == e.ID {
		return // the endpoint may exist, or does
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

// sameEndpoint answers the existing endpoint if it equals the one asked for.
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

// Stored reads an endpoint from the store, past the cache.
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

// views adds the states of the lanes.
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
		views[i] = dispatcher.EndpointView{Endpoint: e, State: stateOf(e, states[i]), Failing: states[i].Failing, LaneCount: states[i].LaneCount}
	}
	return views, nil
}

// stateOf is an endpoint's state: what it says itself, and the breaker of its lane.
func stateOf(e *dispatcher.Endpoint, lane dispatcher.LaneState) dispatcher.EndpointState {
	lane.Limits = e.Limits()
	state := lane.State()
	if state == dispatcher.StatePaused && !e.Paused {
		return dispatcher.StateUnverified
	}
	return state
}

// ChangeEndpoint applies change to a copy of an endpoint and stores it. Where another
// change came first it does so again. Waiting deliveries use the new version.
func (r *Registry) ChangeEndpoint(ctx context.Context, name string, change func(*dispatcher.Endpoint) error) (dispatcher.EndpointView, error) {
	return r.changeEndpoint(ctx, name, change, false)
}

// changeEndpoint makes a change; with clear it is a resume. A resume closes the lane's
// breaker and drops a Retry-After, and so does a new URL.
func (r *Registry) changeEndpoint(ctx context.Context, name string, change func(*dispatcher.Endpoint) error, clear bool) (dispatcher.EndpointView, error) {
	var e *dispatcher.Endpoint
	var was bool
	for try := 1; ; try++ {
		before, err := r.overtaken(ctx, name)
		if err != nil {
			return dispatcher.EndpointView{}, err
		}
		if len(before.Secrets) == 0 {
			return dispatcher.EndpointView{}, fmt.Errorf("change endpoint %s: %w", before.ID, dispatcher.ErrSealed) // its secrets can't be read, and would be lost
		}
		e, was = before.Clone(), before.Disabled
		if err := change(e); err != nil {
			return dispatcher.EndpointView{}, err
		}
		e.Unverified = unverified(ctx, before, e, clear)
		e.NoteSetter(before, byLink(ctx))
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
	why := dispatcher.WhyChanged
	if clear {
		why = dispatcher.WhyResumed
	}
	if _, err := r.setLimits(ctx, e.Lane(), e.Limits(), clears(why, e.Since == e.Version)); err != nil {
		return dispatcher.EndpointView{}, fmt.Errorf("change endpoint %s: %w", e.ID, err)
	}
	r.Stirred() // the log has the change by now
	if e.Disabled {
		r.sweeper.put(e.Lane(), 0)
	}
	views, err := r.views(ctx, []*dispatcher.Endpoint{e})
	if err != nil {
		return dispatcher.EndpointView{}, err
	}
	return views[0], nil
}

// byLink reports whether a call is made on behalf of people who came by a link.
func byLink(ctx context.Context) bool {
	c, ok := access.CallerOf(ctx)
	return ok && c.Linked()
}

// unverified reports whether an endpoint's URL waits for a test after a change. A URL that
// a link set does, until a test succeeded (see Works), or the operator resumes the endpoint
// or gives it another URL.
func unverified(ctx context.Context, before, e *dispatcher.Endpoint, resume bool) bool {
	switch moved := e.URL != before.URL; {
	case byLink(ctx):
		return e.Unverified || moved
	case moved, resume:
		return false
	}
	return e.Unverified
}

// tellDisabled logs that an endpoint was disabled or enabled; was is the state before.
func (r *Registry) tellDisabled(ctx context.Context, e *dispatcher.Endpoint, was bool) {
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
	r.tellNotice(e)
}

// tellNotice has a notice tell that an endpoint is disabled, if it is. An instance may do
// so again (see finisher): the key is of the endpoint as it is stored.
func (r *Registry) tellNotice(e *dispatcher.Endpoint) {
	if !e.Disabled {
		return
	}
	news := dispatcher.News{
		Notice: dispatcher.NoticeDisabled, Lane: e.Lane(), Key: dispatcher.Summary(e.HeldAt, 0),
		Since: e.HeldAt, Reason: string(cmp.Or(e.Cause, dispatcher.WhyOperator)), Detail: "by " + cmp.Or(e.HeldBy, dispatcher.System),
	}
	if e.Cause == dispatcher.WhyGone {
		news.Status = http.StatusGone
	}
	r.Tell(news)
}

// DeleteEndpoint deletes an endpoint. It cancels and counts the deliveries that wait; one
// in flight ends with its attempt. For an endpoint that was deleted before, it counts what
// still waits.
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
	r.deleting.Store(id, true) // the finisher leaves it alone until this has counted
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
	if cancelled, err = r.sweeper.delete(ctx, id, end); err != nil {
		return 0, fmt.Errorf("delete endpoint %s: %w", id, err)
	}
	r.Stirred()
	return cancelled, nil
}

// RotateSecret gives an endpoint the secret next, or a generated one where next is zero.
// For overlap the old secrets sign too, as far as the signature has room for several.
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

// Disable disables an endpoint since its receiver answered 410, or failed for too long;
// called is the endpoint as it was called. Where that fails the next such answer does it.
// Many calls at once make one change.
func (r *Registry) Disable(called *dispatcher.Endpoint, cause dispatcher.LaneWhy) {
	if now := r.Cache.Cached(called.Lane()); now != nil && !says(called, now) {
		return
	}
	flight := called.ID + " " + strconv.FormatInt(called.Version, 10)
	_, _, _ = r.gone.Do(flight, func() (any, error) {
		ctx, cancel := outage.Within(context.Background())
		defer cancel()
		var once sync.Once // the change may be tried again
		_, err := r.changeEndpoint(ctx, called.ID, func(e *dispatcher.Endpoint) error {
			if !says(called, e) {
				return errAlready
			}
			e.Disabled, e.Cause = true, cause
			once.Do(func() {
				r.record(ctx, dispatcher.AuditEntry{What: "endpoint.disable", Target: e.ID, Tenant: e.Tenant, Detail: because[cause]})
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

// because says in the audit why an endpoint was disabled that no person disabled.
var because = map[dispatcher.LaneWhy]string{
	dispatcher.WhyGone:    "its receiver answered 410",
	dispatcher.WhyFailing: "none of its attempts succeeded for too long",
}

// says reports whether an answer to called is a reason to disable the endpoint as it is now.
// It is if the URL is the same, and was not set anew since, nor the endpoint resumed.
func says(called, now *dispatcher.Endpoint) bool {
	return !now.Disabled && now.URL == called.URL && called.Version >= now.Since
}

var errAlready = errors.New("it is so already, or was corrected meanwhile")
