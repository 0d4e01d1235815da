package httpapi

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/api"
	"github.com/hookladder/hookladder/dispatcher/internal/input"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// patch is a JSON Merge Patch (RFC 7396) of an endpoint. Omitted fields do not change, null is
// the default, and objects are merged member by member. It may repeat a response, because
// read-only fields are ignored.
type patch struct {
	steps []step
	wrong []dispatcher.FieldError // errors in the patch of any endpoint
}

// step changes one field.
type step struct {
	field *api.Field[endpointDraft]
	value jsontext.Value
}

// decodePatch parses the body of PATCH /v1/endpoints/{id}.
func decodePatch(d *api.Decoder) (p patch) {
	_, p.wrong = endpointFields.Read(d, api.Single, func(i int, v jsontext.Value) error {
		f := &endpointFields[i]
		switch {
		case f.Set == nil: // a patch may repeat a response, which may be outdated
			return nil
		case f.Why != "":
			return errors.New(f.Why)
		case v.Kind() != 'n':
			v = v.Clone()
		case f.Null == "":
			return errors.New("must not be null; leave it out")
		default:
			v = jsontext.Value(f.Null)
		}
		p.steps = append(p.steps, step{f, v})
		return nil
	})
	return p
}

// apply changes an endpoint, and returns all errors of the change. It ignores errors of fields
// that the patch does not name, because settings may have changed after they were set.
func (p *patch) apply(e *dispatcher.Endpoint, l dispatcher.Policy) []dispatcher.FieldError {
	wrong := p.wrong[:len(p.wrong):len(p.wrong)]
	draft := &endpointDraft{Endpoint: e, given: map[string]bool{}}
	for _, s := range p.steps {
		change := s.field.Merge
		if change == nil {
			change = s.field.Set
		}
		if err := change(draft, s.value); err != nil {
			wrong = append(wrong, input.FieldAt("$."+s.field.Name, err))
		}
	}
	for name, isNew := range draft.given { // now that the patch's own url is set
		e.NoteHeader(name, isNew, p.names("$.url"))
	}
	var more []dispatcher.FieldError
	for _, w := range e.Validate(l) {
		if p.names(w.Path) {
			more = append(more, w)
		}
	}
	return api.JoinErrors(wrong, more)
}

// fields returns the names of the fields that the patch changes.
func (p *patch) fields() string {
	names := make([]string, len(p.steps))
	for i, s := range p.steps {
		names[i] = s.field.Name
	}
	return strings.Join(names, ", ")
}

// onlyNames reports whether the patch names none but these fields.
func (p *patch) onlyNames(fields []string) bool {
	return len(p.wrong) == 0 && !slices.ContainsFunc(p.steps, func(s step) bool { return !slices.Contains(fields, s.field.Name) })
}

// names reports whether a path leads into a field that the patch changes.
func (p *patch) names(path string) bool {
	for _, s := range p.steps {
		if rest, ok := strings.CutPrefix(path, "$."+s.field.Name); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return true
		}
	}
	return false
}

// mergeValue merges a patch into a value by RFC 7396. The caller limits the depth of the patch.
func mergeValue(target, with jsontext.Value) (jsontext.Value, error) {
	if with.Kind() != '{' {
		return with, nil
	}
	var all, changes map[string]jsontext.Value
	if target.Kind() == '{' {
		if err := json.Unmarshal(target, &all); err != nil {
			return nil, err
		}
	}
	if err := json.Unmarshal(with, &changes); err != nil {
		return nil, err
	}
	if all == nil {
		all = map[string]jsontext.Value{}
	}
	for name, v := range changes {
		if v.Kind() == 'n' {
			delete(all, name)
			continue
		}
		merged, err := mergeValue(all[name], v)
		if err != nil {
			return nil, err
		}
		all[name] = merged
	}
	return json.Marshal(all, json.Deterministic(true))
}

// same returns an error for any text except the current one.
func same(now string, v jsontext.Value) error {
	var given string
	if err := api.Text(&given, v); err != nil {
		return err
	}
	if given != now {
		return errors.New(isFixed)
	}
	return nil
}

// mergeMetadata changes the named texts. null as a text removes it, and null as the object
// removes all.
func mergeMetadata(e *endpointDraft, v jsontext.Value) error {
	if v.Kind() == 'n' {
		e.Metadata = nil
		return nil
	}
	all, err := api.Texts(v)
	if err != nil {
		return err
	}
	for _, t := range all {
		if t.Null {
			delete(e.Metadata, t.Name)
		} else {
			e.note(t)
		}
	}
	return nil
}

// mergeSignature keeps the texts of the secrets, because the receiver has them. It returns an
// error if a text is no valid secret in the new scheme.
func mergeSignature(e *endpointDraft, v jsontext.Value) error {
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

// mergeHeaders changes the named headers, in upper or lower case. null as a value removes the
// header, and null as the object removes all.
func mergeHeaders(e *endpointDraft, v jsontext.Value) error {
	if v.Kind() == 'n' {
		e.Headers = nil
		return nil
	}
	all, err := api.HeaderTexts(v, 2*dispatcher.MaxHeaders) // all existing headers removed, and as many added
	if err != nil {
		return err
	}
	next := e.Headers
	for i, t := range all {
		if slices.ContainsFunc(all[:i], func(o api.Named) bool { return strings.EqualFold(o.Name, t.Name) }) {
			return fmt.Errorf("has %s twice: upper and lower case are one name", input.Clip(t.Name))
		}
		named := func(h dispatcher.Header) bool { return strings.EqualFold(h.Name, t.Name) }
		if !t.Null && t.Text == wire.Hidden { // the client repeats a response
			if !slices.ContainsFunc(next, named) {
				return errHidden(t.Name)
			}
			continue
		}
		had := len(next)
		next = slices.DeleteFunc(next, named)
		if !t.Null {
			e.given[t.Name] = len(next) == had
			next = append(next, dispatcher.Header{Name: t.Name, Value: t.Text})
		}
	}
	e.Headers = inOrder(next)
	return nil
}

// mergeSuccess changes parts of the rule of success.
func mergeSuccess(e *endpointDraft, v jsontext.Value) error {
	if v.Kind() != '{' || api.Nests(v) {
		return api.Nullable(&e.Success, v, api.SuccessRule)
	}
	if err := unknownMember(v, "status", "body"); err != nil {
		return err
	}
	var before jsontext.Value
	if e.Success != nil {
		before = jsontext.Value(e.Success.String())
	}
	merged, err := mergeValue(before, v)
	if err != nil {
		return err
	}
	return api.SuccessRule(&e.Success, merged)
}

// unknownMember returns an error for a member of a rule that is not known, also if it is null. A
// body has members too.
func unknownMember(v jsontext.Value, known ...string) error {
	var all map[string]jsontext.Value
	if v.Kind() != '{' || json.Unmarshal(v, &all) != nil {
		return nil // the rule itself refuses it
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !slices.Contains(known, name) {
			return dispatcher.FieldError{Path: "$" + input.Member(name), Detail: "is unknown; known are " + strings.Join(known, ", ")}
		}
	}
	if body, ok := all["body"]; ok {
		if err := unknownMember(body, "path", "equals", "matches"); err != nil {
			return input.FieldAt("$.body", err)
		}
	}
	return nil
}
