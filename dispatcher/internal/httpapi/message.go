package httpapi

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/fields"
	"github.com/hookladder/hookladder/dispatcher/success"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// maxBatch is the most messages in one call, as the contract says.
const maxBatch = 1000

// batchIndex is the place of a message in a batch, or single.
type batchIndex int

const single batchIndex = -1

// path is the JSON path of the message. It is made only for errors.
func (at batchIndex) path() string {
	if at == single {
		return "$"
	}
	return "$.messages[" + strconv.Itoa(int(at)) + "]"
}

// decodedMessage is a message of a publish.
type decodedMessage = decoded[dispatcher.Message]

// messageFields are all fields of the contract.
var messageFields = fieldset[dispatcher.Message]{
	{name: "topic", set: func(m *dispatcher.Message, v jsontext.Value) error { return text(&m.Topic, v) }},
	{name: "url", set: func(m *dispatcher.Message, v jsontext.Value) error { return filled(&m.URL, v) }},
	{name: "body", set: setBody, null: itself},
	{name: "id", set: func(m *dispatcher.Message, v jsontext.Value) error { return text(&m.ID, v) }},
	{name: "tenant", set: func(m *dispatcher.Message, v jsontext.Value) error { return filled(&m.Tenant, v) }},
	{name: "subject", set: func(m *dispatcher.Message, v jsontext.Value) error { return filled(&m.Subject, v) }},
	{name: "raw_body", set: setRawBody},
	{name: "raw_body_base64", set: setRawBodyBase64},
	{name: "content_type", set: func(m *dispatcher.Message, v jsontext.Value) error { return text(&m.ContentType, v) }},
	{name: "delay", set: func(m *dispatcher.Message, v jsontext.Value) error { return duration(&m.Delay, v) }},
	{name: "deliver_at", set: func(m *dispatcher.Message, v jsontext.Value) error { return moment(&m.DeliverAt, v) }},
	{name: "expires_at", set: func(m *dispatcher.Message, v jsontext.Value) error { return moment(&m.ExpiresAt, v) }},
	{name: "headers", set: setHeaders},
	{name: "ladder", set: func(m *dispatcher.Message, v jsontext.Value) error { return rungs(&m.Ladder, v) }},
	{name: "max_attempts", set: setMaxAttempts},
	{name: "timeout", set: func(m *dispatcher.Message, v jsontext.Value) error { return timeout(&m.Timeout, v) }},
	{name: "success", set: func(m *dispatcher.Message, v jsontext.Value) error { return successRule(&m.Success, v) }},
	{name: "endpoint", set: func(m *dispatcher.Message, v jsontext.Value) error { return filled(&m.Endpoint, v) }},
	{name: "ordering_key", set: func(m *dispatcher.Message, v jsontext.Value) error { return filled(&m.OrderingKey, v) }},
	{name: "require_match", set: func(m *dispatcher.Message, v jsontext.Value) error { return boolean(&m.RequireMatch, v) }},
	{name: "queue", set: func(m *dispatcher.Message, v jsontext.Value) error { return filled(&m.Queue, v) }},
}

// Fields of which it matters whether they are given.
var (
	bitBody          = messageFields.bit("body")
	bitRawBody       = messageFields.bit("raw_body")
	bitRawBodyBase64 = messageFields.bit("raw_body_base64")
	bitContentType   = messageFields.bit("content_type")
	bitDelay         = messageFields.bit("delay")
	bitDeliverAt     = messageFields.bit("deliver_at")
	bitID            = messageFields.bit("id")
)

// decodeMessage reads the body of POST /v1/messages.
func decodeMessage(d *decoder) decodedMessage { return d.message(single) }

// batch is the body of POST /v1/messages/batch.
type batch struct {
	messages []decodedMessage
	wrong    []dispatcher.FieldError // with the object around them: then no message is taken
}

