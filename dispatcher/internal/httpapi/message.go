package httpapi

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/api"
	"github.com/hookladder/hookladder/dispatcher/internal/input"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// maxBatch is the highest number of messages in one call, as in the contract.
const maxBatch = 1000

// decodedMessage is a message of a publish.
type decodedMessage = api.Decoded[dispatcher.Message]

// messageFields lists all fields of the contract.
var messageFields = api.Fieldset[dispatcher.Message]{
	{Name: "topic", Set: func(m *dispatcher.Message, v jsontext.Value) error { return api.Text(&m.Topic, v) }},
	{Name: "url", Set: func(m *dispatcher.Message, v jsontext.Value) error { return api.Filled(&m.URL, v) }},
	{Name: "body", Set: setBody, Null: api.Itself},
	{Name: "id", Set: func(m *dispatcher.Message, v jsontext.Value) error { return api.Text(&m.ID, v) }},
	{Name: "tenant", Set: func(m *dispatcher.Message, v jsontext.Value) error { return api.Filled(&m.Tenant, v) }},
	{Name: "subject", Set: func(m *dispatcher.Message, v jsontext.Value) error { return api.Filled(&m.Subject, v) }},
	{Name: "raw_body", Set: setRawBody},
	{Name: "raw_body_base64", Set: setRawBodyBase64},
	{Name: "content_type", Set: func(m *dispatcher.Message, v jsontext.Value) error { return api.Text(&m.ContentType, v) }},
	{Name: "delay", Set: func(m *dispatcher.Message, v jsontext.Value) error { return api.Duration(&m.Delay, v) }},
	{Name: "deliver_at", Set: func(m *dispatcher.Message, v jsontext.Value) error { return api.Moment(&m.DeliverAt, v) }},
	{Name: "expires_at", Set: func(m *dispatcher.Message, v jsontext.Value) error { return api.Moment(&m.ExpiresAt, v) }},
	{Name: "headers", Set: setHeaders},
	{Name: "ladder", Set: func(m *dispatcher.Message, v jsontext.Value) error { return api.Rungs(&m.Ladder, v) }},
	{Name: "max_attempts", Set: setMaxAttempts},
	{Name: "timeout", Set: func(m *dispatcher.Message, v jsontext.Value) error { return api.Timeout(&m.Timeout, v) }},
	{Name: "success", Set: func(m *dispatcher.Message, v jsontext.Value) error { return api.SuccessRule(&m.Success, v) }},
	{Name: "endpoint", Set: func(m *dispatcher.Message, v jsontext.Value) error { return api.Filled(&m.Endpoint, v) }},
	{Name: "ordering_key", Set: func(m *dispatcher.Message, v jsontext.Value) error { return api.Filled(&m.OrderingKey, v) }},
	{Name: "require_match", Set: func(m *dispatcher.Message, v jsontext.Value) error { return api.Boolean(&m.RequireMatch, v) }},
	{Name: "queue", Set: func(m *dispatcher.Message, v jsontext.Value) error { return api.Filled(&m.Queue, v) }},
}

// These fields differ between a missing and an empty value.
var (
	bitBody          = messageFields.Bit("body")
	bitRawBody       = messageFields.Bit("raw_body")
	bitRawBodyBase64 = messageFields.Bit("raw_body_base64")
	bitContentType   = messageFields.Bit("content_type")
	bitDelay         = messageFields.Bit("delay")
	bitDeliverAt     = messageFields.Bit("deliver_at")
	bitID            = messageFields.Bit("id")
)

// decodeMessage parses the body of POST /v1/messages.
func decodeMessage(d *api.Decoder) (p decodedMessage) {
	if d.Peek() == '[' {
		d.Skip()
		p.Fault("$", "must be an object: one message. POST /v1/messages/batch accepts several, as {\"messages\":[…]}")
		return p
	}
	return decodeAt(d, api.Single)
}

// batch is the body of POST /v1/messages/batch.
type batch struct {
	messages []decodedMessage
	wrong    []dispatcher.FieldError // errors in the surrounding object: then no message is accepted
}

func decodeBatch(d *api.Decoder) (b batch) {
	if !d.Object() {
		b.fault("$", "must be an object with the list in a field: {\"messages\":[…]}")
		return b
	}
	for raw := range d.Members() {
		name := string(api.Unquoted(raw))
		switch {
		case name == "messages" && d.Peek() == '[':
			b.messages = decodeMessages(d)
			continue
		case name == "messages":
			b.fault("$.messages", "must be a list")
		case len(b.wrong) < api.MaxFaults:
			b.fault("$"+input.Member(name), "is unknown; known is messages, the list of them")
		}
		d.Skip()
	}
	if len(b.wrong) == 0 && (len(b.messages) == 0 || len(b.messages) > maxBatch) {
		b.fault("$.messages", "must have 1 to 1000 messages")
	}
	return b
}

func (b *batch) fault(path, detail string) {
	b.wrong = append(b.wrong, dispatcher.FieldError{Path: path, Detail: detail})
}

// decodeMessages parses the list of a batch, and skips messages beyond the limit.
func decodeMessages(d *api.Decoder) (all []decodedMessage) {
	d.Token()
	for n := 0; d.Err == nil && d.Peek() != ']'; n++ {
		if n > maxBatch {
			d.Skip()
			continue
		}
		all = append(all, decodeAt(d, api.BatchIndex(n)))
	}
	d.Token()
	return all
}

