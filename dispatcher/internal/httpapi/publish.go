package httpapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/api"
	"github.com/hookladder/hookladder/dispatcher/internal/input"
	"github.com/hookladder/hookladder/dispatcher/trace"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// Publisher accepts messages.
type Publisher interface {
	// Publish accepts a batch and returns one Published for each message, in order. A failure of
	// one message is the Err of its Published. Publish may keep the messages, and it replaces the
	// uid of an endpoint by its id.
	Publish(ctx context.Context, batch []*dispatcher.Message) ([]dispatcher.Published, error)
}

// batchBytes limits the request of a batch, as in the contract.
const batchBytes = 4 << 20

// envelope limits the fields of a single message without its body.
const envelope = 64 << 10

// answerBytes is the size of a response about a message to one destination with a typical URL.
// The buffer grows for a longer one.
const answerBytes = 512

// escaped is the highest number of JSON bytes for one byte of a body: \u0001. Base64 takes less,
// unless its letters are escaped.
const escaped = 6

// SingleBytes returns the limit of the request of one message whose body has at most maxBody
// bytes. It allows the longest form in JSON. The limit is at most half of the budget, because one
// key may take only that.
func SingleBytes(maxBody int, budget int64) int64 {
	return max(PlainBytes(maxBody), min(int64(maxBody)*escaped+envelope, budget/2-api.FirstBody))
}

// PlainBytes returns the size of such a request if the body is base64, or JSON without escapes.
// This size is always accepted, with any budget.
func PlainBytes(maxBody int) int64 { return int64(maxBody)*4/3 + envelope }

// publish serves POST /v1/messages.
func (s *server) publish(ctx context.Context, q *api.Request, t publishTrace) (*api.Response, error) {
	p, err := api.Decode(q, decodeMessage)
	if err != nil {
		return nil, err
	}
	takeKey(&p, q.HTTP.Header["Idempotency-Key"])
	if bad := judge(&p, api.Single, s.o.Policy); bad != nil {
		return nil, bad
	}
	q.Writer.Handed = true
	m := p.Value
	m.Trace = t.kept
	results, err := s.o.Publisher.Publish(ctx, []*dispatcher.Message{m})
	if err != nil {
		return nil, err
	}
	if len(results) != 1 {
		return nil, fmt.Errorf("publish %s: %d results for one message", m.ID, len(results))
	}
	t.note(m, &results[0])
	if err := refused(&results[0], api.Single); err != nil {
		return nil, err
	}
	buf := api.Borrow(answerBytes)
	_, _ = buf.Write(append(appendPublished(append(buf.AvailableBuffer(), '{'), m, &results[0], q.Reads), '}'))
	return &api.Response{Status: publishedStatus(&results[0]), ContentType: api.MediaJSON, Body: buf.Bytes(), Borrowed: buf}, nil
}

const (
	// longestKey is the highest number of characters of an Idempotency-Key, as in the contract.
	longestKey = 255
	// keyPrefix and keyDigits make an id from a key that is no valid id.
	keyPrefix = "idk_"
	keyDigits = 32
)

// takeKey sets the id from the header Idempotency-Key, if the message has none.
func takeKey(p *decodedMessage, given []string) {
	if p.Value == nil || len(given) == 0 || p.Has(bitID) {
		return
	}
	id, wrong := idOfKey(given)
	if wrong != "" {
		p.Fault("header.Idempotency-Key", wrong)
	}
	p.Value.ID = id
	p.Given |= bitID
}

// idOfKey returns the id for an Idempotency-Key, or the error of the key. In the draft of the
// IETF it has quotes, which most callers omit.
func idOfKey(given []string) (id, wrong string) {
	if len(given) > 1 {
		return dispatcher.NewID(), "may be given once"
	}
	key := given[0]
	if n := len(key); n >= 2 && key[0] == '"' && key[n-1] == '"' {
		key = key[1 : n-1]
	}
	printable := utf8.ValidString(key) && !strings.ContainsFunc(key, func(r rune) bool { return !unicode.IsPrint(r) })
	switch {
	case key == "" || !printable || utf8.RuneCountInString(key) > longestKey:
		return dispatcher.NewID(), fmt.Sprintf("must be 1 to %d printable characters", longestKey)
	case dispatcher.ValidID(key):
		return key, ""
	}
	sum := sha256.Sum256([]byte(key))
	return keyPrefix + hex.EncodeToString(sum[:])[:keyDigits], ""
}

