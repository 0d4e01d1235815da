package desk

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/access"
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

// ErrHeld says that the operator disabled an endpoint, so a link may not resume it.
var ErrHeld = errors.New("the operator switched this endpoint off; ask them to switch it on")

// ErrEnough says that a link may create no more endpoints.
var ErrEnough = fmt.Errorf("there are %d endpoints already; ask the operator for more", access.LinkEndpoints)

// change makes a call that changes an endpoint, if the visitor has the right and owns the
// endpoint.
func change[T any](ctx context.Context, d *Desk, r Right, name string, call func(context.Context, string) (T, error)) (out T, err error) {
	inside, err := d.as(ctx, r)
	if err != nil {
		return out, err
	}
	if d.Link != nil {
		e, err := d.Endpoint(ctx, name)
		if err != nil {
			return out, err
		}
		name = e.ID
	}
	err = d.counted(ctx, func() (err error) {
		out, err = call(inside, name)
		return err
	})
	return out, d.told(err)
}

// counted makes a change and counts it, because a link may make only a limited number in an
// hour. It counts before the call, because calls may be concurrent. It undoes the count if
// the API refused the change.
func (d *Desk) counted(ctx context.Context, change func() error) error {
	if d.Link == nil {
		return change()
	}
	wait, err := d.meter.Spend(ctx, d.Link.ID)
	switch {
	case err != nil:
		return err
	case wait > 0:
		return &SpentError{Wait: wait}
	}
	err = change()
	var p *client.Problem
	if errors.As(err, &p) && p.Status < http.StatusInternalServerError {
		_ = d.meter.TakeBack(context.WithoutCancel(ctx), d.Link.ID) // if this fails, the change stays counted
	}
	return err
}

// Retry attempts a message's deliveries now, or the one to a destination. A link names one
// of the deliveries that it sees.
func (d *Desk) Retry(ctx context.Context, id, destination string) ([]wire.RetriedDelivery, error) {
	inside, err := d.as(ctx, Attempt)
	if err != nil {
		return nil, err
	}
	if d.Link != nil {
		m, err := d.Message(ctx, id)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(m.Deliveries, func(one wire.Delivery) bool { return one.Destination == destination }) {
			return nil, ErrHidden
		}
	}
	var all []wire.RetriedDelivery
	err = d.counted(ctx, func() (err error) {
		all, err = d.api.Retry(inside, id, destination)
		return err
	})
	all = slices.DeleteFunc(all, func(one wire.RetriedDelivery) bool { return d.Link != nil && one.Destination != destination })
	for i := range all {
		d.delivery(&all[i].Delivery)
	}
	return all, d.told(err)
}

// Cancel cancels the unfinished deliveries of a message, or the one to a destination.
func (d *Desk) Cancel(ctx context.Context, id, destination string) ([]wire.Delivery, error) {
	return read(ctx, d, Operate, func(ctx context.Context) ([]wire.Delivery, error) { return d.api.Cancel(ctx, id, destination) })
}

// Resend sends all deliveries of a message again, even delivered ones.
func (d *Desk) Resend(ctx context.Context, id string) ([]wire.RetriedDelivery, error) {
	return read(ctx, d, Operate, func(ctx context.Context) ([]wire.RetriedDelivery, error) { return d.api.Resend(ctx, id) })
}

// Survey returns the number of deliveries that a job would change.
func (d *Desk) Survey(ctx context.Context, kind string, r wire.JobRequest) (wire.Survey, error) {
	return read(ctx, d, Operate, func(ctx context.Context) (wire.Survey, error) { return d.api.SurveyJob(ctx, kind, r) })
}

// StartJob starts a job.
func (d *Desk) StartJob(ctx context.Context, kind string, r wire.JobRequest) (wire.Job, error) {
	return read(ctx, d, Operate, func(ctx context.Context) (wire.Job, error) { return d.api.StartJob(ctx, kind, r) })
}

// StopJob stops a job.
func (d *Desk) StopJob(ctx context.Context, id string) (wire.Job, error) {
	return read(ctx, d, Operate, func(ctx context.Context) (wire.Job, error) { return d.api.StopJob(ctx, id) })
}

// ResumeJob continues a stopped job.
func (d *Desk) ResumeJob(ctx context.Context, id string) (wire.Job, error) {
	return read(ctx, d, Operate, func(ctx context.Context) (wire.Job, error) { return d.api.ResumeJob(ctx, id) })
}

// PauseLane pauses a lane, or all of them: *.
func (d *Desk) PauseLane(ctx context.Context, destination, tenant string) (wire.LaneState, error) {
	return read(ctx, d, Operate, func(ctx context.Context) (wire.LaneState, error) { return d.api.PauseLane(ctx, destination, tenant) })
}

// ResumeLane resumes a lane.
func (d *Desk) ResumeLane(ctx context.Context, destination, tenant string) (wire.LaneState, error) {
	return read(ctx, d, Operate, func(ctx context.Context) (wire.LaneState, error) { return d.api.ResumeLane(ctx, destination, tenant) })
}

