package httpapi

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/api"
	"github.com/hookladder/hookladder/dispatcher/internal/input"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/signer"
)

// endpointDraft is an endpoint before it is created or changed.
type endpointDraft struct {
	*dispatcher.Endpoint
	secret string          // as given; empty: not given
	given  map[string]bool // the headers that got a value; true: a new one
}

// The errors of refused fields of an endpoint.
const (
	isFixed    = "can't be changed: create another endpoint"
	isReadOnly = "is read-only"
)

// endpointFields lists all fields of the contract.
var endpointFields = api.Fieldset[endpointDraft]{
	{Name: "url", Set: func(e *endpointDraft, v jsontext.Value) error { return api.Filled(&e.URL, v) }},
	{Name: "topics", Set: setTopics, Null: `["*"]`},
	{Name: "topics_allowed", Set: setTopicsAllowed, Null: api.Itself},
	{Name: "description", Set: func(e *endpointDraft, v jsontext.Value) error { return api.Text(&e.Description, v) }, Null: `""`},
	{Name: "metadata", Set: setMetadata, Merge: mergeMetadata, Null: api.Itself},
	{Name: "signature", Set: setSignature, Merge: mergeSignature, Null: `"standard"`},
	{Name: "signature_header", Set: setSignatureHeader, Null: `""`},
	{Name: "signature_hash", Set: func(e *endpointDraft, v jsontext.Value) error { return formWord(&e.Form.Hash, signer.SHA256, v) }, Null: `"sha256"`},
	{Name: "signature_encoding", Set: func(e *endpointDraft, v jsontext.Value) error { return formWord(&e.Form.Encoding, signer.Hex, v) }, Null: `"hex"`},
	{Name: "signature_prefix", Set: func(e *endpointDraft, v jsontext.Value) error { return api.Text(&e.Form.Prefix, v) }, Null: `""`},
	{Name: "signature_content", Set: func(e *endpointDraft, v jsontext.Value) error { return formWord(&e.Form.Content, signer.OnlyBody, v) }, Null: `"body"`},
	{Name: "ladder", Set: func(e *endpointDraft, v jsontext.Value) error { return api.Nullable(&e.Ladder, v, api.Rungs) }, Null: api.Itself},
	{Name: "timeout", Set: func(e *endpointDraft, v jsontext.Value) error { return api.Nullable(&e.Timeout, v, api.Timeout) }, Null: api.Itself},
	{Name: "max_in_flight", Set: func(e *endpointDraft, v jsontext.Value) error { return api.Nullable(&e.MaxInFlight, v, atLeastOne) }, Null: api.Itself},
	{Name: "rate", Set: func(e *endpointDraft, v jsontext.Value) error { return api.Nullable(&e.Rate, v, rateField) }, Null: api.Itself},
	{Name: "headers", Set: setEndpointHeaders, Merge: mergeHeaders, Null: api.Itself},
	{Name: "success", Set: func(e *endpointDraft, v jsontext.Value) error { return api.Nullable(&e.Success, v, api.SuccessRule) }, Merge: mergeSuccess, Null: api.Itself},
	{Name: "ordered", Set: func(e *endpointDraft, v jsontext.Value) error { return api.Boolean(&e.Ordered, v) }, Null: "false"},
	{Name: "trace", Set: func(e *endpointDraft, v jsontext.Value) error { return api.Boolean(&e.Trace, v) }, Null: "false"},
	{Name: "disable_after", Set: func(e *endpointDraft, v jsontext.Value) error {
		return api.Nullable(&e.DisableAfter, v, api.OptionalDuration)
	}, Null: api.Itself},
	{Name: "disabled", Set: func(e *endpointDraft, v jsontext.Value) error { return api.Boolean(&e.Disabled, v) }, Null: "false"},
	{
		Name: "uid", Set: func(e *endpointDraft, v jsontext.Value) error { return api.Filled(&e.UID, v) },
		Merge: func(e *endpointDraft, v jsontext.Value) error { return same(e.UID, v) }, Null: `""`,
	},
	{
		Name: "tenant", Set: func(e *endpointDraft, v jsontext.Value) error { return api.Filled(&e.Tenant, v) },
		Merge: func(e *endpointDraft, v jsontext.Value) error { return same(e.Tenant, v) }, Null: `""`,
	},
	{Name: "kind", Set: setKind, Merge: mergeKind, Null: `"push"`},
	{
		Name: "secret", Set: func(e *endpointDraft, v jsontext.Value) error { return api.Text(&e.secret, v) },
		Why: "can't be patched: POST /v1/endpoints/{id}/rotate-secret changes it",
	},
	{Name: "id", Why: "is made by the server; a uid is a name of your own"},
	{Name: "state", Why: isReadOnly + "; POST /v1/endpoints/{id}/pause or resume changes it"},
	{Name: "secret_fingerprint", Why: isReadOnly + "; POST /v1/endpoints/{id}/rotate-secret changes the secret"},
	{Name: "headers_held", Why: isReadOnly + "; POST /v1/endpoints/{id}/confirm ends it"},
	{Name: "held_headers", Why: isReadOnly + "; POST /v1/endpoints/{id}/confirm releases them"},
	{Name: "released_headers", Why: isReadOnly},
	{Name: "failing_since", Why: isReadOnly},
	{Name: "last_failure", Why: isReadOnly},
	{Name: "disabled_at", Why: isReadOnly},
	{Name: "disabled_reason", Why: isReadOnly},
	{Name: "in_flight", Why: isReadOnly},
	{Name: "waiting", Why: isReadOnly},
	{Name: "created_at", Why: isReadOnly},
	{Name: "updated_at", Why: isReadOnly},
}

