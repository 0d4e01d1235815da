package endpoints

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/input"
	"github.com/hookladder/hookladder/dispatcher/internal/outage"
)

// MostKnown bounds the cached endpoints, some 2 KiB each. If the cache is full, it evicts
// the least recently used one.
const MostKnown = 20_000

// Cache caches endpoints until an event reports that they changed. It caches nothing
// while this instance is not subscribed to these events, because an event might be lost.
type Cache struct {
	store   dispatcher.EndpointStore // nil: there are no endpoints
	changed func()                   // called after each change, and if one may have been missed

	mu         sync.Mutex                             // guards the fields below
	subscribed bool                                   // to the events of changes
	changes    int                                    // counts events, because a read that began before one may be stale
	known      *simplelru.LRU[string, *Destination]   // by id
	tenants    *simplelru.LRU[string, []*Destination] // by tenant
	listed     int                                    // size of tenants: one for each tenant and one for each endpoint
}

func newEndpointCache(store dispatcher.EndpointStore, changed func()) *Cache {
	c := &Cache{store: store, changed: changed, known: newLRU[*Destination](nil)}
	c.tenants = newLRU(func(_ string, list []*Destination) { c.listed -= 1 + len(list) })
	return c
}

// newLRU returns an LRU cache of MostKnown entries. It is not safe for concurrent use.
func newLRU[V any](forgotten func(name string, v V)) *simplelru.LRU[string, V] {
	lru, err := simplelru.NewLRU(MostKnown, forgotten)
	if err != nil {
		panic(err) // impossible: it fails for a bound below 1 only
	}
	return lru
}

// OnChange removes a changed endpoint from the cache.
func (c *Cache) OnChange(change dispatcher.EndpointChange) {
	defer c.changed()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes++
	c.known.Remove(change.ID)
	c.tenants.Remove(change.Tenant)
}

// SetSubscribed sets whether events arrive from now on. It empties the cache in both
// cases, because an event may have been missed.
func (c *Cache) SetSubscribed(subscribed bool) {
	defer c.changed()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.subscribed = subscribed
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

// forget removes an endpoint from the cache, so that the next read returns the stored
// one.
func (c *Cache) forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if dest, ok := c.known.Peek(id); ok {
		c.tenants.Remove(dest.Endpoint.Tenant)
	}
	c.known.Remove(id)
}

// recall returns the cached endpoints of ids, and the ids that must be read. The caller
// passes asOf to keep.
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

// keep caches endpoints that were read, unless something changed since asOf. It does not
// cache an endpoint with a fault, because the fault may end without a change of the
// endpoint.
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

// Load returns endpoints by id, from the cache or the store. Ids without an endpoint are
// not in the map.
func (c *Cache) Load(ctx context.Context, ids ...string) (map[string]*Destination, error) {
	found, missing, asOf := c.recall(ids)
	if len(missing) == 0 {
		return found, nil
	}
	if c.store == nil {
		return nil, errNoStore // an empty response would count as deleted
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

// Cached returns the endpoint of a lane if it is cached, or nil.
func (c *Cache) Cached(lane dispatcher.Lane) *dispatcher.Endpoint {
	c.mu.Lock()
	defer c.mu.Unlock()
	if dest, ok := c.known.Peek(string(lane)); ok {
		return dest.Endpoint
	}
	return nil
}

// Get returns an endpoint by id, or ErrNoEndpoint.
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

// id returns the id of an endpoint that is named by its id or its uid.
func (c *Cache) id(ctx context.Context, name string) (string, error) {
	switch {
	case dispatcher.Lane(name).IsEndpoint():
		return name, nil
	case c.store == nil || !dispatcher.ValidUID(name):
		return "", fmt.Errorf("endpoint %s: %w", input.Clip(name), dispatcher.ErrNoEndpoint)
	}
	return c.store.EndpointID(ctx, name)
}

// Named returns an endpoint by its id or its uid, or ErrNoEndpoint.
func (c *Cache) Named(ctx context.Context, name string) (*Destination, error) {
	id, err := c.id(ctx, name)
	if err != nil {
		return nil, err
	}
	dest, err := c.Get(ctx, id)
	if err == nil && id != name && dest.Endpoint.UID != name {
		// The index may be out of date, so the uid of the endpoint itself decides.
		return nil, fmt.Errorf("endpoint %s: %w", input.Clip(name), dispatcher.ErrNoEndpoint)
	}
	return dest, err
}

// Matching returns the endpoints of a tenant that match a topic.
func (c *Cache) Matching(ctx context.Context, tenant, topic string) ([]*Destination, error) {
	all, err := c.tenant(ctx, tenant)
	if err != nil {
		return nil, err
	}
	var list []*Destination
	for _, dest := range all {
		if dest.Endpoint.Matches(topic) {
			list = append(list, dest)
		}
	}
	return list, nil
}

// Listeners returns the endpoints of a tenant that receive notices of a topic.
func (r *Registry) Listeners(ctx context.Context, tenant, topic string) ([]*dispatcher.Endpoint, error) {
	matching, err := r.Cache.Matching(ctx, tenant, topic)
	list := make([]*dispatcher.Endpoint, len(matching))
	for i, dest := range matching {
		list[i] = dest.Endpoint
	}
	return list, err
}

// tenant returns all endpoints of a tenant, from the cache or the store.
func (c *Cache) tenant(ctx context.Context, tenant string) ([]*Destination, error) {
	if c.store == nil {
		return nil, nil
	}
	c.mu.Lock()
	list, ok := c.tenants.Get(tenant)
	asOf := c.changes
	c.mu.Unlock()
	if ok {
		return list, nil
	}
	call, cancel := outage.Within(ctx) // a tenant may have thousands
	defer cancel()
	endpoints, err := c.store.TenantEndpoints(call, tenant)
	if err != nil {
		return nil, fmt.Errorf("read endpoints of a tenant: %w", err)
	}
	list = make([]*Destination, len(endpoints))
	for i, e := range endpoints {
		list[i] = NewDestination(e)
	}
	c.keep(asOf, list)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.subscribed && c.changes == asOf {
		c.tenants.Remove(tenant) // another goroutine may have added it in the meantime
		c.tenants.Add(tenant, list)
		c.listed += 1 + len(list) // tenants without endpoints are cached too
		for c.listed > MostKnown && c.tenants.Len() > 1 {
			c.tenants.RemoveOldest()
		}
	}
	return list, nil
}
