package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/ladder"
)

// scopeKey is where an operation keeps the scope it needs.
const scopeKey = "scope"

// operation is one row of the API: what it is called, who may call it, what it
// takes and answers.
type operation struct {
	id, method, path string
	summary          string
	scope            scope // 0: needs no key
	params           []*huma.Param
	body             any         // of a POST; nil: none
	answers          map[int]any // by status
	problems         []*kind     // besides those that every operation has
	serve            func(context.Context, *call) (*reply, error)
}

// operations are all that the API serves.
func (s *server) operations() []operation {
	id := pathParam("id", "The id of the message.")
	destination := queryParam("destination", "Only the delivery to this lane or URL.", text1)
	published := map[int]any{202: wire.Published{}, 200: wire.Published{}}
	return []operation{
		{
			id: "publish", method: "POST", path: "/v1/messages", scope: scopePublish,
			summary: "Publish a message", serve: s.publish,
			params: []*huma.Param{{
				Name: "Idempotency-Key", In: "header", Schema: &huma.Schema{Type: huma.TypeString},
				Description: "The message's id, where it has none of its own.",
			}},
			body: wire.Message{}, answers: published,
			problems: []*kind{malformed, tooSlow, conflict, tooLarge, badMedia, invalid, unavailable},
		},
		{
			id: "publish-batch", method: "POST", path: "/v1/messages/batch", scope: scopePublish,
			summary: "Publish up to 1000 messages; good ones are taken though others are not", serve: s.publishBatch,
			body: wire.Batch{}, answers: map[int]any{202: wire.Results{}},
			problems: []*kind{malformed, tooSlow, tooLarge, badMedia, invalid, unavailable},
		},
		{
			id: "get-message", method: "GET", path: "/v1/messages/{id}", scope: scopeRead,
			summary: "Read a message and its deliveries", serve: s.message,
			params: []*huma.Param{id}, answers: map[int]any{200: wire.Record{}},
			problems: []*kind{notFound, invalid, unavailable},
		},
		{
			id: "cancel-message", method: "DELETE", path: "/v1/messages/{id}", scope: scopePublish,
			summary: "Cancel what is not finished of a message", serve: s.cancel,
			params: []*huma.Param{id, destination}, answers: map[int]any{200: wire.Deliveries{}},
			problems: []*kind{notFound, invalid, unavailable},
		},
		{
			id: "retry-message", method: "POST", path: "/v1/messages/{id}/retry", scope: scopePublish,
			summary: "Attempt a message's deliveries now", serve: s.retry,
			params: []*huma.Param{id, destination}, answers: map[int]any{202: wire.Deliveries{}},
			problems: []*kind{notFound, inFlight, invalid, unavailable},
		},
		{
			id: "list-deliveries", method: "GET", path: "/v1/deliveries", scope: scopeRead,
			summary: "List deliveries, newest first", serve: s.deliveries,
			params: listParams(), answers: map[int]any{200: wire.Page{}},
			problems: []*kind{malformed, invalid, unavailable},
		},
		{
			id: "stats", method: "GET", path: "/v1/stats", scope: scopeRead,
			summary: "Count what is in the queue", serve: s.stats,
			answers: map[int]any{200: wire.Stats{}}, problems: []*kind{invalid, unavailable},
		},
		{
			id: "healthz", method: "GET", path: "/healthz", summary: "Tell that the process is alive",
			serve: s.healthz, answers: map[int]any{200: wire.Health{}},
		},
		{
			id: "readyz", method: "GET", path: "/readyz", summary: "Tell whether the store can be used",
			serve: s.readyz, answers: map[int]any{200: wire.Ready{}}, problems: []*kind{unavailable},
		},
	}
}

func listParams() []*huma.Param {
	many := func(items *huma.Schema) *huma.Schema { return &huma.Schema{Type: huma.TypeArray, Items: items} }
	one, most := 1.0, float64(maxLimit)
	return []*huma.Param{
		queryParam("status", "May be repeated: any of them matches.", many(enum("scheduled", "ready", "in_flight", "retrying", "delivered", "dead", "cancelled"))),
		queryParam("topic", "May be repeated.", many(text1)),
		queryParam("tenant", "May be repeated.", many(text1)),
		queryParam("destination", "A lane or a URL. May be repeated.", many(text1)),
		queryParam("dead_reason", "May be repeated.", many(enum("exhausted", "gone", "expired", "refused", "disabled", "overflow", "poison"))),
		queryParam("since", "Ended, or due, at this time or later.", moment1),
		queryParam("until", "Ended, or due, before this time.", moment1),
		queryParam("limit", "How many at most; a page may be shorter.", &huma.Schema{Type: huma.TypeInteger, Minimum: &one, Maximum: &most, Default: defaultLimit}),
		queryParam("cursor", "next_cursor of the page before.", text1),
	}
}

var (
	text1   = &huma.Schema{Type: huma.TypeString}
	moment1 = &huma.Schema{Type: huma.TypeString, Format: "date-time"}
)

func enum(values ...any) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Enum: values}
}

func queryParam(name, doc string, s *huma.Schema) *huma.Param {
	explode := true // status=dead&status=cancelled
	return &huma.Param{Name: name, In: "query", Description: doc, Schema: s, Explode: &explode}
}

func pathParam(name, doc string) *huma.Param {
	return &huma.Param{Name: name, In: "path", Required: true, Description: doc, Schema: text1}
}

