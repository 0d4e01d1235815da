// Package httpapi serves the HTTP API: it checks the caller's key and the request,
// gives it to the engine, and writes the answer.
//
// operations.go is the list of all calls. request.go serves each: it checks the key,
// the name in the path, and the parameters of the query (params.go). Then the handler in
// the file of its noun calls the engine (service.go) and answers (response.go):
// publish.go, messages.go, endpoints.go, lanes.go, take.go, links.go, stats.go.
//
// A body is decoded strictly (decode.go, values.go) into the fields of a message
// (message.go), an endpoint (endpoint.go, patch.go) or a rotation (endpoints.go). Every
// error becomes a problem, by the table in problem.go. The document at /openapi.json
// (openapi.go) describes the calls, the parameters, the fields and the problems from
// the same lists.
//
// A list is a row of operations.go, whose query ends with ofPage, and a handler that
// makes a filter of the parameters. An operation that changes something has a word in
// the audit (audit.go).
package httpapi

import (
	"context"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/access"
	"github.com/hookladder/hookladder/signer"
)

// Service is what the API calls: the engine and its endpoints. A list refuses a
// cursor that it did not make with dispatcher.ErrCursor.
type Service interface {
	// Messages are published, read and changed.

	// Publish takes a batch and answers one Published for each message, in order. A
	// failure of one message is the Err of its Published. Publish may keep the
	// messages, and replaces the uid of an endpoint by its id.
	Publish(ctx context.Context, batch []*dispatcher.Message) ([]dispatcher.Published, error)
	// Message reads a message with its deliveries, or dispatcher.ErrNotFound.
	Message(ctx context.Context, id string) (dispatcher.MessageView, error)
	// Cancel ends the unfinished deliveries of a message, or the one in lane where
	// that is set, and answers them as they are now.
	Cancel(ctx context.Context, id string, lane dispatcher.Lane) ([]dispatcher.Delivery, error)
	// Retry attempts these deliveries now, and answers for each why it does not.
	// With delivered it attempts those too that were delivered.
	Retry(ctx context.Context, id string, lane dispatcher.Lane, delivered bool) ([]dispatcher.Retried, error)
	// Deliveries reads a page of deliveries.
	Deliveries(ctx context.Context, f dispatcher.Filter) (dispatcher.Page, error)
	// Ended reads a page of what ended of the endpoint with a name, oldest first.
	Ended(ctx context.Context, name string, f dispatcher.EndedFilter) (dispatcher.EndedPage, error)
	// Dead counts the dead by destination and reason.
	Dead(ctx context.Context, f dispatcher.DeadFilter) (dispatcher.DeadPage, error)

	dispatcher.Log
	// FollowLog shows lines of the log that match as they come, or those behind an
	// event's position first, until ctx ends or show fails. An event without anything
	// says that it goes on; the first comes at once.
	FollowLog(ctx context.Context, f dispatcher.LogFilter, behind string, show func([]dispatcher.LogEvent) error) error

	// Jobs change many deliveries. dispatcher.ErrNoJob says that there is none of a
	// number.

	// StartJob begins a job; dispatcher.ErrJobs where too many have not ended. One
	// that finds nothing has ended at once.
	StartJob(ctx context.Context, j dispatcher.Job) (dispatcher.Job, error)
	// SurveyJob tells what a job would change.
	SurveyJob(ctx context.Context, kind dispatcher.JobKind, f dispatcher.Filter) (dispatcher.Survey, error)
	// Job reads a job.
	Job(ctx context.Context, number int64) (dispatcher.Job, error)
	// Jobs reads a page of jobs, the newest first.
	Jobs(ctx context.Context, limit int, cursor string) (list []dispatcher.Job, next string, err error)
	// StopJob ends a job: when it returns, nothing more is changed.
	StopJob(ctx context.Context, number int64) (dispatcher.Job, error)
	// ResumeJob goes on with a job; dispatcher.ErrJobState where it was not stopped and
	// did not fail.
	ResumeJob(ctx context.Context, number int64) (dispatcher.Job, error)

	// Endpoints are registered and changed. A name is an id or a uid; where no
	// endpoint has it, the error is dispatcher.ErrNoEndpoint.

	// CreateEndpoint registers an endpoint, whose secret may be missing. Where one
	// with its uid exists, created is false if both are equal, and else the error is
	// dispatcher.ErrTaken.
	CreateEndpoint(ctx context.Context, e *dispatcher.Endpoint) (view dispatcher.EndpointView, created bool, err error)
	// Endpoint reads one endpoint.
	Endpoint(ctx context.Context, name string) (dispatcher.EndpointView, error)
	// Endpoints reads a page of endpoints.
	Endpoints(ctx context.Context, f dispatcher.EndpointFilter) (views []dispatcher.EndpointView, next string, err error)
	// PublicKeys reads a page of public keys. It costs the store next to nothing,
	// however often it is called.
	PublicKeys(ctx context.Context, f dispatcher.PublicKeyFilter) (dispatcher.PublicKeyPage, error)
	// ChangeEndpoint calls change with a copy of an endpoint and stores the copy. It
	// returns an error of change as it is, and calls change again after a race.
	ChangeEndpoint(ctx context.Context, name string, change func(e *dispatcher.Endpoint) error) (dispatcher.EndpointView, error)
	// DeleteEndpoint deletes an endpoint and counts the deliveries that it cancels.
	DeleteEndpoint(ctx context.Context, name string) (cancelled int, err error)
	// RotateSecret gives an endpoint another secret. Where next is zero, it makes one.
	RotateSecret(ctx context.Context, name string, next signer.Secret, overlap time.Duration) (dispatcher.EndpointView, error)
	// TestEndpoint sends a message and answers what the receiver answered.
	TestEndpoint(ctx context.Context, name string) (dispatcher.TestResult, error)

	// Destinations are paused: lanes, endpoints' ids and uids, URLs, and *.

	// Lane is the lane of a destination, for a URL that of tenant;
	// dispatcher.ErrNoEndpoint where no endpoint has a uid.
	Lane(ctx context.Context, destination, tenant string) (dispatcher.Lane, error)
	// MessageTenant is the tenant of a message; dispatcher.ErrNotFound where there is no
	// such message.
	MessageTenant(ctx context.Context, id string) (string, error)
	// MessageLane is Lane with the tenant of a message; dispatcher.ErrNotFound where
	// there is no such message.
	MessageLane(ctx context.Context, id, destination string) (dispatcher.Lane, error)
	// Lanes reads a page of all lanes.
	Lanes(ctx context.Context, limit int, cursor string) (states []dispatcher.LaneState, next string, err error)
	// LaneStates reads those of these lanes that exist.
	LaneStates(ctx context.Context, lanes []dispatcher.Lane) ([]dispatcher.LaneState, error)
	// PausedLanes are the lanes that were paused last, and the number of all paused.
	PausedLanes(ctx context.Context) (states []dispatcher.LaneState, total int, err error)
	// Pause pauses a destination; dispatcher.ErrNoEndpoint or dispatcher.ErrNoLane
	// where there is no such endpoint or lane.
	Pause(ctx context.Context, destination, tenant string) (dispatcher.LaneState, error)
	// Resume ends a pause.
	Resume(ctx context.Context, destination, tenant string) (dispatcher.LaneState, error)
	// OtherTenants counts the lanes of other tenants at a URL's origin.
	OtherTenants(ctx context.Context, url, tenant string) (dispatcher.OtherTenants, error)
	// PauseTenants pauses the lanes of all tenants there.
	PauseTenants(ctx context.Context, url, cursor string) (dispatcher.OtherTenants, error)
	// ResumeTenants ends these pauses.
	ResumeTenants(ctx context.Context, url, cursor string) (dispatcher.OtherTenants, error)

	// Deliveries of queues, and of endpoints of kind pull, are taken.

	// Take leases deliveries to a caller, and waits for some if there are none. Where
	// ctx ends, nothing is taken.
	Take(ctx context.Context, a dispatcher.TakerAsk) ([]dispatcher.Given, error)
	// GiveBack gives back what a caller did not get after all.
	GiveBack(given []dispatcher.Given)
	// SettleTaken records what a caller made of deliveries of a lane.
	SettleTaken(ctx context.Context, lane dispatcher.Lane, owner string, list []dispatcher.TakerOutcome) ([]dispatcher.Told, error)

	// Links let people of a tenant look in. access.ErrNoLink says that there is none of
	// an id.

	// CreateLink keeps a link for so long. It answers its token, and the link with its id
	// and times; access.ErrLinks where there are too many.
	CreateLink(ctx context.Context, l access.Link, lasts time.Duration) (token string, made access.Link, err error)
	// Link reads a link.
	Link(ctx context.Context, id string) (access.Link, error)
	// Links reads a page of those that have not expired, newest first.
	Links(ctx context.Context, limit int, cursor string) (list []access.Link, next string, err error)
	// RevokeLink ends a link and what it let in.
	RevokeLink(ctx context.Context, id string) error

	// What was changed is kept.
	dispatcher.Audit

	// The queue and its store are described.

	// Stats counts deliveries and lanes.
	Stats(ctx context.Context) (dispatcher.Stats, error)
	// Instances reads a page of the instances.
	Instances(ctx context.Context, limit int, cursor string) (list []dispatcher.InstanceState, next string, err error)
	// Tick waits until nothing is due any more, or within is over.
	// dispatcher.ErrAcceptsOnly says that this instance attempts nothing.
	Tick(ctx context.Context, within time.Duration) (dispatcher.Tick, error)
	// Ready describes the store, or says why it can't be used now.
	Ready(ctx context.Context) (dispatcher.StoreInfo, error)
}