var bitSecret = endpointFields.Bit("secret")

// decodeEndpoint parses an endpoint for its creation.
func decodeEndpoint(d *api.Decoder) api.Decoded[endpointDraft] {
	p := endpointFields.Fill(d, api.Single, &endpointDraft{Endpoint: &dispatcher.Endpoint{Topics: []string{"*"}, Signature: signer.Standard}})
	if p.Value == nil || !p.Has(bitSecret) {
		return p
	}
	secret, err := p.Value.Signature.ParseSecret(p.Value.secret) // parsed last, because it depends on the signature
	if err != nil {
		p.Wrong = api.JoinErrors(p.Wrong, []dispatcher.FieldError{{Path: "$.secret", Detail: err.Error()}})
	}
	p.Value.Secrets = []dispatcher.EndpointSecret{{Secret: secret}}
	return p
}

func kindOf(e *dispatcher.Endpoint) string {
	if e.Pull {
		return api.KindPull
	}
	return api.KindPush
}

func setKind(e *endpointDraft, v jsontext.Value) error {
	var kind string
	if err := api.Text(&kind, v); err != nil {
		return err
	}
	if kind != api.KindPush && kind != api.KindPull {
		return errors.New("must be push or pull")
	}
	e.Pull = kind == api.KindPull
	return nil
}

// mergeKind returns an error for any kind except the endpoint's own.
func mergeKind(e *endpointDraft, v jsontext.Value) error { return same(kindOf(e.Endpoint), v) }

func setTopics(e *endpointDraft, v jsontext.Value) error { return patterns(&e.Topics, v) }

// setTopicsAllowed parses the operator's list; null: there is none.
func setTopicsAllowed(e *endpointDraft, v jsontext.Value) error {
	return api.Nullable(&e.TopicsAllowed, v, patterns)
}

func patterns(to *[]string, v jsontext.Value) error {
	var raw []jsontext.Value
	if v.Kind() != '[' || json.Unmarshal(v, &raw) != nil {
		return errors.New("must be a list of texts")
	}
	topics := make([]string, len(raw)) // never nil, because nil means all topics
	for i, item := range raw {
		if err := api.Text(&topics[i], item); err != nil {
			return dispatcher.FieldError{Path: fmt.Sprintf("$[%d]", i), Detail: err.Error()}
		}
	}
	*to = topics
	return nil
}

// maxNotes is the highest number of texts of the metadata, as in the contract.
const maxNotes = 16

// setMetadata parses an object of texts, and ignores nulls.
func setMetadata(e *endpointDraft, v jsontext.Value) error {
	all, err := api.Texts(v)
	if err != nil {
		return err
	}
	if len(all) > maxNotes {
		return fmt.Errorf("has %d texts, at most %d are taken", len(all), maxNotes)
	}
	for _, t := range all {
		if !t.Null {
			e.note(t)
		}
	}
	return nil
}

// note adds a text to the metadata.
func (e *endpointDraft) note(t api.Named) {
	if e.Metadata == nil {
		e.Metadata = map[string]string{}
	}
	e.Metadata[t.Name] = t.Text
}

func setSignature(e *endpointDraft, v jsontext.Value) error {
	var name string
	if err := api.Text(&name, v); err != nil {
		return err
	}
	scheme, err := signer.ParseScheme(name)
	if err == nil {
		e.Signature = scheme
	}
	return err
}

// setSignatureHeader parses a name. The default is the scheme's own.
func setSignatureHeader(e *endpointDraft, v jsontext.Value) error {
	if err := api.Text(&e.Form.Header, v); err != nil {
		return err
	}
	if strings.EqualFold(e.Form.Header, signer.HeaderHMAC) {
		e.Form.Header = ""
	}
	return nil
}

