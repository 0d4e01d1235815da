package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/ladder"
)

// SpentError says that a link made too many changes.
type SpentError struct{ Wait time.Duration }

// Error says when the next change is allowed.
func (e *SpentError) Error() string {
	return fmt.Sprintf("too many changes by this link: one more in %s", ladder.FormatDuration(e.Wait.Round(time.Second)))
}

// ErrDisabled says that the operator disabled an endpoint, so a link may not resume it.
var ErrDisabled = errors.New("the operator switched this endpoint off; ask them to switch it on")

// ErrEnough says that a link may create no more endpoints.
var ErrEnough = fmt.Errorf("there are %d endpoints already; ask the operator for more", dispatcher.LinkEndpoints)

// changeAs makes a call that changes an endpoint, if the visitor has the right and owns the
// endpoint.
func changeAs[T any](ctx context.Context, c *VisitorClient, r Right, name string, call func(context.Context, string) (T, error)) (out T, err error) {
	inside, err := c.as(ctx, r)
	if err != nil {
		return out, err
	}
	if c.Link != nil {
		e, err := c.Endpoint(ctx, name)
		if err != nil {
			return out, err
		}
		name = e.ID
	}
	err = c.counted(ctx, func() (err error) {
		out, err = call(inside, name)
		return err
	})
	return out, c.reported(err)
}

// counted makes a change and counts it, because a link may make only a limited number in an
// hour. It counts before the call, because calls may be concurrent. It undoes the count if
// the API refused the change.
func (c *VisitorClient) counted(ctx context.Context, change func() error) error {
	if c.Link == nil {
		return change()
	}
	wait, err := c.meter.Spend(ctx, c.Link.ID)
	switch {
	case err != nil:
		return err
	case wait > 0:
		return &SpentError{Wait: wait}
	}
	err = change()
	var p *client.Problem
	if errors.As(err, &p) && p.Status < http.StatusInternalServerError {
		_ = c.meter.TakeBack(context.WithoutCancel(ctx), c.Link.ID) // if this fails, the change stays counted
	}
	return err
}

// Retry attempts a message's deliveries now, or the one to a destination. A link names one
// of the deliveries that it sees.
func (c *VisitorClient) Retry(ctx context.Context, id, destination string) ([]wire.RetriedDelivery, error) {
	inside, err := c.as(ctx, Attempt)
	if err != nil {
		return nil, err
	}
	if c.Link != nil {
		m, err := c.Message(ctx, id)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(m.Deliveries, func(one wire.Delivery) bool { return one.Destination == destination }) {
			return nil, ErrHidden
		}
	}
	var all []wire.RetriedDelivery
	err = c.counted(ctx, func() (err error) {
		all, err = c.api.Retry(inside, id, destination)
		return err
	})
	all = slices.DeleteFunc(all, func(one wire.RetriedDelivery) bool { return c.Link != nil && one.Destination != destination })
	for i := range all {
		c.delivery(&all[i].Delivery)
	}
	return all, c.reported(err)
}

// Cancel cancels the unfinished deliveries of a message, or the one to a destination.
func (c *VisitorClient) Cancel(ctx context.Context, id, destination string) ([]wire.Delivery, error) {
	return read(ctx, c, Operate, func(ctx context.Context) ([]wire.Delivery, error) { return c.api.Cancel(ctx, id, destination) })
}

// Resend sends all deliveries of a message again, even delivered ones.
func (c *VisitorClient) Resend(ctx context.Context, id string) ([]wire.RetriedDelivery, error) {
	return read(ctx, c, Operate, func(ctx context.Context) ([]wire.RetriedDelivery, error) { return c.api.Resend(ctx, id) })
}

// Survey returns the number of deliveries that a job would change.
func (c *VisitorClient) Survey(ctx context.Context, kind string, r wire.JobRequest) (wire.Survey, error) {
	return read(ctx, c, Operate, func(ctx context.Context) (wire.Survey, error) { return c.api.SurveyJob(ctx, kind, r) })
}

// StartJob starts a job.
func (c *VisitorClient) StartJob(ctx context.Context, kind string, r wire.JobRequest) (wire.Job, error) {
	return read(ctx, c, Operate, func(ctx context.Context) (wire.Job, error) { return c.api.StartJob(ctx, kind, r) })
}

// StopJob stops a job.
func (c *VisitorClient) StopJob(ctx context.Context, id string) (wire.Job, error) {
	return read(ctx, c, Operate, func(ctx context.Context) (wire.Job, error) { return c.api.StopJob(ctx, id) })
}

// ResumeJob continues a stopped job.
func (c *VisitorClient) ResumeJob(ctx context.Context, id string) (wire.Job, error) {
	return read(ctx, c, Operate, func(ctx context.Context) (wire.Job, error) { return c.api.ResumeJob(ctx, id) })
}

// PauseLane pauses a lane, or all of them: *.
func (c *VisitorClient) PauseLane(ctx context.Context, destination, tenant string) (wire.LaneState, error) {
	return read(ctx, c, Operate, func(ctx context.Context) (wire.LaneState, error) { return c.api.PauseLane(ctx, destination, tenant) })
}

// ResumeLane resumes a lane.
func (c *VisitorClient) ResumeLane(ctx context.Context, destination, tenant string) (wire.LaneState, error) {
	return read(ctx, c, Operate, func(ctx context.Context) (wire.LaneState, error) { return c.api.ResumeLane(ctx, destination, tenant) })
}

