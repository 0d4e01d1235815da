package callers

import (
	"log"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// toldEvery is the time between two equal lines of the log that strangers can
// cause as often as they like.
const toldEvery = time.Minute

// LogRate allows a line once in toldEvery, and counts the rest.
type LogRate struct {
	mu     sync.Mutex // guards what follows
	last   time.Time  // that it was allowed; zero: never
	missed int        // since then
}

// Allow reports whether it is allowed now, and how often it was not since the
// last time.
func (l *LogRate) Allow() (missed int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if !l.last.IsZero() && now.Sub(l.last) < toldEvery {
		l.missed++
		return 0, false
	}
	missed, l.last, l.missed = l.missed, now, 0
	return missed, true
}

// Idle reports whether it would be allowed now.
func (l *LogRate) Idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(l.last) >= toldEvery
}

// serverLog logs the first line of each entry of http.Server, such as that it
// can't accept a connection.
type serverLog struct {
	log  *slog.Logger
	rate LogRate
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
	if missed, ok := s.rate.Allow(); ok {
		text, _, _ := strings.Cut(string(p[:min(len(p), longestText)]), "\n")
		s.log.Error("http server", "err", strings.ToValidUTF8(text, "?"), "missed", missed)
	}
	return len(p), nil
}
