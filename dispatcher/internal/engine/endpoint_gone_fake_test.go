package engine_test

import (
	"context"
	"fmt"
	"maps"

	d "github.com/hookladder/hookladder/dispatcher"
)

// DeleteEndpoint and what follows is what a fakeEndpoints knows of deleted ones.
func (f *fakeEndpoints) DeleteEndpoint(ctx context.Context, id string) (int64, error) {
	if err := f.begin(ctx, "delete endpoint"); err != nil {
		return 0, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.byID[id]
	switch {
	case before == nil && f.ends[id] > 0:
		return f.ends[id], nil
	case before == nil:
		return 0, fmt.Errorf("%s: %w", id, d.ErrNoEndpoint)
	}
	delete(f.byID, id)
	f.ends[id] = before.Version + 1
	f.notify(d.EndpointChange{ID: id, Tenant: before.Tenant})
	return f.ends[id], nil
}

func (f *fakeEndpoints) DeletedEndpoints(ctx context.Context, _ string) (map[string]int64, string, error) {
	if err := f.begin(ctx, "deleted endpoints"); err != nil {
		return nil, "", err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.ends), "", nil
}

func (f *fakeEndpoints) ForgetDeleted(ctx context.Context, id string) error {
	if err := f.begin(ctx, "forget deleted"); err != nil {
		return err
	}
	f.set(func() { delete(f.ends, id) })
	return nil
}

func (f *fakeEndpoints) EndpointVersions(ctx context.Context, ids []string) ([]d.EndpointVersion, error) {
	if err := f.begin(ctx, "endpoint versions"); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	list := make([]d.EndpointVersion, len(ids))
	for i, id := range ids {
		list[i].End = f.ends[id]
		if e := f.byID[id]; e != nil {
			list[i].Version = e.Version
		}
	}
	return list, nil
}

// deleted is the end of an endpoint that is noted as deleted; 0: it is not.
func (f *fakeEndpoints) deleted(id string) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ends[id]
}