// formWord parses a word of a signature's form. The default is empty in the endpoint.
func formWord[T ~string](to *T, usual T, v jsontext.Value) error {
	var word string
	if err := api.Filled(&word, v); err != nil {
		return err
	}
	if *to = T(word); *to == usual {
		*to = ""
	}
	return nil
}

// atLeastOne parses a number. It refuses 0, because 0 means the default internally.
func atLeastOne(to *int, v jsontext.Value) error {
	n, ok := api.Whole(v)
	if !ok || n < 1 {
		return errors.New("must be a whole number of at least 1")
	}
	*to = n
	return nil
}

func rateField(to *dispatcher.Rate, v jsontext.Value) (err error) {
	var s string
	if err := api.Text(&s, v); err != nil {
		return errors.New("must be a text such as \"100/s\"")
	}
	*to, err = dispatcher.ParseRate(s)
	return err
}

func setEndpointHeaders(e *endpointDraft, v jsontext.Value) error {
	all, err := api.HeaderTexts(v, dispatcher.MaxHeaders)
	if err != nil {
		return err
	}
	next := make([]dispatcher.Header, 0, len(all))
	for _, t := range all {
		switch {
		case t.Null: // omitted
			continue
		case t.Text == wire.Hidden:
			return errHidden(t.Name)
		}
		next = append(next, dispatcher.Header{Name: t.Name, Value: t.Text})
	}
	e.Headers = inOrder(next)
	return nil
}

// errHidden returns an error for the mark of a hidden value in a request that has no such value
// to keep.
func errHidden(name string) error {
	return dispatcher.FieldError{
		Path:   "$" + input.Member(name),
		Detail: "is " + wire.Hidden + ", which replaces a value in answers: give the value, or leave the header out",
	}
}

// inOrder returns the headers sorted by name, so endpoints with the same headers in another order
// are equal.
func inOrder(all []dispatcher.Header) []dispatcher.Header {
	slices.SortStableFunc(all, func(a, b dispatcher.Header) int {
		return strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name))
	})
	if len(all) == 0 {
		return nil
	}
	return all
}

// wireEndpoint returns an endpoint for a response, without its secrets. It hides the values of
// the headers, because they may be secret too.
func wireEndpoint(v *dispatcher.EndpointView) wire.EndpointView {
	w := wire.EndpointView{
		ID: v.ID,
		Endpoint: wire.Endpoint{
			UID: v.UID, Tenant: v.Tenant, Kind: kindOf(v.Endpoint), URL: v.URL, Topics: v.Topics, TopicsAllowed: v.TopicsAllowed,
			Description: v.Description, Metadata: v.Metadata, Signature: v.Signature.String(), SignatureHeader: v.Form.Header,
			SignatureHash: string(v.Form.Hash), SignatureEncoding: string(v.Form.Encoding), SignaturePrefix: v.Form.Prefix, SignatureContent: string(v.Form.Content),
			Ladder: v.Ladder, Timeout: wire.Duration(v.Timeout), MaxInFlight: v.MaxInFlight,
			Rate: v.Rate.String(), Success: api.Success(v.Success), Ordered: v.Ordered, Trace: v.Trace, Disabled: v.Disabled,
		},
		State: string(v.State), InFlight: v.InFlight, Waiting: v.Waiting,
		FailingSince: wire.Time{Time: v.Failing}, LastFailure: wireFailure(v.LastFailure), HeldHeaders: v.HeldHeaders(),
		CreatedAt: wire.Time{Time: v.CreatedAt}, UpdatedAt: wire.Time{Time: v.UpdatedAt},
	}
	w.HeadersHeld = len(w.HeldHeaders) > 0
	for _, one := range v.Secrets {
		if one.Until.IsZero() {
			w.SecretFingerprint = one.Secret.Fingerprint()
		}
	}
	if v.DisableAfter != nil {
		after := wire.Duration(*v.DisableAfter)
		w.DisableAfter = &after
	}
	if v.Disabled {
		w.DisabledAt, w.DisabledReason = wire.Time{Time: v.StoppedAt}, string(dispatcher.WhyOperator)
		if v.Cause != "" {
			w.DisabledReason = string(v.Cause)
		}
	}
	if w.Topics == nil {
		w.Topics = []string{} // not null, because null means all topics
	}
	if len(v.Headers) > 0 {
		w.Headers = make(map[string]string, len(v.Headers))
		for _, h := range v.Headers {
			w.Headers[h.Name] = wire.Hidden
		}
	}
	return w
}

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
