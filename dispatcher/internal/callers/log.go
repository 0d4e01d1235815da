package callers

import (
	"log"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// logEvery is the shortest time between two equal log lines that strangers can cause.
const logEvery = time.Minute

// LogRate allows one line in logEvery, and counts the others. The zero value is ready to
// use.
type LogRate struct {
	mu     sync.Mutex // guards the fields below
	last   time.Time  // when a line was allowed; zero: never
	missed int        // lines not allowed after that
}

// Allow reports whether a line is allowed now, and how many were not allowed after the last
// allowed one.
func (l *LogRate) Allow() (missed int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if !l.last.IsZero() && now.Sub(l.last) < logEvery {
		l.missed++
		return 0, false
	}
	missed, l.last, l.missed = l.missed, now, 0
	return missed, true
}

// Idle reports whether a line would be allowed now.
func (l *LogRate) Idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(l.last) >= logEvery
}

// serverLog logs the first line of each message of http.Server, such as a failed accept.
type serverLog struct {
	log  *slog.Logger
	rate LogRate
}

// maxText bounds a message of the server.
const maxText = 300

func newServerLog(l *slog.Logger) *log.Logger {
	if l == nil {
		l = slog.Default()
	}
	return log.New(&serverLog{log: l}, "", 0)
}

// Write logs one message.
func (s *serverLog) Write(p []byte) (int, error) {
	if missed, ok := s.rate.Allow(); ok {
		text, _, _ := strings.Cut(string(p[:min(len(p), maxText)]), "\n")
		s.log.Error("http server", "err", strings.ToValidUTF8(text, "?"), "missed", missed)
	}
	return len(p), nil
}
