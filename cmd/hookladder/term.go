package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

// visible makes foreign text safe for a terminal: characters that would move the
// cursor, set a title or reverse the order of letters are escaped.
func visible(text string) string {
	return escapeText(text, escapedRune)
}

// escapedRune is the escape of a character.
func escapedRune(r rune) string { return fmt.Sprintf(`\u{%x}`, r) }

// whenText is a time with milliseconds. The zero time is a dash.
func whenText(t wire.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format("2006-01-02 15:04:05.000 MST")
}

// commas is a number with a comma between its thousands.
func commas[N int | int64](n N) string { return humanize.Comma(int64(n)) }

// escapeText replaces the characters that deceive.
func escapeText(text string, as func(rune) string) string {
	if strings.IndexFunc(text, deceives) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if deceives(r) {
			b.WriteString(as(r))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// deceives reports whether a terminal does anything else with a character than
// show it. Such are controls (C0, C1), characters that order or hide others (marks
// of direction, joiners, separators of lines), and bytes that are no text.
func deceives(r rune) bool {
	return unicode.Is(unicode.Cc, r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r) ||
		r == utf8.RuneError
}

// safeJSON makes JSON safe for a terminal. Outside of strings JSON has no
// character that deceives but white space, so each may be written as an escape.
type safeJSON struct{ Out io.Writer }

// Write writes whole values.
func (p safeJSON) Write(b []byte) (int, error) {
	text := escapeText(strings.ToValidUTF8(string(b), "\uFFFD"), func(r rune) string {
		switch {
		case r == '\n' || r == '\t' || r == '\r' || r == utf8.RuneError:
			return string(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			return fmt.Sprintf(`\u%04x\u%04x`, high, low)
		default:
			return fmt.Sprintf(`\u%04x`, r)
		}
	})
	if _, err := io.WriteString(p.Out, text); err != nil {
		return 0, err
	}
	return len(b), nil
}

// agrees asks a question and reports whether the answer is yes. It writes to standard error,
// because the output may go into a file.
func agrees(cmd *cobra.Command, question string) bool {
	fmt.Fprintf(cmd.ErrOrStderr(), "%s [y/N] ", question)
	answer := make(chan string, 1)
	go func() { // a read of a terminal ends with no context
		line, _ := bufio.NewReader(cmd.InOrStdin()).ReadString('\n') // an end without an answer is a no
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case <-cmd.Context().Done():
		return false
	case said := <-answer:
		return said == "y" || said == "yes"
	}
}

// isTerminal reports whether a stream is a terminal, with a person before it.
func isTerminal(stream any) bool {
	if _, ok := stream.(*terminalScreen); ok {
		return true
	}
	file, ok := stream.(*os.File)
	if !ok {
		return false
	}
	stat, err := file.Stat()
	return err == nil && stat.Mode()&os.ModeCharDevice != 0 && !isNull(stream)
}

// isNull reports whether a stream is the null device. Services and cron give it to
// their commands: there is no person to ask, and nothing to read.
func isNull(stream any) bool {
	file, ok := stream.(*os.File)
	if !ok {
		return false
	}
	stat, err := file.Stat()
	null, nullErr := os.Stat(os.DevNull)
	return err == nil && nullErr == nil && os.SameFile(stat, null)
}
