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

// Error says when there will be one more.
func (e *SpentError) Error() string {
	return fmt.Sprintf("too many changes by this link: one more in %s", ladder.FormatDuration(e.Wait.Round(time.Second)))
}

// ErrHeld says that the operator disabled an endpoint, so that a link may not let it go on.
var ErrHeld = errors.New("the operator switched this endpoint off; ask them to switch it on")

// ErrEnough says that a link may add no further endpoint.
var ErrEnough = fmt.Errorf("there are %d endpoints already; ask the operator for more", access.LinkEndpoints)

// change makes a call that changes something of one endpoint, if the visitor has a right
// and the endpoint is its own.
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

// counted makes a change, of which a link may make so many in an hour. The count goes first,
// because calls come at once. A change that the API refused is taken back.
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
		_ = d.meter.TakeBack(context.WithoutCancel(ctx), d.Link.ID) // else it counts
	}
	return err
}

// Retry attempts a message's deliveries now, or the one to a destination. A link names one
// of those that it sees.
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

// Cancel ends what is unfinished of a message, or its delivery to a destination.
func (d *Desk) Cancel(ctx context.Context, id, destination string) ([]wire.Delivery, error) {
	return read(ctx, d, Operate, func(ctx context.Context) ([]wire.Delivery, error) { return d.api.Cancel(ctx, id, destination) })
}

// Resend sends all deliveries of a message again, also delivered ones.
func (d *Desk) Resend(ctx context.Context, id string) ([]wire.RetriedDelivery, error) {
	return read(ctx, d, Operate, func(ctx context.Context) ([]wire.RetriedDelivery, error) { return d.api.Resend(ctx, id) })
}

// Survey tells what a job would change.
func (d *Desk) Survey(ctx context.Context, kind string, r wire.JobRequest) (wire.Survey, error) {
	return read(ctx, d, Operate, func(ctx context.Context) (wire.Survey, error) { return d.api.SurveyJob(ctx, kind, r) })
}

// StartJob begins a job.
func (d *Desk) StartJob(ctx context.Context, kind string, r wire.JobRequest) (wire.Job, error) {
	return read(ctx, d, Operate, func(ctx context.Context) (wire.Job, error) { return d.api.StartJob(ctx, kind, r) })
}

// StopJob ends a job.
func (d *Desk) StopJob(ctx context.Context, id string) (wire.Job, error) {
	return read(ctx, d, Operate, func(ctx context.Context) (wire.Job, error) { return d.api.StopJob(ctx, id) })
}

// ResumeJob goes on with a job.
func (d *Desk) ResumeJob(ctx context.Context, id string) (wire.Job, error) {
	return read(ctx, d, Operate, func(ctx context.Context) (wire.Job, error) { return d.api.ResumeJob(ctx, id) })
}

// PauseLane holds a lane, or all of them: *.
func (d *Desk) PauseLane(ctx context.Context, destination, tenant string) (wire.LaneState, error) {
	return read(ctx, d, Operate, func(ctx context.Context) (wire.LaneState, error) { return d.api.PauseLane(ctx, destination, tenant) })
}

// ResumeLane lets a lane go on.
func (d *Desk) ResumeLane(ctx context.Context, destination, tenant string) (wire.LaneState, error) {
	return read(ctx, d, Operate, func(ctx context.Context) (wire.LaneState, error) { return d.api.ResumeLane(ctx, destination, tenant) })
}

// CreateEndpoint registers an endpoint. A link's is of its tenant, and has only what a
// link may edit; one that is for a single endpoint makes no other.
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

// editable are the fields of an endpoint that the right Edit is for.
var editable = []string{"url", "topics", "description"}

// PatchEndpoint changes fields of an endpoint, by their names in the API. Those that the
// right Edit is not for need Configure.
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

// ConfirmEndpoint makes a URL that a link set the operator's, if the endpoint still has it.
func (d *Desk) ConfirmEndpoint(ctx context.Context, name, url string) (wire.EndpointView, error) {
	return d.changeEndpoint(ctx, Configure, name, func(ctx context.Context, id string) (wire.EndpointView, error) {
		return d.api.ConfirmEndpoint(ctx, id, url)
	})
}

// changeEndpoint is change where the answer is the endpoint.
func (d *Desk) changeEndpoint(ctx context.Context, r Right, name string, call func(context.Context, string) (wire.EndpointView, error)) (wire.EndpointView, error) {
	e, err := change(ctx, d, r, name, call)
	d.endpoint(&e)
	return e, err
}

// DeleteEndpoint deletes an endpoint and counts the deliveries that this cancels.
func (d *Desk) DeleteEndpoint(ctx context.Context, name string) (cancelled int, err error) {
	return change(ctx, d, Configure, name, d.api.DeleteEndpoint)
}

// PauseEndpoint holds an endpoint's deliveries.
func (d *Desk) PauseEndpoint(ctx context.Context, name string) (wire.EndpointView, error) {
	return d.changeEndpoint(ctx, Hold, name, d.api.PauseEndpoint)
}

// ResumeEndpoint lets them go on. A link's does not where the operator disabled the
// endpoint.
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
	if d.Link != nil && errors.Is(err, client.ErrConflict) { // they did so just now
		err = ErrHeld
	}
	return e, err
}

// RotateSecret gives an endpoint another secret.
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

// CreateLink makes a link for a merchant's people.
func (d *Desk) CreateLink(ctx context.Context, r wire.LinkRequest) (wire.NewLink, error) {
	return read(ctx, d, Govern, func(ctx context.Context) (wire.NewLink, error) { return d.api.CreateLink(ctx, r) })
}

// RevokeLink ends a link.
func (d *Desk) RevokeLink(ctx context.Context, id string) error {
	inside, err := d.as(ctx, Govern)
	if err != nil {
		return err
	}
	return d.api.RevokeLink(inside, id)
}