// decodeAt parses one message.
func decodeAt(d *api.Decoder, at api.BatchIndex) decodedMessage {
	p := messageFields.Fill(d, at, &dispatcher.Message{})
	complete(&p, at)
	return p
}

// complete checks fields that depend on each other, and sets defaults.
func complete(p *decodedMessage, at api.BatchIndex) {
	if p.Value == nil {
		return
	}
	switch bodies := p.Given & (bitBody | bitRawBody | bitRawBodyBase64); {
	case bodies == 0:
		p.Value.ContentType = api.MediaJSON // otherwise there would be another error about it
		p.Fault(at.Path()+".body", "one of body, raw_body and raw_body_base64 is needed")
	case bodies&(bodies-1) != 0:
		p.Value.ContentType = api.MediaJSON
		p.Fault(at.Path()+".body", "give one of body, raw_body and raw_body_base64, not several; null is a body")
	case p.Has(bitContentType):
	case bodies == bitBody:
		p.Value.ContentType = api.MediaJSON
	case bodies == bitRawBody:
		p.Value.ContentType = "text/plain; charset=utf-8"
	default:
		p.Value.ContentType = "application/octet-stream"
	}
	if p.Has(bitDelay) && p.Has(bitDeliverAt) {
		p.Fault(at.Path()+".delay", "give delay or deliver_at, not both")
	}
}

// setBody keeps the value byte for byte.
func setBody(m *dispatcher.Message, v jsontext.Value) error {
	if api.Nests(v) {
		return api.TooDeep()
	}
	m.Body = bytes.Clone(v)
	return nil
}

func setRawBody(m *dispatcher.Message, v jsontext.Value) error {
	if v.Kind() != '"' {
		return api.ErrText
	}
	var err error
	m.Body, err = jsontext.AppendUnquote(make([]byte, 0, len(v)), v)
	if len(m.Body) < cap(m.Body)/2 { // an escape takes up to six bytes for one, and the engine must not keep that unused memory
		m.Body = bytes.Clone(m.Body)
	}
	return err
}

func setRawBodyBase64(m *dispatcher.Message, v jsontext.Value) error {
	var coded string
	if err := api.Text(&coded, v); err != nil {
		return err
	}
	body, err := base64.StdEncoding.Strict().DecodeString(coded)
	if err != nil || base64.StdEncoding.EncodedLen(len(body)) != len(coded) { // the decoder ignores line ends
		return errors.New("must be base64 with padding")
	}
	m.Body = body
	return nil
}

// setHeaders parses an object of texts, in its order.
func setHeaders(m *dispatcher.Message, v jsontext.Value) error {
	all, err := api.HeaderTexts(v, dispatcher.MaxHeaders)
	if err != nil {
		return err
	}
	for _, t := range all {
		if !t.Null { // null omits the header
			m.Headers = append(m.Headers, dispatcher.Header{Name: t.Name, Value: t.Text})
		}
	}
	return nil
}

// setMaxAttempts parses a number. It refuses 0, because 0 means no limit internally.
func setMaxAttempts(m *dispatcher.Message, v jsontext.Value) error {
	n, ok := api.Whole(v)
	if !ok || n < 1 || n > 101 {
		return errors.New("must be a whole number of 1 to 101")
	}
	m.MaxAttempts = n
	return nil
}

// wireMessage returns a message for a response, without its body. It hides the values of the
// headers, because they may be secret.
func wireMessage(r dispatcher.MessageView) wire.MessageView {
	m := &r.Message
	w := wire.MessageView{
		Message: wire.Message{
			ID: m.ID, Topic: m.Topic, Tenant: m.Tenant, Subject: m.Subject, URL: m.URL, Endpoint: m.Endpoint, Queue: m.Queue,
			OrderingKey: m.OrderingKey,
			ContentType: m.ContentType,
			Delay:       wire.Duration(m.Delay),
			DeliverAt:   wire.Time{Time: m.DeliverAt},
			ExpiresAt:   wire.Time{Time: m.ExpiresAt},
			Ladder:      m.Ladder,
			MaxAttempts: m.MaxAttempts,
			Timeout:     wire.Duration(m.Timeout),
			Success:     api.Success(m.Success),
		},
		CreatedAt:  wire.Time{Time: m.CreatedAt},
		Deliveries: api.Convert(r.Deliveries, api.Delivery),
		Incomplete: r.Incomplete,
	}
	if len(m.Headers) > 0 {
		w.Headers = make(map[string]string, len(m.Headers))
		for _, h := range m.Headers {
			w.Headers[h.Name] = wire.Hidden
		}
	}
	return w
}

// setWireBody sets a body as JSON, text or base64.
func setWireBody(w *wire.Message, m *dispatcher.Message) {
	switch {
	case api.IsJSON(m.ContentType) && utf8.Valid(m.Body) && json.Valid(m.Body):
		w.Body = m.Body
	case utf8.Valid(m.Body):
		text := string(m.Body)
		w.RawBody = &text
	default:
		w.RawBodyBase64 = m.Body
	}
}
