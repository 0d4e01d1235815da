package httpapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/api"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/ladder"
)

// describeAPI returns the document.
func describeAPI(all []api.Operation, version string) ([]byte, error) {
	config := huma.Config{OpenAPI: &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{
			Title: "Hookladder", Version: version,
			License: &huma.License{Name: "Apache License 2.0", Identifier: "Apache-2.0"},
			Description: "A webhook sender: takes messages and sends each as a signed webhook, repeated with the waits of a ladder until its receiver accepts it. " +
				"In a field that may be left out, null means the same. An unknown field or parameter is refused. Responses may get more fields.",
		},
		Servers: []*huma.Server{{URL: "/", Description: "Where this document was read."}},
		Tags:    tagsOf(all),

		ExternalDocs: &huma.ExternalDocs{URL: "/docs/", Description: "The documents of this version, which need no key."},
		Components: &huma.Components{
			Schemas:         huma.NewMapRegistry("#/components/schemas/", schemaName),
			SecuritySchemes: map[string]*huma.SecurityScheme{"key": {Type: "http", Scheme: "bearer", Description: "One of API_KEYS."}},
		},
	}}
	// Responses may have more fields later, so the document allows others. Requests may not.
	config.AllowAdditionalPropertiesByDefault = true
	doc := humago.New(http.NewServeMux(), config).OpenAPI() // the mux is not used
	schemas := doc.Components.Schemas
	schemas.RegisterTypeAlias(reflect.TypeFor[wire.Duration](), reflect.TypeFor[durationSchema]())
	schemas.RegisterTypeAlias(reflect.TypeFor[ladder.Ladder](), reflect.TypeFor[ladderSchema]())
	schemas.RegisterTypeAlias(reflect.TypeFor[wire.Time](), reflect.TypeFor[timeSchema]())
	var bodies []*huma.Schema
	for _, o := range all {
		bodies = append(bodies, drawBody(schemas, o))
	}
	for i, o := range all {
		if err := describe(doc, o, bodies[i]); err != nil {
			return nil, err
		}
	}
	if err := addWebhooks(doc); err != nil {
		return nil, err
	}
	amend(schemas.Map(), problemTypes(all))
	if err := fillWords(schemas); err != nil {
		return nil, err
	}
	text, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("write openapi document: %w", err)
	}
	return text, nil
}

// drawBody draws the schema of an operation's body. All bodies are drawn before the rest, because
// requests and responses share types, and the schemas of requests accept less.
func drawBody(schemas huma.Registry, o api.Operation) *huma.Schema {
	switch {
	case o.Body == nil:
		return nil
	case o.Draw != nil:
		return o.Draw(schemas)
	}
	api.Input(schemas, o.Body)
	return schemas.Schema(reflect.TypeOf(o.Body), true, "")
}

// schemaName returns the name of a type's schema. Generated clients use these names for their
// types, so the names stay even if our types are renamed.
func schemaName(t reflect.Type, hint string) string {
	switch t {
	case reflect.TypeFor[wire.MessageView]():
		return "Record"
	case reflect.TypeFor[wire.DeliveryRef]():
		return "Scheduled"
	}
	return huma.DefaultSchemaNamer(t, hint)
}

// problemTypes returns the types of all problems.
func problemTypes(all []api.Operation) []any {
	types := map[string]bool{}
	for _, o := range all {
		for _, k := range append(o.Kinds(), api.BadMethod, api.Profiling) {
			types[k.Type()] = true
		}
	}
	var list []any
	for _, t := range slices.Sorted(maps.Keys(types)) {
		list = append(list, t)
	}
	return list
}

// amend adds the facts about our types that the framework can't know.
func amend(schemas map[string]*huma.Schema, problems []any) {
	for _, s := range schemas {
		for _, p := range s.Properties {
			if p.Type == huma.TypeArray && s.AdditionalProperties != false {
				p.Nullable = false // a list is empty and never null
			}
		}
	}
	schemas["Problem"].Properties["type"].Enum = problems
	schemas["Result"].Required = []string{"status"} // the rest depends on it
	view := schemas["EndpointView"]
	view.Required = append(view.Required, "topics", "signature")
	record := schemas["Record"]
	record.Required = append(record.Required, "id", "content_type")
}

