package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/api"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/ladder"
)

// register routes to all operations, and to the document that describes them. The document is
// built on its first request, because it costs more than the rest of a start.
func (s *server) register(version string) {
	all := s.operations()
	for _, o := range all {
		s.handle(o)
	}
	written := sync.OnceValues(func() ([]byte, error) { return describe(all, version) })
	s.mux.HandleFunc("GET /openapi.json", func(rw http.ResponseWriter, r *http.Request) {
		w := rw.(*api.ResponseWriter)
		w.Call = callDocument
		text, err := written()
		if err != nil {
			w.Refuse(s.problem(r.Context(), err).ForMethod(r.Method))
			return
		}
		w.Header().Set("Content-Type", api.MediaJSON)
		_, _ = w.Write(text) // it fails if the caller is gone
	})
}

// describe returns the document.
func describe(all []api.Operation, version string) ([]byte, error) {
	config := huma.Config{OpenAPI: &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{
			Title: "Hookladder", Version: version,
			License:     &huma.License{Name: "Apache License 2.0", Identifier: "Apache-2.0"},
			Description: "Takes notifications and delivers each as a signed HTTP callback, repeated with the waits of a ladder until its receiver accepts it. In a field that may be left out, null means the same.",
		},
		Servers: []*huma.Server{{URL: "/", Description: "Where this document was read."}},
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
	for _, o := range all {
		document(doc, o)
	}
	amend(schemas.Map())
	if err := fillWords(schemas); err != nil {
		return nil, err
	}
	text, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("write openapi document: %w", err)
	}
	return text, nil
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

// amend adds the facts about our types that the framework can't know.
func amend(schemas map[string]*huma.Schema) {
	for _, name := range []string{"Message", "Success", "Batch", "Endpoint", "Rotation"} {
		schemas[name].AdditionalProperties = false
	}
	for _, s := range schemas {
		for _, p := range s.Properties {
			if p.Type == huma.TypeArray {
				p.Nullable = false // a list is empty and never null
			}
		}
	}
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
			p.Enum = make([]any, len(words))
			for i, w := range words {
				p.Enum[i] = w
			}
		}
	}
	return nil
}

// document adds one operation to the document. The framework does nothing else. It would
// decode each body a second and a third time, and its own work costs as much as the rest of a
// publish.
func document(doc *huma.OpenAPI, o api.Operation) {
	schemas := doc.Components.Schemas
	op := huma.Operation{
		OperationID: o.ID, Method: o.Method, Path: o.Path, Summary: o.Summary,
		Responses: map[string]*huma.Response{},
	}
	if of := o.Subject; of != nil {
		op.Parameters = append(op.Parameters, &huma.Param{Name: of.Name, In: "path", Required: true, Description: of.Doc, Schema: api.TextSchema})
	}
	for _, p := range o.Query {
		op.Parameters = append(op.Parameters, p.Document())
	}
	if o.Header != nil {
		op.Parameters = append(op.Parameters, o.Header)
	}
	op.Security = []map[string][]string{} // none; if missing, it would mean unknown
	if o.Scope != 0 {
		op.Security = []map[string][]string{{"key": {}}}
		op.Description = "Needs a key with the scope " + o.Scope.String() + "; admin includes all."
	}
	produces := api.MediaJSON
	if o.Produces != "" {
		produces = o.Produces
	}
	for status, answer := range o.Answers {
		if answer == nil { // there is no body
			op.Responses[strconv.Itoa(status)] = &huma.Response{Description: http.StatusText(status)}
			continue
		}
		op.Responses[strconv.Itoa(status)] = responseDoc(http.StatusText(status), produces, schemas.Schema(reflect.TypeOf(answer), true, ""))
	}
	if o.CSV {
		documentCSV(op.Responses["200"])
	}
	if o.Events != "" {
		op.Responses["200"].Content[api.MediaEvents] = &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString, Description: o.Events}}
	}
	for _, k := range o.Kinds() {
		status, title := strconv.Itoa(k.Status), k.Title+" ("+k.Word+")"
		if other := op.Responses[status]; other != nil {
			title = other.Description + "; " + title
		}
		op.Responses[status] = responseDoc(title, api.MediaProblem, schemas.Schema(reflect.TypeFor[wire.Problem](), true, ""))
		op.Responses[status].Headers = headersOf(k)
	}
	if o.Body != nil {
		taken := &huma.MediaType{Schema: schemas.Schema(reflect.TypeOf(o.Body), true, "")}
		op.RequestBody = &huma.RequestBody{Required: !o.Optional, Content: map[string]*huma.MediaType{api.MediaJSON: taken}}
		if o.Media != "" {
			op.RequestBody.Content[o.Media] = taken
		}
	}
	doc.AddOperation(&op)
}

// documentCSV documents that a response may be CSV.
func documentCSV(answer *huma.Response) {
	answer.Content[api.MediaCSV] = &huma.MediaType{Schema: api.TextSchema}
	answer.Description += ". With Accept: text/csv it is CSV as RFC 4180 has it, with a line of headers: " + strings.Join(wire.DeliveryColumns, ", ") +
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

func responseDoc(doc, media string, s *huma.Schema) *huma.Response {
	return &huma.Response{Description: doc, Content: map[string]*huma.MediaType{media: {Schema: s}}}
}

// Schemas of types that have their own JSON format.
type (
	durationSchema struct{}
	ladderSchema   struct{}
	timeSchema     struct{}
)

// Schema returns a schema of a text or a number of seconds.
func (durationSchema) Schema(huma.Registry) *huma.Schema {
	zero := 0.0
	return &huma.Schema{
		Description: `A text such as "15s", "1h30m" or "1d", or a number of seconds.`,
		OneOf:       []*huma.Schema{{Type: huma.TypeString, Examples: []any{"15s"}}, {Type: huma.TypeNumber, Minimum: &zero}},
	}
}

// Schema returns a schema of a list of durations or a text.
func (ladderSchema) Schema(r huma.Registry) *huma.Schema {
	return &huma.Schema{
		Description: "The waits between attempts: a list, or a text with commas, slashes or spaces between. Empty: one attempt.",
		OneOf: []*huma.Schema{
			{Type: huma.TypeString, Examples: []any{"15s/3m/10m"}},
			{Type: huma.TypeArray, Items: durationSchema{}.Schema(r)},
		},
	}
}

// Schema returns a schema of a time in RFC 3339.
func (timeSchema) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Format: "date-time"}
}
