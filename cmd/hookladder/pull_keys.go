package main

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"golang.org/x/term"
)

// readKeys calls press for each key that is typed at a terminal, until press returns false or
// the terminal is closed. Then it calls ended. Until restore, all output has to go through
// out, because a raw terminal does not return to the left at the end of a line.
func readKeys(terminal *os.File, out io.Writer, press func(key byte) bool, ended func()) (shown io.Writer, restore func(), err error) {
	fd := int(terminal.Fd())
	before, err := term.MakeRaw(fd)
	if err != nil {
		return nil, nil, fmt.Errorf("read keys: %w", err)
	}
	go func() {
		defer ended()
		var b [1]byte
		for {
			if n, err := terminal.Read(b[:]); err != nil || n == 1 && !press(b[0]) {
				return
			}
		}
	}()
	return keyLines{out}, func() { _ = term.Restore(fd, before) }, nil
}

// keyLines adds a carriage return to each line.
type keyLines struct{ out io.Writer }

func (l keyLines) Write(b []byte) (int, error) {
	if _, err := l.out.Write(bytes.ReplaceAll(b, []byte("\n"), []byte("\r\n"))); err != nil {
		return 0, err
	}
	return len(b), nil
}
