package httpapi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/hookladder/hookladder/dispatcher"
)

// maxDepth is how deep a body may nest: far above what anybody means, far below
// what breaks the parsers of receivers.
const maxDepth = 64

// field is a field that a caller may give of a T. A value is only valid during
// the call; an error is what the caller is told.
type field[T any] struct {
	name  string
	set   func(to *T, v jsontext.Value) error // reads a value; nil: only answers have the field
	merge func(to *T, v jsontext.Value) error // reads a value of a patch; nil: set does
	null  string                              // the value that null in a patch stands for; empty: a patch may not have null
	why   string                              // why the field can't be set or, where set is there, not be patched
}

// itself is the null of a field whose set reads null.
const itself = "null"

// fieldset has all fields of a T, at most 64, the usual ones first.
type fieldset[T any] []field[T]

// decoded is what an object says, and what is wrong with it.
type decoded[T any] struct {
	value *T // nil: there is no object
	given uint64
	wrong []dispatcher.FieldError
}

// has reports whether the object had the field of this bit.
func (p *decoded[T]) has(bit uint64) bool { return p.given&bit != 0 }

// fault notes that something is wrong with a field.
func (p *decoded[T]) fault(path, detail string) {
	p.wrong = append(p.wrong, dispatcher.FieldError{Path: path, Detail: detail})
}

// bit stands for a field in decoded.given.
func (s fieldset[T]) bit(name string) uint64 {
	for i := range s {
		if s[i].name == name {
			return 1 << i
		}
	}
	panic("no field " + name)
}

// find looks a field up by its name as it stands in the text, or answers -1 and
// the name that is unknown.
func (s fieldset[T]) find(raw jsontext.Value) (i int, unknown string) {
	name := unquoted(raw)
	for i := range s {
		if string(name) == s[i].name { // does not allocate
			return i, ""
		}
	}
	return -1, string(name)
}

// fill reads an object into to. null counts as left out, since many languages
// write it for what is not set.
func (s fieldset[T]) fill(d *decoder, at batchIndex, to *T) (p decoded[T]) {
	object, wrong := s.read(d, at, func(i int, v jsontext.Value) error {
		f := &s[i]
		switch {
		case v.Kind() == 'n' && f.null != itself:
			return nil
		case f.set == nil:
			return errors.New(f.why)
		}
		p.given |= 1 << i
		return f.set(to, v)
	})
	if p.wrong = wrong; object {
		p.value = to
	}
	return p
}

// read reads an object and has take read the value of each field that it knows.
func (s fieldset[T]) read(d *decoder, at batchIndex, take func(i int, v jsontext.Value) error) (object bool, wrong []dispatcher.FieldError) {
	if !d.object() {
		return false, []dispatcher.FieldError{{Path: at.path(), Detail: "must be an object"}}
	}
	for raw := range d.members() {
		i, unknown := s.find(raw)
		if i < 0 {
			wrong = append(wrong, dispatcher.FieldError{Path: at.path() + member(unknown), Detail: "is unknown"})
			d.skip()
			continue
		}
		v := d.value()
		if d.err != nil {
			break
		}
		if err := take(i, v); err != nil {
			wrong = append(wrong, faultAt(at.path()+member(s[i].name), err))
		}
	}
	return true, wrong
}

// decoder reads bodies by tokens. A text that is not strict JSON is malformed as
// a whole: a name twice in one object, bytes that are not UTF-8, anything after
// the value. A field of the wrong kind is noted and the rest read on, so that a
// caller learns of all mistakes at once.
type decoder struct {
	dec *jsontext.Decoder
	err error // the first; from then on there is nothing to read
}

var decoders = sync.Pool{New: func() any { return &decoder{dec: jsontext.NewDecoder(new(bytes.Buffer))} }}

// decode reads the body of a request.
func decode[T any](q *request, read func(d *decoder) T) (v T, err error) {
	buf, err := q.receive()
	if err != nil {
		return v, err
	}
	defer release(buf)
	d := decoders.Get().(*decoder)
	defer decoders.Put(d)
	d.dec.Reset(buf)
	d.err = nil
	v = read(d)
	d.end()
	return v, malformedJSON(d.err)
}

// object reports whether an object comes next, and skips anything else.
func (d *decoder) object() bool {
	if d.dec.PeekKind() == '{' {
		return true
	}
	d.skip()
	return false
}

// members goes over the names of an object as they stand in the text. The loop
// reads or skips the value of each.
func (d *decoder) members() iter.Seq[jsontext.Value] {
	return func(yield func(name jsontext.Value) bool) {
		d.token()
		for d.err == nil && d.dec.PeekKind() == '"' {
			if name := d.value(); d.err != nil || !yield(name) {
				return
			}
		}
		d.token()
	}
}

// value reads a value, which is valid until the next read.
func (d *decoder) value() (v jsontext.Value) {
	if d.err == nil {
		v, d.err = d.dec.ReadValue()
	}
	return v
}

func (d *decoder) skip() {
	if d.err == nil {
		d.err = d.dec.SkipValue()
	}
}

// token reads a brace or a bracket, or finds what is wrong in its place.
func (d *decoder) token() {
	if d.err == nil {
		_, d.err = d.dec.ReadToken()
	}
}

// end makes sure that nothing but space follows.
func (d *decoder) end() {
	if d.err != nil {
		return
	}
	switch _, err := d.dec.ReadToken(); {
	case err == nil:
		d.err = errTrailing
	case !errors.Is(err, io.EOF):
		d.err = err
	}
}

var errTrailing = errors.New("not JSON: something follows the value")

// malformedJSON makes a problem of what the decoder met.
func malformedJSON(err error) error {
	if err == nil {
		return nil
	}
	var syntax *jsontext.SyntacticError
	switch {
	case errors.Is(err, io.EOF):
		return &problem{kind: malformed, detail: "the body is empty: a JSON object is needed"}
	case !errors.As(err, &syntax):
		return &problem{kind: malformed, detail: err.Error()}
	case errors.Is(err, jsontext.ErrDuplicateName):
		return &problem{kind: malformed, detail: fmt.Sprintf("not JSON as taken here: the name %s stands twice in one object, at %s",
			clip(syntax.JSONPointer.LastToken()), clip(string(syntax.JSONPointer)))}
	case syntax.Err == nil:
		return &problem{kind: malformed, detail: fmt.Sprintf("not JSON after byte %d", syntax.ByteOffset)}
	default:
		return &problem{kind: malformed, detail: fmt.Sprintf("not JSON after byte %d: %v", syntax.ByteOffset, syntax.Err)}
	}
}

// unquoted is a text in quotes without them; where it has no escapes, it is not
// copied.
func unquoted(raw jsontext.Value) []byte {
	plain := raw[1 : len(raw)-1]
	if bytes.IndexByte(plain, '\\') < 0 {
		return plain
	}
	b, err := jsontext.AppendUnquote(nil, raw)
	if err != nil {
		return plain
	}
	return b
}

// nests reports whether a JSON value nests deeper than maxDepth.
func nests(value []byte) bool {
	if bytes.Count(value, []byte{'{'})+bytes.Count(value, []byte{'['}) <= maxDepth {
		return false // it can't, and the count costs next to nothing
	}
	depth, quoted := 0, false
	for i := 0; i < len(value); i++ {
		switch c := value[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}
