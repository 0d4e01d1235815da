package httpapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
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
