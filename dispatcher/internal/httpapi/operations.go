package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// operation is one row of the API: its name, the scope that it needs, its request
// and its answers.
type operation struct {
	id, method, path string
	summary          string
	scope            scope         // 0: needs no key
	subject          *subject      // what {id} in the path is; nil: there is none
	params           []*huma.Param // of the query and the header
	anyQuery         bool          // unknown parameters are ignored
	body             any           // of a POST or PATCH; nil: none
	limit            int64         // most bytes of the request
	cure             string        // what a refusal of more says besides
	optional         bool          // the body may be left out
	media            string        // of the body, besides JSON
	answers          map[int]any   // by status
	produces         string        // media type of the answers; empty: JSON
	problems         []*kind       // besides those that every operation has
	fastPath         bool          // one of the POSTs that most requests are: it needs no mux

	do func(context.Context, *request) (*response, error) // nil, nil: it has written the response
}

// subject is the sort of thing whose id a path has.
type subject struct {
	doc     string
	valid   func(id string) bool
	missing error // where the id is not valid
}

var (
	aMessage   = &subject{"The id of the message.", dispatcher.ValidID, dispatcher.ErrNotFound}
	anEndpoint = &subject{"The id or the uid of the endpoint.", dispatcher.ValidName, dispatcher.ErrNoEndpoint}
)

// handle routes to an operation. It checks the key and the request, and answers with
// what the operation returns, or with a problem.
func (s *server) handle(o operation) {
	pattern := o.method + " " + o.path
	h := func(rw http.ResponseWriter, r *http.Request) {
		w := rw.(*responseWriter)
		r.Pattern = pattern
		k, ok := s.authorised(w, r, o.scope, o.id)
		if !ok {
			return
		}
		ctx := r.Context()
		if o.scope == scopeAdmin { // changes are stored with the caller's name
			ctx = dispatcher.WithCaller(ctx, k.name)
		}
		q := &request{r: r, w: w, of: &o, reads: k.scope.allows(scopeRead)}
		var answer *response
		err := q.check()
		if err == nil {
			answer, err = o.do(ctx, q)
		}
		switch {
		case err != nil:
			w.refuse(s.problem(ctx, err).of(r.Method))
		case answer != nil:
			answer.write(w)
		}
	}
	s.mux.HandleFunc(pattern, h)
	if o.fastPath {
		s.fastPath[o.path] = h
	}
}

// kinds are all problems that an operation may answer with.
func (o operation) kinds() []*kind {
	all := []*kind{internal, forbidden} // 403: without keys only this host may call
	if o.scope != 0 {
		all = append(all, unauthorized)
	}
	return append(all, o.problems...)
}

// operations is the list of all operations.
func (s *server) operations() []operation {
	return slices.Concat(s.messageOperations(), s.endpointOperations(), s.secretOperations(), s.laneOperations(), s.plainOperations())
}

// The calls that take messages.
const (
	idPublish = "publish"
	idBatch   = "publish-batch"
)

