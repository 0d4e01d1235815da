package console

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// VisitorClient is the API for one visitor.
type VisitorClient struct {
	Visitor
	api   *client.Client
	meter LinkMeter
}

// LinkMeter counts the changes of links.
type LinkMeter struct {
	Spend    func(ctx context.Context, link string) (wait time.Duration, err error) // counts one change; wait > 0: there were too many
	TakeBack func(ctx context.Context, link string) error                           // undoes a counted change
}

// NewVisitorClient returns a VisitorClient that calls api.
func NewVisitorClient(v Visitor, api *client.Client, meter LinkMeter) *VisitorClient {
	return &VisitorClient{Visitor: v, api: api, meter: meter}
}

// as returns a context with the visitor as the caller, if it has a right.
func (c *VisitorClient) as(ctx context.Context, r Right) (context.Context, error) {
	if err := c.Refusal(r); err != nil {
		return nil, err
	}
	return c.Context(ctx), nil
}

// Context returns a context with the visitor as the caller of the API.
func (c *VisitorClient) Context(ctx context.Context) context.Context {
	return dispatcher.WithBrowser(ctx, c.caller())
}

// read makes a call if the visitor has a right.
func read[T any](ctx context.Context, c *VisitorClient, r Right, call func(context.Context) (T, error)) (out T, err error) {
	if ctx, err = c.as(ctx, r); err != nil {
		return out, err
	}
	out, err = call(ctx)
	return out, c.reported(err)
}

// Stats counts the deliveries in the queue.
func (c *VisitorClient) Stats(ctx context.Context) (wire.Stats, error) {
	return read(ctx, c, Survey, c.api.Stats)
}

// Ready describes the store.
func (c *VisitorClient) Ready(ctx context.Context) (wire.Ready, error) {
	return read(ctx, c, Survey, c.api.Ready)
}

// Instances reads a page of instances.
func (c *VisitorClient) Instances(ctx context.Context, limit int, cursor string) (wire.InstancePage, error) {
	return read(ctx, c, Survey, func(ctx context.Context) (wire.InstancePage, error) { return c.api.Instances(ctx, limit, cursor) })
}

// Dead reads a page of dead deliveries, counted by destination and reason.
func (c *VisitorClient) Dead(ctx context.Context, f client.DeadFilter) (wire.DeadPage, error) {
	return read(ctx, c, Survey, func(ctx context.Context) (wire.DeadPage, error) { return c.api.Dead(ctx, f) })
}

// Lanes reads a page of lanes.
func (c *VisitorClient) Lanes(ctx context.Context, limit int, cursor string) (wire.LanePage, error) {
	return read(ctx, c, Survey, func(ctx context.Context) (wire.LanePage, error) { return c.api.Lanes(ctx, limit, cursor) })
}

// LanesOf reads the lanes of some destinations. A link gets only its own lanes, and does
// not learn whether others exist.
func (c *VisitorClient) LanesOf(ctx context.Context, tenant string, destinations ...string) (wire.LanePage, error) {
	if err := c.Refusal(See); err != nil {
		return wire.LanePage{}, err
	}
	if c.Link != nil {
		tenant = c.Link.Tenant
		destinations = slices.DeleteFunc(slices.Clone(destinations), func(to string) bool { return !c.Owns(tenant, to) })
		if len(destinations) == 0 {
			return wire.LanePage{}, nil
		}
	}
	page, err := read(ctx, c, See, func(ctx context.Context) (wire.LanePage, error) { return c.api.LanesOf(ctx, tenant, destinations...) })
	if c.Link != nil && errors.Is(err, ErrHidden) {
		return wire.LanePage{}, nil
	}
	page.Data = slices.DeleteFunc(page.Data, func(l wire.LaneState) bool { return !c.Owns(l.Tenant, l.Lane) })
	for i := range page.Data {
		c.lane(&page.Data[i])
	}
	return page, err
}

// Jobs reads a page of jobs.
func (c *VisitorClient) Jobs(ctx context.Context, limit int, cursor string) (wire.JobPage, error) {
	return read(ctx, c, Survey, func(ctx context.Context) (wire.JobPage, error) { return c.api.Jobs(ctx, limit, cursor) })
}

// Job reads a job.
func (c *VisitorClient) Job(ctx context.Context, id string) (wire.Job, error) {
	return read(ctx, c, Survey, func(ctx context.Context) (wire.Job, error) { return c.api.Job(ctx, id) })
}

// Audit reads a page of the audit.
func (c *VisitorClient) Audit(ctx context.Context, f client.AuditFilter) (wire.AuditPage, error) {
	return read(ctx, c, Govern, func(ctx context.Context) (wire.AuditPage, error) { return c.api.Audit(ctx, f) })
}