func decodeBatch(d *decoder) (b batch) {
	if !d.object() {
		b.fault("$", "must be an object")
		return b
	}
	for raw := range d.members() {
		name := string(unquoted(raw))
		switch {
		case name == "messages" && d.dec.PeekKind() == '[':
			b.messages = d.messages()
			continue
		case name == "messages":
			b.fault("$.messages", "must be a list")
		case len(b.wrong) < maxFaults:
			b.fault("$"+fields.Member(name), "is unknown")
		}
		d.skip()
	}
	if len(b.wrong) == 0 && (len(b.messages) == 0 || len(b.messages) > maxBatch) {
		b.fault("$.messages", "must have 1 to 1000 messages")
	}
	return b
}

func (b *batch) fault(path, detail string) {
	b.wrong = append(b.wrong, dispatcher.FieldError{Path: path, Detail: detail})
}

// messages reads the list of a batch, and skips what is far too many.
func (d *decoder) messages() (all []decodedMessage) {
	d.token()
	for n := 0; d.err == nil && d.dec.PeekKind() != ']'; n++ {
		if n > maxBatch {
			d.skip()
			continue
		}
		all = append(all, d.message(batchIndex(n)))
	}
	d.token()
	return all
}

// message reads one message.
func (d *decoder) message(at batchIndex) decodedMessage {
	p := messageFields.fill(d, at, &dispatcher.Message{})
	complete(&p, at)
	return p
}

// complete checks fields that depend on each other, and fills in defaults.
func complete(p *decodedMessage, at batchIndex) {
	if p.value == nil {
		return
	}
	switch bodies := p.given & (bitBody | bitRawBody | bitRawBodyBase64); {
	case bodies == 0:
		p.value.ContentType = mediaJSON // so that no error is about it
		p.fault(at.path()+".body", "one of body, raw_body and raw_body_base64 is needed")
	case bodies&(bodies-1) != 0:
		p.value.ContentType = mediaJSON
		p.fault(at.path()+".body", "give one of body, raw_body and raw_body_base64, not several; null is a body")
	case p.has(bitContentType):
	case bodies == bitBody:
		p.value.ContentType = mediaJSON
	case bodies == bitRawBody:
		p.value.ContentType = "text/plain; charset=utf-8"
	default:
		p.value.ContentType = "application/octet-stream"
	}
	if p.has(bitDelay) && p.has(bitDeliverAt) {
		p.fault(at.path()+".delay", "give delay or deliver_at, not both")
	}
}

// setBody keeps the value byte for byte.
func setBody(m *dispatcher.Message, v jsontext.Value) error {
	if nests(v) {
		return fmt.Errorf("nests deeper than %d", maxDepth)
	}
	m.Body = bytes.Clone(v)
	return nil
}

func setRawBody(m *dispatcher.Message, v jsontext.Value) error {
	if v.Kind() != '"' {
		return errText
	}
	var err error
	m.Body, err = jsontext.AppendUnquote(make([]byte, 0, len(v)), v)
	if len(m.Body) < cap(m.Body)/2 { // escapes take up to six bytes for one: the engine must not keep the room of them
		m.Body = bytes.Clone(m.Body)
	}
	return err
}

func setRawBodyBase64(m *dispatcher.Message, v jsontext.Value) error {
	var coded string
	if err := text(&coded, v); err != nil {
		return err
	}
	body, err := base64.StdEncoding.Strict().DecodeString(coded)
	if err != nil || base64.StdEncoding.EncodedLen(len(body)) != len(coded) { // the decoder ignores line ends
		return errors.New("must be base64 with padding")
	}
	m.Body = body
	return nil
}

// setHeaders reads an object of texts, in its order.
func setHeaders(m *dispatcher.Message, v jsontext.Value) error {
	all, err := texts(v)
	if err != nil {
		return err
	}
	for _, t := range all {
		if !t.null { // else it is left out
			m.Headers = append(m.Headers, dispatcher.Header{Name: t.name, Value: t.text})
		}
	}
	return nil
}

// setMaxAttempts reads a number. 0 is refused, since inside it means no limit.
func setMaxAttempts(m *dispatcher.Message, v jsontext.Value) error {
	n, err := strconv.Atoi(string(v))
	if err != nil || n < 1 || n > 101 {
		return errors.New("must be a whole number of 1 to 101")
	}
	m.MaxAttempts = n
	return nil
}

