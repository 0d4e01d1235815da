package desk

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/access"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// Desk is the API for one visitor.
type Desk struct {
	Visitor
	api   *client.Client
	meter Meter
}

// Meter counts the changes of links.
type Meter struct {
	Spend    func(ctx context.Context, link string) (wait time.Duration, err error) // counts one change; wait > 0: there were too many
	TakeBack func(ctx context.Context, link string) error                           // undoes a counted change
}

// New returns a Desk that calls api.
func New(v Visitor, api *client.Client, meter Meter) *Desk {
	return &Desk{Visitor: v, api: api, meter: meter}
}

// as returns a context with the visitor as the caller, if it has a right.
func (d *Desk) as(ctx context.Context, r Right) (context.Context, error) {
	if err := d.Refusal(r); err != nil {
		return nil, err
	}
	return d.Context(ctx), nil
}

// Context returns a context with the visitor as the caller of the API.
func (d *Desk) Context(ctx context.Context) context.Context {
	return access.WithCaller(ctx, d.caller())
}

// read makes a call if the visitor has a right.
func read[T any](ctx context.Context, d *Desk, r Right, call func(context.Context) (T, error)) (out T, err error) {
	if ctx, err = d.as(ctx, r); err != nil {
		return out, err
	}
	out, err = call(ctx)
	return out, d.told(err)
}

// Stats counts the deliveries in the queue.
func (d *Desk) Stats(ctx context.Context) (wire.Stats, error) {
	return read(ctx, d, Survey, d.api.Stats)
}

// Ready describes the store.
func (d *Desk) Ready(ctx context.Context) (wire.Ready, error) {
	return read(ctx, d, Survey, d.api.Ready)
}

// Instances reads a page of instances.
func (d *Desk) Instances(ctx context.Context, limit int, cursor string) (wire.InstancePage, error) {
	return read(ctx, d, Survey, func(ctx context.Context) (wire.InstancePage, error) { return d.api.Instances(ctx, limit, cursor) })
}

// Dead reads a page of dead deliveries, counted by destination and reason.
func (d *Desk) Dead(ctx context.Context, f client.DeadFilter) (wire.DeadPage, error) {
	return read(ctx, d, Survey, func(ctx context.Context) (wire.DeadPage, error) { return d.api.Dead(ctx, f) })
}

// Lanes reads a page of lanes.
func (d *Desk) Lanes(ctx context.Context, limit int, cursor string) (wire.LanePage, error) {
	return read(ctx, d, Survey, func(ctx context.Context) (wire.LanePage, error) { return d.api.Lanes(ctx, limit, cursor) })
}

// LanesOf reads the lanes of some destinations. A link gets only its own lanes, and does
// not learn whether others exist.
func (d *Desk) LanesOf(ctx context.Context, tenant string, destinations ...string) (wire.LanePage, error) {
	if err := d.Refusal(See); err != nil {
		return wire.LanePage{}, err
	}
	if d.Link != nil {
		tenant = d.Link.Tenant
		destinations = slices.DeleteFunc(slices.Clone(destinations), func(to string) bool { return !d.Owns(tenant, to) })
		if len(destinations) == 0 {
			return wire.LanePage{}, nil
		}
	}
	page, err := read(ctx, d, See, func(ctx context.Context) (wire.LanePage, error) { return d.api.LanesOf(ctx, tenant, destinations...) })
	if d.Link != nil && errors.Is(err, ErrHidden) {
		return wire.LanePage{}, nil
	}
	page.Data = slices.DeleteFunc(page.Data, func(l wire.LaneState) bool { return !d.Owns(l.Tenant, l.Lane) })
	for i := range page.Data {
		d.lane(&page.Data[i])
	}
	return page, err
}

// Jobs reads a page of jobs.
func (d *Desk) Jobs(ctx context.Context, limit int, cursor string) (wire.JobPage, error) {
	return read(ctx, d, Survey, func(ctx context.Context) (wire.JobPage, error) { return d.api.Jobs(ctx, limit, cursor) })
}

// Job reads a job.
func (d *Desk) Job(ctx context.Context, id string) (wire.Job, error) {
	return read(ctx, d, Survey, func(ctx context.Context) (wire.Job, error) { return d.api.Job(ctx, id) })
}

// Audit reads a page of the audit.
func (d *Desk) Audit(ctx context.Context, f client.AuditFilter) (wire.AuditPage, error) {
	return read(ctx, d, Govern, func(ctx context.Context) (wire.AuditPage, error) { return d.api.Audit(ctx, f) })
}

// scope sets the filters of a list to the visitor's own data. A link gets deliveries of its
// tenant to its endpoint. A destination that it names must be its own.
func (d *Desk) scope(ctx context.Context, tenants, destinations *[]string) error {
	if d.Link == nil {
		return nil
	}
	*tenants = []string{d.Link.Tenant}
	if d.Link.Endpoint != "" {
		*destinations = []string{d.Link.Endpoint}
		return nil
	}
	own := make([]string, 0, len(*destinations))
	for _, to := range *destinations {
		if !strings.Contains(to, "://") && (dispatcher.Lane(to).IsEndpoint() || !dispatcher.NamesLane(to)) { // the name of an endpoint
			e, err := d.Endpoint(ctx, to)
			if err != nil {
				return err
			}
			to = e.ID
		}
		own = append(own, to)
	}
	*destinations = own
	return nil
}

