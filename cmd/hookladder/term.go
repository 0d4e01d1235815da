package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/ladder"
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

// durationVar adds a flag with a duration, such as 5d, 1d12h, 1.5s, or a number of seconds.
func durationVar(flags *pflag.FlagSet, to *time.Duration, name string, usual time.Duration, usage string) {
	*to = usual
	flags.Var((*durationFlag)(to), name, usage)
	if usual == 0 {
		flags.Lookup(name).DefValue = "" // or the help would say (default 0s)
	}
}

// A durationFlag is the value of such a flag.
type durationFlag time.Duration

// String is the duration as people write it.
func (d *durationFlag) String() string { return ladder.FormatDuration(time.Duration(*d)) }

// Set reads it.
func (d *durationFlag) Set(text string) error {
	read, err := ladder.ParseDuration(text)
	if err == nil {
		*d = durationFlag(read)
	}
	return err
}

// Type is the name of the value in the help.
func (d *durationFlag) Type() string { return "duration" }

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

// printTable prints a line of column names, which are separated by tabs, and a line for each row.
// It escapes every text, because a line break would look like another row. Commands print
// to a buffer, so printTable returns no error.
func printTable[T any](out io.Writer, columns string, rows []T, cells func(T) []any) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, columns)
	for _, row := range rows {
		line := cells(row)
		for i, cell := range line {
			switch c := cell.(type) {
			case string:
				line[i] = visible(c)
			case wire.Time:
				line[i] = whenText(c)
			}
		}
		fmt.Fprintf(table, strings.Repeat("%v\t", len(line)-1)+"%v\n", line...)
	}
	_ = table.Flush()
}

const (
	// barEvery is the interval of a progress line: short enough that it moves.
	barEvery = 500 * time.Millisecond
	// barWidth is the width of a bar in characters, so that its line fits in 80.
	barWidth = 24
)

// bar draws how much of a total is done.
func bar(done, total int) string {
	filled := barWidth
	if total > 0 {
		filled = barWidth * done / total
	}
	return "[" + strings.Repeat("=", filled) + strings.Repeat(" ", barWidth-filled) + "]"
}
