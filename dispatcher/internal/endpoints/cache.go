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

// MostKnown bounds the cached endpoints, some 2 KiB each. Beyond it the least recently
// used ones are evicted.
const MostKnown = 20_000

// Cache holds the endpoints that were read, until an event tells that they changed.
// Nothing is kept while this instance is not subscribed to these events.
type Cache struct {
	store   dispatcher.EndpointStore // nil: there are no endpoints
	changed func()                   // is told of each change, and that one may have been missed

	mu         sync.Mutex // guards what follows
	subscribed bool       // to events of changes
	changes    int        // counts events: what was read before one may be old
	known      *simplelru.LRU[string, *Destination]
	tenants    *simplelru.LRU[string, []*Destination]
	listed     int // size of tenants: their endpoints, and one for each tenant
}

func newEndpointCache(store dispatcher.EndpointStore, changed func()) *Cache {
	c := &Cache{store: store, changed: changed, known: newLRU[*Destination](nil)}
	c.tenants = newLRU(func(_ string, list []*Destination) { c.listed -= 1 + len(list) })
	return c
}

// newLRU makes an LRU cache of MostKnown entries. It has no lock of its own.
func newLRU[V any](forgotten func(name string, v V)) *simplelru.LRU[string, V] {
	lru, err := simplelru.NewLRU(MostKnown, forgotten)
	if err != nil {
		panic(err) // impossible: it fails for a bound below 1 only
	}
	return lru
}

// OnChange removes an endpoint that was changed.
func (c *Cache) OnChange(change dispatcher.EndpointChange) {
	defer c.changed()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes++
	c.known.Remove(change.ID)
	c.tenants.Remove(change.Tenant)
}

// SetSubscribed says whether events arrive from now on. It empties the cache either way,
// since an event may have been missed.
func (c *Cache) SetSubscribed(hears bool) {
	defer c.changed()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.subscribed = hears
	c.changes++
	c.known.Purge()
	c.tenants.Purge()
}

// Clear empties the cache.
func (c *Cache) Clear() {
	defer c.changed()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes++
	c.known.Purge()
	c.tenants.Purge()
}

// forget removes an endpoint, so that it is read anew.
func (c *Cache) forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if dest, ok := c.known.Peek(id); ok {
		c.tenants.Remove(dest.Endpoint.Tenant)
	}
	c.known.Remove(id)
}

// recall answers the cached ones of ids, and which have to be read. asOf goes to keep.
func (c *Cache) recall(ids []string) (found map[string]*Destination, missing []string, asOf int) {
	found = make(map[string]*Destination, len(ids))
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range ids {
		if dest, ok := c.known.Get(id); ok {
			found[id] = dest
		} else if !slices.Contains(missing, id) {
			missing = append(missing, id)
		}
	}
	return found, missing, c.changes
}

// keep caches what was read, unless something changed since asOf. An endpoint with a fault
// is not cached: the fault may end without a change of the endpoint.
func (c *Cache) keep(asOf int, read []*Destination) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.subscribed || c.changes != asOf {
		return
	}
	for _, dest := range read {
		if dest.Fault == nil {
			c.known.Add(dest.Endpoint.ID, dest)
		}
	}
}

// Load answers endpoints by id. Ids without an endpoint are missing in the answer.
func (c *Cache) Load(ctx context.Context, ids ...string) (map[string]*Destination, error) {
	found, missing, asOf := c.recall(ids)
	if len(missing) == 0 {
		return found, nil
	}
	if c.store == nil {
		return nil, errNoStore // an empty answer would count as deleted
	}
	call, cancel := context.WithTimeout(ctx, checkWithin)
	defer cancel()
	endpoints, err := c.store.Endpoints(call, missing)
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
	c.keep(asOf, read)
	return found, nil
}

// Cached is an endpoint as it is in the cache, or nil.
func (c *Cache) Cached(lane dispatcher.Lane) *dispatcher.Endpoint {
	c.mu.Lock()
	defer c.mu.Unlock()
	if dest, ok := c.known.Peek(string(lane)); ok {
		return dest.Endpoint
	}
	return nil
}

// Get answers an endpoint by id, or ErrNoEndpoint.
func (c *Cache) Get(ctx context.Context, id string) (*Destination, error) {
	c.mu.Lock()
	dest, ok := c.known.Get(id)
	c.mu.Unlock()
	if ok {
		return dest, nil
	}
	found, err := c.Load(ctx, id)
	if err != nil {
		return nil, err
	}
	if found[id] == nil {
		return nil, fmt.Errorf("endpoint %s: %w", id, dispatcher.ErrNoEndpoint)
	}
	return found[id], nil
}

// id is the id of an endpoint that is named by its id or its uid.
func (c *Cache) id(ctx context.Context, name string) (string, error) {
	switch {
	case dispatcher.Lane(name).IsEndpoint():
		return name, nil
	case c.store == nil || !dispatcher.ValidUID(name):
		return "", fmt.Errorf("endpoint %s: %w", fields.Clip(name), dispatcher.ErrNoEndpoint)
	}
	return c.store.EndpointID(ctx, name)
}

// Named answers an endpoint by its id or its uid.
func (c *Cache) Named(ctx context.Context, name string) (*Destination, error) {
	id, err := c.id(ctx, name)
	if err != nil {
		return nil, err
	}
	dest, err := c.Get(ctx, id)
	if err == nil && id != name && dest.Endpoint.UID != name {
		// The index may be out of date: what counts is the uid of the endpoint itself.
		return nil, fmt.Errorf("endpoint %s: %w", fields.Clip(name), dispatcher.ErrNoEndpoint)
	}
	return dest, err
}
