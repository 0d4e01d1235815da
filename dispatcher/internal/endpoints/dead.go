package endpoints

import (
	"context"

	"github.com/hookladder/hookladder/dispatcher"
)

// Dead counts the dead deliveries by destination and reason. It returns ErrListing if too
// many callers list now.
func (r *Registry) Dead(ctx context.Context, f dispatcher.DeadFilter) (dispatcher.DeadPage, error) {
	_, leave, err := r.Lists.Enter(ctx)
	if err != nil {
		return dispatcher.DeadPage{}, err
	}
	defer leave()
	if r.Store != nil {
		for _, tenant := range f.Tenants {
			list, err := r.Cache.tenant(ctx, tenant)
			if err != nil {
				return dispatcher.DeadPage{}, err
			}
			for _, e := range list {
				f.Owned = append(f.Owned, e.Endpoint.Lane())
			}
		}
	}
	page, err := r.ReadDead(ctx, f)
	if err != nil {
		return dispatcher.DeadPage{}, err
	}
	states := make([]dispatcher.LaneState, len(page.Groups))
	for i, g := range page.Groups {
		states[i].Lane = g.Lane
	}
	if err := r.FillURLs(ctx, states); err != nil {
		return dispatcher.DeadPage{}, err
	}
	for i, s := range states {
		if s.URL != "" {
			g := &page.Groups[i]
			g.URL, g.Tenant, g.UID = s.URL, s.Tenant, s.UID
		}
	}
	return page, nil
}
