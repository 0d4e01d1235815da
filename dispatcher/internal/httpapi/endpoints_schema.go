package httpapi

import (
	"maps"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/api"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// Patterns of fields that only endpoints have.
const (
	// proseOnly is of texts whose control characters are only line ends and tabs.
	proseOnly     = "^[^\\x00-\\x08\\x0b-\\x1f\\x7f\ufffd]*$"
	sharedSecret  = `^whsec_([A-Za-z0-9+/]{4}){8,21}([A-Za-z0-9+/]{4}|[A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$`
	privateSecret = `^whsk_[A-Za-z0-9+/]+={0,2}$`
	textSecret    = `^[!-~]{16,256}$`
)

// endpointSchema returns the schema of an endpoint in requests.
func endpointSchema(r huma.Registry) *huma.Schema {
	s := api.Input(r, wire.Endpoint{})
	p := s.Properties
	p["uid"].Not = api.UIDSchema().Not
	p["url"].Pattern = api.URLPattern
	p["topics"].Items, p["topics_allowed"].Items = api.TopicsForm.Schema, api.TopicsForm.Schema
	p["description"].Pattern, p["description"].MinLength = proseOnly, nil
	text := &huma.Schema{Type: huma.TypeString, Pattern: proseOnly, Nullable: true}
	p["metadata"].AdditionalProperties = text
	api.Extend(p["metadata"], "propertyNames", &huma.Schema{Pattern: proseOnly, MinLength: api.Ref(1)})
	p["headers"].AdditionalProperties = api.OrNull(headerValue())
	api.Extend(p["headers"], "propertyNames", api.HeaderNames())
	p["signature_header"].MinLength, p["signature_header"].Pattern = nil, "^[!#$%&'*+.^_`|~0-9A-Za-z-]*$"
	usual := api.Matching(`^([xX]-[sS][iI][gG][nN][aA][tT][uU][rR][eE])?$`)
	p["signature_header"].Not = api.Both(api.Unlike(usual), api.HeaderNames().Not)
	p["signature_prefix"].MinLength, p["signature_prefix"].Pattern = nil, "^([!-~][ -~]*)?$"
	p["rate"].Pattern = api.RatePattern
	api.Between(p["timeout"], time.Second, time.Minute)
	api.Between(p["disable_after"], 0, dispatcher.MaxDisableAfter)
	pull, named := api.Holding("kind", api.OneOf(api.KindPull)), api.Holding("signature", api.OneOf("hmac-hex", "hmac"))
	own := api.Both(api.Given("signature_header"), api.Holding("signature_header", api.Unlike(usual)))
	ed25519, plain := api.Holding("signature", api.OneOf("standard-ed25519")), api.Holding("signature", api.OneOf("stripe", "github", "hmac-hex", "hmac"))
	secret := func(pattern string) *huma.Schema {
		return api.Both(api.Given("secret"), api.Holding("secret", api.Unlike(api.Matching(pattern))))
	}
	api.Never(s, append(otherForms(),
		api.Both(pull, api.Either(api.Given("url"), api.Given("success"), api.Given("timeout"))),
		api.Both(api.Unlike(pull), api.Unlike(api.Given("url"))),
		api.Both(own, api.Unlike(named)),
		api.Both(api.Unlike(api.Either(ed25519, plain)), secret(sharedSecret)),
		api.Both(ed25519, secret(privateSecret)), api.Both(plain, secret(textSecret)),
	)...)
	for i := range endpointFields { // clients write null for a field without a value
		if f := &endpointFields[i]; f.Set == nil {
			p[f.Name] = api.Unlike(api.Unlike(&huma.Schema{Type: "null"})) // generators make no type of it
			p[f.Name].Description = "Read-only: only null is accepted, and ignored."
		}
	}
	s.Description = "url is needed. With the kind pull, url, success and timeout must be left out. In a field that may be left out, null means the same."
	return api.RefTo[wire.Endpoint](r)
}

// otherForms returns the fields of a form that the signature does not have.
func otherForms() (never []*huma.Schema) {
	hmac := api.Holding("signature", api.OneOf("hmac"))
	own := func(name, usual string) *huma.Schema {
		return api.Both(api.Given(name), api.Holding(name, api.Unlike(api.OneOf(usual))))
	}
	for _, f := range [][2]string{{"signature_hash", "sha256"}, {"signature_encoding", "hex"}, {"signature_prefix", ""}, {"signature_content", "body"}} {
		never = append(never, api.Both(own(f[0], f[1]), api.Unlike(hmac)))
	}
	return append(never, api.Both(own("signature_content", "body"), own("signature_prefix", "")))
}

// headerValue returns the schema of a header's value. The mark of a hidden one is refused.
func headerValue() *huma.Schema {
	s := api.HeaderValues()
	s.Not = api.OneOf(wire.Hidden)
	return s
}

// patchSchema returns the schema of a patch: an endpoint whose fields may be left out or null.
// The schema of an endpoint was drawn before.
func patchSchema(r huma.Registry) *huma.Schema {
	view := api.RefTo[wire.EndpointView](r)
	patch := &huma.Schema{
		Type: huma.TypeObject, AdditionalProperties: false, Properties: map[string]*huma.Schema{},
		Description: "A JSON Merge Patch of an endpoint: what is left out stays, null is the default. It may repeat an answer: read-only fields are ignored, and *** keeps the value of a header. It can't change uid, tenant, kind and secret.",
	}
	for name, field := range r.Map()["Endpoint"].Properties {
		if endpointField(name).Why == "" {
			patch.Properties[name] = merged(name, field)
		}
	}
	for name, field := range r.SchemaFromRef(view.Ref).Properties {
		if endpointField(name).Set == nil { // whatever it holds
			patch.Properties[name] = &huma.Schema{Description: field.Description, ReadOnly: true}
		}
	}
	r.Map()["EndpointPatch"] = patch
	return &huma.Schema{Ref: "#/components/schemas/EndpointPatch"}
}

func endpointField(name string) *api.Field[endpointDraft] {
	i, _ := endpointFields.Find(jsontext.Value(strconv.Quote(name)))
	return &endpointFields[i]
}

// merged returns the schema of a field in a patch. A patch changes members of objects, and null
// removes one.
func merged(name string, field *huma.Schema) *huma.Schema {
	s := *field
	switch name {
	case "url":
		s.Nullable = false
	case "uid", "tenant": // it may repeat the one that is there, and an empty one where there is none
		s.MinLength, s.Pattern, s.Not = nil, "", nil
	case "headers": // all that are there go, and as many come
		s.AdditionalProperties = api.OrNull(api.HeaderValues())
		s.MaxProperties = api.Ref(2 * dispatcher.MaxHeaders)
	case "metadata":
		s.MaxProperties = nil
		s.Extensions = nil
	case "success":
		s.Properties = maps.Clone(s.Properties)
		s.Properties["body"] = mergedBody(s.Properties["body"])
	}
	return &s
}

// mergedBody returns the schema of a rule's body in a patch, which may change one member.
func mergedBody(body *huma.Schema) *huma.Schema {
	s := *body
	text := &huma.Schema{Type: huma.TypeString, Nullable: true, MinLength: api.Ref(1), MaxLength: api.Ref(256)}
	equals := api.OrNull(api.Either(&huma.Schema{Type: huma.TypeString}, &huma.Schema{Type: huma.TypeNumber}, &huma.Schema{Type: huma.TypeBoolean}))
	s.AnyOf = []*huma.Schema{body.AnyOf[0], {
		Type: huma.TypeObject, AdditionalProperties: false, Nullable: true,
		Properties: map[string]*huma.Schema{"path": text, "equals": equals, "matches": text},
	}}
	return &s
}

// confirmationSchema returns the schema of a confirmation.
func confirmationSchema(r huma.Registry) *huma.Schema {
	api.Input(r, wire.Confirmation{}).Properties["url"].Pattern = api.URLPattern
	return api.RefTo[wire.Confirmation](r)
}

// rotationSchema returns the schema of a rotation.
func rotationSchema(r huma.Registry) *huma.Schema {
	p := api.Input(r, wire.Rotation{}).Properties
	api.Between(p["overlap"], 0, dispatcher.MaxOverlap)
	p["secret"].MinLength, p["secret"].Pattern = api.Ref(16), `^[!-~]+$`
	return api.RefTo[wire.Rotation](r)
}