// fillWords adds the enums to the document. A field of package wire names its list of words in
// the tag words.
func fillWords(r huma.Registry) error {
	lists := dispatcher.WordLists()
	for name, s := range r.Map() {
		t := r.TypeFromRef("#/components/schemas/" + name)
		if t == nil || t.Kind() != reflect.Struct {
			continue
		}
		for _, f := range reflect.VisibleFields(t) {
			list := f.Tag.Get("words")
			if list == "" {
				continue
			}
			words := lists[list]
			if len(words) == 0 {
				return fmt.Errorf("write openapi document: there is no list of words %q, which %s.%s names", list, t, f.Name)
			}
			member, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			p := s.Properties[member]
			if p.Items != nil {
				p = p.Items
			}
			p.Enum = nil
			for _, w := range words {
				p.Enum = append(p.Enum, w)
			}
			if p.Nullable {
				p.Enum = append(p.Enum, nil)
			}
		}
	}
	return nil
}

// Schemas of types that have their own JSON format in responses.
type (
	durationSchema struct{}
	ladderSchema   struct{}
	timeSchema     struct{}
)

// Schema returns a schema of a duration.
func (durationSchema) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Description: `A text such as "15s" or "1d12h".`, Examples: []any{"15s"}}
}

// Schema returns a schema of a list of durations.
func (ladderSchema) Schema(r huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeArray, Items: durationSchema{}.Schema(r), Description: "The waits between attempts. Empty: one attempt."}
}

// Schema returns a schema of a time in RFC 3339.
func (timeSchema) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Format: "date-time"}
}

// describe adds one operation to the document. The framework does nothing else. It would
// decode each body a second and a third time, and its own work costs as much as the rest of a
// publish.
func describe(doc *huma.OpenAPI, o api.Operation, body *huma.Schema) (err error) {
	op := huma.Operation{
		OperationID: o.ID, Method: o.Method, Path: o.Path, Summary: o.Summary, Tags: []string{tagOf(o.Path)},
		Responses: map[string]*huma.Response{},
	}
	if of := o.Subject; of != nil {
		op.Parameters = append(op.Parameters, &huma.Param{Name: of.Name, In: "path", Required: true, Description: of.Doc, Schema: of.Schema, Example: of.Example})
	}
	for _, p := range o.Query {
		op.Parameters = append(op.Parameters, p.Document())
	}
	op.Parameters = append(op.Parameters, o.Headers...)
	op.Security = []map[string][]string{} // none; if missing, it would mean unknown
	if o.Scope != 0 {
		op.Security = []map[string][]string{{"key": {}}}
		op.Description = "Needs a key with the scope " + o.Scope.String() + "; admin includes all."
	}
	if err = addAnswers(doc.Components.Schemas, &op, o); err != nil {
		return err
	}
	if err = addProblems(doc.Components.Schemas, &op, o); err != nil {
		return err
	}
	if body != nil {
		taken := &huma.MediaType{Schema: body}
		if taken.Example, err = plain(o.Body); err != nil {
			return fmt.Errorf("write openapi document: %s: %w", o.ID, err)
		}
		op.RequestBody = &huma.RequestBody{Required: !o.Optional, Content: map[string]*huma.MediaType{api.MediaJSON: taken}}
		if o.Media != "" {
			op.RequestBody.Content[o.Media] = taken
		}
	}
	doc.AddOperation(&op)
	return nil
}

