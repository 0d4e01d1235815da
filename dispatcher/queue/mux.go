package queue

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/hookladder/hookladder/dispatcher"
)

// Mux calls a handler by the topic of a delivery. Its zero value is ready to use, and its method
// Serve is a HandlerFunc:
//
//	var mux queue.Mux
//	mux.Handle("mail.welcome", queue.Typed(sendWelcome))
//	mux.Handle("mail.*", other)
//	q.Handle("mail", mux.Serve)
type Mux struct {
	mu sync.RWMutex // guards of
	of map[string]HandlerFunc
}

// Handle registers h for a topic, or for a pattern: order.* is for all topics that begin with
// order. and * is for all. The topic itself goes before a pattern, and a longer pattern before a
// shorter one. It panics on an invalid topic, a nil h, and a second handler for one topic.
func (m *Mux) Handle(topic string, h HandlerFunc) {
	if m == nil {
		panic(fmt.Sprintf("queue: Mux.Handle(%q): the Mux is nil", topic))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case !dispatcher.ValidPattern(topic):
		panic(fmt.Sprintf("queue: Mux.Handle(%q): want a topic such as order.paid, or a pattern such as order.*", topic))
	case h == nil:
		panic(fmt.Sprintf("queue: Mux.Handle(%q): no handler", topic))
	case m.of[topic] != nil:
		panic(fmt.Sprintf("queue: Mux.Handle(%q): it has a handler already", topic))
	case m.of == nil:
		m.of = map[string]HandlerFunc{}
	}
	m.of[topic] = h
}

// Serve calls the handler of the delivery's topic. Without one it returns ErrNoHandler, and the
// delivery is retried, because another program may be newer and know the topic.
func (m *Mux) Serve(ctx context.Context, d Delivery) error {
	h := m.handler(d.Topic)
	if h == nil {
		return fmt.Errorf("%w %q", ErrNoHandler, d.Topic)
	}
	return h(ctx, d)
}

func (m *Mux) handler(topic string) HandlerFunc {
	if m == nil {
		return nil
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	if h := m.of[topic]; h != nil {
		return h
	}
	for rest := topic; ; {
		at := strings.LastIndexByte(rest, '.')
		if at < 0 {
			return m.of["*"]
		}
		rest = rest[:at]
		if h := m.of[rest+".*"]; h != nil {
			return h
		}
	}
}
