package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// message serves GET /v1/messages/{id}.
func (s *server) message(ctx context.Context, c *request) (*response, error) {
	id, err := c.id()
	if err != nil {
		return nil, err
	}
	if _, err := c.query(); err != nil {
		return nil, err
	}
	rec, err := s.svc.Message(ctx, id)
	if err != nil {
		return nil, err
	}
	w, err := wireRecord(rec)
	if err != nil {
		return nil, fmt.Errorf("read message %s: %w", id, err)
	}
	body, err := w.Append(nil)
	if err != nil {
		return nil, fmt.Errorf("read message %s: %w", id, err)
	}
	return &response{status: http.StatusOK, contentType: mediaJSON, body: body}, nil
}

// cancel serves DELETE /v1/messages/{id}.
func (s *server) cancel(ctx context.Context, c *request) (*response, error) {
	id, err := c.id()
	if err != nil {
		return nil, err
	}
	q, err := c.query("destination")
	if err != nil {
		return nil, err
	}
	lane, err := s.destination(ctx, c, q, id)
	if err != nil {
		return nil, err
	}
	deliveries, err := s.svc.Cancel(ctx, id, lane)
	if err != nil {
		return nil, c.elsewhere(q, err)
	}
	if !c.reads {
		return answerJSON(http.StatusOK, briefDeliveries(id, deliveries))
	}
	return answerJSON(http.StatusOK, wire.Deliveries{ID: id, Deliveries: wireDeliveries(deliveries)})
}

// briefDeliveries are what a key without the scope read is told: ids are the
// callers' own, so they can be guessed, and URLs and answers hold secrets.
func briefDeliveries(id string, all []dispatcher.Delivery) wire.BriefDeliveries {
	out := wire.BriefDeliveries{ID: id, Deliveries: make([]wire.BriefDelivery, len(all))}
	for i, d := range all {
		out.Deliveries[i] = wire.BriefDelivery{ID: d.ID.String(), Destination: string(d.ID.Lane), Status: string(d.Status)}
	}
	return out
}

// wireRecord is a message as callers read it.
func wireRecord(r dispatcher.MessageView) (wire.MessageView, error) {
	m := &r.Message
	w := wire.MessageView{
		Message: wire.Message{
			ID: m.ID, Topic: m.Topic, Tenant: m.Tenant, URL: m.URL, Endpoint: m.Endpoint,
			OrderingKey: m.OrderingKey,
			ContentType: m.ContentType,
			Delay:       wire.Duration(m.Delay),
			DeliverAt:   wire.Time{Time: m.DeliverAt},
			ExpiresAt:   wire.Time{Time: m.ExpiresAt},
			Ladder:      m.Ladder,
			MaxAttempts: m.MaxAttempts,
			Timeout:     wire.Duration(m.Timeout),
		},
		CreatedAt:  wire.Time{Time: m.CreatedAt},
		Deliveries: wireDeliveries(r.Deliveries),
	}
	setWireBody(&w.Message, m)
	if len(m.Headers) > 0 {
		w.Headers = make(map[string]string, len(m.Headers))
		for _, h := range m.Headers {
			w.Headers[h.Name] = strings.ToValidUTF8(h.Value, "�")
		}
	}
	w.Success, _ = wireSuccess(m.Success) // one that is broken in the store hides nothing else
	return w, nil
}

func wireSuccess(s *dispatcher.Success) (*wire.Success, error) {
	if s == nil {
		return nil, nil
	}
	w := new(wire.Success)
	return w, json.Unmarshal([]byte(s.String()), w) // no pattern is compiled for it
}

// setWireBody shows a body as what it is: JSON, text or bytes.
func setWireBody(w *wire.Message, m *dispatcher.Message) {
	media, _, _ := strings.Cut(m.ContentType, ";")
	media = strings.ToLower(strings.TrimSpace(media))
	isJSON := media == mediaJSON || strings.HasSuffix(media, "+json")
	switch {
	case isJSON && utf8.Valid(m.Body) && json.Valid(m.Body):
		w.Body = m.Body
	case utf8.Valid(m.Body):
		text := string(m.Body)
		w.RawBody = &text
	default:
		w.RawBodyBase64 = m.Body
	}
}

func wireDeliveries(all []dispatcher.Delivery) []wire.Delivery {
	out := make([]wire.Delivery, len(all))
	for i := range all {
		out[i] = wireDelivery(&all[i])
	}
	return out
}

// wireDelivery is a delivery as callers read it.
func wireDelivery(d *dispatcher.Delivery) wire.Delivery {
	w := wire.Delivery{
		DeliveryRef: wire.DeliveryRef{
			ID: d.ID.String(), Destination: string(d.ID.Lane), URL: d.URL,
			Status: string(d.Status), NextAttemptAt: wire.Time{Time: d.Due}, EndedAt: wire.Time{Time: d.Ended},
		},
		Topic: d.Topic, Tenant: d.Tenant,
		Attempts:       d.Attempts,
		LastStatusCode: d.LastStatus,
		LastError:      strings.ToValidUTF8(d.LastError, "�"),
		Rung:           d.Rung(), LadderFrom: d.LadderFrom, Ladder: d.Ladder,
		WaitingFor:   d.WaitingFor,
		WaitingUntil: wire.Time{Time: d.WaitingUntil},
	}
	w.DeliveredAt = wire.Time{Time: d.Delivered}
	switch d.Status {
	case dispatcher.StatusDead:
		w.DeadReason = string(d.Reason)
	}
	for i := range d.History {
		w.History = append(w.History, wireAttempt(&d.History[i]))
	}
	return w
}

func wireAttempt(a *dispatcher.Attempt) wire.Attempt {
	return wire.Attempt{
		Attempt: a.Number, At: wire.Time{Time: a.At}, DurationMS: a.Duration.Milliseconds(),
		StatusCode: a.Status, Outcome: a.Verdict.String(),
		Error:           strings.ToValidUTF8(a.Error, "�"),
		ResponseExcerpt: strings.ToValidUTF8(string(a.Excerpt), "�"),
		NextAttemptAt:   wire.Time{Time: a.Next},
	}
}
