package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/api"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

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