// judge sets the id of a message, and returns a problem if it can't be published.
func judge(p *decodedMessage, at api.BatchIndex, policy dispatcher.Policy) *api.Problem {
	m := p.Value
	if m == nil {
		return api.InvalidFields(p.Wrong)
	}
	if !p.Has(bitID) {
		m.ID = dispatcher.NewID()
	}
	if most := policy.MaxBody; len(m.Body) > most {
		return &api.Problem{Kind: api.TooLarge, Detail: fmt.Sprintf("the message's body has %d bytes, at most %d are taken (MAX_BODY): send less, or raise the setting", len(m.Body), most)}
	}
	more := m.Validate(policy)
	if len(more) == 0 && len(p.Wrong) == 0 {
		return nil
	}
	for i := range more {
		more[i].Path = at.Path() + strings.TrimPrefix(more[i].Path, "$")
	}
	return api.InvalidFields(api.JoinErrors(p.Wrong, more))
}

// refused returns the error of a message that the engine did not accept, or nil.
func refused(r *dispatcher.Published, at api.BatchIndex) error {
	switch {
	case errors.Is(r.Err, dispatcher.ErrNoEndpoint), errors.Is(r.Err, dispatcher.ErrTenant):
		// All these errors have one text. Different texts would show a caller which names other
		// tenants use.
		return api.WrongField(at.Path()+".endpoint", "there is no such endpoint of the message's tenant: GET /v1/endpoints lists them")
	case r.Err != nil:
		return r.Err
	case r.Result == dispatcher.Conflict:
		return &api.Problem{Kind: api.Conflict, Detail: conflictDetail(r.Differs)}
	case r.Result == dispatcher.LaneFull:
		return &api.Problem{Kind: api.LaneFull, Detail: "as many deliveries wait for it as ENDPOINT_MAX_WAITING allows; nothing was changed"}
	case r.Result != dispatcher.Accepted && r.Result != dispatcher.Duplicate:
		return fmt.Errorf("publish: no result")
	}
	return nil
}

// conflictDetail returns the differences, if they are known.
func conflictDetail(differs []string) string {
	const cure = "nothing was changed: take another id, or send the same again"
	if len(differs) == 0 {
		return "topic, tenant, destination, body or content_type differ from the first, which is no longer kept whole; " + cure
	}
	return strings.Join(differs, ", ") + " not as in the first; " + cure
}

func publishedStatus(r *dispatcher.Published) int {
	if r.Result == dispatcher.Duplicate || r.Unmatched() { // nothing new was kept
		return http.StatusOK
	}
	return http.StatusAccepted
}

// appendPublished appends the members of wire.Published without the braces. Without reads it
// omits URLs and times. It is written by hand because each publish calls it. Ids, topics and
// lanes were checked, so they need no escapes.
func appendPublished(b []byte, m *dispatcher.Message, r *dispatcher.Published, reads bool) []byte {
	b = appendPlain(append(b, `"id":`...), m.ID)
	b = appendPlain(append(b, `,"topic":`...), m.Topic)
	repeat := r.Result == dispatcher.Duplicate
	known := !repeat || !r.CreatedAt.IsZero()
	if known {
		b = appendTime(append(b, `,"created_at":`...), r.CreatedAt)
	}
	b = strconv.AppendBool(append(b, `,"duplicate":`...), repeat)
	if known {
		b = strconv.AppendInt(append(b, `,"matched":`...), int64(len(r.Deliveries)), 10)
	}
	b = append(b, `,"deliveries":[`...)
	for i := range r.Deliveries {
		d := &r.Deliveries[i]
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"id":"`...)
		b = append(b, d.ID.Lane...)
		b = append(b, ':')
		b = append(b, d.ID.Message...)
		b = appendPlain(append(b, `","destination":`...), string(d.ID.Lane))
		if d.URL != "" && reads {
			b = appendText(append(b, `,"url":`...), d.URL)
		}
		b = appendPlain(append(b, `,"status":`...), string(d.Status))
		if reads {
			b = appendTime(append(b, `,"next_attempt_at":`...), d.Due)
			if !d.Ended.IsZero() {
				b = appendTime(append(b, `,"ended_at":`...), d.Ended)
			}
		}
		b = append(b, '}')
	}
	return append(b, ']')
}