// addAnswers adds the responses of success.
func addAnswers(schemas huma.Registry, op *huma.Operation, o api.Operation) error {
	produces := api.MediaJSON
	if o.Produces != "" {
		produces = o.Produces
	}
	for status, answer := range o.Answers {
		text := strconv.Itoa(status)
		op.Responses[text] = &huma.Response{Description: http.StatusText(status)}
		if answer == nil { // there is no body
			continue
		}
		example, err := plain(answer)
		if err != nil {
			return fmt.Errorf("write openapi document: %s: %w", o.ID, err)
		}
		op.Responses[text].Content = map[string]*huma.MediaType{
			produces: {Schema: schemas.Schema(reflect.TypeOf(answer), true, ""), Example: example},
		}
	}
	if o.CSV {
		documentCSV(op.Responses["200"])
	}
	if o.Events != "" {
		op.Responses["200"].Content[api.MediaEvents] = &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString, Description: o.Events}, Example: exampleEvents}
	}
	return nil
}

// plain returns an example as plain JSON. The encoder of the document would write the fields of
// our types in its own way.
func plain(example any) (any, error) {
	text, err := json.Marshal(example)
	if err != nil {
		return nil, err
	}
	var v any
	err = json.Unmarshal(text, &v)
	return v, err
}

// addProblems adds the problems. Some have the status of a success that has a body.
func addProblems(schemas huma.Registry, op *huma.Operation, o api.Operation) error {
	problem := schemas.Schema(reflect.TypeFor[wire.Problem](), true, "")
	for _, k := range o.Kinds() {
		status, title := strconv.Itoa(k.Status), k.Title+" ("+k.Word+")"
		answer := op.Responses[status]
		if answer == nil {
			example, err := plain((&api.Problem{Kind: k}).Wire())
			if err != nil {
				return err
			}
			answer = &huma.Response{Content: map[string]*huma.MediaType{api.MediaProblem: {Schema: problem, Example: example}}}
			op.Responses[status] = answer
		}
		if answer.Description != "" {
			title = answer.Description + "; " + title
		}
		answer.Description = title
		if h := headersOf(k); h != nil {
			answer.Headers = h
		}
	}
	return nil
}

// documentCSV documents that a response may be CSV.
func documentCSV(answer *huma.Response) {
	answer.Content[api.MediaCSV] = &huma.MediaType{Schema: api.TextSchema, Example: exampleCSV()}
	answer.Description += ". With Accept: text/csv it is CSV as RFC 4180 has it, with a line of headers: " + strings.Join(wire.DeliveryColumns(), ", ") +
		". A text that begins with = + - @, a tab or a line break gets a ' before it."
	answer.Headers = map[string]*huma.Param{}
	for name, doc := range map[string]string{
		wire.HeaderResumeCursor: "Of CSV: resume_cursor, where the list has one.", wire.HeaderNextCursor: "Of CSV: next_cursor, where it is not null.",
		wire.HeaderCompleteSince: "Of CSV: complete_since, if the page has one.",
	} {
		answer.Headers[name] = &huma.Param{Description: doc, Schema: api.TextSchema}
	}
}

// headersOf returns the extra headers of a problem.
func headersOf(k *api.Kind) map[string]*huma.Param {
	switch {
	case k.Retry > 0:
		return map[string]*huma.Param{"Retry-After": {
			Description: "Seconds after which to ask again.", Schema: &huma.Schema{Type: huma.TypeInteger},
		}}
	case k == api.Unauthorized:
		return map[string]*huma.Param{"WWW-Authenticate": {Description: "Bearer.", Schema: &huma.Schema{Type: huma.TypeString}}}
	}
	return nil
}

// Names of tags.
const (
	tagProcess  = "Process"
	tagWebhooks = "Webhooks"
)

// tags are the groups of operations, by the first name in the path after /v1.
var tags = []struct{ name, doc, nouns string }{
	{"Messages", "Publish messages, read them with their deliveries, cancel them, and attempt them again.", "messages"},
	{"Deliveries", "List deliveries, attempts and the dead, and change many of them by a filter.", "deliveries attempts dead jobs"},
	{"Endpoints", "Registered destinations, with their own secrets and limits.", "endpoints .well-known"},
	{"Queues", "Take deliveries instead of being called, and report their results.", "queues"},
	{"Lanes", "Read, pause and resume destinations.", "lanes"},
	{"Links", "Show people of a tenant its own deliveries.", "links"},
	{"Audit", "Who changed what.", "audit"},
	{tagProcess, "Health, figures, and work on request.", ""},
}

