package embedded

import (
	"bytes"
	"context"
	"log/slog"
	"regexp"
	"strings"
	"sync"
)

// output receives the warnings that the server prints, one a line. It logs them, and
// keeps the last lines to explain why the server died.
type output struct {
	log   *slog.Logger
	again bool // this is a restart, so its advice is in the log already

	mu      sync.Mutex // guards the fields below
	partial []byte     // the line that has no end yet
	lines   []string   // the last keepLines
	leaving bool       // the server is ending, and its lines about that are no warnings
}

const (
	keepLines = 10
	maxLine   = 4 << 10 // a longer line is cut
)

// stamp is the server's prefix of a warning: its pid, the time and the level.
var stamp = regexp.MustCompile(`^\d+:(?:[A-Z] .{0,30}? [.*#-]|signal-handler \(\d+\)) `)

// routine has parts of lines that are no warnings, because the server prints them at
// every start.
var routine = []string{"is starting", "just started", "Configuration loaded", "Server initialized"}

// Write processes output of the server.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for rest := p; len(rest) > 0; {
		line, after, whole := bytes.Cut(rest, []byte("\n"))
		if room := maxLine - len(o.partial); room > 0 {
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

// line processes a whole line. The caller holds mu.
func (o *output) line(text string) {
	if text == "" || strings.Contains(text, "argv") { // the line would log data of a client
		return
	}
	for _, words := range routine {
		if strings.Contains(text, words) {
			return
		}
	}
	advice := strings.HasPrefix(text, "WARNING") // about the machine's settings, which no server dies of
	if !advice {
		o.lines = append(o.lines, text)
		o.lines = o.lines[max(0, len(o.lines)-keepLines):]
	}
	level := slog.LevelWarn
	switch {
	case o.leaving || advice && o.again:
		level = slog.LevelDebug
	case advice: // it is the same at every start
		level = slog.LevelInfo
	}
	o.log.Log(context.Background(), level, "embedded redis says", "text", text)
}

// farewell is called before the server is stopped, because its lines about that are no
// warnings.
func (o *output) farewell() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.leaving = true
}

// lastFew is how many lines explain a death: the place and the reason.
const lastFew = 3

// tail returns the last lines.
func (o *output) tail() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Join(o.lines[max(0, len(o.lines)-lastFew):], "; ")
}

// damaged reports whether the server printed that its append-only file is damaged.
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