// appendPlain appends a quoted text that needs no escapes.
func appendPlain(b []byte, s string) []byte {
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// appendText appends any text as a quoted string, and replaces bytes that are not UTF-8.
func appendText(b []byte, s string) []byte {
	b, _ = jsontext.AppendQuote(b, s) // the error only reports a replacement
	return b
}

func appendTime(b []byte, t time.Time) []byte {
	return wire.Time{Time: t}.AppendTo(b)
}

// publishTrace is the span of a publish, and the context that its messages keep: the span if it is
// recorded, or else the caller's. So attempts are never linked to a span that no collector has.
type publishTrace struct {
	span trace.Span     // nil: nothing is traced
	kept *trace.Context // nil: the caller has none either
}

// traced serves a call that publishes, in its span.
func (s *server) traced(do func(context.Context, *api.Request, publishTrace) (*api.Response, error)) func(context.Context, *api.Request) (*api.Response, error) {
	return func(ctx context.Context, q *api.Request) (*api.Response, error) {
		ctx, t := s.tracePublish(ctx, q)
		answer, err := do(ctx, q, t)
		t.end(answer, err)
		return answer, err
	}
}

// tracePublish begins the span of a publish, if the program is traced. The caller's traceparent names its
// parent.
func (s *server) tracePublish(ctx context.Context, q *api.Request) (context.Context, publishTrace) {
	if s.o.Tracer == nil {
		return ctx, publishTrace{kept: s.callersTrace(ctx, q)}
	}
	ctx, span := s.o.Tracer.Begin(ctx, q.Span("publish", trace.Send))
	if span.Recorded() {
		c := span.Context()
		return ctx, publishTrace{span: span, kept: &c}
	}
	return ctx, publishTrace{span: span, kept: s.callersTrace(ctx, q)}
}

// end ends the span with the response.
func (t publishTrace) end(answer *api.Response, err error) {
	if t.span != nil {
		status, failed := api.SpanStatus(answer, err)
		t.span.Set(slog.Int(trace.Status, status))
		t.span.End(failed, time.Time{})
	}
}

// callersTrace returns the caller's context, or nil if it has no valid one.
func (s *server) callersTrace(ctx context.Context, q *api.Request) *trace.Context {
	if q.HTTP.Header[trace.Header] == nil {
		return nil
	}
	c := q.TraceParent()
	if c.IsZero() {
		s.o.Log.DebugContext(ctx, "the traceparent of a publish is invalid and was ignored")
		return nil
	}
	return &c
}

// note describes a published message in the span of its publish.
func (t publishTrace) note(m *dispatcher.Message, r *dispatcher.Published) {
	if t.span == nil || !t.span.Recorded() {
		return
	}
	attrs := []slog.Attr{
		slog.String(trace.MessageID, m.ID), slog.Int(trace.BodySize, len(m.Body)), slog.String(trace.Topic, m.Topic), slog.String(trace.Tenant, m.Tenant),
		slog.Int(trace.Deliveries, len(r.Deliveries)),
	}
	if r.Err == nil {
		attrs = append(attrs, slog.String(trace.Outcome, r.Result.String()))
	}
	if len(r.Deliveries) == 1 {
		attrs = append(attrs, slog.String(trace.Destination, string(r.Deliveries[0].ID.Lane)))
	}
	t.span.Set(attrs...)
}

// publishBatch serves POST /v1/messages/batch. The engine gets the valid messages in one call,
// even if others are invalid.
func (s *server) publishBatch(ctx context.Context, q *api.Request, t publishTrace) (*api.Response, error) {
	if q.HTTP.Header["Idempotency-Key"] != nil {
		return nil, api.WrongField("header.Idempotency-Key", "names one message: give each message of a batch its id")
	}
	b, err := api.Decode(q, decodeBatch)
	if err != nil {
		return nil, err
	}
	if err := api.WrongFields(b.wrong); err != nil {
		return nil, err
	}
	o := outcomes{bad: make([]*api.Problem, len(b.messages)), good: make([]*dispatcher.Message, 0, len(b.messages)), reads: q.Reads}
	for i := range b.messages {
		if o.bad[i] = judge(&b.messages[i], api.BatchIndex(i), s.o.Policy); o.bad[i] == nil {
			b.messages[i].Value.Trace = t.kept
			o.good = append(o.good, b.messages[i].Value)
		} else {
			q.Writer.Refusal = o.bad[i]
		}
	}
	if t.span != nil {
		t.span.Set(slog.Int(trace.Messages, len(b.messages)))
	}
	q.Writer.Handed, q.Writer.Refused = true, len(o.bad)-len(o.good)
	if len(o.good) > 0 {
		if o.results, err = s.o.Publisher.Publish(ctx, o.good); err != nil {
			return nil, err
		}
		if len(o.results) != len(o.good) {
			return nil, fmt.Errorf("publish batch: %d results for %d messages", len(o.results), len(o.good))
		}
	}
	buf := api.Borrow(answerBytes * len(o.bad))
	_, _ = buf.Write(s.appendBatch(ctx, buf.AvailableBuffer(), &o))
	if o.refused != nil {
		q.Writer.Refusal = o.refused
	}
	if o.away != nil && !o.taken { // nothing was stored: the response is a problem that contains the results
		defer api.Release(buf)
		body := o.away.Body()
		return o.away.Response(append(append(body[:len(body)-1], ','), buf.Bytes()[1:]...)), nil
	}
	return &api.Response{Status: http.StatusAccepted, ContentType: api.MediaJSON, Body: buf.Bytes(), Borrowed: buf}, nil
}

// outcomes has the results of the messages of a batch.
type outcomes struct {
	bad     []*api.Problem        // one for each message; nil: it is valid
	good    []*dispatcher.Message // messages that the engine got
	results []dispatcher.Published
	reads   bool // the caller has the scope read

	taken   bool         // one result is 200 or 202
	refused *api.Problem // of one that the engine refused; nil: none
	away    *api.Problem // with status 503, the one with the longest Retry-After; nil: none
}

// appendBatch appends the response that each message would get from its own call.
func (s *server) appendBatch(ctx context.Context, b []byte, o *outcomes) []byte {
	b = append(b, `{"results":[`...)
	next := 0
	for i, p := range o.bad {
		if i > 0 {
			b = append(b, ',')
		}
		if p != nil {
			b = appendProblem(b, p)
			continue
		}
		msg, result := o.good[next], &o.results[next]
		next++
		if err := refused(result, api.BatchIndex(i)); err != nil {
			p := api.LoggedProblem(ctx, s.o.Log, err)
			o.refused = p
			if p.Kind.Status == http.StatusServiceUnavailable && (o.away == nil || p.Kind.Retry > o.away.Kind.Retry) {
				o.away = p
			}
			b = appendProblem(b, p)
			continue
		}
		o.taken = true
		b = appendResult(b, publishedStatus(result))
		b = append(appendPublished(b, msg, result, o.reads), '}')
	}
	return append(b, "]}"...)
}

// appendResult appends the start of a batch result.
func appendResult(b []byte, status int) []byte {
	b = strconv.AppendInt(append(b, `{"status":`...), int64(status), 10)
	return append(b, ',')
}

// appendProblem appends the result of a message that was not accepted.
func appendProblem(b []byte, p *api.Problem) []byte {
	b = append(appendResult(b, p.Kind.Status), `"problem":`...)
	b = append(b, p.Body()...)
	return append(b, '}')
}

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

// ReadRow parses a row of an outbox with the checks of POST /v1/messages. The row has the JSON of the
// fields, and the body unless the JSON has it. A nil message was too large to be read. If the row
// is no valid message, m is nil and ReadRow returns a refusal.
func ReadRow(id string, message, body []byte, policy dispatcher.Policy) (m *dispatcher.Message, status int, refusal []byte) {
	if message == nil {
		bad := &api.Problem{Kind: api.TooLarge, Detail: fmt.Sprintf("its body may have %d bytes (MAX_BODY): send less, or raise the setting", policy.MaxBody)}
		return nil, bad.Kind.Status, bad.Body()
	}
	d := api.Lend(message)
	defer d.Free()
	p := messageFields.Fill(d, api.Single, &dispatcher.Message{})
	if d.End(); d.Err != nil {
		bad, _ := api.ProblemFor(api.MalformedJSON(d.Err))
		return nil, bad.Kind.Status, bad.Body()
	}
	if p.Value != nil {
		if p.Has(bitID) && p.Value.ID != id {
			p.Fault("$.id", "is not the id of the row")
		}
		p.Value.ID, p.Given = id, p.Given|bitID
		if body != nil {
			giveBody(&p, d, body)
		}
	}
	complete(&p, api.Single)
	if bad := judge(&p, api.Single, policy); bad != nil {
		return nil, bad.Kind.Status, bad.Body()
	}
	return p.Value, 0, nil
}

// giveBody sets the body of a row. Without a content type it has to be JSON, as in the field.
func giveBody(p *decodedMessage, d *api.Decoder, body []byte) {
	if p.Has(bitBody | bitRawBody | bitRawBodyBase64) {
		p.Fault("$.body", "give the body in the message or beside it, not both")
		return
	}
	p.Value.Body, p.Given = body, p.Given|bitBody
	if p.Has(bitContentType) {
		return
	}
	d.Reset(bytes.NewBuffer(body))
	v := d.Value()
	switch d.End(); {
	case d.Err != nil:
		p.Fault("$.body", "is not JSON: give the content_type of any other body")
	case api.Nests(v):
		p.Fault("$.body", fmt.Sprintf("nests deeper than %d: give its content_type, and it is not read", api.MaxDepth))
	}
}

// RowOutcome returns the status and the refusal that POST /v1/messages would return.
func RowOutcome(r *dispatcher.Published) (status int, refusal []byte) {
	if err := refused(r, api.Single); err != nil {
		p, _ := api.ProblemFor(err)
		return p.Kind.Status, p.Body()
	}
	return publishedStatus(r), nil
}
