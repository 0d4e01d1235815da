package dispatcher

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/hookladder/hookladder/signer"
)

// Every change of an endpoint is made in one order: the truth, which by the
// same step tells all instances, then the copy that its lane keeps. A new one
// has its copy first, so that nothing lies in a lane that may not be claimed
// from. An instance that stops between the two leaves a lane of an older version than the
// truth; the next claim finds that out (see directory.admit).

// raceTries is how often a change is made again because another came first.
const raceTries = 20

// CreateEndpoint registers an endpoint and answers it as stored. It must be
// valid; its id, version and times are set here, and a secret where it has
// none. created is false where one with that uid was there already and equal;
// ErrTaken says that it is another.
func (d *Dispatcher) CreateEndpoint(ctx context.Context, e *Endpoint) (view EndpointView, created bool, err error) {
	dir := d.engine.cache
	if dir.store == nil {
		return EndpointView{}, false, errNoStore
	}
	if e.UID != "" {
		if there, err := dir.named(ctx, e.UID); err == nil {
			return d.sameEndpoint(ctx, e, there.endpoint)
		} else if !errors.Is(err, ErrNoEndpoint) {
			return EndpointView{}, false, err
		}
	}
	asked := e
	e = e.Clone()
	e.Version, e.Since = 1, 1
	e.CreatedAt = d.engine.view.clock.now().Truncate(time.Millisecond)
	e.UpdatedAt = e.CreatedAt
	e.note(&Endpoint{}, callerOf(ctx), e.CreatedAt)
	if len(e.Secrets) == 0 {
		e.Secrets = []EndpointSecret{{Secret: e.Signature.NewSecret()}}
	}
	for range raceTries {
		e.ID = newEndpointID()
		// Before its lane has limits: those of another with that id must stay.
		if there, err := dir.store.Endpoints(ctx, []string{e.ID}); err != nil {
			return EndpointView{}, false, fmt.Errorf("create endpoint: %w", err)
		} else if there[0] != nil {
			continue
		}
		if _, err := d.engine.setLimits(ctx, e.Lane(), e.Limits(), false); err != nil {
			return EndpointView{}, false, fmt.Errorf("create endpoint: %w", err)
		}
		taken, err := dir.store.CreateEndpoint(ctx, e)
		if err == nil {
			dir.onChange(EndpointChange{ID: e.ID, Tenant: e.Tenant, Version: e.Version})
			return EndpointView{Endpoint: e, State: stateOf(e, LaneState{})}, true, nil
		}
		d.unmade(ctx, e, taken, err)
		switch {
		case !errors.Is(err, ErrTaken):
			return EndpointView{}, false, fmt.Errorf("create endpoint: %w", err)
		case taken != nil && taken.ID != e.ID: // somebody was quicker with that uid
			return d.sameEndpoint(ctx, asked, taken)
		}
	}
	return EndpointView{}, false, fmt.Errorf("create endpoint: %w", ErrTaken)
}

// unmade takes the lane's limits away again where it is sure that no endpoint
// was made. Where that is not sure they stay, and the finisher finds them.
func (d *Dispatcher) unmade(ctx context.Context, e, taken *Endpoint, err error) {
	if errors.Is(err, ErrUnavailable) || taken != nil && taken.ID == e.ID {
		return // it may be there, or is
	}
	if errors.Is(err, ErrTaken) && taken == nil {
		return // the id is another's, and so is its lane
	}
	call, cancel := within(context.WithoutCancel(ctx))
	defer cancel()
	_, err = d.engine.queue.ForgetLane(call, d.engine.name(), LaneVersion{e.Lane(), e.Version}, 0)
	d.engine.outages.report("limit", err)
}

var errNoStore = errors.New("this dispatcher has no store of endpoints")

// newEndpointID is ep_ and 9 of the 32 characters of base32: 45 random bits.
// One that is taken is made anew.
func newEndpointID() string { return EndpointPrefix + strings.ToLower(rand.Text()[:9]) }

// sameEndpoint answers the one that is there where it is what was asked for.
func (d *Dispatcher) sameEndpoint(ctx context.Context, asked, there *Endpoint) (EndpointView, bool, error) {
	if !asked.equal(there) {
		return EndpointView{}, false, fmt.Errorf("uid %s: %w", asked.UID, ErrTaken)
	}
	views, err := d.views(ctx, []*Endpoint{there})
	if err != nil {
		return EndpointView{}, false, err
	}
	return views[0], false, nil
}

