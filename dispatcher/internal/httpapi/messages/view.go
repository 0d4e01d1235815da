package messages

import (
	"encoding/json"
	"unicode/utf8"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/api"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

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
			Success:     api.Success(m.Success),
		},
		CreatedAt:  wire.Time{Time: m.CreatedAt},
		Deliveries: api.Convert(r.Deliveries, api.Delivery),
	}
	if len(m.Headers) > 0 {
		w.Headers = make(map[string]string, len(m.Headers))
		for _, h := range m.Headers {
			w.Headers[h.Name] = wire.Hidden
		}
	}
	return w
}

// setWireBody shows a body as JSON, text or base64.
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
