package httpapi

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/fields"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/signer"
)

// endpointDraft is an endpoint before it is created or changed.
type endpointDraft struct {
	*dispatcher.Endpoint
	secret string // as given; empty: it is not
}

// Why fields of an endpoint are refused.
const (
	isFixed    = "can't be changed: create another endpoint"
	isReadOnly = "is read-only"
)

// endpointFields are all fields of the contract.
var endpointFields = fieldset[endpointDraft]{
	{name: "url", set: func(e *endpointDraft, v jsontext.Value) error { return filled(&e.URL, v) }},
	{name: "topics", set: setTopics, null: `["*"]`},
	{name: "topics_allowed", set: setTopicsAllowed, null: itself},
	{name: "description", set: func(e *endpointDraft, v jsontext.Value) error { return text(&e.Description, v) }, null: `""`},
	{name: "metadata", set: setMetadata, merge: mergeMetadata, null: itself},
	{name: "signature", set: setSignature, merge: mergeSignature, null: `"standard"`},
	{name: "signature_header", set: setSignatureHeader, null: `""`},
	{name: "ladder", set: func(e *endpointDraft, v jsontext.Value) error { return nullable(&e.Ladder, v, rungs) }, null: itself},
	{name: "timeout", set: func(e *endpointDraft, v jsontext.Value) error { return nullable(&e.Timeout, v, timeout) }, null: itself},
	{name: "max_in_flight", set: func(e *endpointDraft, v jsontext.Value) error { return nullable(&e.MaxInFlight, v, atLeastOne) }, null: itself},
	{name: "rate", set: func(e *endpointDraft, v jsontext.Value) error { return nullable(&e.Rate, v, rate) }, null: itself},
	{name: "headers", set: setEndpointHeaders, merge: mergeHeaders, null: itself},
	{name: "success", set: func(e *endpointDraft, v jsontext.Value) error { return nullable(&e.Success, v, successRule) }, merge: mergeSuccess, null: itself},
	{name: "ordered", set: func(e *endpointDraft, v jsontext.Value) error { return boolean(&e.Ordered, v) }, null: "false"},
	{name: "disable_after", set: func(e *endpointDraft, v jsontext.Value) error { return nullable(&e.DisableAfter, v, optionalDuration) }, null: itself},
	{name: "disabled", set: func(e *endpointDraft, v jsontext.Value) error { return boolean(&e.Disabled, v) }, null: "false"},
	{
		name: "uid", set: func(e *endpointDraft, v jsontext.Value) error { return filled(&e.UID, v) },
		merge: func(e *endpointDraft, v jsontext.Value) error { return same(e.UID, v) }, null: `""`,
	},
	{
		name: "tenant", set: func(e *endpointDraft, v jsontext.Value) error { return filled(&e.Tenant, v) },
		merge: func(e *endpointDraft, v jsontext.Value) error { return same(e.Tenant, v) }, null: `""`,
	},
	{name: "kind", set: setKind, merge: mergeKind, null: `"push"`},
	{
		name: "secret", set: func(e *endpointDraft, v jsontext.Value) error { return text(&e.secret, v) },
		why: "can't be patched: POST /v1/endpoints/{id}/rotate-secret changes it",
	},
	{name: "id", why: "is made by the server; a uid is a name of your own"},
	{name: "state", why: isReadOnly + "; POST /v1/endpoints/{id}/pause or resume changes it"},
	{name: "headers_held", why: isReadOnly + "; POST /v1/endpoints/{id}/confirm ends it"},
	{name: "failing_since", why: isReadOnly},
	{name: "disabled_at", why: isReadOnly},
	{name: "disabled_reason", why: isReadOnly},
	{name: "in_flight", why: isReadOnly},
	{name: "waiting", why: isReadOnly},
	{name: "created_at", why: isReadOnly},
	{name: "updated_at", why: isReadOnly},
}

var bitSecret = endpointFields.bit("secret")

// decodeEndpoint reads an endpoint that is to be created.
func decodeEndpoint(d *decoder) decoded[endpointDraft] {
	p := endpointFields.fill(d, single, &endpointDraft{Endpoint: &dispatcher.Endpoint{Topics: []string{"*"}, Signature: signer.Standard}})
	if p.value == nil || !p.has(bitSecret) {
		return p
	}
	secret, err := p.value.Signature.ParseSecret(p.value.secret) // read last, since it depends on the signature
	if err != nil {
		p.wrong = join(p.wrong, []dispatcher.FieldError{{Path: "$.secret", Detail: err.Error()}})
	}
	p.value.Secrets = []dispatcher.EndpointSecret{{Secret: secret}}
	return p
}

// The kinds of endpoints, as requests and answers have them.
const kindPush, kindPull = "push", "pull"

func kindOf(e *dispatcher.Endpoint) string {
	if e.Pull {
		return kindPull
	}
	return kindPush
}

func setKind(e *endpointDraft, v jsontext.Value) error {
	var kind string
	if err := text(&kind, v); err != nil {
		return err
	}
	if kind != kindPush && kind != kindPull {
		return errors.New("must be push or pull")
	}
	e.Pull = kind == kindPull
	return nil
}

// mergeKind refuses any kind but the endpoint's own.
func mergeKind(e *endpointDraft, v jsontext.Value) error { return same(kindOf(e.Endpoint), v) }

func setTopics(e *endpointDraft, v jsontext.Value) error { return patterns(&e.Topics, v) }