func (s *server) messageOperations() []operation {
	destination := queryParam("destination", "Only the delivery to this lane, endpoint, or URL of the message's tenant.", text1)
	all := queryParam("all", "true: what was delivered is sent again too, as what a destination names is.", enum("true", "false"))
	published := map[int]any{202: wire.Published{}, 200: wire.Published{}}
	return []operation{
		{
			id: idPublish, method: "POST", path: "/v1/messages", scope: scopePublish, fastPath: true,
			summary: "Publish a message to a URL, to an endpoint, or to every endpoint that matches", do: s.publish,
			params: []*huma.Param{{
				Name: "Idempotency-Key", In: "header", Schema: &huma.Schema{Type: huma.TypeString},
				Description: "1 to 255 printable characters that make the message's id, where it has none of its own: as they are where they may be one, else idk_ and the first 32 hex digits of their SHA-256. Quotes around them are taken off.",
			}},
			body: wire.Message{}, limit: s.single, answers: published,
			cure:     fmt.Sprintf(": a message's body has at most %d (MAX_BODY); send less, or raise the setting", s.policy.MaxBody),
			problems: []*kind{malformed, tooSlow, conflict, tooLarge, badMedia, invalid, unmatched, tooMany, laneFull, unavailable, full, weak, crowded},
		},
		{
			id: idBatch, method: "POST", path: "/v1/messages/batch", scope: scopePublish, fastPath: true,
			summary: "Publish up to 1000 messages; good ones are taken though others are not, and where none could be stored the problem has results", do: s.publishBatch,
			body: wire.Batch{}, limit: batchBytes, cure: ", which a batch may have: send several", answers: map[int]any{202: wire.Results{}},
			problems: []*kind{malformed, tooSlow, tooLarge, badMedia, invalid, unavailable, full, weak, crowded},
		},
		{
			id: "get-message", method: "GET", path: "/v1/messages/{id}", scope: scopeRead,
			summary: "Read a message and its deliveries", do: s.message,
			subject: aMessage, answers: map[int]any{200: wire.MessageView{}},
			problems: []*kind{notFound, invalid, unavailable},
		},
		{
			id: "cancel-message", method: "DELETE", path: "/v1/messages/{id}", scope: scopePublish,
			summary: "Cancel what is not finished of a message", do: s.cancel,
			subject: aMessage, params: []*huma.Param{destination}, answers: map[int]any{200: wire.Deliveries{}},
			problems: []*kind{notFound, invalid, unavailable},
		},
		{
			id: "retry-message", method: "POST", path: "/v1/messages/{id}/retry", scope: scopePublish,
			summary: "Attempt a message's deliveries now", do: s.retry,
			subject: aMessage, params: []*huma.Param{destination, all}, answers: map[int]any{202: wire.Retried{}},
			problems: []*kind{notFound, due, inFlight, order, delivered, expired, disabled, deleted, invalid, unavailable},
		},
		{
			id: "list-deliveries", method: "GET", path: "/v1/deliveries", scope: scopeRead,
			summary: "List deliveries, newest first", do: s.deliveries,
			params: listParams(), answers: map[int]any{200: wire.Page{}},
			problems: []*kind{malformed, invalid, listing, unavailable},
		},
	}
}

func (s *server) endpointOperations() []operation {
	const path = "/v1/endpoints/{id}"
	one := map[int]any{200: wire.EndpointView{}}
	tenant := queryParam("tenant", "Only this tenant's; empty: only those without a tenant. May be repeated: any of them matches.", many(text1))
	return []operation{
		{
			id: "create-endpoint", method: "POST", path: "/v1/endpoints", scope: scopeAdmin,
			summary: "Register an endpoint; the answer holds its secret where it is new", do: s.createEndpoint,
			body: wire.Endpoint{}, limit: endpointBytes, answers: map[int]any{201: wire.EndpointView{}, 200: wire.EndpointView{}},
			problems: []*kind{malformed, tooSlow, taken, tooLarge, badMedia, invalid, registered, unavailable},
		},
		{
			id: "list-endpoints", method: "GET", path: "/v1/endpoints", scope: scopeRead,
			summary: "List endpoints, newest first", do: s.endpoints,
			params: append([]*huma.Param{tenant}, pageParams(maxLimit)...), answers: map[int]any{200: wire.EndpointPage{}},
			problems: []*kind{malformed, invalid, unavailable},
		},
		{
			id: "get-endpoint", method: "GET", path: path, scope: scopeRead,
			summary: "Read an endpoint, without its secrets", do: s.endpoint,
			subject: anEndpoint, answers: one, problems: []*kind{notFound, invalid, unavailable},
		},
		{
			id: "patch-endpoint", method: "PATCH", path: path, scope: scopeAdmin,
			summary: "Change an endpoint; what waits for it goes by what it is then", do: s.patchEndpoint,
			subject: anEndpoint, body: patchSchema{}, limit: endpointBytes, media: mediaPatch, answers: one,
			problems: []*kind{malformed, notFound, tooSlow, changed, tooLarge, badMedia, invalid, sealed, unavailable},
		},
		{
			id: "delete-endpoint", method: "DELETE", path: path, scope: scopeAdmin,
			summary: "Delete an endpoint and cancel what waits for it", do: s.deleteEndpoint,
			subject: anEndpoint, answers: map[int]any{200: wire.EndpointDeleted{}},
			problems: []*kind{notFound, invalid, unavailable},
		},
		{
			id: "pause-endpoint", method: "POST", path: path + "/pause", scope: scopeAdmin,
			summary: "Hold what goes to an endpoint", do: s.pauseEndpoint,
			subject: anEndpoint, answers: one,
			problems: []*kind{notFound, changed, invalid, sealed, unavailable},
		},
		{
			id: "resume-endpoint", method: "POST", path: path + "/resume", scope: scopeAdmin,
			summary: "Let an endpoint go on that is paused or disabled, or whose breaker is open", do: s.resumeEndpoint,
			subject: anEndpoint, answers: one,
			problems: []*kind{notFound, changed, invalid, sealed, unavailable},
		},
	}
}

