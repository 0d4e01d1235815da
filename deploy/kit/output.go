package kit

import (
	"bytes"
	"strings"
	"sync"
)

// Output collects the output of a process.
type Output struct {
	keep int // limit for complete lines, in bytes; 0: no limit

	mu      sync.Mutex // guards the fields below
	lines   []byte     // complete lines
	partial []byte     // a line without its end yet
	waits   []wait
}

// wait is a caller of Await that waits for a line.
type wait struct {
	text  string
	found chan string
}

// NewOutput returns an Output that keeps the last keep bytes; 0: all.
func NewOutput(keep int) *Output { return &Output{keep: keep} }

// Write implements io.Writer.
func (o *Output) Write(text []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.partial = append(o.partial, text...)
	for {
		line, rest, ended := bytes.Cut(o.partial, []byte("\n"))
		if !ended {
			return len(text), nil
		}
		o.notify(string(line))
		o.lines = append(append(o.lines, line...), '\n')
		if over := len(o.lines) - o.keep; o.keep > 0 && over > 0 {
			o.lines = bytes.Clone(o.lines[over:])
		}
		o.partial = bytes.Clone(rest)
	}
}

// notify sends a line to all waits that match it.
func (o *Output) notify(line string) {
	left := o.waits[:0]
	for _, w := range o.waits {
		if strings.Contains(line, w.text) {
			w.found <- line
		} else {
			left = append(left, w)
		}
	}
	o.waits = left
}

// Await returns a channel that gets the first line with text, whether it was written
// before or comes later.
func (o *Output) Await(text string) <-chan string {
	o.mu.Lock()
	defer o.mu.Unlock()
	w := wait{text: text, found: make(chan string, 1)}
	for line := range bytes.Lines(o.lines) {
		if bytes.Contains(line, []byte(text)) {
			w.found <- string(bytes.TrimSuffix(line, []byte("\n")))
			return w.found
		}
	}
	o.waits = append(o.waits, w)
	return w.found
}

// String returns all output that is kept, with the line that has not ended.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.lines) + string(o.partial)
}

// tailMost is the limit for output in an error, in bytes.
const tailMost = 8 << 10

// Tail returns the end of the output, for an error.
func (o *Output) Tail() string {
	text := strings.TrimSpace(o.String())
	return text[max(0, len(text)-tailMost):]
}