// wireMessage is a message as it is answered, without its body. The values of its
// headers may be secret.
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
			Success:     wireSuccess(m.Success),
		},
		CreatedAt:  wire.Time{Time: m.CreatedAt},
		Deliveries: convert(r.Deliveries, wireDelivery),
	}
	if len(m.Headers) > 0 {
		w.Headers = make(map[string]string, len(m.Headers))
		for _, h := range m.Headers {
			w.Headers[h.Name] = wire.Hidden
		}
	}
	return w
}

// wireSuccess is what a receiver must answer. Where it is broken in the store, the
// rest of an answer is still shown.
func wireSuccess(s *success.Rule) *wire.Success {
	if s == nil {
		return nil
	}
	w := new(wire.Success)
	_ = json.Unmarshal([]byte(s.String()), w) // without compiling its patterns
	return w
}

// isJSON reports whether a content type is one of JSON.
func isJSON(contentType string) bool {
	media, _, _ := strings.Cut(contentType, ";")
	media = strings.ToLower(strings.TrimSpace(media))
	return media == mediaJSON || strings.HasSuffix(media, "+json")
}

// setWireBody shows a body as JSON, text or base64.
func setWireBody(w *wire.Message, m *dispatcher.Message) {
	switch {
	case isJSON(m.ContentType) && utf8.Valid(m.Body) && json.Valid(m.Body):
		w.Body = m.Body
	case utf8.Valid(m.Body):
		text := string(m.Body)
		w.RawBody = &text
	default:
		w.RawBodyBase64 = m.Body
	}
}

// Listed is a delivery as every list shows it.
func Listed(d *dispatcher.Delivery) wire.Delivery {
	w := wireDelivery(d)
	w.History = nil
	return w
}

// wireDelivery is a delivery as its message shows it.
func wireDelivery(d *dispatcher.Delivery) wire.Delivery {
	w := wire.Delivery{
		DeliveryRef: wire.DeliveryRef{
			ID: d.ID.String(), Destination: string(d.ID.Lane), URL: d.URL,
			Status: string(d.Status), NextAttemptAt: wire.Time{Time: d.Due}, EndedAt: wire.Time{Time: d.Ended},
		},
		MessageID: d.ID.Message, CreatedAt: wire.Time{Time: d.Created}, Topic: d.Topic, Tenant: d.Tenant, Subject: d.Subject,
		Attempts:       d.Attempts,
		LastStatusCode: d.LastStatus,
		LastError:      strings.ToValidUTF8(d.LastError, "�"),
		Rung:           d.Rung(), LadderFrom: d.LadderFrom, Ladder: d.Ladder,
		WaitingFor:    d.WaitingFor,
		WaitingUntil:  wire.Time{Time: d.WaitingUntil},
		WaitingBehind: d.WaitingBehind,
		DeliveredAt:   wire.Time{Time: d.Delivered},
	}
	switch d.Status {
	case dispatcher.StatusDead:
		w.DeadReason = string(d.Reason)
	case dispatcher.StatusReady:
		w.NextAttemptAt = wire.Time{} // only some lists know when it became due
	}
	if len(d.History) > 0 {
		w.History = convert(d.History, wireAttempt)
	}
	return w
}

func wireAttempt(a *dispatcher.Attempt) wire.Attempt {
	return wire.Attempt{
		Attempt: a.Number, At: wire.Time{Time: a.At}, DurationMS: a.Duration.Milliseconds(),
		StatusCode: a.Status, Outcome: a.Verdict.String(), Class: string(a.Class),
		URL: a.URL, Address: a.Address, Resend: a.Resend,
		Error:           strings.ToValidUTF8(a.Error, "�"),
		ResponseExcerpt: strings.ToValidUTF8(string(a.Excerpt), "�"),
		NextAttemptAt:   wire.Time{Time: a.Next},
	}
}
