package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"

	"github.com/oklog/ulid/v2"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

// Publish publishes a message. Its body is sent byte for byte. A message without an ID
// gets one here, so that a retry never publishes a second message. m is not changed.
//
// If m names no URL, Endpoint or Queue, it goes to all matching endpoints. If none matches,
// Publish returns a *Problem of type unmatched, unless m.RequireMatch is new(false).
//
// The result always has the ID, even with an error. Unless the API refused the message,
// it may be stored: publish it again with that ID until the call succeeds. The span of ctx, if
// there is one, is kept with the message, and no part of it.
func (c *Client) Publish(ctx context.Context, m *wire.Message) (wire.Published, error) {
	if m == nil {
		return wire.Published{}, errors.New("publish: there is no message")
	}
	named, made := withID(m)
	body, err := named.Append(nil)
	if err != nil {
		return wire.Published{}, err
	}
	out, err := call[wire.Published](ctx, c, apiRequest{
		verb: "publish", method: http.MethodPost, path: "/v1/messages", body: body, repeats: safe,
	})
	if err != nil {
		return wire.Published{ID: named.ID}, err
	}
	out.Duplicate = out.Duplicate && !made
	return out, nil
}

// withID returns a copy of the message with an ID. made reports that the ID is new.
func withID(m *wire.Message) (named wire.Message, made bool) {
	named = *m
	if named.ID == "" {
		named.ID, made = "msg_"+ulid.MustNew(ulid.Now(), rand.Reader).String(), true
	}
	return named, made
}

// PublishBatch publishes up to 1000 messages. The results are in the same order, and each
// has the ID of its message, which is generated if the message has none. The result of a
// failed message has a Problem. Messages with status 503 are retried alone.
//
// If all messages failed because the store is unavailable, it returns the results and a
// *Problem. After any other error, the results of messages with an unknown state have an
// ID and no Status. Publish these again with that ID, unless the API refused the call.
func (c *Client) PublishBatch(ctx context.Context, messages []wire.Message) ([]wire.Result, error) {
	b, err := newBatch(messages)
	if err != nil {
		return nil, err
	}
	for t := c.newTries(); ; {
		answer, err := callIn[wire.Results](ctx, c, t, apiRequest{
			verb: "publish batch", method: http.MethodPost, path: "/v1/messages/batch", body: b.body(), repeats: safe,
		})
		var p *Problem
		if errors.As(err, &p) && p.Results != nil {
			answer.Results = p.Results
		} else if err != nil {
			return b.unknown(), err
		}
		if err := b.take(answer.Results); err != nil {
			return b.unknown(), err
		}
		if len(b.left) == 0 || !t.another(ctx, err) {
			return b.results, b.refusal(err)
		}
		if err := t.sleep(ctx); err != nil {
			return b.results, fmt.Errorf("publish batch: %w", err)
		}
	}
}

// batchCall has the results of several messages so far.
type batchCall struct {
	texts   [][]byte // the messages as JSON
	made    []bool   // the ID was generated here
	ids     []string
	results []wire.Result
	left    []int // indexes of messages that are neither stored nor refused yet
}

func newBatch(messages []wire.Message) (*batchCall, error) {
	b := &batchCall{results: make([]wire.Result, len(messages))}
	for i := range messages {
		m, made := withID(&messages[i])
		text, err := m.Append(nil)
		if err != nil {
			return nil, err
		}
		b.texts, b.made, b.ids, b.left = append(b.texts, text), append(b.made, made), append(b.ids, m.ID), append(b.left, i)
	}
	return b, nil
}

// body returns the body of a call with the remaining messages.
func (b *batchCall) body() []byte {
	texts := make([][]byte, len(b.left))
	for n, i := range b.left {
		texts[n] = b.texts[i]
	}
	return append(append([]byte(`{"messages":[`), bytes.Join(texts, []byte(","))...), "]}"...)
}

// take stores the results of a call.
func (b *batchCall) take(results []wire.Result) error {
	if len(results) != len(b.left) {
		return fmt.Errorf("publish batch: %d results for %d messages", len(results), len(b.left))
	}
	var left []int
	for n, i := range b.left {
		r := results[n]
		switch {
		case r.Problem != nil || r.Published == nil:
			r.Published = &wire.Published{ID: b.ids[i]}
		case r.Duplicate && b.made[i]: // a try whose response was lost has stored it
			r.Duplicate, r.Status = false, http.StatusAccepted
		}
		if b.results[i] = r; r.Status == http.StatusServiceUnavailable {
			left = append(left, i)
		}
	}
	b.left = left
	return nil
}

// unknown returns the results if the last call returned none.
func (b *batchCall) unknown() []wire.Result {
	for _, i := range b.left {
		b.results[i] = wire.Result{Published: &wire.Published{ID: b.ids[i]}}
	}
	return b.results
}

// refusal returns the error of a batch whose last call had results. It is nil if a
// message was stored.
func (b *batchCall) refusal(err error) error {
	var p *Problem
	if !errors.As(err, &p) {
		return err
	}
	for _, r := range b.results {
		if r.Problem == nil {
			return nil
		}
	}
	p.Results = b.results
	return err
}
