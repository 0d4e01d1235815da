package httpapi

import (
	"log"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// toldEvery is how often the server's own complaints are logged: strangers can
// cause as many as they like.
const toldEvery = time.Minute

// seldom lets something be said once in toldEvery, and counts the rest.
type seldom struct {
	mu   sync.Mutex // guards what follows
	told time.Time
	more int
}

// say reports whether it may be said now, and how often it was not since the
// last time.
func (s *seldom) say() (missed int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if !s.told.IsZero() && now.Sub(s.told) < toldEvery {
		s.more++
		return 0, false
	}
	missed, s.told, s.more = s.more, now, 0
	return missed, true
}

// serverLog takes what http.Server logs, such as that it can't accept a
// connection, and says the first line of it.
type serverLog struct {
	log  *slog.Logger
	said seldom
}

// longestText bounds a line of the server's log.
const longestText = 300

func newServerLog(l *slog.Logger) *log.Logger {
	if l == nil {
		l = slog.Default()
	}
	return log.New(&serverLog{log: l}, "", 0)
}

// Write takes one entry.
func (s *serverLog) Write(p []byte) (int, error) {
	if missed, ok := s.said.say(); ok {
		text, _, _ := strings.Cut(string(p[:min(len(p), longestText)]), "\n")
		s.log.Error("http server", "err", strings.ToValidUTF8(text, "?"), "missed", missed)
	}
	return len(p), nil
}
