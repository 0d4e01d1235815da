package httpapi

import (
	"bytes"
	"errors"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/hookladder/hookladder/dispatcher"
)

// patch is a JSON Merge Patch (RFC 7396) of an endpoint: what it leaves out
// stays, null is the default, and objects are merged member by member. It may
// repeat an answer: fields that are only answered are passed over.
type patch struct {
	steps []step
	wrong []dispatcher.FieldError // with it, whatever the endpoint is
}

// step changes one field.
type step struct {
	field *endpointField
	value jsontext.Value
}

// decodePatch reads the body of PATCH /v1/endpoints/{id}.
func decodePatch(buf *bytes.Buffer) (p patch, err error) {
	fault := func(name, detail string) {
		p.wrong = append(p.wrong, dispatcher.FieldError{Path: "$" + member(name), Detail: detail})
	}
	object, err := members(buf, func(name string, v jsontext.Value) {
		switch f := findEndpointField(name); {
		case f == nil:
			fault(name, "is unknown")
		case f.told: // a patch may repeat what was answered, which may be old by now
		case f.keeps != nil:
			p.steps = append(p.steps, step{f, v.Clone()})
		case f.fixed != "":
			fault(name, f.fixed)
		case v.Kind() == 'n' && f.null != "":
			p.steps = append(p.steps, step{f, jsontext.Value(f.null)})
		case v.Kind() == 'n' && f.reset == nil:
			fault(name, "must not be null; leave it out")
		default:
			p.steps = append(p.steps, step{f, v.Clone()})
		}
	})
	if err == nil && !object {
		p.wrong = []dispatcher.FieldError{{Path: "$", Detail: "must be an object"}}
	}
	return p, err
}

// apply makes the changes to an endpoint and answers all that is wrong with
// them. What the patch does not name may have become wrong since it was stored,
// as settings change: that must not keep the rest from being changed.
func (p *patch) apply(e *dispatcher.Endpoint, l dispatcher.Policy) []dispatcher.FieldError {
	wrong := p.wrong[:len(p.wrong):len(p.wrong)]
	for _, s := range p.steps {
		if err := s.apply(e); err != nil {
			wrong = append(wrong, faultAt("$."+s.field.name, err))
		}
	}
	var more []dispatcher.FieldError
	for _, w := range e.Validate(l) {
		if p.names(w.Path) {
			more = append(more, w)
		}
	}
	return join(wrong, more)
}

func (s step) apply(e *dispatcher.Endpoint) error {
	switch {
	case s.field.keeps != nil:
		given := ""
		if s.value.Kind() != 'n' {
			if err := text(&given, s.value); err != nil {
				return err
			}
		}
		if given != s.field.keeps(e) {
			return errors.New(s.field.fixed)
		}
		return nil
	case s.value.Kind() == 'n':
		s.field.reset(e)
		return nil
	case s.field.merge != nil:
		return s.field.merge(e, s.value)
	default:
		return s.field.set(e, s.value)
	}
}

// names reports whether a path leads into a field that the patch changes.
func (p *patch) names(path string) bool {
	for _, s := range p.steps {
		if rest, ok := strings.CutPrefix(path, "$."+s.field.name); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return true
		}
	}
	return false
}

// mergeValue merges a patch into a value as RFC 7396 says. How deep it nests is
// bounded by the caller.
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
