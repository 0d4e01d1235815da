package endpoints

import (
	"context"
	"fmt"

	"github.com/hookladder/hookladder/dispatcher/internal/outage"
)

// Matching are the endpoints of a tenant to which messages of a topic go.
func (d *Cache) Matching(ctx context.Context, tenant, topic string) ([]*Destination, error) {
	all, err := d.tenant(ctx, tenant)
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

func (d *Cache) tenant(ctx context.Context, tenant string) ([]*Destination, error) {
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
	call, cancel := outage.Within(ctx) // a tenant may have thousands
	defer cancel()
	endpoints, err := d.store.TenantEndpoints(call, tenant)
	if err != nil {
		return nil, fmt.Errorf("read endpoints of a tenant: %w", err)
	}
	list = make([]*Destination, len(endpoints))
	for i, e := range endpoints {
		list[i] = NewDestination(e)
	}
	d.keep(asOf, list)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.subscribed && d.changes == asOf {
		d.tenants.Remove(tenant) // another may have read it meanwhile
		d.tenants.Add(tenant, list)
		d.listed += 1 + len(list) // tenants that have none are kept too
		for d.listed > MostKnown && d.tenants.Len() > 1 {
			d.tenants.RemoveOldest()
		}
	}
	return list, nil
}
