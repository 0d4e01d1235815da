package kit

import (
	"bytes"
	"strings"
	"sync"
)

// Output is what a process writes.
type Output struct {
	keep int // bytes of complete lines; 0: all

	mu      sync.Mutex // guards what follows
	lines   []byte     // complete lines
	partial []byte     // a line that has not ended
	waits   []wait
}

// wait is for one line.
type wait struct {
	text  string
	found chan string
}

// NewOutput keeps that many bytes of what is written to it; 0: all.
func NewOutput(keep int) *Output { return &Output{keep: keep} }

// Write takes more output.
func (o *Output) Write(text []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.partial = append(o.partial, text...)
	for {
		line, rest, ended := bytes.Cut(o.partial, []byte("\n"))
		if !ended {
			return len(text), nil
		}
		o.tell(string(line))
		o.lines = append(append(o.lines, line...), '\n')
		if over := len(o.lines) - o.keep; o.keep > 0 && over > 0 {
			o.lines = bytes.Clone(o.lines[over:])
		}
		o.partial = bytes.Clone(rest)
	}
}

// tell hands a line to all that wait for it.
func (o *Output) tell(line string) {
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

// Await answers where the first line that contains text comes: one that is
// there already, or a later one.
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

// String is all that is kept, and a line that has not ended.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.lines) + string(o.partial)
}

// tailMost is how much of the output an error shows.
const tailMost = 8 << 10

// Tail is the end of the output, for an error.
func (o *Output) Tail() string {
	text := strings.TrimSpace(o.String())
	return text[max(0, len(text)-tailMost):]
}