func (s *server) secretOperations() []operation {
	const path = "/v1/endpoints/{id}"
	endpoint := queryParam("endpoint", "Only those of the endpoint with this id or uid. May be repeated.", many(text1))
	return []operation{
		{
			id: "get-secret", method: "GET", path: path + "/secret", scope: scopeAdmin,
			summary: "Read an endpoint's secrets", do: s.secret,
			subject: anEndpoint, answers: map[int]any{200: wire.EndpointSecrets{}},
			problems: []*kind{notFound, invalid, sealed, unavailable},
		},
		{
			id: "rotate-secret", method: "POST", path: path + "/rotate-secret", scope: scopeAdmin,
			summary: "Give an endpoint another secret, which the answer holds", do: s.rotateSecret,
			subject: anEndpoint, body: wire.Rotation{}, limit: rotationBytes, optional: true,
			answers:  map[int]any{200: wire.Rotated{}},
			problems: []*kind{malformed, notFound, tooSlow, changed, tooLarge, badMedia, invalid, sealed, unavailable},
		},
		{
			id: "test-endpoint", method: "POST", path: path + "/test", scope: scopeAdmin,
			summary: "Send an endpoint a test message and tell what its receiver said", do: s.test,
			subject: anEndpoint, answers: map[int]any{200: wire.EndpointTest{}},
			problems: []*kind{notFound, invalid, busy, sealed, unavailable},
		},
		{
			id: "webhook-keys", method: "GET", path: "/.well-known/webhook-keys",
			summary: "List the public keys of endpoints whose signature is standard-ed25519, as of a minute ago at most", do: s.webhookKeys,
			params: append([]*huma.Param{endpoint}, pageParams(maxKeys)...), answers: map[int]any{200: wire.PublicKeyPage{}},
			problems: []*kind{malformed, invalid, unavailable},
		},
	}
}

func (s *server) laneOperations() []operation {
	lane := pathParam("lane", "A lane, an endpoint's id or uid, a URL (its slashes escaped as %2F), or * for all.")
	tenant := queryParam("tenant", "With a URL: whose messages to it are meant. Left out: those without a tenant.", text1)
	all := queryParam("all_tenants", "true, with a URL: also the lanes that other tenants have at its origin by now.", enum("true", "false"))
	cursor := queryParam("cursor", "With all_tenants: next_cursor of the call before.", text1)
	params := []*huma.Param{lane, tenant, all, cursor}
	one := map[int]any{200: wire.LaneState{}}
	return []operation{
		{
			id: "list-lanes", method: "GET", path: "/v1/lanes", scope: scopeRead,
			summary: "List lanes, those last made first", do: s.lanes,
			params: pageParams(maxLimit), answers: map[int]any{200: wire.LanePage{}},
			problems: []*kind{malformed, invalid, listing, unavailable},
		},
		{
			id: "pause-lane", method: "POST", path: "/v1/lanes/{lane}/pause", scope: scopeAdmin,
			summary: "Hold what goes to a destination, or everything", do: s.pauseLane,
			params: params, answers: one, problems: []*kind{notFound, changed, invalid, sealed, unavailable},
		},
		{
			id: "resume-lane", method: "POST", path: "/v1/lanes/{lane}/resume", scope: scopeAdmin,
			summary: "Let a destination go on, and close its breaker", do: s.resumeLane,
			params: params, answers: one, problems: []*kind{notFound, changed, invalid, sealed, unavailable},
		},
	}
}

