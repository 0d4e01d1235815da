package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/apikey"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// operation is one row of the API: its name, the scope that it needs, its request
// and its answers.
type operation struct {
	id, method, path string
	summary          string
	scope            apikey.Scope   // 0: needs no key
	subject          *subject       // what the path names; nil: nothing
	query            []*param       // parameters of the query
	anyQuery         bool           // unknown parameters are ignored
	header           *huma.Param    // a header that is read; nil: none
	body             any            // of a POST or PATCH; nil: none
	limit            int64          // most bytes of the request
	cure             string         // what a refusal of more says besides
	optional         bool           // the body may be left out
	media            string         // of the body, besides JSON
	answers          map[int]any    // by status; nil: without a body
	produces         string         // media type of the answers; empty: JSON
	csv              bool           // it answers as CSV too, with cursors in headers
	events           string         // what its event stream has, which it answers to Accept: text/event-stream; empty: there is none
	problems         []*problemKind // besides those that follow from the other fields
	audit            string         // its word there, one of dispatcher.AuditWords; empty: it changes nothing
	fastPath         bool           // one of the POSTs that most requests are: it needs no mux

	do func(context.Context, *request) (*response, error) // nil, nil: it has written the response
}

// subject is the sort of thing that a path names.
type subject struct {
	name, doc string // of the parameter in the path
	check     func(value string) error
}

var (
	aMessage   = &subject{"id", "The id of the message.", known(dispatcher.ValidID, dispatcher.ErrNotFound)}
	anEndpoint = &subject{"id", "The id or the uid of the endpoint.", known(dispatcher.ValidName, dispatcher.ErrNoEndpoint)}
	aLane      = &subject{"lane", "A lane, an endpoint's id or uid, a URL (its slashes escaped as %2F), or * for all.", checkLane}
)

// known checks a name. What has no valid name is not there.
func known(valid func(string) bool, missing error) func(string) error {
	return func(name string) error {
		if !valid(name) {
			return missing
		}
		return nil
	}
}

// kinds are all problems that an operation may answer with.
func (o operation) kinds() []*problemKind {
	all := []*problemKind{internal, forbidden} // 403: without keys only this host may call
	if o.scope != 0 {
		all = append(all, unauthorized)
	}
	if o.body != nil {
		all = append(all, malformed, tooSlow, tooLarge, badMedia)
	}
	if o.subject != nil {
		all = append(all, notFound)
	}
	if !o.anyQuery { // it checks its request, and asks the store
		all = append(all, invalid, unavailable)
	}
	return append(all, o.problems...)
}

// operations is the list of all operations.
func (s *server) operations() []operation {
	return slices.Concat(s.messageOperations(), s.listOperations(), s.attemptOperations(), s.jobOperations(), s.queueOperations(), s.endpointOperations(), s.holdOperations(), s.secretOperations(), s.laneOperations(), s.linkOperations(), s.auditOperations(), s.plainOperations())
}

// The calls that take messages.
const (
	idPublish = "publish"
	idBatch   = "publish-batch"
)