// scope sets the filters of a list to the visitor's own data. A link gets deliveries of its
// tenant to its endpoint. A destination that it names must be its own.
func (c *VisitorClient) scope(ctx context.Context, tenants, destinations *[]string) error {
	if c.Link == nil {
		return nil
	}
	*tenants = []string{c.Link.Tenant}
	if c.Link.Endpoint != "" {
		*destinations = []string{c.Link.Endpoint}
		return nil
	}
	own := make([]string, 0, len(*destinations))
	for _, to := range *destinations {
		if !strings.Contains(to, "://") && (dispatcher.Lane(to).IsEndpoint() || !dispatcher.NamesLane(to)) { // the name of an endpoint
			e, err := c.Endpoint(ctx, to)
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
func (c *VisitorClient) Links(ctx context.Context, limit int, cursor string) (wire.LinkPage, error) {
	return read(ctx, c, Govern, func(ctx context.Context) (wire.LinkPage, error) { return c.api.Links(ctx, limit, cursor) })
}

// Deliveries reads a page of deliveries. A link gets only its own.
func (c *VisitorClient) Deliveries(ctx context.Context, f client.Filter) (wire.Page, error) {
	if err := c.scope(ctx, &f.Tenants, &f.Destinations); err != nil {
		return wire.Page{}, err
	}
	page, err := read(ctx, c, See, func(ctx context.Context) (wire.Page, error) { return c.api.Deliveries(ctx, f) })
	page.Data = c.deliveries(page.Data, c.tenantOf)
	if c.Link != nil {
		page.LookedAt = 0 // it also counts deliveries of others
	}
	return page, err
}

// Attempts reads a page of attempts. A link gets only its own.
func (c *VisitorClient) Attempts(ctx context.Context, f client.AttemptFilter) (wire.LoggedPage, error) {
	if err := c.scope(ctx, &f.Tenants, &f.Destinations); err != nil {
		return wire.LoggedPage{}, err
	}
	page, err := read(ctx, c, See, func(ctx context.Context) (wire.LoggedPage, error) { return c.api.Attempts(ctx, f) })
	page.Data = slices.DeleteFunc(page.Data, func(a wire.LoggedAttempt) bool { return !c.Owns(a.Tenant, a.Destination) })
	if c.Link != nil {
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
func (c *VisitorClient) Message(ctx context.Context, id string) (wire.MessageView, error) {
	m, err := read(ctx, c, See, func(ctx context.Context) (wire.MessageView, error) { return c.api.Message(ctx, id) })
	if err != nil || c.Link == nil {
		return m, err
	}
	m.Deliveries = c.deliveries(m.Deliveries, func(wire.Delivery) string { return m.Tenant })
	if len(m.Deliveries) == 0 {
		return wire.MessageView{}, ErrHidden
	}
	return m, nil
}

// Endpoints reads a page of endpoints, of one tenant or of all. A link gets its own.
func (c *VisitorClient) Endpoints(ctx context.Context, f client.EndpointFilter) (wire.EndpointPage, error) {
	if c.Link != nil && c.Link.Endpoint != "" {
		e, err := c.Endpoint(ctx, c.Link.Endpoint)
		if err != nil {
			return wire.EndpointPage{}, err
		}
		return wire.EndpointPage{Data: []wire.EndpointView{e}}, nil
	}
	if c.Link != nil {
		f.Tenants = []string{c.Link.Tenant}
	}
	page, err := read(ctx, c, See, func(ctx context.Context) (wire.EndpointPage, error) { return c.api.Endpoints(ctx, f) })
	page.Data = slices.DeleteFunc(page.Data, func(e wire.EndpointView) bool { return !c.Owns(e.Tenant, e.ID) })
	for i := range page.Data {
		c.endpoint(&page.Data[i])
	}
	return page, err
}

// Endpoint reads an endpoint by its id or its UID.
func (c *VisitorClient) Endpoint(ctx context.Context, name string) (wire.EndpointView, error) {
	e, err := read(ctx, c, See, func(ctx context.Context) (wire.EndpointView, error) { return c.api.Endpoint(ctx, name) })
	if err != nil {
		return wire.EndpointView{}, err
	}
	if !c.Owns(e.Tenant, e.ID) {
		return wire.EndpointView{}, ErrHidden
	}
	c.endpoint(&e)
	return e, nil
}

// EndpointDeliveries reads a page of the finished deliveries of one endpoint, oldest first.
func (c *VisitorClient) EndpointDeliveries(ctx context.Context, name string, f client.EndedFilter) (wire.EndedPage, error) {
	e, err := c.Endpoint(ctx, name)
	if err != nil {
		return wire.EndedPage{}, err
	}
	page, err := read(ctx, c, See, func(ctx context.Context) (wire.EndedPage, error) { return c.api.EndpointDeliveries(ctx, e.ID, f) })
	page.Data = slices.DeleteFunc(page.Data, func(one wire.Delivery) bool { return !c.Owns(one.Tenant, one.Destination) })
	for i := range page.Data {
		c.delivery(&page.Data[i])
	}
	if c.Link != nil {
		page.LookedAt = 0 // as in Deliveries
	}
	return page, err
}
