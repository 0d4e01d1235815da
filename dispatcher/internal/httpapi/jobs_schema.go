package httpapi

import (
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/api"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// names are the names of the schemas of requests. Each kind of job has another one, because it
// accepts other states.
var names = map[dispatcher.JobKind]string{
	dispatcher.JobRetry: "RetryRequest", dispatcher.JobCancel: "CancelRequest", dispatcher.JobPurge: "PurgeRequest",
}

// drawRequest returns a function that draws the schema of a request for a job.
func drawRequest(kind dispatcher.JobKind) func(huma.Registry) *huma.Schema {
	return func(r huma.Registry) *huma.Schema {
		docs := huma.SchemaFromType(r, reflect.TypeFor[wire.JobRequest]()).Properties
		s := &huma.Schema{Type: huma.TypeObject, AdditionalProperties: false, Properties: map[string]*huma.Schema{}}
		var filters []*huma.Schema
		for _, p := range jobFilters() {
			s.Properties[p.Name] = filterSchema(r, p, kind)
			s.Properties[p.Name].Description = docs[p.Name].Description
			if p.Name != "failed" {
				filters = append(filters, api.Holding(p.Name, &huma.Schema{}))
			}
		}
		for _, name := range []string{"all", "count_all", "dry_run", "probe"} {
			s.Properties[name] = &huma.Schema{Type: huma.TypeBoolean, Description: docs[name].Description}
		}
		if kind != dispatcher.JobRetry {
			s.Properties["probe"].Enum = []any{false}
		}
		s.Properties["rate"] = rateSchema(docs["rate"].Description)
		filters = append(filters, api.Holding("failed", api.OneOf(true, "true")), api.Holding("all", api.OneOf(true)))
		api.Never(s, api.Unlike(api.Either(filters...)))
		s.Description = "At least one filter is needed, or all. A filter is a text, or a list of texts of which any may match."
		return named(r, names[kind], s)
	}
}

// filterSchema returns the schema of a filter in a body: a text, or a list of texts.
func filterSchema(r huma.Registry, p *api.Param, kind dispatcher.JobKind) *huma.Schema {
	if p.Name == "failed" {
		return api.Either(&huma.Schema{Type: huma.TypeBoolean}, p.Schema)
	}
	if !p.Many {
		one := *p.Schema
		return &one
	}
	one := p.Schema.Items
	if p.Name == "status" {
		one = &huma.Schema{Type: huma.TypeString}
		may, _ := kind.Statuses()
		for _, status := range may {
			one.Enum = append(one.Enum, string(status))
		}
		one = named(r, strings.TrimSuffix(names[kind], "Request")+"Status", one)
	}
	if p.Name == "dead_reason" {
		one = named(r, "DeadReason", one)
	}
	return api.Either(one, &huma.Schema{Type: huma.TypeArray, Items: one, MinItems: api.Ref(1), MaxItems: api.Ref(api.MaxValues)})
}

// named adds a schema that is used twice, and returns a reference to it. Generators make one type
// of it.
func named(r huma.Registry, name string, s *huma.Schema) *huma.Schema {
	r.Map()[name] = s
	return &huma.Schema{Ref: "#/components/schemas/" + name}
}

// rateSchema returns the schema of a rate, or of a number a second.
func rateSchema(doc string) *huma.Schema {
	s := api.OrNull(api.Either(
		&huma.Schema{Type: huma.TypeString, Pattern: api.RatePattern},
		&huma.Schema{Type: huma.TypeInteger, Minimum: api.Ref(1.0), Maximum: api.Ref(100_000.0)},
	))
	s.Description, s.Examples = doc, []any{"200/s", 200}
	return s
}
