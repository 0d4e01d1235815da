package httpapi

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/signer"
)

// endpointField is a field that an endpoint may have. Endpoints are the caller's
// own; values are only valid during a call; errors are what the caller is told.
type endpointField struct {
	name  string
	set   func(e *dispatcher.Endpoint, v jsontext.Value) error // nil: nobody gives it
	merge func(e *dispatcher.Endpoint, v jsontext.Value) error // set in a patch; nil: set
	null  string                                               // the value that null in a patch stands for; empty: reset
	reset func(e *dispatcher.Endpoint)                         // what null in a patch does; nil: it is refused
	fixed string                                               // why nobody sets it, or no patch changes it
	told  bool                                                 // only answers have it: a patch that repeats one may
	keeps func(e *dispatcher.Endpoint) string                  // the value that a patch may only repeat; nil: any
}

const (
	isTold = "is only answered"
	isLast = "can't be changed: create another endpoint"
)

// endpointFields are all fields of the contract.
var endpointFields = []endpointField{
	{name: "url", set: func(e *dispatcher.Endpoint, v jsontext.Value) error { return filled(&e.URL, v) }},
	{name: "topics", set: setTopics, null: `["*"]`},
	{name: "description", set: func(e *dispatcher.Endpoint, v jsontext.Value) error { return text(&e.Description, v) }, null: `""`},
	{name: "metadata", set: setMetadata, merge: mergeMetadata, reset: func(e *dispatcher.Endpoint) { e.Metadata = nil }},
	{name: "signature", set: setSignature, merge: changeSignature, null: `"standard"`},
	{
		name: "ladder", set: func(e *dispatcher.Endpoint, v jsontext.Value) error { return rungs(&e.Ladder, v) },
		reset: func(e *dispatcher.Endpoint) { e.Ladder = nil },
	},
	{
		name: "timeout", set: func(e *dispatcher.Endpoint, v jsontext.Value) error { return timeout(&e.Timeout, v) },
		reset: func(e *dispatcher.Endpoint) { e.Timeout = 0 },
	},
	{name: "max_in_flight", set: setMaxInFlight, reset: func(e *dispatcher.Endpoint) { e.MaxInFlight = 0 }},
	{name: "rate", set: setRate, reset: func(e *dispatcher.Endpoint) { e.Rate = dispatcher.Rate{} }},
	{name: "headers", set: setEndpointHeaders, merge: mergeHeaders, reset: func(e *dispatcher.Endpoint) { e.Headers = nil }},
	{
		name: "success", set: func(e *dispatcher.Endpoint, v jsontext.Value) error { return success(&e.Success, v) },
		merge: mergeSuccess, reset: func(e *dispatcher.Endpoint) { e.Success = nil },
	},
	{name: "ordered", set: func(e *dispatcher.Endpoint, v jsontext.Value) error { return boolean(&e.Ordered, v) }, null: "false"},
	{name: "disabled", set: func(e *dispatcher.Endpoint, v jsontext.Value) error { return boolean(&e.Disabled, v) }, null: "false"},
	{
		name: "uid", set: func(e *dispatcher.Endpoint, v jsontext.Value) error { return filled(&e.UID, v) },
		fixed: isLast, keeps: func(e *dispatcher.Endpoint) string { return e.UID },
	},
	{
		name: "tenant", set: func(e *dispatcher.Endpoint, v jsontext.Value) error { return filled(&e.Tenant, v) },
		fixed: isLast, keeps: func(e *dispatcher.Endpoint) string { return e.Tenant },
	},
	{name: "secret", fixed: "can't be patched: POST /v1/endpoints/{id}/rotate-secret changes it"},
	{name: "id", told: true, fixed: "is made here; a uid is a name of your own"},
	{name: "state", told: true, fixed: isTold + "; POST /v1/endpoints/{id}/pause or resume changes it"},
	{name: "failing_since", told: true, fixed: isTold},
	{name: "disabled_at", told: true, fixed: isTold},
	{name: "disabled_reason", told: true, fixed: isTold},
	{name: "in_flight", told: true, fixed: isTold},
	{name: "waiting", told: true, fixed: isTold},
	{name: "created_at", told: true, fixed: isTold},
	{name: "updated_at", told: true, fixed: isTold},
}

func findEndpointField(name string) *endpointField {
	for i := range endpointFields {
		if endpointFields[i].name == name {
			return &endpointFields[i]
		}
	}
	return nil
}

func setTopics(e *dispatcher.Endpoint, v jsontext.Value) error {
	var raw []jsontext.Value
	if v.Kind() != '[' || json.Unmarshal(v, &raw) != nil {
		return errors.New("must be a list of texts")
	}
	topics := make([]string, len(raw)) // never nil: an empty list is not everything
	for i, item := range raw {
		if err := text(&topics[i], item); err != nil {
			return dispatcher.FieldError{Path: fmt.Sprintf("$[%d]", i), Detail: err.Error()}
		}
	}
	e.Topics = topics
	return nil
}

func setMetadata(e *dispatcher.Endpoint, v jsontext.Value) error {
	return addMetadata(e, v, false)
}

// mergeMetadata changes the texts that are named; null removes one.
func mergeMetadata(e *dispatcher.Endpoint, v jsontext.Value) error {
	return addMetadata(e, v, true)
}

