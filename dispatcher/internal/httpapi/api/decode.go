package api

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/input"
)

// MaxDepth is the maximum nesting of a body. It is far above any use, and far below the depth
// that breaks the parsers of receivers.
const MaxDepth = 64

// Field is a field of a T in requests and responses. A value is only valid during the call. An
// error is for the caller.
type Field[T any] struct {
	Name  string
	Set   func(to *T, v jsontext.Value) error // reads a value; nil: requests can't have the field
	Merge func(to *T, v jsontext.Value) error // reads a value of a patch; nil: set does
	Null  string                              // the JSON value of null in a patch; empty: null is refused
	Why   string                              // why it can't be set or, where set is not nil, not be patched
}

// Itself is field.null of a field whose set reads null.
const Itself = "null"

// Fieldset is all fields of a T, at most 64, the frequent ones first.
type Fieldset[T any] []Field[T]

// Decoded is a decoded object with its errors.
type Decoded[T any] struct {
	Value *T     // nil: the body is no object
	Given uint64 // bits of its fields
	Wrong []dispatcher.FieldError
}

// Has reports whether the object has the field of this bit.
func (p *Decoded[T]) Has(bit uint64) bool { return p.Given&bit != 0 }

// Fault records an error of a field.
func (p *Decoded[T]) Fault(path, detail string) {
	p.Wrong = append(p.Wrong, dispatcher.FieldError{Path: path, Detail: detail})
}

// Bit is the bit of a field in Decoded.Given.
func (s Fieldset[T]) Bit(name string) uint64 {
	for i := range s {
		if s[i].Name == name {
			return 1 << i
		}
	}
	panic("no field " + name)
}

// Find returns the index of a field by its quoted name, or -1 and the unknown name.
func (s Fieldset[T]) Find(raw jsontext.Value) (i int, unknown string) {
	name := Unquoted(raw)
	for i := range s {
		if string(name) == s[i].Name { // does not allocate
			return i, ""
		}
	}
	return -1, string(name)
}

// Fill reads an object into to. It ignores a null, because many languages write it for a field
// that is not set.
func (s Fieldset[T]) Fill(d *Decoder, at BatchIndex, to *T) (p Decoded[T]) {
	object, wrong := s.Read(d, at, func(i int, v jsontext.Value) error {
		f := &s[i]
		switch {
		case v.Kind() == 'n' && f.Null != Itself:
			return nil
		case f.Set == nil:
			return errors.New(f.Why)
		}
		p.Given |= 1 << i
		return f.Set(to, v)
	})
	if p.Wrong = wrong; object {
		p.Value = to
	}
	return p
}

// Read reads an object, and calls take with the value of each known field.
func (s Fieldset[T]) Read(d *Decoder, at BatchIndex, take func(i int, v jsontext.Value) error) (object bool, wrong []dispatcher.FieldError) {
	if !d.Object() {
		detail := "must be an object"
		if at == Single {
			detail += " with fields; " + s.known()
		}
		return false, []dispatcher.FieldError{{Path: at.Path(), Detail: detail}}
	}
	for raw := range d.Members() {
		i, unknown := s.Find(raw)
		if i < 0 {
			wrong = append(wrong, dispatcher.FieldError{Path: at.Path() + input.Member(unknown), Detail: "is unknown; " + s.known()})
			d.Skip()
			continue
		}
		v := d.Value()
		if d.Err != nil {
			break
		}
		if err := take(i, v); err != nil {
			wrong = append(wrong, input.FieldAt(at.Path()+input.Member(s[i].Name), err))
		}
	}
	return true, wrong
}

// known lists the fields that a request may have.
func (s Fieldset[T]) known() string {
	var names []string
	for i := range s {
		if s[i].Set != nil || s[i].Why == "" {
			names = append(names, s[i].Name)
		}
	}
	return "known are " + strings.Join(names, ", ")
}

// Decoder reads bodies by tokens. It rejects a whole body that is not strict JSON. This
// includes a repeated name in an object, invalid UTF-8, and anything after the value. After a
// field of the wrong kind it continues, so that a caller learns of all mistakes at once.
type Decoder struct {
	dec *jsontext.Decoder
	Err error // the first one; after it nothing is read
}

var decoders = sync.Pool{New: func() any { return &Decoder{dec: jsontext.NewDecoder(new(bytes.Buffer))} }}

// Reset makes the decoder read another text from its start.
func (d *Decoder) Reset(text *bytes.Buffer) {
	d.dec.Reset(text)
	d.Err = nil
}

// Object reports whether an object comes next. It skips any other value.
func (d *Decoder) Object() bool {
	if d.dec.PeekKind() == '{' {
		return true
	}
	d.Skip()
	return false
}

