package desk

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

// SpentError says that a link asked for too many tests and resends.
type SpentError struct{ Wait time.Duration }

// Error says when there will be one more.
func (e *SpentError) Error() string {
	return fmt.Sprintf("too many tests and resends by this link: one more in %s", e.Wait.Round(time.Second))
}

// change makes a call that changes something of one endpoint, if the visitor has a right
// and the endpoint is its own. Where it counts as one of a link's calls, the count goes first.
func change[T any](ctx context.Context, d *Desk, r Right, name string, call func(context.Context) (T, error)) (out T, err error) {
	if ctx, err = d.as(ctx, r); err != nil {
		return out, err
	}
	if d.Link != nil {
		if _, err := d.Endpoint(ctx, name); err != nil {
			return out, err
		}
		if err := d.count(ctx, r); err != nil {
			return out, err
		}
	}
	return call(ctx)
}

// count counts an attempt that a link asks for.
func (d *Desk) count(ctx context.Context, r Right) error {
	if d.Link == nil || r != Attempt {
		return nil
	}
	wait, err := d.spend(ctx, d.Link.ID)
	if err == nil && wait > 0 {
		err = &SpentError{Wait: wait}
	}
	return err
}

// Retry attempts a message's deliveries now, or the one to a destination.
func (d *Desk) Retry(ctx context.Context, id, destination string) ([]wire.RetriedDelivery, error) {
	ctx, err := d.as(ctx, Attempt)
	if err != nil {
		return nil, err
	}
	if d.Link != nil {
		m, err := d.Message(ctx, id)
		if err != nil {
			return nil, err
		}
		own := func(one wire.Delivery) bool { return one.Destination == destination }
		if !slices.ContainsFunc(m.Deliveries, own) { // a link names one of those that it sees
			return nil, ErrHidden
		}
		if err := d.count(ctx, Attempt); err != nil {
			return nil, err
		}
	}
	return d.api.Retry(ctx, id, destination)
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
	ctx, err := d.as(ctx, Edit)
	if err != nil {
		return wire.EndpointView{}, err
	}
	if d.Link != nil {
		if d.Link.Endpoint != "" {
			return wire.EndpointView{}, ErrHidden
		}
		e = wire.Endpoint{Tenant: d.Link.Tenant, URL: e.URL, Topics: e.Topics, Description: e.Description}
	}
	view, _, err := d.api.CreateEndpoint(ctx, &e)
	return view, err
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
	return change(ctx, d, needs, name, func(ctx context.Context) (wire.EndpointView, error) { return d.api.PatchEndpoint(ctx, name, patch) })
}

// DeleteEndpoint deletes an endpoint and counts the deliveries that this cancels.
func (d *Desk) DeleteEndpoint(ctx context.Context, name string) (cancelled int, err error) {
	return change(ctx, d, Configure, name, func(ctx context.Context) (int, error) { return d.api.DeleteEndpoint(ctx, name) })
}

// PauseEndpoint holds an endpoint's deliveries.
func (d *Desk) PauseEndpoint(ctx context.Context, name string) (wire.EndpointView, error) {
	return change(ctx, d, Hold, name, func(ctx context.Context) (wire.EndpointView, error) { return d.api.PauseEndpoint(ctx, name) })
}

// ResumeEndpoint lets them go on.
func (d *Desk) ResumeEndpoint(ctx context.Context, name string) (wire.EndpointView, error) {
	return change(ctx, d, Hold, name, func(ctx context.Context) (wire.EndpointView, error) { return d.api.ResumeEndpoint(ctx, name) })
}

// RotateSecret gives an endpoint another secret.
func (d *Desk) RotateSecret(ctx context.Context, name string, r wire.Rotation) (wire.Rotated, error) {
	return change(ctx, d, Edit, name, func(ctx context.Context) (wire.Rotated, error) { return d.api.RotateSecret(ctx, name, r) })
}

// EndpointSecret reads an endpoint's secrets.
func (d *Desk) EndpointSecret(ctx context.Context, name string) (wire.EndpointSecrets, error) {
	return change(ctx, d, Configure, name, func(ctx context.Context) (wire.EndpointSecrets, error) { return d.api.EndpointSecret(ctx, name) })
}

// TestEndpoint sends a test message.
func (d *Desk) TestEndpoint(ctx context.Context, name string) (wire.EndpointTest, error) {
	return change(ctx, d, Attempt, name, func(ctx context.Context) (wire.EndpointTest, error) { return d.api.TestEndpoint(ctx, name) })
}
