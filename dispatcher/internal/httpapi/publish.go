package httpapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hookladder/hookladder/dispatcher"
)

// Publisher takes messages.
type Publisher interface {
	// Publish takes a batch and returns one Published for each message, in order. A
	// failure of one message is the Err of its Published. Publish may keep the
	// messages, and replaces the uid of an endpoint by its id.
	Publish(ctx context.Context, batch []*dispatcher.Message) ([]dispatcher.Published, error)
}

// batchBytes bounds the request of a batch, as the contract says.
const batchBytes = 4 << 20

// envelope bounds what a single message has besides its body.
const envelope = 64 << 10

// answerBytes is the size of an answer about a message to one destination with a
// usual URL. The buffer grows for a longer one.
const answerBytes = 512

// escaped is the most bytes of JSON that one byte of a body takes: \u0001. Base64
// takes less, unless its letters are escaped.
const escaped = 6

// singleBytes bounds the request of one message whose body has at most maxBody
// bytes, at their longest in JSON. One key may take half of the budget, so the bound
// is within that.
func singleBytes(maxBody int, budget int64) int64 {
	return max(plainBytes(maxBody), min(int64(maxBody)*escaped+envelope, budget/2-firstBody))
}

// plainBytes is the size of such a request where the body is base64, or JSON without
// escapes. So much is always taken, whatever the budget is.
func plainBytes(maxBody int) int64 { return int64(maxBody)*4/3 + envelope }

// publish serves POST /v1/messages.
func (s *server) publish(ctx context.Context, q *request) (*response, error) {
	p, err := decode(q, decodeMessage)
	if err != nil {
		return nil, err
	}
	takeKey(&p, q.r.Header["Idempotency-Key"])
	if bad := judge(&p, single, s.policy); bad != nil {
		return nil, bad
	}
	q.w.handed = true
	m := p.value
	results, err := s.o.Publisher.Publish(ctx, []*dispatcher.Message{m})
	if err != nil {
		return nil, err
	}
	if len(results) != 1 {
		return nil, fmt.Errorf("publish %s: %d results for one message", m.ID, len(results))
	}
	if err := refused(&results[0], single); err != nil {
		return nil, err
	}
	buf := borrow(answerBytes)
	_, _ = buf.Write(append(appendPublished(append(buf.AvailableBuffer(), '{'), m, &results[0], q.reads), '}'))
	return &response{status: publishedStatus(&results[0]), contentType: mediaJSON, body: buf.Bytes(), borrowed: buf}, nil
}

const (
	// longestKey is the most characters of an Idempotency-Key, as the contract says.
	longestKey = 255
	// keyPrefix and keyDigits are for the id of a key that is not a valid id itself.
	keyPrefix = "idk_"
	keyDigits = 32
)

// takeKey sets the id by the header Idempotency-Key, where the message has none.
func takeKey(p *decodedMessage, given []string) {
	if p.value == nil || len(given) == 0 || p.has(bitID) {
		return
	}
	id, wrong := idOfKey(given)
	if wrong != "" {
		p.fault("header.Idempotency-Key", wrong)
	}
	p.value.ID = id
	p.given |= bitID
}

// idOfKey is the id that an Idempotency-Key stands for, or what is wrong with it. In
// the draft of the IETF it has quotes, which most callers leave out.
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

// judge gives a message its id, and says why it can't be published.
func judge(p *decodedMessage, at batchIndex, policy dispatcher.Policy) *problem {
	m := p.value
	if m == nil {
		return invalidFields(p.wrong)
	}
	if !p.has(bitID) {
		m.ID = dispatcher.NewID()
	}
	if most := policy.MaxBody; len(m.Body) > most {
		return &problem{kind: tooLarge, detail: fmt.Sprintf("the message's body has %d bytes, at most %d are taken (MAX_BODY): send less, or raise the setting", len(m.Body), most)}
	}
	more := m.Validate(policy)
	if len(more) == 0 && len(p.wrong) == 0 {
		return nil
	}
	for i := range more {
		more[i].Path = at.path() + strings.TrimPrefix(more[i].Path, "$")
	}
	return invalidFields(join(p.wrong, more))
}

// refused is why the engine did not take a message, or nil.
func refused(r *dispatcher.Published, at batchIndex) error {
	switch {
	case errors.Is(r.Err, dispatcher.ErrNoEndpoint), errors.Is(r.Err, dispatcher.ErrTenant):
		// One text: else a caller could find out which names other tenants use.
		return wrongField(at.path()+".endpoint", "there is no such endpoint of the message's tenant")
	case r.Err != nil:
		return r.Err
	case r.Result == dispatcher.Conflict:
		return &problem{kind: conflict, detail: conflictDetail(r.Differs)}
	case r.Result == dispatcher.LaneFull:
		return &problem{kind: laneFull, detail: "as many deliveries wait for it as ENDPOINT_MAX_WAITING allows; nothing was changed"}
	case r.Result != dispatcher.Accepted && r.Result != dispatcher.Duplicate:
		return fmt.Errorf("publish: no result")
	}
	return nil
}

// conflictDetail says what differs, where that is known.
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