func addMetadata(e *dispatcher.Endpoint, v jsontext.Value, nulls bool) error {
	all, err := texts(v)
	if err != nil {
		return err
	}
	next := e.Metadata
	for _, t := range all {
		switch {
		case t.null && !nulls: // left out
		case t.null:
			delete(next, t.name)
		default:
			if next == nil {
				next = map[string]string{}
			}
			next[t.name] = t.text
		}
	}
	e.Metadata = next
	return nil
}

func setSignature(e *dispatcher.Endpoint, v jsontext.Value) error {
	var name string
	if err := text(&name, v); err != nil {
		return err
	}
	scheme, err := signer.ParseScheme(name)
	if err != nil {
		return err
	}
	e.Signature = scheme
	return nil
}

// changeSignature keeps the secrets, as texts: the receiver has them. Not every
// text is a secret of every scheme.
func changeSignature(e *dispatcher.Endpoint, v jsontext.Value) error {
	if err := setSignature(e, v); err != nil {
		return err
	}
	for i := range e.Secrets {
		var err error
		if e.Secrets[i].Secret, err = e.Signature.ParseSecret(e.Secrets[i].Secret.Reveal()); err != nil {
			return errors.New("has other secrets than this endpoint's: create another endpoint")
		}
	}
	return nil
}

// setMaxInFlight reads a number; 0 is refused, since inside it means the default.
func setMaxInFlight(e *dispatcher.Endpoint, v jsontext.Value) error {
	n, err := strconv.Atoi(string(v))
	if err != nil || n < 1 {
		return errors.New("must be a whole number of at least 1")
	}
	e.MaxInFlight = n
	return nil
}

func setRate(e *dispatcher.Endpoint, v jsontext.Value) error {
	var s string
	if err := text(&s, v); err != nil {
		return err
	}
	rate, err := dispatcher.ParseRate(s)
	if err != nil {
		return err
	}
	e.Rate = rate
	return nil
}

func setEndpointHeaders(e *dispatcher.Endpoint, v jsontext.Value) error {
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

// mergeHeaders changes the headers that are named, in whatever case; null
// removes one.
func mergeHeaders(e *dispatcher.Endpoint, v jsontext.Value) error {
	all, err := texts(v)
	if err != nil {
		return err
	}
	if len(all) > 2*dispatcher.MaxHeaders { // as many as are there removed, and as many as may be added
		return fmt.Errorf("names %d headers, an endpoint has at most %d", len(all), dispatcher.MaxHeaders)
	}
	next := e.Headers
	for i, t := range all {
		if slices.ContainsFunc(all[:i], func(o named) bool { return strings.EqualFold(o.name, t.name) }) {
			return fmt.Errorf("has %s twice: upper and lower case are one name", clip(t.name))
		}
		named := func(h dispatcher.Header) bool { return strings.EqualFold(h.Name, t.name) }
		if !t.null && t.text == wire.Hidden { // as it was answered
			if !slices.ContainsFunc(next, named) {
				return errHidden(t.name)
			}
			continue
		}
		next = slices.DeleteFunc(next, named)
		if !t.null {
			next = append(next, dispatcher.Header{Name: t.name, Value: t.text})
		}
	}
	e.Headers = inOrder(next)
	return nil
}

// errHidden refuses what stands for a value in answers, where there is none.
func errHidden(name string) error {
	return dispatcher.FieldError{
		Path:   "$" + member(name),
		Detail: "is " + wire.Hidden + ", which stands for a value in answers: give the value, or leave the header out",
	}
}

// inOrder sorts headers by name, so that the order in which they were given
// makes no other endpoint.
func inOrder(all []dispatcher.Header) []dispatcher.Header {
	slices.SortStableFunc(all, func(a, b dispatcher.Header) int {
		return strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name))
	})
	if len(all) == 0 {
		return nil
	}
	return all
}

// mergeSuccess changes parts of what the receiver must answer.
func mergeSuccess(e *dispatcher.Endpoint, v jsontext.Value) error {
	if v.Kind() != '{' || nests(v) {
		return success(&e.Success, v)
	}
	var before jsontext.Value
	if e.Success != nil {
		before = jsontext.Value(e.Success.String())
	}
	merged, err := mergeValue(before, v)
	if err != nil {
		return err
	}
	return success(&e.Success, merged)
}

func boolean(to *bool, v jsontext.Value) error {
	switch v.Kind() {
	case 't':
		*to = true
	case 'f':
		*to = false
	default:
		return errors.New("must be true or false")
	}
	return nil
}

// members reads a body that is one object and calls each for its members, in
// their order; object is false where it is something else. A value is only
// valid during the call.
func members(buf *bytes.Buffer, each func(name string, v jsontext.Value)) (object bool, err error) {
	d := decoders.Get().(*decoder)
	defer decoders.Put(d)
	d.dec.Reset(buf)
	if object, err = d.members(each); err == nil {
		err = d.end()
	}
	return object, malformedJSON(err)
}

func (d *decoder) members(each func(name string, v jsontext.Value)) (object bool, err error) {
	if d.dec.PeekKind() != '{' {
		return false, d.dec.SkipValue()
	}
	if _, err := d.dec.ReadToken(); err != nil {
		return true, err
	}
	for d.dec.PeekKind() == '"' {
		name, err := d.dec.ReadToken()
		if err != nil {
			return true, err
		}
		text := name.String() // the token lasts until the next read
		value, err := d.dec.ReadValue()
		if err != nil {
			return true, err
		}
		each(text, value)
	}
	_, err = d.dec.ReadToken()
	return true, err
}