// CreateEndpoint registers an endpoint. A link's endpoint gets the link's tenant and only
// the fields that a link may edit. A link for a single endpoint can't create others.
func (c *VisitorClient) CreateEndpoint(ctx context.Context, e wire.Endpoint) (wire.EndpointView, error) {
	inside, err := c.as(ctx, Edit)
	if err != nil {
		return wire.EndpointView{}, err
	}
	if c.Link != nil {
		if c.Link.Endpoint != "" {
			return wire.EndpointView{}, ErrHidden
		}
		e = wire.Endpoint{Tenant: c.Link.Tenant, URL: e.URL, Topics: e.Topics, Description: e.Description}
	}
	var view wire.EndpointView
	err = c.counted(ctx, func() (err error) {
		view, _, err = c.api.CreateEndpoint(inside, &e)
		return err
	})
	var p *client.Problem
	if c.Link != nil && errors.As(err, &p) && p.Type == "/problems/endpoint-limit" {
		err = ErrEnough
	}
	c.endpoint(&view)
	return view, c.reported(err)
}

// editable are the fields of an endpoint that need the right Edit.
var editable = []string{"url", "topics", "description"}

// PatchEndpoint changes fields of an endpoint, by their names in the API. Fields that are
// not editable need the right Configure.
func (c *VisitorClient) PatchEndpoint(ctx context.Context, name string, patch map[string]any) (wire.EndpointView, error) {
	needs := Edit
	for field := range patch {
		if !slices.Contains(editable, field) {
			needs = Configure
		}
	}
	return c.changeEndpoint(ctx, needs, name, func(ctx context.Context, id string) (wire.EndpointView, error) {
		return c.api.PatchEndpoint(ctx, id, patch)
	})
}

// ConfirmEndpoint confirms a URL that a link set, if the endpoint still has it.
func (c *VisitorClient) ConfirmEndpoint(ctx context.Context, name, url string) (wire.EndpointView, error) {
	return c.changeEndpoint(ctx, Configure, name, func(ctx context.Context, id string) (wire.EndpointView, error) {
		return c.api.ConfirmEndpoint(ctx, id, url)
	})
}

// changeEndpoint is changeAs for calls that return the endpoint.
func (c *VisitorClient) changeEndpoint(ctx context.Context, r Right, name string, call func(context.Context, string) (wire.EndpointView, error)) (wire.EndpointView, error) {
	e, err := changeAs(ctx, c, r, name, call)
	c.endpoint(&e)
	return e, err
}

// DeleteEndpoint deletes an endpoint and returns the number of cancelled deliveries.
func (c *VisitorClient) DeleteEndpoint(ctx context.Context, name string) (cancelled int, err error) {
	return changeAs(ctx, c, Configure, name, c.api.DeleteEndpoint)
}

// PauseEndpoint pauses an endpoint.
func (c *VisitorClient) PauseEndpoint(ctx context.Context, name string) (wire.EndpointView, error) {
	return c.changeEndpoint(ctx, Hold, name, c.api.PauseEndpoint)
}

// ResumeEndpoint resumes an endpoint. A link can't resume one that the operator disabled.
func (c *VisitorClient) ResumeEndpoint(ctx context.Context, name string) (wire.EndpointView, error) {
	if c.Link != nil && c.May(Hold) {
		e, err := c.Endpoint(ctx, name)
		if err != nil {
			return wire.EndpointView{}, err
		}
		if e.DisabledReason == string(dispatcher.WhyOperator) {
			return wire.EndpointView{}, ErrDisabled
		}
	}
	e, err := c.changeEndpoint(ctx, Hold, name, c.api.ResumeEndpoint)
	if c.Link != nil && errors.Is(err, client.ErrConflict) { // the operator has just disabled it
		err = ErrDisabled
	}
	return e, err
}

// RotateSecret replaces an endpoint's secret.
func (c *VisitorClient) RotateSecret(ctx context.Context, name string, r wire.Rotation) (wire.Rotated, error) {
	out, err := changeAs(ctx, c, Edit, name, func(ctx context.Context, id string) (wire.Rotated, error) { return c.api.RotateSecret(ctx, id, r) })
	c.endpoint(&out.EndpointView)
	return out, err
}

// EndpointSecret reads an endpoint's secrets.
func (c *VisitorClient) EndpointSecret(ctx context.Context, name string) (wire.EndpointSecrets, error) {
	return changeAs(ctx, c, Configure, name, c.api.EndpointSecret)
}

// TestEndpoint sends a test message.
func (c *VisitorClient) TestEndpoint(ctx context.Context, name string) (wire.EndpointTest, error) {
	out, err := changeAs(ctx, c, Attempt, name, c.api.TestEndpoint)
	if c.Link != nil {
		out.Error = outward(out.Error)
	}
	return out, err
}

// CreateLink creates a link for a merchant's people.
func (c *VisitorClient) CreateLink(ctx context.Context, r wire.LinkRequest) (wire.NewLink, error) {
	return read(ctx, c, Govern, func(ctx context.Context) (wire.NewLink, error) { return c.api.CreateLink(ctx, r) })
}

// RevokeLink revokes a link.
func (c *VisitorClient) RevokeLink(ctx context.Context, id string) error {
	inside, err := c.as(ctx, Govern)
	if err != nil {
		return err
	}
	return c.api.RevokeLink(inside, id)
}
