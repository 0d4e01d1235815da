package dispatcher

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// mostKnown bounds the memory that endpoints take, some 2 KiB each; beyond it
// what was not used for the longest time is forgotten.
const mostKnown = 20_000

// endpointCache is what this instance knows of the endpoints: what was asked for,
// until another instance tells that it changed. Nothing is kept while changes
// can't be heard.
type endpointCache struct {
	engine *engine
	store  EndpointStore // nil: there are no endpoints

	missing, sealed seldom // told of endpoints that are not there, and that can't be read

	mu         sync.Mutex // guards what follows
	subscribed bool       // changes are heard
	changes    int        // heard so far: what was read before one may be old
	known      *simplelru.LRU[string, *destination]
	tenants    *simplelru.LRU[string, []*destination]
	listed     int // how many tenants holds: their endpoints, and one for itself each
}

func newEndpointCache(e *engine, store EndpointStore) *endpointCache {
	d := &endpointCache{engine: e, store: store, known: newLRU[*destination](nil)}
	d.tenants = newLRU(func(_ string, list []*destination) { d.listed -= 1 + len(list) })
	return d
}

// newLRU makes a memory of mostKnown entries. It has no lock of its own.
func newLRU[V any](forgotten func(name string, v V)) *simplelru.LRU[string, V] {
	lru, err := simplelru.NewLRU(mostKnown, forgotten)
	if err != nil {
		panic(err) // only of a bound that is none
	}
	return lru
}

// onChange forgets an endpoint that is another than it was.
func (d *endpointCache) onChange(c EndpointChange) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.changes++
	d.known.Remove(c.ID)
	d.tenants.Remove(c.Tenant)
}

// setSubscribed says whether changes are heard from now on. What was known until now
// may be old either way.
func (d *endpointCache) setSubscribed(hears bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.subscribed = hears
	d.changes++
	d.known.Purge()
	d.tenants.Purge()
}

// forget makes sure that an endpoint is read anew.
func (d *endpointCache) forget(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if dest, ok := d.known.Peek(id); ok {
		d.tenants.Remove(dest.endpoint.Tenant)
	}
	d.known.Remove(id)
}

// recall answers what is known of ids, and which have to be read.
func (d *endpointCache) recall(ids []string) (found map[string]*destination, missing []string, asOf int) {
	found = make(map[string]*destination, len(ids))
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range ids {
		if dest, ok := d.known.Get(id); ok {
			found[id] = dest
		} else if !slices.Contains(missing, id) {
			missing = append(missing, id)
		}
	}
	return found, missing, d.changes
}

// keep remembers what was read, unless something changed since. What can't be
// opened is read again each time: a key that is added changes no endpoint.
func (d *endpointCache) keep(asOf int, read []*destination) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.subscribed || d.changes != asOf {
		return
	}
	for _, dest := range read {
		if dest.fault == nil {
			d.known.Add(dest.endpoint.ID, dest)
		}
	}
}

// load answers endpoints by id; those that there are not are missing.
func (d *endpointCache) load(ctx context.Context, ids ...string) (map[string]*destination, error) {
	found, missing, asOf := d.recall(ids)
	if len(missing) == 0 {
		return found, nil
	}
	if d.store == nil {
		return nil, errNoStore // not none: what is not found counts as deleted
	}
	call, cancel := context.WithTimeout(ctx, checkWithin)
	defer cancel()
	endpoints, err := d.store.Endpoints(call, missing)
	if err != nil {
		return nil, fmt.Errorf("read endpoints: %w", err)
	}
	var read []*destination
	for _, e := range endpoints {
		if e != nil {
			dest := newDestination(e)
			read = append(read, dest)
			found[e.ID] = dest
		}
	}
	d.keep(asOf, read)
	return found, nil
}

// cached is an endpoint as this instance knows it, nil where it does not.
func (d *endpointCache) cached(lane Lane) *Endpoint {
	d.mu.Lock()
	defer d.mu.Unlock()
	if dest, ok := d.known.Peek(string(lane)); ok {
		return dest.endpoint
	}
	return nil
}

// get answers an endpoint by id, or ErrNoEndpoint.
func (d *endpointCache) get(ctx context.Context, id string) (*destination, error) {
	d.mu.Lock()
	dest, ok := d.known.Get(id)
	d.mu.Unlock()
	if ok {
		return dest, nil
	}
	found, err := d.load(ctx, id)
	if err != nil {
		return nil, err
	}
	if found[id] == nil {
		return nil, fmt.Errorf("endpoint %s: %w", id, ErrNoEndpoint)
	}
	return found[id], nil
}

// id is the id of an endpoint that is named by its id or its uid.
func (d *endpointCache) id(ctx context.Context, name string) (string, error) {
	switch {
	case Lane(name).IsEndpoint():
		return name, nil
	case d.store == nil || !ValidUID(name):
		return "", fmt.Errorf("endpoint %s: %w", clip(name), ErrNoEndpoint)
	}
	return d.store.EndpointID(ctx, name)
}

// named answers an endpoint by its id or its uid.
func (d *endpointCache) named(ctx context.Context, name string) (*destination, error) {
	id, err := d.id(ctx, name)
	if err != nil {
		return nil, err
	}
	dest, err := d.get(ctx, id)
	if err == nil && id != name && dest.endpoint.UID != name {
		// The index proves nothing: the endpoint itself has to say that it is so called.
		return nil, fmt.Errorf("endpoint %s: %w", clip(name), ErrNoEndpoint)
	}
	return dest, err
}

// matching are the endpoints of a tenant to which messages of a topic go.
func (d *endpointCache) matching(ctx context.Context, tenant, topic string) ([]*destination, error) {
	all, err := d.tenant(ctx, tenant)
	if err != nil {
		return nil, err
	}
	var list []*destination
	for _, dest := range all {
		if dest.endpoint.Matches(topic) {
			list = append(list, dest)
		}
	}
	return list, nil
}

func (d *endpointCache) tenant(ctx context.Context, tenant string) ([]*destination, error) {
	if d.store == nil {
		return nil, nil
	}
	d.mu.Lock()
	list, ok := d.tenants.Get(tenant)
	asOf := d.changes
	d.mu.Unlock()
	if ok {
		return list, nil
	}
	call, cancel := within(ctx) // a tenant may have thousands
	defer cancel()
	endpoints, err := d.store.TenantEndpoints(call, tenant)
	if err != nil {
		return nil, fmt.Errorf("read endpoints of a tenant: %w", err)
	}
	list = make([]*destination, len(endpoints))
	for i, e := range endpoints {
		list[i] = newDestination(e)
	}
	d.keep(asOf, list)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.subscribed && d.changes == asOf {
		d.tenants.Remove(tenant) // another may have read it meanwhile
		d.tenants.Add(tenant, list)
		d.listed += 1 + len(list) // tenants that have none are kept too
		for d.listed > mostKnown && d.tenants.Len() > 1 {
			d.tenants.RemoveOldest()
		}
	}
	return list, nil
}