// register puts all operations on the mux and into the document.
func (s *server) register(version string) error {
	config := huma.Config{OpenAPI: &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{
			Title: "Hookladder", Version: version,
			Description: "Takes notifications and delivers each as a signed HTTP callback, again and again up a ladder of waits.",
		},
		Components: &huma.Components{
			Schemas:         huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer),
			SecuritySchemes: map[string]*huma.SecurityScheme{"key": {Type: "http", Scheme: "bearer", Description: "One of API_KEYS."}},
		},
	}}
	// Answers may grow; what is sent in may not hold more than is known.
	config.AllowAdditionalPropertiesByDefault = true
	api := humago.New(s.mux, config)
	api.UseMiddleware(s.authorise)
	doc := api.OpenAPI()
	schemas := doc.Components.Schemas
	schemas.RegisterTypeAlias(reflect.TypeFor[wire.Duration](), reflect.TypeFor[durationSchema]())
	schemas.RegisterTypeAlias(reflect.TypeFor[ladder.Ladder](), reflect.TypeFor[ladderSchema]())
	schemas.RegisterTypeAlias(reflect.TypeFor[wire.Time](), reflect.TypeFor[timeSchema]())
	for _, o := range s.operations() {
		s.add(api, o)
	}
	amend(schemas.Map())
	text, err := json.Marshal(doc)
	if err != nil {
		return fmt.Errorf("write openapi document: %w", err)
	}
	s.mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", mediaJSON)
		_, _ = w.Write(text) // a caller who is gone needs no answer
	})
	return nil
}

// amend corrects what the framework can't know of our types.
func amend(schemas map[string]*huma.Schema) {
	for _, name := range []string{"Message", "Success", "Batch"} {
		schemas[name].AdditionalProperties = false
	}
	for _, s := range schemas {
		for _, p := range s.Properties {
			if p.Type == huma.TypeArray {
				p.Nullable = false // a list is empty rather than null
			}
		}
	}
	schemas["Result"].Required = []string{"status"} // the rest depends on it
	record := schemas["Record"]
	record.Required = append(record.Required, "id", "content_type")
	// The framework's own errors are never answered.
	delete(schemas, "ErrorModel")
	delete(schemas, "ErrorDetail")
}

// add registers one operation. Its body is documented but not handed to the
// framework, which would decode it a second and a third time.
func (s *server) add(api huma.API, o operation) {
	schemas := api.OpenAPI().Components.Schemas
	op := huma.Operation{
		OperationID: o.id, Method: o.method, Path: o.path, Summary: o.summary,
		Parameters: o.params, Responses: map[string]*huma.Response{},
		Metadata: map[string]any{},
	}
	problems := []*kind{internal}
	if o.scope != 0 {
		op.Metadata[scopeKey] = o.scope
		op.Security = []map[string][]string{{"key": {}}}
		op.Description = "Needs a key with the scope " + o.scope.String() + " or admin."
		problems = append(problems, unauthorized, forbidden)
	}
	for status, answer := range o.answers {
		op.Responses[strconv.Itoa(status)] = response(http.StatusText(status), mediaJSON, schemas.Schema(reflect.TypeOf(answer), true, ""))
		op.DefaultStatus = max(op.DefaultStatus, status)
	}
	for _, k := range append(problems, o.problems...) {
		op.Responses[strconv.Itoa(k.status)] = response(k.title, mediaProblem, schemas.Schema(reflect.TypeFor[wire.Problem](), true, ""))
	}
	huma.Register(api, op, func(ctx context.Context, c *call) (*reply, error) {
		r, err := o.serve(ctx, c)
		if err != nil {
			return s.problem(ctx, err).reply(), nil
		}
		return r, nil
	})
	if o.body != nil {
		api.OpenAPI().Paths[o.path].Post.RequestBody = &huma.RequestBody{
			Required: true,
			Content:  map[string]*huma.MediaType{mediaJSON: {Schema: schemas.Schema(reflect.TypeOf(o.body), true, "")}},
		}
	}
}

func response(doc, media string, s *huma.Schema) *huma.Response {
	return &huma.Response{Description: doc, Content: map[string]*huma.MediaType{media: {Schema: s}}}
}

// Schemas of what the API writes in its own way.
type (
	durationSchema struct{}
	ladderSchema   struct{}
	timeSchema     struct{}
)

// Schema is a text or a number of seconds.
func (durationSchema) Schema(huma.Registry) *huma.Schema {
	zero := 0.0
	return &huma.Schema{
		Description: `A text such as "15s", "1h30m" or "1d", or a number of seconds.`,
		OneOf:       []*huma.Schema{{Type: huma.TypeString, Examples: []any{"15s"}}, {Type: huma.TypeNumber, Minimum: &zero}},
	}
}

// Schema is a list of durations or a text.
func (ladderSchema) Schema(r huma.Registry) *huma.Schema {
	return &huma.Schema{
		Description: "The waits between attempts: a list, or a text with commas, slashes or spaces between. Empty: one attempt.",
		OneOf: []*huma.Schema{
			{Type: huma.TypeString, Examples: []any{"15s/3m/10m"}},
			{Type: huma.TypeArray, Items: durationSchema{}.Schema(r)},
		},
	}
}

// Schema is RFC 3339.
func (timeSchema) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Format: "date-time"}
}
