package endpoints

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/fields"
)

// MostKnown bounds the memory that endpoints take, some 2 KiB each; beyond it
// what was not used for the longest time is forgotten.
const MostKnown = 20_000

// Cache is what this instance knows of the endpoints: what was asked for,
// until another instance tells that it changed. Nothing is kept while changes
// can't be heard.
type Cache struct {
	store dispatcher.EndpointStore // nil: there are no endpoints

	mu         sync.Mutex // guards what follows
	subscribed bool       // changes are heard
	changes    int        // heard so far: what was read before one may be old
	known      *simplelru.LRU[string, *Destination]
	tenants    *simplelru.LRU[string, []*Destination]
	listed     int // how many tenants holds: their endpoints, and one for itself each
}

func newEndpointCache(store dispatcher.EndpointStore) *Cache {
	d := &Cache{store: store, known: newLRU[*Destination](nil)}
	d.tenants = newLRU(func(_ string, list []*Destination) { d.listed -= 1 + len(list) })
	return d
}

// newLRU makes a memory of mostKnown entries. It has no lock of its own.
func newLRU[V any](forgotten func(name string, v V)) *simplelru.LRU[string, V] {
	lru, err := simplelru.NewLRU(MostKnown, forgotten)
	if err != nil {
		panic(err) // only of a bound that is none
	}
	return lru
}

// OnChange forgets an endpoint that is another than it was.
func (d *Cache) OnChange(c dispatcher.EndpointChange) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.changes++
	d.known.Remove(c.ID)
	d.tenants.Remove(c.Tenant)
}

// SetSubscribed says whether changes are heard from now on. What was known until now
// may be old either way.
func (d *Cache) SetSubscribed(hears bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.subscribed = hears
	d.changes++
	d.known.Purge()
	d.tenants.Purge()
}

// forget makes sure that an endpoint is read anew.
func (d *Cache) forget(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if dest, ok := d.known.Peek(id); ok {
		d.tenants.Remove(dest.Endpoint.Tenant)
	}
	d.known.Remove(id)
}

// recall answers what is known of ids, and which have to be read.
func (d *Cache) recall(ids []string) (found map[string]*Destination, missing []string, asOf int) {
	found = make(map[string]*Destination, len(ids))
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
func (d *Cache) keep(asOf int, read []*Destination) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.subscribed || d.changes != asOf {
		return
	}
	for _, dest := range read {
		if dest.Fault == nil {
			d.known.Add(dest.Endpoint.ID, dest)
		}
	}
}

// Load answers endpoints by id; those that there are not are missing.
func (d *Cache) Load(ctx context.Context, ids ...string) (map[string]*Destination, error) {
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
	var read []*Destination
	for _, e := range endpoints {
		if e != nil {
			dest := NewDestination(e)
			read = append(read, dest)
			found[e.ID] = dest
		}
	}
	d.keep(asOf, read)
	return found, nil
}

// Cached is an endpoint as this instance knows it, nil where it does not.
func (d *Cache) Cached(lane dispatcher.Lane) *dispatcher.Endpoint {
	d.mu.Lock()
	defer d.mu.Unlock()
	if dest, ok := d.known.Peek(string(lane)); ok {
		return dest.Endpoint
	}
	return nil
}

// Get answers an endpoint by id, or ErrNoEndpoint.
func (d *Cache) Get(ctx context.Context, id string) (*Destination, error) {
	d.mu.Lock()
	dest, ok := d.known.Get(id)
	d.mu.Unlock()
	if ok {
		return dest, nil
	}
	found, err := d.Load(ctx, id)
	if err != nil {
		return nil, err
	}
	if found[id] == nil {
		return nil, fmt.Errorf("endpoint %s: %w", id, dispatcher.ErrNoEndpoint)
	}
	return found[id], nil
}

// id is the id of an endpoint that is named by its id or its uid.
func (d *Cache) id(ctx context.Context, name string) (string, error) {
	switch {
	case dispatcher.Lane(name).IsEndpoint():
		return name, nil
	case d.store == nil || !dispatcher.ValidUID(name):
		return "", fmt.Errorf("endpoint %s: %w", fields.Clip(name), dispatcher.ErrNoEndpoint)
	}
	return d.store.EndpointID(ctx, name)
}

// Named answers an endpoint by its id or its uid.
func (d *Cache) Named(ctx context.Context, name string) (*Destination, error) {
	id, err := d.id(ctx, name)
	if err != nil {
		return nil, err
	}
	dest, err := d.Get(ctx, id)
	if err == nil && id != name && dest.Endpoint.UID != name {
		// The index proves nothing: the endpoint itself has to say that it is so called.
		return nil, fmt.Errorf("endpoint %s: %w", fields.Clip(name), dispatcher.ErrNoEndpoint)
	}
	return dest, err
}