// Links reads a page of links.
func (d *Desk) Links(ctx context.Context, limit int, cursor string) (wire.LinkPage, error) {
	return read(ctx, d, Govern, func(ctx context.Context) (wire.LinkPage, error) { return d.api.Links(ctx, limit, cursor) })
}

// Deliveries reads a page of deliveries. A link gets only its own.
func (d *Desk) Deliveries(ctx context.Context, f client.Filter) (wire.Page, error) {
	if err := d.scope(ctx, &f.Tenants, &f.Destinations); err != nil {
		return wire.Page{}, err
	}
	page, err := read(ctx, d, See, func(ctx context.Context) (wire.Page, error) { return d.api.Deliveries(ctx, f) })
	page.Data = d.deliveries(page.Data, d.tenantOf)
	if d.Link != nil {
		page.LookedAt = 0 // it also counts deliveries of others
	}
	return page, err
}

// Attempts reads a page of attempts. A link gets only its own.
func (d *Desk) Attempts(ctx context.Context, f client.AttemptFilter) (wire.LoggedPage, error) {
	if err := d.scope(ctx, &f.Tenants, &f.Destinations); err != nil {
		return wire.LoggedPage{}, err
	}
	page, err := read(ctx, d, See, func(ctx context.Context) (wire.LoggedPage, error) { return d.api.Attempts(ctx, f) })
	page.Data = slices.DeleteFunc(page.Data, func(a wire.LoggedAttempt) bool { return !d.Owns(a.Tenant, a.Destination) })
	if d.Link != nil {
		page.LookedAt = 0 // as in Deliveries
		for i := range page.Data {
			a := &page.Data[i]
			a.Address, a.Error = "", outward(a.Error)
		}
	}
	return page, err
}

// Message reads a message. A link gets a message of its tenant with the deliveries to its
// endpoint. A message without such a delivery is hidden.
func (d *Desk) Message(ctx context.Context, id string) (wire.MessageView, error) {
	m, err := read(ctx, d, See, func(ctx context.Context) (wire.MessageView, error) { return d.api.Message(ctx, id) })
	if err != nil || d.Link == nil {
		return m, err
	}
	m.Deliveries = d.deliveries(m.Deliveries, func(wire.Delivery) string { return m.Tenant })
	if len(m.Deliveries) == 0 {
		return wire.MessageView{}, ErrHidden
	}
	return m, nil
}

// Endpoints reads a page of endpoints, of one tenant or of all. A link gets its own.
func (d *Desk) Endpoints(ctx context.Context, f client.EndpointFilter) (wire.EndpointPage, error) {
	if d.Link != nil && d.Link.Endpoint != "" {
		e, err := d.Endpoint(ctx, d.Link.Endpoint)
		if err != nil {
			return wire.EndpointPage{}, err
		}
		return wire.EndpointPage{Data: []wire.EndpointView{e}}, nil
	}
	if d.Link != nil {
		f.Tenants = []string{d.Link.Tenant}
	}
	page, err := read(ctx, d, See, func(ctx context.Context) (wire.EndpointPage, error) { return d.api.Endpoints(ctx, f) })
	page.Data = slices.DeleteFunc(page.Data, func(e wire.EndpointView) bool { return !d.Owns(e.Tenant, e.ID) })
	for i := range page.Data {
		d.endpoint(&page.Data[i])
	}
	return page, err
}

// Endpoint reads an endpoint by its id or its UID.
func (d *Desk) Endpoint(ctx context.Context, name string) (wire.EndpointView, error) {
	e, err := read(ctx, d, See, func(ctx context.Context) (wire.EndpointView, error) { return d.api.Endpoint(ctx, name) })
	if err != nil {
		return wire.EndpointView{}, err
	}
	if !d.Owns(e.Tenant, e.ID) {
		return wire.EndpointView{}, ErrHidden
	}
	d.endpoint(&e)
	return e, nil
}

// EndpointDeliveries reads a page of the finished deliveries of one endpoint, oldest first.
func (d *Desk) EndpointDeliveries(ctx context.Context, name string, f client.EndedFilter) (wire.EndedPage, error) {
	e, err := d.Endpoint(ctx, name)
	if err != nil {
		return wire.EndedPage{}, err
	}
	page, err := read(ctx, d, See, func(ctx context.Context) (wire.EndedPage, error) { return d.api.EndpointDeliveries(ctx, e.ID, f) })
	page.Data = slices.DeleteFunc(page.Data, func(one wire.Delivery) bool { return !d.Owns(one.Tenant, one.Destination) })
	for i := range page.Data {
		d.delivery(&page.Data[i])
	}
	if d.Link != nil {
		page.LookedAt = 0 // as in Deliveries
	}
	return page, err
}
