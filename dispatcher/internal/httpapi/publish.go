package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
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
func (s *messageServer) publish(ctx context.Context, q *api.Request) (*api.Response, error) {
	ctx, t := s.begin(ctx, q)
	answer, err := s.publishOne(ctx, q, t)
	t.end(answer, err)
	return answer, err
}

func (s *messageServer) publishOne(ctx context.Context, q *api.Request, t publishTrace) (*api.Response, error) {
	p, err := api.Decode(q, decodeMessage)
	if err != nil {
		return nil, err
	}
	takeKey(&p, q.HTTP.Header["Idempotency-Key"])
	if bad := judge(&p, api.Single, s.Policy); bad != nil {
		return nil, bad
	}
	q.Writer.Handed = true
	m := p.Value
	m.Trace = t.kept
	results, err := s.Publisher.Publish(ctx, []*dispatcher.Message{m})
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

// begin begins the span of a publish, if the program is traced. The caller's traceparent names its
// parent.
func (s *messageServer) begin(ctx context.Context, q *api.Request) (context.Context, publishTrace) {
	if s.Tracer == nil {
		return ctx, publishTrace{kept: s.callersTrace(ctx, q)}
	}
	ctx, span := s.Tracer.Begin(ctx, q.Span("publish", trace.Send))
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
func (s *messageServer) callersTrace(ctx context.Context, q *api.Request) *trace.Context {
	if q.HTTP.Header[trace.Header] == nil {
		return nil
	}
	c := q.TraceParent()
	if c.IsZero() {
		s.Log.DebugContext(ctx, "the traceparent of a publish is invalid and was ignored")
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
