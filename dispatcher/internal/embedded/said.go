package embedded

import (
	"bytes"
	"context"
	"log/slog"
	"regexp"
	"strings"
	"sync"
)

// output takes what the server prints: warnings, a line each. They go on into our
// log, and the last ones explain a death.
type output struct {
	log   *slog.Logger
	again bool // it was started before: advice was given

	mu      sync.Mutex // guards what follows
	partial []byte     // a line that has not ended
	lines   []string   // the last keepLines
	leaving bool       // it was asked to end, so that it says so
}

const (
	keepLines = 10
	lineMost  = 4 << 10 // a longer one is cut
)

// stamp is what the server puts before a warning: who, when, how bad.
var stamp = regexp.MustCompile(`^\d+:(?:[A-Z] .{0,30}? [.*#-]|signal-handler \(\d+\)) `)

// routine are warnings that are none: how it begins.
var routine = []string{"is starting", "just started", "Configuration loaded", "Server initialized"}

// Write takes output of the server.
func (s *output) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for rest := p; len(rest) > 0; {
		line, after, whole := bytes.Cut(rest, []byte("\n"))
		if room := lineMost - len(s.partial); room > 0 {
			s.partial = append(s.partial, line[:min(len(line), room)]...)
		}
		if whole {
			s.line(strings.TrimSpace(stamp.ReplaceAllString(string(s.partial), "")))
			s.partial = s.partial[:0]
		}
		rest = after
	}
	return len(p), nil
}

// line takes a whole line. mu is held.
func (s *output) line(text string) {
	if text == "" || strings.Contains(text, "argv") { // what a client sent belongs in no log
		return
	}
	for _, words := range routine {
		if strings.Contains(text, words) {
			return
		}
	}
	advice := strings.HasPrefix(text, "WARNING") // of the machine's settings, which nobody dies of
	if !advice {
		s.lines = append(s.lines, text)
		s.lines = s.lines[max(0, len(s.lines)-keepLines):]
	}
	level := slog.LevelWarn
	if s.leaving || advice && s.again {
		level = slog.LevelDebug
	}
	s.log.Log(context.Background(), level, "embedded redis says", "text", text)
}

// farewell is told when the server is asked to end: what it says of that is no
// warning.
func (s *output) farewell() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaving = true
}

// lastFew lines are what a reason takes: where and what.
const lastFew = 3

// tail is the newest of what was said.
func (s *output) tail() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.lines[max(0, len(s.lines)-lastFew):], "; ")
}

// damaged reports whether the server complained of its append-only file.
func (s *output) damaged() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.lines {
		if strings.Contains(l, "check-aof") || strings.Contains(l, "Bad file format") || strings.Contains(l, "AOF manifest") {
			return true
		}
	}
	return false
}
