package httpapi

import (
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
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/api"
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
	if s.Tracer != nil {
		return s.traced(ctx, q, s.publishOne)
	}
	return s.publishOne(ctx, q)
}

func (s *messageServer) publishOne(ctx context.Context, q *api.Request) (*api.Response, error) {
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
	m.Trace = s.kept(ctx, q)
	results, err := s.Publisher.Publish(ctx, []*dispatcher.Message{m})
	if err != nil {
		return nil, err
	}
	if len(results) != 1 {
		return nil, fmt.Errorf("publish %s: %d results for one message", m.ID, len(results))
	}
	if s.Tracer != nil {
		note(ctx, m, &results[0])
	}
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