// tagOf returns the tag of a path.
func tagOf(path string) string {
	noun, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(path, "/v1"), "/"), "/")
	for _, t := range tags {
		for known := range strings.FieldsSeq(t.nouns) {
			if noun == known {
				return t.name
			}
		}
	}
	return tagProcess
}

// tagsOf returns the tags of these operations, and of the callbacks.
func tagsOf(all []api.Operation) (list []*huma.Tag) {
	used := map[string]bool{}
	for _, o := range all {
		used[tagOf(o.Path)] = true
	}
	for _, t := range tags {
		if used[t.name] {
			list = append(list, &huma.Tag{Name: t.name, Description: t.doc})
		}
	}
	return append(list, &huma.Tag{Name: tagWebhooks, Description: "What Hookladder sends to receivers: your messages, and notices of its own."})
}

// noticeDocs say what each notice reports, and the words of its state.
var noticeDocs = map[dispatcher.Notice]struct {
	doc    string
	states []any
}{
	dispatcher.NoticeFailing:    {"A destination failed for FAILING_AFTER. It is repeated once an hour.", []any{"failing"}},
	dispatcher.NoticeRecovered:  {"A destination that was reported as failing recovered. reason: changed (another url), resumed, or none (an attempt succeeded).", nil},
	dispatcher.NoticeDisabled:   {"An endpoint was disabled. reason: operator, gone or failing. For a bare URL, count waiting deliveries ended.", nil},
	dispatcher.NoticeOpened:     {"The breaker of a destination opened. It is repeated once an hour.", []any{"open"}},
	dispatcher.NoticeClosed:     {"The breaker of a destination closed.", nil},
	dispatcher.NoticeLost:       {"An instance died, and count deliveries were taken over.", []any{"lost"}},
	dispatcher.NoticeUnhealthy:  {"The store can't be used as it should be. It is repeated once an hour.", []any{"unhealthy"}},
	dispatcher.NoticeHealthy:    {"The store can be used again.", []any{"healthy"}},
	dispatcher.NoticeEgressDown: {"Our own network failed. reason: resolver, route or proxy.", []any{"unhealthy"}},
	dispatcher.NoticeEgressUp:   {"Our own network recovered.", []any{"healthy"}},
	dispatcher.NoticeJob:        {"A job ended.", []any{"done", "stopped", "failed"}},
	dispatcher.NoticeDead:       {"count deliveries of a destination died. It goes only to endpoints that name this topic itself, at most once a minute.", nil},
}

// addWebhooks adds the requests that receivers get: each message, and each notice.
func addWebhooks(doc *huma.OpenAPI) error {
	notice := doc.Components.Schemas.Schema(reflect.TypeFor[wire.Notice](), true, "")
	doc.Webhooks = map[string]*huma.PathItem{
		"callback": {Post: callback("callback", "Receive a message", "The body is sent exactly as it was published. A message may arrive twice: store the webhook-id of each that was processed.", map[string]*huma.MediaType{
			api.MediaJSON: {Schema: &huma.Schema{Description: "Any JSON."}, Example: exampleCallbackBody},
			"*/*":         {Schema: &huma.Schema{Description: "Any other body, with the content_type of its message."}, Example: "order=4711"},
		})},
	}
	for _, topic := range dispatcher.Notices() {
		about, ok := noticeDocs[topic]
		if !ok {
			return fmt.Errorf("write openapi document: %s has no description", topic)
		}
		own := &huma.Schema{Type: huma.TypeObject, Required: []string{"type"}, Properties: map[string]*huma.Schema{
			"type": {Type: huma.TypeString, Enum: []any{string(topic)}},
		}}
		if about.states != nil {
			own.Required = append(own.Required, "state")
			own.Properties["state"] = &huma.Schema{Type: huma.TypeString, Enum: about.states}
		}
		example, err := plain(exampleNotice(string(topic)))
		if err != nil {
			return err
		}
		doc.Webhooks[string(topic)] = &huma.PathItem{Post: callback(strings.ReplaceAll(string(topic), ".", "-"), "Receive the notice "+string(topic), about.doc, map[string]*huma.MediaType{
			api.MediaJSON: {Schema: &huma.Schema{AllOf: []*huma.Schema{notice, own}}, Example: example},
		})}
	}
	return nil
}