// setTopicsAllowed reads the operator's list; null: there is none.
func setTopicsAllowed(e *endpointDraft, v jsontext.Value) error {
	return nullable(&e.TopicsAllowed, v, patterns)
}

func patterns(to *[]string, v jsontext.Value) error {
	var raw []jsontext.Value
	if v.Kind() != '[' || json.Unmarshal(v, &raw) != nil {
		return errors.New("must be a list of texts")
	}
	topics := make([]string, len(raw)) // never nil, which would mean all topics
	for i, item := range raw {
		if err := text(&topics[i], item); err != nil {
			return dispatcher.FieldError{Path: fmt.Sprintf("$[%d]", i), Detail: err.Error()}
		}
	}
	*to = topics
	return nil
}

// setMetadata reads an object of texts, and ignores nulls.
func setMetadata(e *endpointDraft, v jsontext.Value) error {
	all, err := texts(v)
	if err != nil {
		return err
	}
	for _, t := range all {
		if !t.null {
			e.note(t)
		}
	}
	return nil
}

// note adds a text to the metadata.
func (e *endpointDraft) note(t named) {
	if e.Metadata == nil {
		e.Metadata = map[string]string{}
	}
	e.Metadata[t.name] = t.text
}

func setSignature(e *endpointDraft, v jsontext.Value) error {
	var name string
	if err := text(&name, v); err != nil {
		return err
	}
	scheme, err := signer.ParseScheme(name)
	if err == nil {
		e.Signature = scheme
	}
	return err
}

// setSignatureHeader reads a name. The scheme's own is the default.
func setSignatureHeader(e *endpointDraft, v jsontext.Value) error {
	if err := text(&e.SignatureHeader, v); err != nil {
		return err
	}
	if strings.EqualFold(e.SignatureHeader, signer.HeaderHMACHex) {
		e.SignatureHeader = ""
	}
	return nil
}

// atLeastOne reads a number. 0 is refused, since inside it means the default.
func atLeastOne(to *int, v jsontext.Value) error {
	n, err := strconv.Atoi(string(v))
	if err != nil || n < 1 {
		return errors.New("must be a whole number of at least 1")
	}
	*to = n
	return nil
}

func rate(to *dispatcher.Rate, v jsontext.Value) (err error) {
	var s string
	if err := text(&s, v); err != nil {
		return err
	}
	*to, err = dispatcher.ParseRate(s)
	return err
}

func setEndpointHeaders(e *endpointDraft, v jsontext.Value) error {
	all, err := texts(v)
	if err != nil {
		return err
	}
	next := make([]dispatcher.Header, 0, len(all))
	for _, t := range all {
		switch {
		case t.null: // left out
			continue
		case t.text == wire.Hidden:
			return errHidden(t.name)
		}
		next = append(next, dispatcher.Header{Name: t.name, Value: t.text})
	}
	e.Headers = inOrder(next)
	return nil
}

// errHidden refuses the mark that answers have for a value, where there is no value.
func errHidden(name string) error {
	return dispatcher.FieldError{
		Path:   "$" + fields.Member(name),
		Detail: "is " + wire.Hidden + ", which stands for a value in answers: give the value, or leave the header out",
	}
}

// inOrder sorts headers by name, so that endpoints with the same headers in another
// order are equal.
func inOrder(all []dispatcher.Header) []dispatcher.Header {
	slices.SortStableFunc(all, func(a, b dispatcher.Header) int {
		return strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name))
	})
	if len(all) == 0 {
		return nil
	}
	return all
}

// wireEndpoint is an endpoint as it is answered: without its secrets, and without the
// values of its headers, which may be secret too.
func wireEndpoint(v *dispatcher.EndpointView) wire.EndpointView {
	w := wire.EndpointView{
		ID: v.ID,
		Endpoint: wire.Endpoint{
			UID: v.UID, Tenant: v.Tenant, Kind: kindOf(v.Endpoint), URL: v.URL, Topics: v.Topics, TopicsAllowed: v.TopicsAllowed,
			Description: v.Description, Metadata: v.Metadata, Signature: v.Signature.String(), SignatureHeader: v.SignatureHeader,
			Ladder: v.Ladder, Timeout: wire.Duration(v.Timeout), MaxInFlight: v.MaxInFlight,
			Rate: v.Rate.String(), Success: wireSuccess(v.Success), Ordered: v.Ordered, Disabled: v.Disabled,
		},
		State: string(v.State), InFlight: v.InFlight, Waiting: v.Waiting,
		FailingSince: wire.Time{Time: v.Failing}, HeadersHeld: v.HeadersHeld(),
		CreatedAt: wire.Time{Time: v.CreatedAt}, UpdatedAt: wire.Time{Time: v.UpdatedAt},
	}
	if v.DisableAfter != nil {
		after := wire.Duration(*v.DisableAfter)
		w.DisableAfter = &after
	}
	if v.Disabled {
		w.DisabledAt, w.DisabledReason = wire.Time{Time: v.HeldAt}, string(dispatcher.WhyOperator)
		if v.Cause != "" {
			w.DisabledReason = string(v.Cause)
		}
	}
	if w.Topics == nil {
		w.Topics = []string{} // null would mean all topics
	}
	if len(v.Headers) > 0 {
		w.Headers = make(map[string]string, len(v.Headers))
		for _, h := range v.Headers {
			w.Headers[h.Name] = wire.Hidden
		}
	}
	return w
}