// equal reports whether o is what was asked for. A secret counts where one was
// asked for; what the operator did to it since does not.
func (e *Endpoint) equal(o *Endpoint) bool {
	sameLadder := e.Ladder == o.Ladder || e.Ladder != nil && o.Ladder != nil && e.Ladder.String() == o.Ladder.String()
	sameSecret := len(e.Secrets) == 0 || len(o.Secrets) > 0 && e.Secrets[0].Secret.Equal(o.Secrets[0].Secret)
	return e.Tenant == o.Tenant && e.URL == o.URL && slices.Equal(e.Topics, o.Topics) &&
		e.Description == o.Description && maps.Equal(e.Metadata, o.Metadata) && e.Signature == o.Signature &&
		sameLadder && sameSecret && e.Timeout == o.Timeout && e.MaxInFlight == o.MaxInFlight &&
		e.Rate.Interval() == o.Rate.Interval() && slices.Equal(e.Headers, o.Headers) && e.Success.Equal(o.Success) &&
		(e.Success == nil) == (o.Success == nil) && e.Ordered == o.Ordered
}

// Clone is a copy that may be changed.
func (e *Endpoint) Clone() *Endpoint {
	c := *e
	c.Topics = slices.Clone(e.Topics)
	c.Secrets = slices.Clone(e.Secrets)
	c.Headers = slices.Clone(e.Headers)
	c.Metadata = maps.Clone(e.Metadata)
	return &c
}

// Endpoint reads an endpoint by its id or its uid, or answers ErrNoEndpoint.
func (d *Dispatcher) Endpoint(ctx context.Context, name string) (EndpointView, error) {
	e, err := d.stored(ctx, name)
	if err != nil {
		return EndpointView{}, err
	}
	views, err := d.views(ctx, []*Endpoint{e})
	if err != nil {
		return EndpointView{}, err
	}
	return views[0], nil
}

// stored reads an endpoint from the store, whatever is known of it here.
func (d *Dispatcher) stored(ctx context.Context, name string) (*Endpoint, error) {
	dir := d.engine.cache
	id, err := dir.id(ctx, name)
	if err != nil {
		return nil, err
	}
	if dir.store == nil {
		return nil, fmt.Errorf("endpoint %s: %w", id, ErrNoEndpoint)
	}
	list, err := dir.store.Endpoints(ctx, []string{id})
	if err != nil {
		return nil, fmt.Errorf("read endpoint %s: %w", id, err)
	}
	if len(list) == 0 || list[0] == nil {
		return nil, fmt.Errorf("endpoint %s: %w", id, ErrNoEndpoint)
	}
	return list[0], nil
}

// Endpoints reads a page of endpoints, newest first.
func (d *Dispatcher) Endpoints(ctx context.Context, f EndpointFilter) ([]EndpointView, string, error) {
	dir := d.engine.cache
	if dir.store == nil {
		return nil, "", nil
	}
	page, next, err := dir.store.ListEndpoints(ctx, f)
	if err != nil {
		return nil, "", err
	}
	views, err := d.views(ctx, page)
	return views, next, err
}

// views adds how the lanes stand.
func (d *Dispatcher) views(ctx context.Context, list []*Endpoint) ([]EndpointView, error) {
	lanes := make([]Lane, len(list))
	for i, e := range list {
		lanes[i] = e.Lane()
	}
	states, err := d.engine.queue.LaneStates(ctx, lanes)
	if err != nil {
		return nil, fmt.Errorf("read lanes: %w", err)
	}
	views := make([]EndpointView, len(list))
	for i, e := range list {
		views[i] = EndpointView{Endpoint: e, State: stateOf(e, states[i]), LaneCount: states[i].LaneCount}
	}
	return views, nil
}

// stateOf is an endpoint's state: what it says itself, and the breaker of its lane.
func stateOf(e *Endpoint, lane LaneState) EndpointState {
	lane.Limits = e.Limits()
	return lane.State()
}

// ChangeEndpoint has change made to an endpoint, on a copy, and once more where
// somebody else was quicker. What waits goes by what it is then.
func (d *Dispatcher) ChangeEndpoint(ctx context.Context, name string, change func(*Endpoint) error) (EndpointView, error) {
	return d.changeEndpoint(ctx, name, change, false)
}