func (s *server) messageOperations() []operation {
	destination := ofText("destination", "Only the delivery to this lane, endpoint, queue (q_<name>), or URL of the message's tenant.", refuseDestination)
	all := ofFlag("all", "true: what was delivered is sent again too. What a destination names always is.")
	published := map[int]any{202: wire.Published{}, 200: wire.Published{}}
	return []operation{
		{
			id: idPublish, method: "POST", path: "/v1/messages", scope: apikey.Publish, fastPath: true,
			summary: "Publish a message to a URL, to an endpoint, or to every endpoint that matches", do: s.publish,
			header: &huma.Param{
				Name: "Idempotency-Key", In: "header", Schema: textSchema,
				Description: "1 to 255 printable characters, which become the id of a message without one. A key that is no valid id becomes idk_ and the first 32 hex digits of its SHA-256. Quotes around the key are removed.",
			},
			body: wire.Message{}, limit: s.single, answers: published,
			cure:     fmt.Sprintf(": a message's body has at most %d (MAX_BODY); send less, or raise the setting", s.policy.MaxBody),
			problems: []*problemKind{conflict, unmatched, tooMany, laneFull, full, weak, crowded},
		},
		{
			id: idBatch, method: "POST", path: "/v1/messages/batch", scope: apikey.Publish, fastPath: true,
			summary: "Publish up to 1000 messages, each of which is taken or refused by itself; if none could be stored, the problem has the results", do: s.publishBatch,
			body: wire.Batch{}, limit: batchBytes, cure: ", which a batch may have: send several", answers: map[int]any{202: wire.Results{}},
			problems: []*problemKind{full, weak, crowded},
		},
		{
			id: "get-message", method: "GET", path: "/v1/messages/{id}", scope: apikey.Read,
			summary: "Read a message and its deliveries", do: s.message,
			subject: aMessage, answers: ok(wire.MessageView{}),
		},
		{
			id: "cancel-message", method: "DELETE", path: "/v1/messages/{id}", scope: apikey.Publish, audit: "message.cancel",
			summary: "Cancel the deliveries of a message that have not ended", do: s.cancel,
			subject: aMessage, query: []*param{destination}, answers: ok(wire.Deliveries{}), problems: []*problemKind{archived},
		},
		{
			id: "retry-message", method: "POST", path: "/v1/messages/{id}/retry", scope: apikey.Publish, audit: "message.retry",
			summary: "Attempt a message's deliveries now", do: s.retry,
			subject: aMessage, query: []*param{destination, all}, answers: map[int]any{202: wire.Retried{}},
			problems: []*problemKind{due, inFlight, order, delivered, expired, disabled, deleted, archived},
		},
	}
}

// listOperations find deliveries, of whatever message.
func (s *server) listOperations() []operation {
	return []operation{
		{
			id: "list-deliveries", method: "GET", path: "/v1/deliveries", scope: apikey.Read,
			summary: "List deliveries, newest first, as JSON or CSV", do: s.deliveries, csv: true,
			answers: ok(wire.Page{}), query: append(append(filterParams(),
				repeated(ofText("subject_like", "A subject as people write it: 8713, #8713 and ORDER 8713 find order_8713. Its last number of three or more digits counts, else its last part with a digit, else all of it. Prefixes do not match. May be repeated.", refuseSubject)),
				ofWord("order", "since and until are of the time of the order. accepted: the newest accepted first, whatever their states, for a list with "+
					"tenant, destination or a subject, which has it by default. ended: only what has ended, newest first; the default if only such statuses are named. "+
					"due: only what waits, by its next attempt, the earliest first. Other lists have what ended, newest first, then what is in flight, ready, or waits, "+
					"by its next attempt; without a status they end with the deliveries that moved while they were read, and can show one twice.", dispatcher.Orders)), ofPage(maxLimit)...),
			problems: []*problemKind{malformed, listing},
		},
		{
			id: "list-dead", method: "GET", path: "/v1/dead", scope: apikey.Read,
			summary: "Count the dead deliveries by destination and reason, most first", do: s.dead,
			answers: ok(wire.DeadPage{}), query: append([]*param{
				repeated(ofText("tenant", "May be repeated. The tenant of an endpoint that was deleted is not known: name its lane.", refuseTenant)),
				repeated(ofText("destination", "A lane, an endpoint's id or uid, a URL, or q_<name> for a queue. May be repeated.", refuseDestination)),
				repeated(ofWord("dead_reason", "May be repeated.", dispatcher.DeadReasons)),
			}, ofPage(maxLimit)...),
			problems: []*problemKind{malformed, listing},
		},
	}
}

