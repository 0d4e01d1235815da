package httpapi

import (
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
)

const (
	// pieceBytes is the size of one write.
	pieceBytes = 64 << 10

	// pieceWithin is the timeout of a write. Slower callers are disconnected, because the next
	// events wait in memory for them.
	pieceWithin = 10 * time.Second
)

// Event is one event. If Data is nil, it is only a comment and the id.
type Event struct {
	Name, ID string // without line breaks; an empty id keeps the previous one
	Data     any    // JSON
}

// Stream writes events. Nothing is sent before the first Flush.
type Stream struct {
	w     http.ResponseWriter
	conn  *http.ResponseController
	begun bool
	buf   []byte
}

// NewStream returns a Stream.
func NewStream(w http.ResponseWriter) *Stream {
	return &Stream{w: w, conn: http.NewResponseController(w)}
}

// Send adds an event.
func (s *Stream) Send(e Event) error {
	if e.ID != "" {
		s.buf = append(append(append(s.buf, "id: "...), e.ID...), '\n')
	}
	if e.Data == nil {
		s.buf = append(s.buf, ":\n\n"...)
	} else {
		data, err := json.Marshal(e.Data)
		if err != nil {
			return err
		}
		s.buf = append(append(append(s.buf, "event: "...), e.Name...), "\ndata: "...)
		s.buf = append(append(s.buf, data...), "\n\n"...)
	}
	if len(s.buf) < pieceBytes {
		return nil
	}
	return s.Flush()
}

// Flush sends the added events. It ignores a writer without deadlines, which needs none.
func (s *Stream) Flush() error {
	if !s.begun {
		s.begun = true
		_ = s.conn.SetReadDeadline(time.Time{}) // the server's would end it, and nothing more is read
		h := s.w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("X-Accel-Buffering", "no") // header of nginx
		h.Set("Connection", "close")     // the next request goes to another instance if this one stops
		s.w.WriteHeader(http.StatusOK)
	}
	_ = s.conn.SetWriteDeadline(time.Now().Add(pieceWithin))
	_, err := s.w.Write(s.buf)
	s.buf = s.buf[:0]
	if err != nil {
		return err
	}
	return s.conn.Flush()
}