// CreateEndpoint registers an endpoint. A link's endpoint gets the link's tenant and only
// the fields that a link may edit. A link for a single endpoint can't create others.
func (d *Desk) CreateEndpoint(ctx context.Context, e wire.Endpoint) (wire.EndpointView, error) {
	inside, err := d.as(ctx, Edit)
	if err != nil {
		return wire.EndpointView{}, err
	}
	if d.Link != nil {
		if d.Link.Endpoint != "" {
			return wire.EndpointView{}, ErrHidden
		}
		e = wire.Endpoint{Tenant: d.Link.Tenant, URL: e.URL, Topics: e.Topics, Description: e.Description}
	}
	var view wire.EndpointView
	err = d.counted(ctx, func() (err error) {
		view, _, err = d.api.CreateEndpoint(inside, &e)
		return err
	})
	var p *client.Problem
	if d.Link != nil && errors.As(err, &p) && p.Type == "/problems/endpoint-limit" {
		err = ErrEnough
	}
	d.endpoint(&view)
	return view, d.told(err)
}

// editable are the fields of an endpoint that need the right Edit.
var editable = []string{"url", "topics", "description"}

// PatchEndpoint changes fields of an endpoint, by their names in the API. Fields that are
// not editable need the right Configure.
func (d *Desk) PatchEndpoint(ctx context.Context, name string, patch map[string]any) (wire.EndpointView, error) {
	needs := Edit
	for field := range patch {
		if !slices.Contains(editable, field) {
			needs = Configure
		}
	}
	return d.changeEndpoint(ctx, needs, name, func(ctx context.Context, id string) (wire.EndpointView, error) {
		return d.api.PatchEndpoint(ctx, id, patch)
	})
}

// ConfirmEndpoint confirms a URL that a link set, if the endpoint still has it.
func (d *Desk) ConfirmEndpoint(ctx context.Context, name, url string) (wire.EndpointView, error) {
	return d.changeEndpoint(ctx, Configure, name, func(ctx context.Context, id string) (wire.EndpointView, error) {
		return d.api.ConfirmEndpoint(ctx, id, url)
	})
}

// changeEndpoint is change for calls that return the endpoint.
func (d *Desk) changeEndpoint(ctx context.Context, r Right, name string, call func(context.Context, string) (wire.EndpointView, error)) (wire.EndpointView, error) {
	e, err := change(ctx, d, r, name, call)
	d.endpoint(&e)
	return e, err
}

// DeleteEndpoint deletes an endpoint and returns the number of cancelled deliveries.
func (d *Desk) DeleteEndpoint(ctx context.Context, name string) (cancelled int, err error) {
	return change(ctx, d, Configure, name, d.api.DeleteEndpoint)
}

// PauseEndpoint pauses an endpoint.
func (d *Desk) PauseEndpoint(ctx context.Context, name string) (wire.EndpointView, error) {
	return d.changeEndpoint(ctx, Hold, name, d.api.PauseEndpoint)
}

// ResumeEndpoint resumes an endpoint. A link can't resume one that the operator disabled.
func (d *Desk) ResumeEndpoint(ctx context.Context, name string) (wire.EndpointView, error) {
	if d.Link != nil && d.May(Hold) {
		e, err := d.Endpoint(ctx, name)
		if err != nil {
			return wire.EndpointView{}, err
		}
		if e.DisabledReason == string(dispatcher.WhyOperator) {
			return wire.EndpointView{}, ErrHeld
		}
	}
	e, err := d.changeEndpoint(ctx, Hold, name, d.api.ResumeEndpoint)
	if d.Link != nil && errors.Is(err, client.ErrConflict) { // the operator has just disabled it
		err = ErrHeld
	}
	return e, err
}

// RotateSecret replaces an endpoint's secret.
func (d *Desk) RotateSecret(ctx context.Context, name string, r wire.Rotation) (wire.Rotated, error) {
	out, err := change(ctx, d, Edit, name, func(ctx context.Context, id string) (wire.Rotated, error) { return d.api.RotateSecret(ctx, id, r) })
	d.endpoint(&out.EndpointView)
	return out, err
}

// EndpointSecret reads an endpoint's secrets.
func (d *Desk) EndpointSecret(ctx context.Context, name string) (wire.EndpointSecrets, error) {
	return change(ctx, d, Configure, name, d.api.EndpointSecret)
}

// TestEndpoint sends a test message.
func (d *Desk) TestEndpoint(ctx context.Context, name string) (wire.EndpointTest, error) {
	out, err := change(ctx, d, Attempt, name, d.api.TestEndpoint)
	if d.Link != nil {
		out.Error = outward(out.Error)
	}
	return out, err
}

// CreateLink creates a link for a merchant's people.
func (d *Desk) CreateLink(ctx context.Context, r wire.LinkRequest) (wire.NewLink, error) {
	return read(ctx, d, Govern, func(ctx context.Context) (wire.NewLink, error) { return d.api.CreateLink(ctx, r) })
}

// RevokeLink revokes a link.
func (d *Desk) RevokeLink(ctx context.Context, id string) error {
	inside, err := d.as(ctx, Govern)
	if err != nil {
		return err
	}
	return d.api.RevokeLink(inside, id)
}