// attemptOperations tell what happened.
func (s *server) attemptOperations() []operation {
	return []operation{
		{
			id: "list-attempts", method: "GET", path: "/v1/attempts", scope: apikey.Read,
			summary: "List attempts, and ends without one, newest first; or follow them as events", do: s.attempts,
			header: &huma.Param{
				Name: lastEventID, In: "header", Schema: textSchema,
				Description: "With Accept: text/event-stream: the id of the last event that came. The stream goes on behind it.",
			},
			events: "Events attempt: data is a LoggedAttempt, id goes into Last-Event-ID. " +
				"A gap says that attempts before it are missing, and since when the log is whole (complete_since). An end comes last, with the reason why. " +
				"limit and cursor are refused. With since it begins with those of that time.",
			answers: ok(wire.LoggedPage{}), query: append([]*param{
				repeated(ofText("destination", "A lane, an endpoint's id or uid, a URL, or q_<name> for a queue. May be repeated: any of them matches.", refuseDestination)),
				repeated(ofText("tenant", "May be repeated. Found as long as the message is kept.", refuseTenant)),
				repeated(ofText("topic", "A topic, or a pattern as payment.*. May be repeated. Found as long as the message is kept.", refusePattern)),
				repeated(ofText("subject", "The caller's own reference. May be repeated. Found as long as the message is kept.", refuseSubject)),
				repeated(ofText("message", "The id of a message. May be repeated.", refuseMessage)),
				repeated(ofWord("outcome", "May be repeated.", dispatcher.Happenings)),
				repeated(ofStatusCode("status_code", "The status that the receiver answered. May be repeated.")),
				repeated(ofText("job", "The id of a job: attempts of deliveries that it sent, as long as they are its own. May be repeated.", refuseJobID)),
				ofTime("since", "Began at this time or later."),
				ofTime("until", "Began before this time."),
			}, ofPage(maxLimit)...),
			problems: []*problemKind{malformed, waiting},
		},
	}
}

// filterParams are the filters of deliveries. Jobs have them in their bodies.
func filterParams() []*param {
	return []*param{
		repeated(ofWord("status", "May be repeated: any of them matches.", dispatcher.Statuses)),
		repeated(ofText("topic", "A topic, or a pattern as payment.*. May be repeated.", refusePattern)),
		repeated(ofText("tenant", "May be repeated.", refuseTenant)),
		repeated(ofText("subject", "The caller's own reference, exactly. May be repeated.", refuseSubject)),
		ofFlag("failed", "true: only those that are not finished and had a failed attempt."),
		repeated(ofText("destination", "A lane, an endpoint's id or uid, a URL, or q_<name> for a queue. May be repeated.", refuseDestination)),
		repeated(ofWord("dead_reason", "May be repeated.", dispatcher.DeadReasons)),
		ofTime("since", "Accepted, ended, or due, by the order of the list, at this time or later."),
		ofTime("until", "Accepted, ended, or due, by the order of the list, before this time."),
	}
}

const endpointPath = "/v1/endpoints/{id}"

func (s *server) endpointOperations() []operation {
	one := ok(wire.EndpointView{})
	return []operation{
		{
			id: "create-endpoint", method: "POST", path: "/v1/endpoints", scope: apikey.Admin, audit: "endpoint.create",
			summary: "Register an endpoint; the answer holds its secret where it is new", do: s.createEndpoint,
			body: wire.Endpoint{}, limit: endpointBytes, answers: map[int]any{201: wire.EndpointView{}, 200: wire.EndpointView{}},
			problems: []*problemKind{taken, registered},
		},
		{
			id: "list-endpoints", method: "GET", path: "/v1/endpoints", scope: apikey.Read,
			summary: "List endpoints, newest first", do: s.endpoints,
			answers: ok(wire.EndpointPage{}), query: append([]*param{
				repeated(ofText("tenant", "Only this tenant's; empty: only those without a tenant. May be repeated: any of them matches.", refuseTenantOrNone)),
			}, ofPage(maxLimit)...),
			problems: []*problemKind{malformed},
		},
		{
			id: "get-endpoint", method: "GET", path: endpointPath, scope: apikey.Read,
			summary: "Read an endpoint, without its secrets", do: s.endpoint,
			subject: anEndpoint, answers: one,
		},
		{
			id: "patch-endpoint", method: "PATCH", path: endpointPath, scope: apikey.Admin, audit: "endpoint.update",
			summary: "Change an endpoint; its waiting deliveries follow the change", do: s.patchEndpoint,
			subject: anEndpoint, body: patchSchema{}, limit: endpointBytes, media: mediaPatch, answers: one,
			problems: []*problemKind{changed, sealed},
		},
		{
			id: "delete-endpoint", method: "DELETE", path: endpointPath, scope: apikey.Admin, audit: "endpoint.delete",
			summary: "Delete an endpoint and cancel its waiting deliveries", do: s.deleteEndpoint,
			subject: anEndpoint, answers: ok(wire.EndpointDeleted{}),
		},
		{
			id: "list-endpoint-deliveries", method: "GET", path: endpointPath + "/deliveries", scope: apikey.Read,
			summary: "List the deliveries to an endpoint that ended, oldest first by their end, as JSON or CSV", do: s.ended,
			subject: anEndpoint, answers: ok(wire.EndedPage{}), csv: true, query: append([]*param{
				repeated(ofWord("status", "May be repeated: any of them matches.", dispatcher.EndStatuses)),
				ofTime("since", "Ended at this time or later."),
				ofTime("until", "Ended before this time."),
			}, ofPage(maxLimit)...),
			problems: []*problemKind{malformed, listing},
		},
	}
}

