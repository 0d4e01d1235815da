package endpoints

import (
	"reflect"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/api"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// patchSchema is the schema of a patch.
type patchSchema struct{}

// Schema returns the schema of an endpoint whose fields may be omitted or null.
func (patchSchema) Schema(r huma.Registry) *huma.Schema {
	r.Schema(reflect.TypeFor[wire.EndpointView](), true, "")
	r.Schema(reflect.TypeFor[wire.Endpoint](), true, "")
	patch := &huma.Schema{
		Type: huma.TypeObject, AdditionalProperties: false, Properties: map[string]*huma.Schema{},
		Description: "A JSON Merge Patch of an endpoint: what is left out stays, null is the default. It may repeat an answer: read-only fields are ignored, and *** keeps the value of a header. It can't change uid, tenant and secret.",
	}
	for name, field := range r.Map()["Endpoint"].Properties {
		switch f := endpointField(name); {
		case f.Why != "":
		case f.Null == "":
			patch.Properties[name] = field
		default:
			patch.Properties[name] = orNull(merged(r, field))
		}
	}
	for name, field := range r.Map()["EndpointView"].Properties {
		if endpointField(name).Set == nil {
			patch.Properties[name] = orNull(field)
		}
	}
	return patch
}

func endpointField(name string) *api.Field[endpointDraft] {
	i, _ := endpointFields.Find(jsontext.Value(strconv.Quote(name)))
	return &endpointFields[i]
}

// merged returns an object schema whose members may be null, because null removes them. It
// returns other schemas unchanged.
func merged(r huma.Registry, s *huma.Schema) *huma.Schema {
	switch to := r.SchemaFromRef(s.Ref); {
	case to != nil:
		out := &huma.Schema{Type: huma.TypeObject, Description: s.Description, AdditionalProperties: false, Properties: map[string]*huma.Schema{}}
		for name, p := range to.Properties {
			out.Properties[name] = orNull(p)
		}
		return out
	case s.Type == huma.TypeObject:
		return &huma.Schema{Type: huma.TypeObject, Description: s.Description, AdditionalProperties: orNull(api.TextSchema)}
	default:
		return s
	}
}

func orNull(s *huma.Schema) *huma.Schema {
	return &huma.Schema{AnyOf: []*huma.Schema{s, {Type: "null"}}}
}