// plainOperations are about the whole process.
func (s *server) plainOperations() []operation {
	return slices.Concat(s.metricsOperations(), s.healthOperations(), []operation{{
		id: "stats", method: "GET", path: "/v1/stats", scope: scopeRead,
		summary: "Count what is in the queue", do: s.stats,
		answers: map[int]any{200: wire.Stats{}}, problems: []*kind{invalid, unavailable},
	}})
}

const mediaText = "text/plain"

// metricsOperations are empty where there are no metrics.
func (s *server) metricsOperations() []operation {
	if s.figures == nil {
		return nil
	}
	return []operation{{
		id: "metrics", method: "GET", path: "/metrics", scope: scopeRead, anyQuery: true,
		summary: "Tell Prometheus what was done and what is in the queue", do: s.metrics,
		answers: map[int]any{200: ""}, produces: mediaText,
	}}
}

// healthOperations are for orchestrators, which have no key.
func (s *server) healthOperations() []operation {
	return []operation{
		{
			id: "healthz", method: "GET", path: "/healthz", summary: "Tell that the process is alive",
			anyQuery: true, do: s.healthz, answers: map[int]any{200: wire.Health{}},
		},
		{
			id: "readyz", method: "GET", path: "/readyz", summary: "Tell whether the store can be used",
			anyQuery: true, do: s.readyz, answers: map[int]any{200: wire.Ready{}}, problems: []*kind{unavailable},
		},
	}
}

func listParams() []*huma.Param {
	return append([]*huma.Param{
		queryParam("status", "May be repeated: any of them matches.", many(enum("scheduled", "ready", "in_flight", "retrying", "delivered", "dead", "cancelled"))),
		queryParam("topic", "May be repeated.", many(text1)),
		queryParam("tenant", "May be repeated.", many(text1)),
		queryParam("destination", "A lane, an endpoint's id or uid, or a URL. May be repeated.", many(text1)),
		queryParam("dead_reason", "May be repeated.", many(enum("exhausted", "gone", "expired", "refused", "disabled", "overflow", "poison"))),
		queryParam("since", "Ended, or due, at this time or later.", moment1),
		queryParam("until", "Ended, or due, before this time.", moment1),
	}, pageParams(maxLimit)...)
}

// pageParams are the parameters of every list.
func pageParams(limit int) []*huma.Param {
	one, most := 1.0, float64(limit)
	return []*huma.Param{
		queryParam("limit", "How many at most; a page may be shorter.", &huma.Schema{Type: huma.TypeInteger, Minimum: &one, Maximum: &most, Default: defaultLimit}),
		queryParam("cursor", "next_cursor of the page before.", text1),
	}
}

var (
	text1   = &huma.Schema{Type: huma.TypeString}
	moment1 = &huma.Schema{Type: huma.TypeString, Format: "date-time"}
)

func many(items *huma.Schema) *huma.Schema { return &huma.Schema{Type: huma.TypeArray, Items: items} }

func enum(values ...any) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Enum: values}
}

// inQuery marks a parameter of the query.
const inQuery = "query"

func queryParam(name, doc string, s *huma.Schema) *huma.Param {
	explode := true // status=dead&status=cancelled
	return &huma.Param{Name: name, In: inQuery, Description: doc, Schema: s, Explode: &explode}
}

func pathParam(name, doc string) *huma.Param {
	return &huma.Param{Name: name, In: "path", Required: true, Description: doc, Schema: text1}
}
