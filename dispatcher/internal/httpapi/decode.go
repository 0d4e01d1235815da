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
	"github.com/hookladder/hookladder/dispatcher/internal/fields"
)

// maxDepth is how deep a body may nest: far above any use, and far below what breaks
// the parsers of receivers.
const maxDepth = 64

// field is a field of a T in requests and answers. A value is only valid during the
// call. An error is for the caller.
type field[T any] struct {
	name  string
	set   func(to *T, v jsontext.Value) error // reads a value; nil: requests can't have the field
	merge func(to *T, v jsontext.Value) error // reads a value of a patch; nil: set does
	null  string                              // the JSON value that null in a patch stands for; empty: null is refused
	why   string                              // why it can't be set or, where set is not nil, not be patched
}

// itself is field.null of a field whose set reads null.
const itself = "null"

// fieldset is all fields of a T, at most 64, the frequent ones first.
type fieldset[T any] []field[T]

// decoded is a decoded object with its errors.
type decoded[T any] struct {
	value *T     // nil: the body is no object
	given uint64 // bits of its fields
	wrong []dispatcher.FieldError
}

// has reports whether the object has the field of this bit.
func (p *decoded[T]) has(bit uint64) bool { return p.given&bit != 0 }

// fault notes that something is wrong with a field.
func (p *decoded[T]) fault(path, detail string) {
	p.wrong = append(p.wrong, dispatcher.FieldError{Path: path, Detail: detail})
}

// bit is the bit of a field in decoded.given.
func (s fieldset[T]) bit(name string) uint64 {
	for i := range s {
		if s[i].name == name {
			return 1 << i
		}
	}
	panic("no field " + name)
}

// find looks a field up by its quoted name, or answers -1 and the unknown name.
func (s fieldset[T]) find(raw jsontext.Value) (i int, unknown string) {
	name := unquoted(raw)
	for i := range s {
		if string(name) == s[i].name { // does not allocate
			return i, ""
		}
	}
	return -1, string(name)
}

// fill reads an object into to. A null is ignored, since many languages write it for
// a field that is not set.
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

// read reads an object, and calls take with the value of each known field.
func (s fieldset[T]) read(d *decoder, at batchIndex, take func(i int, v jsontext.Value) error) (object bool, wrong []dispatcher.FieldError) {
	if !d.object() {
		return false, []dispatcher.FieldError{{Path: at.path(), Detail: "must be an object"}}
	}
	for raw := range d.members() {
		i, unknown := s.find(raw)
		if i < 0 {
			wrong = append(wrong, dispatcher.FieldError{Path: at.path() + fields.Member(unknown), Detail: "is unknown"})
			d.skip()
			continue
		}
		v := d.value()
		if d.err != nil {
			break
		}
		if err := take(i, v); err != nil {
			wrong = append(wrong, fields.At(at.path()+fields.Member(s[i].name), err))
		}
	}
	return true, wrong
}

// decoder reads bodies by tokens. Where a body is not strict JSON, all of it is
// malformed: so is a repeated name in an object, bytes that are not UTF-8, anything
// after the value. After a field of the wrong kind it reads on, so that a caller
// learns of all mistakes at once.
type decoder struct {
	dec *jsontext.Decoder
	err error // the first one; after it nothing is read
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
	d.reset(buf)
	v = read(d)
	d.end()
	return v, malformedJSON(d.err)
}

// reset has it read another text, of which nothing was read.
func (d *decoder) reset(text *bytes.Buffer) {
	d.dec.Reset(text)
	d.err = nil
}

// object reports whether an object comes next. It skips any other value.
func (d *decoder) object() bool {
	if d.dec.PeekKind() == '{' {
		return true
	}
	d.skip()
	return false
}

// members goes over the quoted names of an object. The loop reads or skips the value
// of each.
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

// token reads a brace or a bracket, or fails on anything else.
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

// malformedJSON makes a problem of an error of the decoder.
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
		return &problem{kind: malformed, detail: fmt.Sprintf("not JSON as accepted here: the name %s stands twice in one object, at %s",
			fields.Clip(syntax.JSONPointer.LastToken()), fields.Clip(string(syntax.JSONPointer)))}
	case syntax.Err == nil:
		return &problem{kind: malformed, detail: fmt.Sprintf("not JSON after byte %d", syntax.ByteOffset)}
	default:
		return &problem{kind: malformed, detail: fmt.Sprintf("not JSON after byte %d: %v", syntax.ByteOffset, syntax.Err)}
	}
}

// unquoted is a quoted text without the quotes. It is only copied where it has
// escapes.
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
		return false // it can't nest deeper, and to count is cheap
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
