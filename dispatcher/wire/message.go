package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/hookladder/hookladder/ladder"
)

// Message is a message as a caller publishes it. Exactly one of Body, RawBody and
// RawBodyBase64 is set, and at most one of URL, Endpoint and Queue, and of Delay and
// DeliverAt. See Append for a message without URL, Endpoint and Queue.
type Message struct {
	ID            string            `json:"id,omitzero" maxLength:"128" pattern:"^[A-Za-z0-9_-]+$" doc:"What makes a repeat of this call the same message. Default: from the Idempotency-Key header, else msg_ and a ULID."`
	Topic         string            `json:"topic" maxLength:"128" pattern:"^[A-Za-z0-9_-]+(\\.[A-Za-z0-9_-]+)*$" example:"payment.paid" doc:"What the message is about: words with dots between."`
	Tenant        string            `json:"tenant,omitzero" maxLength:"128" pattern:"^[!-~]+$" doc:"On whose behalf it is sent."`
	Subject       string            `json:"subject,omitzero" maxLength:"128" example:"order-4711" doc:"The caller's own reference of what the message is about, such as an order or payment number. Lists find messages by it."`
	URL           string            `json:"url,omitzero" maxLength:"2048" format:"uri" example:"https://shop.example/hooks" doc:"Where it goes: an absolute http or https URL. Without url, endpoint and queue it goes to every endpoint of its tenant whose topics match."`
	Endpoint      string            `json:"endpoint,omitzero" maxLength:"128" doc:"Where it goes: the id or the uid of an endpoint."`
	Queue         string            `json:"queue,omitzero" maxLength:"64" pattern:"^[A-Za-z0-9_.-]+$" example:"order_cancel" doc:"Where it waits to be taken: the name of a queue. It is there by being named. It doesn't begin with ep_, u_ or q_, as lanes do."`
	Body          json.RawMessage   `json:"body,omitzero" doc:"Any JSON value, nested at most 64 deep and without repeated names. It is sent byte for byte as received."`
	RawBody       *string           `json:"raw_body,omitzero" nullable:"false" doc:"A body of text."`
	RawBodyBase64 []byte            `json:"raw_body_base64,omitzero" doc:"A body of any bytes, in base64."`
	ContentType   string            `json:"content_type,omitzero" maxLength:"256" doc:"Default: application/json for body, text/plain; charset=utf-8 for raw_body, application/octet-stream for raw_body_base64."`
	Delay         Duration          `json:"delay,omitzero" doc:"Until the first attempt, at most a year."`
	DeliverAt     Time              `json:"deliver_at,omitzero" doc:"When the first attempt is made; in the past: at once. At most a year ahead."`
	ExpiresAt     Time              `json:"expires_at,omitzero" doc:"It is not attempted after this time. If it waits then, it ends as dead (expired)."`
	OrderingKey   string            `json:"ordering_key,omitzero" maxLength:"128" pattern:"^[!-~]+$" doc:"Messages with the same key go to a destination one at a time and in order."`
	Headers       map[string]string `json:"headers,omitzero" maxProperties:"20" doc:"Extra headers for the receiver, together at most 8 KiB. Names that are ours, or by which proxies describe a request, are refused."`
	Ladder        *ladder.Ladder    `json:"ladder,omitzero" doc:"The waits between attempts. Default: the dispatcher's."`
	MaxAttempts   int               `json:"max_attempts,omitzero" minimum:"1" maximum:"101" doc:"Cuts the ladder."`
	Timeout       Duration          `json:"timeout,omitzero" doc:"Of one attempt, 1s to 60s; of a queue's handler to 1h. Default: the dispatcher's."`
	RequireMatch  *bool             `json:"require_match,omitzero" nullable:"false" doc:"Of a message without url, endpoint and queue: that no endpoint matches is an error, type unmatched, instead of 200 with matched 0."`
	Success       *Success          `json:"success,omitzero" doc:"What the receiver must answer. Default: the dispatcher's."`
}

// Success is the rule for a response that counts as delivered. If both fields are set, both must
// match.
type Success struct {
	Status []string        `json:"status,omitzero" example:"[\"2xx\"]" doc:"Statuses that count: 200, 2xx, *."`
	Body   json.RawMessage `json:"body,omitzero" doc:"A word that equals the trimmed answer, {\"path\":\"code\",\"equals\":\"SUCCESS\"} on a JSON answer, or {\"matches\":\"<RE2>\"}."`
}

// Append appends the message as JSON to b, with its body byte for byte. json.Marshal would remove
// space from the body and change its escapes.
//
// A message that names no destination has to match an endpoint, so that a forgotten URL,
// Endpoint or Queue is an error. RequireMatch set to new(false) accepts that none matches.
func (m *Message) Append(b []byte) ([]byte, error) {
	plain := *m
	plain.Body = nil
	if m.RequireMatch == nil && m.URL == "" && m.Endpoint == "" && m.Queue == "" {
		plain.RequireMatch = new(true)
	}
	return appendWithBody(b, plain, m.Body)
}

// appendWithBody appends v, an object without a body, and adds the body to it.
func appendWithBody(b []byte, v any, body json.RawMessage) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode message: %w", err)
	}
	text := bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
	if body == nil {
		return append(b, text...), nil
	}
	if !json.Valid(body) {
		return nil, errors.New("encode message: the body is not JSON")
	}
	b = append(b, text[:len(text)-1]...) // every message has a topic, so a comma is valid here
	b = append(b, `,"body":`...)
	b = append(b, body...)
	return append(b, '}'), nil
}