// holdOperations decide whether an endpoint is called, and what is sent to it.
func (s *server) holdOperations() []operation {
	one := ok(wire.EndpointView{})
	return []operation{
		{
			id: "pause-endpoint", method: "POST", path: endpointPath + "/pause", scope: apikey.Admin, audit: "endpoint.pause",
			summary: "Pause the deliveries to an endpoint", do: s.pauseEndpoint,
			subject: anEndpoint, answers: one,
			problems: []*problemKind{changed, sealed},
		},
		{
			id: "resume-endpoint", method: "POST", path: endpointPath + "/resume", scope: apikey.Admin, audit: "endpoint.resume",
			summary: "Resume an endpoint that is paused or disabled, or whose breaker is open", do: s.resumeEndpoint,
			subject: anEndpoint, answers: one,
			problems: []*problemKind{changed, sealed},
		},
		{
			id: "confirm-endpoint", method: "POST", path: endpointPath + "/confirm", scope: apikey.Admin, audit: "endpoint.confirm",
			summary: "Make the url that a link set the operator's, so that headers are sent to it", do: s.confirmEndpoint,
			subject: anEndpoint, body: wire.Confirmation{}, limit: rotationBytes, answers: one,
			problems: []*problemKind{changed, sealed},
		},
	}
}

func (s *server) secretOperations() []operation {
	return []operation{
		{
			id: "get-secret", method: "GET", path: endpointPath + "/secret", scope: apikey.Admin, audit: "secret.read",
			summary: "Read an endpoint's secrets", do: s.secret,
			subject: anEndpoint, answers: ok(wire.EndpointSecrets{}),
			problems: []*problemKind{sealed},
		},
		{
			id: "rotate-secret", method: "POST", path: endpointPath + "/rotate-secret", scope: apikey.Admin, audit: "secret.rotate",
			summary: "Give an endpoint another secret, which the answer holds", do: s.rotateSecret,
			subject: anEndpoint, body: wire.Rotation{}, limit: rotationBytes, optional: true,
			answers:  ok(wire.Rotated{}),
			problems: []*problemKind{changed, sealed},
		},
		{
			id: "test-endpoint", method: "POST", path: endpointPath + "/test", scope: apikey.Admin, audit: "endpoint.test",
			summary: "Send an endpoint a test message and answer what its receiver answered", do: s.test,
			subject: anEndpoint, answers: ok(wire.EndpointTest{}),
			problems: []*problemKind{busy, sealed},
		},
		{
			id: "webhook-keys", method: "GET", path: "/.well-known/webhook-keys",
			summary: "List the public keys of endpoints whose signature is standard-ed25519; they are at most a minute old", do: s.webhookKeys,
			answers: ok(wire.PublicKeyPage{}), query: append([]*param{
				repeated(ofText("endpoint", "Only those of the endpoint with this id or uid. May be repeated.", refuseName)),
			}, ofPage(maxKeys)...),
			problems: []*problemKind{malformed},
		},
	}
}

