package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode/utf8"
)

// terminalScreen writes to a terminal. It escapes every control character except line breaks and
// tabs, whatever the source of the text, so a command can't forget it.
type terminalScreen struct {
	mu   sync.Mutex // guards out and rest, because several goroutines may write
	out  io.Writer
	rest []byte // an incomplete character, or the CR of CR LF
}

// newScreen writes to a terminal.
func newScreen(out io.Writer) *terminalScreen { return &terminalScreen{out: out} }

// safeOutput is out itself, or a terminalScreen if out is a terminal. flush writes the buffered rest. Files
// and pipes receive every byte unchanged.
func safeOutput(out io.Writer) (safe io.Writer, flush func()) {
	if !isTerminal(out) {
		return out, func() {}
	}
	s := newScreen(out)
	return s, s.flush
}

// Write writes the complete characters.
func (s *terminalScreen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := append(s.rest, b...)
	whole := len(text) - unfinishedBytes(text)
	s.rest = append([]byte(nil), text[whole:]...)
	if err := s.show(text[:whole]); err != nil {
		return 0, err
	}
	return len(b), nil
}

// flush writes the rest, which is an incomplete character.
func (s *terminalScreen) flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.show(s.rest) // the command has ended
	s.rest = nil
}

// overwrite overwrites the current line of the terminal, for a progress bar.
func overwrite(out io.Writer, text string) {
	const begin = "\r\x1b[K" // to the left, and clear the line
	s, ok := out.(*terminalScreen)
	if !ok {
		fmt.Fprint(out, begin+text)
		return
	}
	s.mu.Lock()
	_, _ = io.WriteString(s.out, begin) // the next write fails too
	s.mu.Unlock()
	fmt.Fprint(s, text)
}

// show writes a text without incomplete characters at its end.
func (s *terminalScreen) show(text []byte) error {
	if len(text) == 0 {
		return nil
	}
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[0]) // some terminals obey such bytes
		case r == '\r' && len(text) > 1 && text[1] == '\n', r == '\n', r == '\t', !deceives(r), r == utf8.RuneError:
			b.WriteRune(r)
		default:
			b.WriteString(escapedRune(r))
		}
		text = text[size:]
	}
	_, err := io.WriteString(s.out, b.String())
	return err
}

// unfinishedBytes is the number of bytes at the end that belong to an incomplete character, or to
// an incomplete CR LF.
func unfinishedBytes(text []byte) int {
	if n := len(text); n > 0 && text[n-1] == '\r' {
		return 1
	}
	for n := 1; n <= min(len(text), utf8.UTFMax-1); n++ {
		if tail := text[len(text)-n:]; utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}
