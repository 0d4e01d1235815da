package httpapi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/hookladder/hookladder/dispatcher"
)

const (
	// maxDepth is how deep a body may nest: far above what anybody means, far
	// below what breaks the parsers of receivers.
	maxDepth = 64
	// maxBatch is the most messages in one call, as the contract says.
	maxBatch = 1000
)

// batchIndex is where a message stands: in the list of a batch, or alone.
type batchIndex int

const single batchIndex = -1

// path is made only where something is wrong.
func (at batchIndex) path() string {
	if at == single {
		return "$"
	}
	return "$.messages[" + strconv.Itoa(int(at)) + "]"
}

// decoded is a message as decoded: what it says, and what is wrong with it.
type decoded struct {
	at    batchIndex
	msg   *dispatcher.Message // nil where there is no object
	seen  uint32              // bits of the fields that were given
	wrong []dispatcher.FieldError
}

// decoder reads publishes by tokens. A text that is not strict JSON (a name
// twice in one object, bytes that are not UTF-8, anything after the value) is
// malformed as a whole; a field of the wrong kind is noted and the rest read
// on, so that a caller learns of all mistakes at once.
type decoder struct {
	dec *jsontext.Decoder
}

var decoders = sync.Pool{New: func() any { return &decoder{dec: jsontext.NewDecoder(new(bytes.Buffer))} }}

// decodeMessage reads the body of POST /v1/messages.
func decodeMessage(buf *bytes.Buffer) (decoded, error) {
	d := decoders.Get().(*decoder)
	defer decoders.Put(d)
	d.dec.Reset(buf)
	p, err := d.message(single)
	if err == nil {
		err = d.end()
	}
	return p, malformedJSON(err)
}

// decodeBatch reads the body of POST /v1/messages/batch. The second answer is
// what is wrong with the envelope; then nothing of it counts.
func decodeBatch(buf *bytes.Buffer) ([]decoded, []dispatcher.FieldError, error) {
	d := decoders.Get().(*decoder)
	defer decoders.Put(d)
	d.dec.Reset(buf)
	all, wrong, err := d.batch()
	if err == nil {
		err = d.end()
	}
	return all, wrong, malformedJSON(err)
}

func (d *decoder) batch() (all []decoded, wrong []dispatcher.FieldError, err error) {
	if d.dec.PeekKind() != '{' {
		return nil, []dispatcher.FieldError{{Path: "$", Detail: "must be an object"}}, d.dec.SkipValue()
	}
	if _, err := d.dec.ReadToken(); err != nil {
		return nil, nil, err
	}
	given := false
	for d.dec.PeekKind() == '"' {
		name, err := d.dec.ReadToken()
		if err != nil {
			return nil, nil, err
		}
		switch text := name.String(); {
		case text != "messages":
			if len(wrong) < maxFaults {
				wrong = append(wrong, dispatcher.FieldError{Path: "$" + member(text), Detail: "is unknown"})
			}
			err = d.dec.SkipValue()
		case d.dec.PeekKind() != '[':
			given = true
			wrong = append(wrong, dispatcher.FieldError{Path: "$.messages", Detail: "must be a list"})
			err = d.dec.SkipValue()
		default:
			given = true
			all, err = d.messages()
		}
		if err != nil {
			return nil, nil, err
		}
	}
	if _, err := d.dec.ReadToken(); err != nil { // the brace, or what stands in its place
		return nil, nil, err
	}
	if len(wrong) == 0 && (!given || len(all) == 0 || len(all) > maxBatch) {
		wrong = append(wrong, dispatcher.FieldError{Path: "$.messages", Detail: "must have 1 to 1000 messages"})
	}
	return all, wrong, nil
}

// messages reads the list of a batch. Of what is too many, it keeps nothing.
func (d *decoder) messages() (all []decoded, err error) {
	if _, err := d.dec.ReadToken(); err != nil {
		return nil, err
	}
	for n := 0; ; n++ {
		switch kind := d.dec.PeekKind(); {
		case kind == ']':
			_, err := d.dec.ReadToken()
			return all, err
		case n > maxBatch:
			err = d.dec.SkipValue()
		default:
			var p decoded
			p, err = d.message(batchIndex(n))
			all = append(all, p)
		}
		if err != nil {
			return nil, err
		}
	}
}

// message reads one message. A value that is no object is skipped.
func (d *decoder) message(at batchIndex) (decoded, error) {
	p := decoded{at: at}
	if d.dec.PeekKind() != '{' {
		p.fault("", "must be an object")
		return p, d.dec.SkipValue()
	}
	if _, err := d.dec.ReadToken(); err != nil {
		return p, err
	}
	p.msg = &dispatcher.Message{}
	for d.dec.PeekKind() == '"' {
		raw, err := d.dec.ReadValue()
		if err != nil {
			return p, err
		}
		f, name := findField(raw)
		if f == nil {
			p.fault(name, "is unknown")
			if err := d.dec.SkipValue(); err != nil {
				return p, err
			}
			continue
		}
		value, err := d.dec.ReadValue()
		if err != nil {
			return p, err
		}
		if value.Kind() == 'n' && f.bit != bitBody {
			continue // left out: many languages write what is not set as null
		}
		p.seen |= f.bit
		if err := f.set(p.msg, value); err != nil {
			p.wrong = append(p.wrong, faultAt(p.at.path()+member(f.name), err))
		}
	}
	if _, err := d.dec.ReadToken(); err != nil {
		return p, err
	}
	p.together()
	return p, nil
}

// fault notes that something is wrong with a field.
func (p *decoded) fault(name, detail string) {
	path := p.at.path()
	if name != "" {
		path += member(name)
	}
	p.wrong = append(p.wrong, dispatcher.FieldError{Path: path, Detail: detail})
}

// together checks what only several fields can be wrong about, and fills in
// what follows from others.
func (p *decoded) together() {
	switch bodies := p.seen & (bitBody | bitRawBody | bitRawBodyBase64); {
	case bodies == 0:
		p.msg.ContentType = mediaJSON // it is not what is wrong
		p.fault("body", "one of body, raw_body and raw_body_base64 is needed")
	case bodies&(bodies-1) != 0:
		p.msg.ContentType = mediaJSON
		p.fault("body", "give one of body, raw_body and raw_body_base64, not several; null is a body")
	case p.seen&bitContentType != 0:
	case bodies == bitBody:
		p.msg.ContentType = mediaJSON
	case bodies == bitRawBody:
		p.msg.ContentType = "text/plain; charset=utf-8"
	default:
		p.msg.ContentType = "application/octet-stream"
	}
	if p.seen&bitDelay != 0 && p.seen&bitDeliverAt != 0 {
		p.fault("delay", "give delay or deliver_at, not both")
	}
}

// end makes sure that nothing but space follows.
func (d *decoder) end() error {
	_, err := d.dec.ReadToken()
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case err == nil:
		return errTrailing
	default:
		return err
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