// publishBatch serves POST /v1/messages/batch. The engine gets the good messages in
// one call, whatever is wrong with the others.
func (s *server) publishBatch(ctx context.Context, q *request) (*response, error) {
	if q.r.Header["Idempotency-Key"] != nil {
		return nil, wrongField("header.Idempotency-Key", "names one message: give each message of a batch its id")
	}
	b, err := decode(q, decodeBatch)
	if err != nil {
		return nil, err
	}
	if err := wrongFields(b.wrong); err != nil {
		return nil, err
	}
	o := outcomes{bad: make([]*problem, len(b.messages)), good: make([]*dispatcher.Message, 0, len(b.messages)), reads: q.reads}
	for i := range b.messages {
		if o.bad[i] = judge(&b.messages[i], batchIndex(i), s.policy); o.bad[i] == nil {
			o.good = append(o.good, b.messages[i].value)
		} else {
			q.w.refusal = o.bad[i]
		}
	}
	q.w.handed, q.w.refused = true, len(o.bad)-len(o.good)
	if len(o.good) > 0 {
		if o.results, err = s.o.Publisher.Publish(ctx, o.good); err != nil {
			return nil, err
		}
		if len(o.results) != len(o.good) {
			return nil, fmt.Errorf("publish batch: %d results for %d messages", len(o.results), len(o.good))
		}
	}
	buf := borrow(answerBytes * len(o.bad))
	_, _ = buf.Write(s.appendBatch(ctx, buf.AvailableBuffer(), &o))
	if o.refused != nil {
		q.w.refusal = o.refused
	}
	if o.away != nil && !o.taken { // nothing was stored: the answer is a problem, with the results in it
		defer release(buf)
		body := o.away.body()
		return o.away.response(append(append(body[:len(body)-1], ','), buf.Bytes()[1:]...)), nil
	}
	return &response{status: http.StatusAccepted, contentType: mediaJSON, body: buf.Bytes(), borrowed: buf}, nil
}

// outcomes are the results of the messages of a batch.
type outcomes struct {
	bad     []*problem            // one for each message; nil: it is good
	good    []*dispatcher.Message // messages that the engine got
	results []dispatcher.Published
	reads   bool // the caller has the scope read

	taken   bool     // one of them is 200 or 202
	refused *problem // of one that the engine refused; nil: it refused none
	away    *problem // with status 503, the one with the longest Retry-After; nil: there is none
}

// appendBatch writes what each message's single call would have answered.
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
		if err := refused(result, batchIndex(i)); err != nil {
			p := s.problem(ctx, err)
			o.refused = p
			if p.kind.status == http.StatusServiceUnavailable && (o.away == nil || p.kind.retry > o.away.kind.retry) {
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

// Row reads a message as an outbox has it, with the errors of POST /v1/messages: the JSON of
// its fields, and the body, unless that is in the JSON. A nil message is one that was too
// large to be read. m is nil where the row is no message; refusal says why.
func Row(id string, message, body []byte, policy dispatcher.Policy) (m *dispatcher.Message, status int, refusal []byte) {
	if message == nil {
		bad := &problem{kind: tooLarge, detail: fmt.Sprintf("its body may have %d bytes (MAX_BODY): send less, or raise the setting", policy.MaxBody)}
		return nil, bad.kind.status, bad.body()
	}
	d := decoders.Get().(*decoder)
	defer decoders.Put(d)
	d.reset(bytes.NewBuffer(message))
	p := messageFields.fill(d, single, &dispatcher.Message{})
	if d.end(); d.err != nil {
		bad, _ := asProblem(malformedJSON(d.err))
		return nil, bad.kind.status, bad.body()
	}
	if p.value != nil {
		if p.has(bitID) && p.value.ID != id {
			p.fault("$.id", "is not the id of the row")
		}
		p.value.ID, p.given = id, p.given|bitID
		if body != nil {
			giveBody(&p, d, body)
		}
	}
	complete(&p, single)
	if bad := judge(&p, single, policy); bad != nil {
		return nil, bad.kind.status, bad.body()
	}
	return p.value, 0, nil
}

// giveBody takes the body of a row. Without a content type it has to be JSON, as the field is.
func giveBody(p *decodedMessage, d *decoder, body []byte) {
	if p.has(bitBody | bitRawBody | bitRawBodyBase64) {
		p.fault("$.body", "give the body in the message or beside it, not both")
		return
	}
	p.value.Body, p.given = body, p.given|bitBody
	if p.has(bitContentType) {
		return
	}
	d.reset(bytes.NewBuffer(body))
	v := d.value()
	switch d.end(); {
	case d.err != nil:
		p.fault("$.body", "is not JSON: give the content_type of any other body")
	case nests(v):
		p.fault("$.body", fmt.Sprintf("nests deeper than %d", maxDepth))
	}
}

// Outcome says what became of a message as POST /v1/messages would have answered it.
func Outcome(r *dispatcher.Published) (status int, refusal []byte) {
	if err := refused(r, single); err != nil {
		p, _ := asProblem(err)
		return p.kind.status, p.body()
	}
	return publishedStatus(r), nil
}