func (s *server) laneOperations() []operation {
	held := []*param{
		ofText("tenant", "With a URL: the tenant whose deliveries are meant. Left out: those without a tenant.", refuseTenant),
		ofFlag("all_tenants", "true, with a URL: also the lanes of all other tenants that exist at its origin now."),
		ofText("cursor", "With all_tenants: next_cursor of the call before.", nil),
	}
	one := ok(wire.LaneState{})
	return []operation{
		{
			id: "list-lanes", method: "GET", path: "/v1/lanes", scope: apikey.Read,
			summary: "List lanes, newest first", do: s.lanes,
			query: append([]*param{
				repeated(ofText("destination", "Only the lane of this: a lane, an endpoint's id or uid, a URL, or q_<name> for a queue. May be repeated. One that is not there is left out.", refuseDestination)),
				repeated(ofText("tenant", "With a URL: the tenant whose lane is meant. Left out: that of the deliveries without a tenant. May be repeated.", refuseTenant)),
			}, ofPage(maxLimit)...), answers: ok(wire.LanePage{}),
			problems: []*problemKind{malformed, listing},
		},
		{
			id: "pause-lane", method: "POST", path: "/v1/lanes/{lane}/pause", scope: apikey.Admin, audit: "lane.pause",
			summary: "Pause the deliveries to a destination, or all deliveries", do: s.pauseLane,
			subject: aLane, query: held, answers: one, problems: []*problemKind{changed, sealed},
		},
		{
			id: "resume-lane", method: "POST", path: "/v1/lanes/{lane}/resume", scope: apikey.Admin, audit: "lane.resume",
			summary: "Resume the deliveries to a destination, and close its breaker", do: s.resumeLane,
			subject: aLane, query: held, answers: one, problems: []*problemKind{changed, sealed},
		},
	}
}

// plainOperations are about the whole process.
func (s *server) plainOperations() []operation {
	return slices.Concat(s.metricsOperations(), s.healthOperations(), []operation{{
		id: "stats", method: "GET", path: "/v1/stats", scope: apikey.Read,
		summary: "Count what is in the queue", do: s.stats,
		answers: ok(wire.Stats{}),
	}, {
		id: "list-instances", method: "GET", path: "/v1/instances", scope: apikey.Read,
		summary: "List the instances, those that started last first", do: s.instances,
		query: ofPage(maxLimit), answers: ok(wire.InstancePage{}),
		problems: []*problemKind{malformed, listing},
	}, {
		id: "tick", method: "POST", path: "/v1/tick", scope: apikey.Tick,
		summary: "Do what is due, wait until nothing is, and tell when to call again: for platforms that scale to zero", do: s.tick,
		query:   []*param{ofTicks("for", "How long to wait at most: 1s to 1m. Where an instance that died may hold deliveries it takes 10s, however short this is.")},
		answers: ok(wire.Tick{}), problems: []*problemKind{acceptsOnly, waiting},
	}})
}

const mediaText = "text/plain"

// metricsOperations are empty where there are no metrics.
func (s *server) metricsOperations() []operation {
	if s.figures == nil {
		return nil
	}
	return []operation{{
		id: "metrics", method: "GET", path: "/metrics", scope: apikey.Read, anyQuery: true,
		summary: "Read the metrics, for Prometheus", do: s.metrics,
		answers: ok(""), produces: mediaText,
	}}
}

// healthOperations are for orchestrators, which have no key.
func (s *server) healthOperations() []operation {
	return []operation{
		{
			id: "healthz", method: "GET", path: "/healthz", summary: "Tell that the process is alive",
			anyQuery: true, do: s.healthz, answers: ok(wire.Health{}),
		},
		{
			id: "readyz", method: "GET", path: "/readyz", summary: "Tell whether the store can be used",
			anyQuery: true, do: s.readyz, answers: ok(wire.Ready{}), problems: []*problemKind{unavailable},
		},
	}
}

// ok are the answers of a call whose only success is 200.
func ok(answer any) map[int]any { return map[int]any{http.StatusOK: answer} }