// callback describes one request to a receiver.
func callback(id, summary, doc string, content map[string]*huma.MediaType) *huma.Operation {
	return &huma.Operation{
		OperationID: id, Summary: summary, Description: doc, Tags: []string{tagWebhooks}, Security: []map[string][]string{},
		Parameters:  callbackHeaders(),
		RequestBody: &huma.RequestBody{Required: true, Content: content},
		Responses: map[string]*huma.Response{
			"2XX":     {Description: "It is delivered, unless success of its message or endpoint says otherwise. Then that rule decides."},
			"410":     {Description: "The delivery ends as dead (gone), and the endpoint is disabled."},
			"429":     {Description: "It is attempted again after Retry-After, or after the next wait of its ladder, if that is later.", Headers: retryAfter()},
			"503":     {Description: "As 429. It counts as a failure of the receiver.", Headers: retryAfter()},
			"4XX":     {Description: "It is attempted again after the next wait of its ladder. With webhook-delivery: abort-message, which any response but a success may have, it ends as dead (rejected).", Headers: abort()},
			"default": {Description: "It is attempted again after the next wait of its ladder, also if no response came in time. A redirect is not followed.", Headers: abort()},
		},
	}
}

func retryAfter() map[string]*huma.Param {
	return map[string]*huma.Param{"Retry-After": {Description: "Seconds, or a date; at most 24 h.", Schema: api.TextSchema}}
}

func abort() map[string]*huma.Param {
	return map[string]*huma.Param{"webhook-delivery": {Description: "abort-message: this delivery is not attempted again.", Schema: &huma.Schema{Type: huma.TypeString, Enum: []any{"abort-message"}}}}
}

// callbackHeaders are the headers of each request.
func callbackHeaders() (list []*huma.Param) {
	integer := &huma.Schema{Type: huma.TypeInteger}
	for _, h := range []struct {
		name, doc string
		required  bool
		schema    *huma.Schema
		example   any
	}{
		{"webhook-id", "The id of the message: the same on each attempt.", true, api.MessageForm.Schema, "order-4711-paid"},
		{"webhook-timestamp", "The time of the attempt, in Unix seconds.", true, integer, 1769860800},
		{"accept-encoding", "No coding of the response's body.", true, &huma.Schema{Type: huma.TypeString, Enum: []any{"identity"}}, nil},
		{"webhook-signature", "Of the signatures standard and standard-ed25519: of webhook-id.webhook-timestamp.body, one for each secret, with spaces between.", false, api.TextSchema, "v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4="},
		{"stripe-signature", "Of the signature stripe: t=<Unix seconds>,v1=<hex of t.body>.", false, api.TextSchema, nil},
		{"x-hub-signature-256", "Of the signature github: sha256=<hex of the body>.", false, api.TextSchema, nil},
		{"x-signature", "Of the signature hmac-hex: the hex of the body. signature_header of the endpoint names another header.", false, api.TextSchema, nil},
		{"hookladder-topic", "The topic of the message. HEADER_PREFIX changes the beginning of this and the next three.", true, api.TextSchema, "payment.paid"},
		{"hookladder-attempt", "The number of the attempt, from 1.", true, integer, 1},
		{"hookladder-tenant", "The tenant of the message, if it has one.", false, api.TextSchema, "m7"},
		{"hookladder-resend", "true: a person asked for this attempt.", false, &huma.Schema{Type: huma.TypeString, Enum: []any{"true"}}, nil},
	} {
		list = append(list, &huma.Param{Name: h.name, In: "header", Description: h.doc, Required: h.required, Schema: h.schema, Example: h.example})
	}
	return list
}
