package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAScreenEscapesWhatATerminalObeys(t *testing.T) {
	for text, want := range map[string]string{
		"a\tb\n":                  "a\tb\n",
		"a,b\r\n":                 "a,b\r\n", // CSV
		"a\rb":                    `a\u{d}b`, // it would write over the line
		"\x1b]0;PWN\a\x1b[2J":     `\u{1b}]0;PWN\u{7}\u{1b}[2J`,
		"\u009b2J\u202eabc\u2028": `\u{9b}2J\u{202e}abc\u{2028}`,
		"\x9b2J":                  `\x9b2J`, // of a terminal that is not set to UTF-8
		"\x00\b\x7f":              `\u{0}\u{8}\u{7f}`,
		"支付 ＝ 5 € \ufffd":         "支付 ＝ 5 € \ufffd",
	} {
		for n := 1; n <= len(text); n++ { // writers cut where they like
			var out bytes.Buffer
			s := newScreen(&out)
			for rest := []byte(text); len(rest) > 0; rest = rest[min(n, len(rest)):] {
				wrote, err := s.Write(rest[:min(n, len(rest))])
				require.NoError(t, err)
				require.Equal(t, min(n, len(rest)), wrote)
			}
			require.Equal(t, want, out.String(), "%q in writes of %d bytes", text, n)
		}
	}
	require.True(t, isTerminal(newScreen(nil)))
}

// Progress clears its line. Text of others can't.
func TestOnlyProgressClearsALine(t *testing.T) {
	var out bytes.Buffer
	s := newScreen(&out)
	overwrite(s, "half\r\x1b[K")
	require.Equal(t, "\r\x1b[Khalf\\u{d}\\u{1b}[K", out.String())
}
