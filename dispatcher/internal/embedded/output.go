package embedded

import (
	"bytes"
	"context"
	"log/slog"
	"regexp"
	"strings"
	"sync"
)

// output takes what the server prints: warnings, a line each. They go into our
// log, and the last ones explain why it died.
type output struct {
	log   *slog.Logger
	again bool // it was started before: its advice is in the log already

	mu      sync.Mutex // guards what follows
	partial []byte     // a line that has not ended
	lines   []string   // the last keepLines
	leaving bool       // it was asked to end, and prints that
}

const (
	keepLines = 10
	lineMost  = 4 << 10 // a longer one is cut
)

// stamp is what the server puts before a warning: its pid, the time and the level.
var stamp = regexp.MustCompile(`^\d+:(?:[A-Z] .{0,30}? [.*#-]|signal-handler \(\d+\)) `)

// routine are parts of lines that are no warnings: the server prints them whenever
// it starts.
var routine = []string{"is starting", "just started", "Configuration loaded", "Server initialized"}

// Write takes output of the server.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for rest := p; len(rest) > 0; {
		line, after, whole := bytes.Cut(rest, []byte("\n"))
		if room := lineMost - len(o.partial); room > 0 {
			o.partial = append(o.partial, line[:min(len(line), room)]...)
		}
		if whole {
			o.line(strings.TrimSpace(stamp.ReplaceAllString(string(o.partial), "")))
			o.partial = o.partial[:0]
		}
		rest = after
	}
	return len(p), nil
}

// line takes a whole line. mu is held.
func (o *output) line(text string) {
	if text == "" || strings.Contains(text, "argv") { // it would log what a client sent
		return
	}
	for _, words := range routine {
		if strings.Contains(text, words) {
			return
		}
	}
	advice := strings.HasPrefix(text, "WARNING") // about the machine's settings: no server dies of them
	if !advice {
		o.lines = append(o.lines, text)
		o.lines = o.lines[max(0, len(o.lines)-keepLines):]
	}
	level := slog.LevelWarn
	if o.leaving || advice && o.again {
		level = slog.LevelDebug
	}
	o.log.Log(context.Background(), level, "embedded redis says", "text", text)
}

// farewell is called when the server is asked to end: what it prints about that
// is no warning.
func (o *output) farewell() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.leaving = true
}

// lastFew is how many lines explain a death: where it happened, and what.
const lastFew = 3

// tail is the newest of what was printed.
func (o *output) tail() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Join(o.lines[max(0, len(o.lines)-lastFew):], "; ")
}

// damaged reports whether the server complained of its append-only file.
func (o *output) damaged() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, l := range o.lines {
		if strings.Contains(l, "check-aof") || strings.Contains(l, "Bad file format") || strings.Contains(l, "AOF manifest") {
			return true
		}
	}
	return false
}