// changeEndpoint makes a change; with clear it is a resume. Then the lane's
// breaker is closed too, and what its receiver asked to wait for is forgotten,
// as after another URL.
func (d *Dispatcher) changeEndpoint(ctx context.Context, name string, change func(*Endpoint) error, clear bool) (EndpointView, error) {
	var e *Endpoint
	var was bool
	for try := 1; ; try++ {
		before, err := d.stored(ctx, name)
		if err != nil {
			return EndpointView{}, err
		}
		if len(before.Secrets) == 0 {
			return EndpointView{}, fmt.Errorf("change endpoint %s: %w", before.ID, ErrSealed) // what can't be read would be lost
		}
		e, was = before.Clone(), before.Disabled
		if err := change(e); err != nil {
			return EndpointView{}, err
		}
		e.Version++
		if clear || e.URL != before.URL || before.Disabled && !e.Disabled {
			e.Since = e.Version
		}
		e.UpdatedAt = d.engine.view.clock.now().Truncate(time.Millisecond)
		e.note(before, callerOf(ctx), e.UpdatedAt)
		err = d.engine.cache.store.ChangeEndpoint(ctx, e)
		if err == nil {
			break
		}
		if !errors.Is(err, ErrStale) || try == raceTries {
			return EndpointView{}, fmt.Errorf("change endpoint %s: %w", e.ID, err)
		}
	}
	d.engine.cache.onChange(EndpointChange{ID: e.ID, Tenant: e.Tenant, Version: e.Version})
	d.tellDisabled(ctx, e, was)
	if _, err := d.engine.setLimits(ctx, e.Lane(), e.Limits(), e.Since == e.Version); err != nil {
		return EndpointView{}, fmt.Errorf("change endpoint %s: %w", e.ID, err)
	}
	if e.Disabled {
		d.sweeper.put(e.Lane(), 0)
	}
	views, err := d.views(ctx, []*Endpoint{e})
	if err != nil {
		return EndpointView{}, err
	}
	return views[0], nil
}

// tellDisabled logs that an endpoint was disabled, or is not any more.
func (d *Dispatcher) tellDisabled(ctx context.Context, e *Endpoint, was bool) {
	text := "endpoint disabled"
	switch {
	case e.Disabled == was:
		return
	case was:
		text = "endpoint enabled"
	}
	attrs := []slog.Attr{byCaller(ctx), slog.String("lane", e.ID), slog.String("url", newDestination(e).origin())}
	if e.Gone {
		attrs = append(attrs, slog.Int("status", http.StatusGone))
	}
	d.engine.log.LogAttrs(ctx, slog.LevelInfo, text, attrs...)
}

// DeleteEndpoint forgets an endpoint. What waits for it is cancelled, and
// counted; what is in flight ends with its attempt. Of one that was deleted
// already, while something waits still, it counts what is left.
func (d *Dispatcher) DeleteEndpoint(ctx context.Context, name string) (cancelled int, err error) {
	dir := d.engine.cache
	id, err := dir.id(ctx, name)
	if err != nil {
		return 0, err
	}
	if dir.store == nil {
		return 0, fmt.Errorf("endpoint %s: %w", id, ErrNoEndpoint)
	}
	e, err := d.stored(ctx, id)
	if err != nil && !errors.Is(err, ErrNoEndpoint) {
		return 0, err
	}
	end, err := dir.store.DeleteEndpoint(ctx, id)
	if err != nil {
		return 0, fmt.Errorf("delete endpoint %s: %w", id, err)
	}
	if e != nil {
		dir.onChange(EndpointChange{ID: id, Tenant: e.Tenant})
	}
	if cancelled, err = d.sweeper.delete(ctx, id, end); err != nil {
		return 0, fmt.Errorf("delete endpoint %s: %w", id, err)
	}
	return cancelled, nil
}

// RotateSecret gives an endpoint a new secret, a zero one: one that is made
// here. Those it has go on signing besides for overlap, where the signature has
// room for several.
func (d *Dispatcher) RotateSecret(ctx context.Context, name string, next signer.Secret, overlap time.Duration) (EndpointView, error) {
	return d.ChangeEndpoint(ctx, name, func(e *Endpoint) error {
		secret := next
		if secret.IsZero() {
			secret = e.Signature.NewSecret()
		}
		if _, err := e.Signature.NewSigner(secret); err != nil {
			return fmt.Errorf("rotate secret of %s: %w", e.ID, err) // the signature may have changed meanwhile
		}
		now := d.engine.view.clock.now()
		until := now.Add(overlap).Truncate(time.Millisecond)
		secrets := []EndpointSecret{{Secret: secret}}
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
