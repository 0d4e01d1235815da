package httpapi

import (
	"errors"
	"fmt"
	"slices"
	"strings"

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