// Members iterates over the quoted names of an object. The loop reads or skips the value of
// each.
func (d *Decoder) Members() iter.Seq[jsontext.Value] {
	return func(yield func(name jsontext.Value) bool) {
		d.Token()
		for d.Err == nil && d.dec.PeekKind() == '"' {
			if name := d.Value(); d.Err != nil || !yield(name) {
				return
			}
		}
		d.Token()
	}
}

// Value reads a value, which is valid until the next read.
func (d *Decoder) Value() (v jsontext.Value) {
	if d.Err == nil {
		v, d.Err = d.dec.ReadValue()
	}
	return v
}

// Skip skips a value.
func (d *Decoder) Skip() {
	if d.Err == nil {
		d.Err = d.dec.SkipValue()
	}
}

// Token reads a brace or a bracket, or fails on anything else.
func (d *Decoder) Token() {
	if d.Err == nil {
		_, d.Err = d.dec.ReadToken()
	}
}

// End returns an error if anything but space follows.
func (d *Decoder) End() {
	if d.Err != nil {
		return
	}
	switch _, err := d.dec.ReadToken(); {
	case err == nil:
		d.Err = errTrailing
	case !errors.Is(err, io.EOF):
		d.Err = err
	}
}

var errTrailing = errors.New("not JSON: something follows the value")

// MalformedJSON returns a problem for an error of the decoder.
func MalformedJSON(err error) error {
	if err == nil {
		return nil
	}
	var syntax *jsontext.SyntacticError
	cure := ""
	if errors.As(err, &syntax) {
		at := syntax.JSONPointer
		if errors.Is(err, jsontext.ErrDuplicateName) {
			at = at.Parent() // the object
		}
		if insideBody(at) {
			cure = otherBody
		}
	}
	switch {
	case errors.Is(err, io.EOF):
		return &Problem{Kind: Malformed, Detail: "the body is empty: a JSON object is needed"}
	case syntax == nil:
		return &Problem{Kind: Malformed, Detail: err.Error()}
	case errors.Is(err, jsontext.ErrDuplicateName):
		return &Problem{Kind: Malformed, Detail: fmt.Sprintf("not JSON as accepted here: the name %s is there twice in one object, at %s%s",
			input.Clip(syntax.JSONPointer.LastToken()), input.Clip(string(syntax.JSONPointer)), cure)}
	case syntax.Err == nil:
		return &Problem{Kind: Malformed, Detail: fmt.Sprintf("not JSON after byte %d%s", syntax.ByteOffset, cure)}
	default:
		return &Problem{Kind: Malformed, Detail: fmt.Sprintf("not JSON after byte %d: %v%s", syntax.ByteOffset, syntax.Err, cure)}
	}
}

// otherBody names the way out for a body that can't be a value of the request's JSON.
const otherBody = "; raw_body sends any text as it is, and raw_body_base64 any bytes"

// insideBody reports whether a place is the body of a message, or in it.
func insideBody(at jsontext.Pointer) bool {
	const one, several = jsontext.Pointer("/body"), jsontext.Pointer("/messages")
	if several.Contains(at) {
		steps := strings.SplitN(string(at), "/", 5) // "", messages, its position, body, the rest
		return len(steps) > 3 && steps[3] == "body"
	}
	return one.Contains(at)
}

// TooDeep returns the error of a body that nests too deep.
func TooDeep() error { return fmt.Errorf("nests deeper than %d%s", MaxDepth, otherBody) }

// Unquoted returns a quoted text without the quotes. It copies the text only if there are
// escapes.
func Unquoted(raw jsontext.Value) []byte {
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

// Nests reports whether a JSON value nests deeper than maxDepth.
func Nests(value []byte) bool {
	if bytes.Count(value, []byte{'{'})+bytes.Count(value, []byte{'['}) <= MaxDepth {
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
			if depth++; depth > MaxDepth {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}

// BatchIndex is the index of a message in a batch, or Single.
type BatchIndex int

// Single is a message that is not in a batch.
const Single BatchIndex = -1

// Path returns the JSON path of the message. It is built only for errors.
func (at BatchIndex) Path() string {
	if at == Single {
		return "$"
	}
	return "$.messages[" + strconv.Itoa(int(at)) + "]"
}

// DecoderOf returns a decoder for another text.
func DecoderOf(text []byte) *Decoder {
	return &Decoder{dec: jsontext.NewDecoder(bytes.NewReader(text))}
}

// Peek returns the kind of the next token.
func (d *Decoder) Peek() jsontext.Kind { return d.dec.PeekKind() }

// Lend takes a decoder of a text from the pool until the caller calls free.
func Lend(text []byte) *Decoder {
	d := decoders.Get().(*Decoder)
	d.Reset(bytes.NewBuffer(text))
	return d
}

// Free returns a decoder to the pool.
func (d *Decoder) Free() { decoders.Put(d) }
