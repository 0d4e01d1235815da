package endpoints

import (
	"context"
	"fmt"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/outage"
)

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
