package main

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// watchBuffer is how many attempts may wait to be printed. A terminal that is
// stopped must not stop deliveries, so attempts beyond it are only counted.
const watchBuffer = 4096

// attemptPrinter prints each attempt as a line a person can read.
type attemptPrinter struct {
	out    io.Writer
	lines  chan string
	missed atomic.Int64
}

func newAttemptPrinter(out io.Writer) *attemptPrinter {
	return &attemptPrinter{out: out, lines: make(chan string, watchBuffer)}
}

// Attempted takes note of an attempt.
func (w *attemptPrinter) Attempted(a dispatcher.Attempted) {
	select {
	case w.lines <- attemptLine(a):
	default:
		w.missed.Add(1)
	}
}

// Published prints nothing: the attempt will show it.
func (w *attemptPrinter) Published(dispatcher.Published) {}

// TookOver prints nothing: dev is one process.
func (w *attemptPrinter) TookOver(int) {}

// Died prints nothing: the log tells it.
func (w *attemptPrinter) Died(dispatcher.Death) {}

// Run prints until ctx ends, and then what is left.
func (w *attemptPrinter) Run(ctx context.Context) error {
	for {
		select {
		case line := <-w.lines:
			w.print(line)
		case <-ctx.Done():
			for len(w.lines) > 0 {
				w.print(<-w.lines)
			}
			return nil
		}
	}
}

func (w *attemptPrinter) print(line string) {
	if missed := w.missed.Swap(0); missed > 0 {
		fmt.Fprintf(w.out, "... %d attempts were not shown\n", missed)
	}
	fmt.Fprintln(w.out, line)
}

// attemptLine is time, message, destination, attempt, answer and what comes next.
func attemptLine(a dispatcher.Attempted) string {
	ended := a.Attempt.At.Add(a.Attempt.Duration).Local()
	answer := string(a.Attempt.Class)
	if a.Attempt.Status != 0 {
		answer = fmt.Sprint(a.Attempt.Status)
	}
	return fmt.Sprintf("%s  %s  %s  attempt %d  %s in %s  %s",
		ended.Format(clock), a.ID.Message, a.Host, a.Attempt.Number, answer, rounded(a.Attempt.Duration), what(a))
}

// what is the state of the delivery after the attempt, in words.
func what(a dispatcher.Attempted) string {
	switch a.Attempt.Verdict {
	case dispatcher.Delivered:
		return "delivered"
	case dispatcher.Retry:
		return fmt.Sprintf("failed, next attempt in %s", rounded(a.Wait))
	case dispatcher.Dead:
		text := fmt.Sprintf("dead, %s", a.Reason)
		if a.Attempt.Error != "" {
			text += ": " + a.Attempt.Error
		}
		return text
	default:
		return a.Attempt.Verdict.String()
	}
}

// rounded keeps the digits that matter to a reader.
func rounded(d time.Duration) time.Duration {
	if d < 10*time.Millisecond {
		return d.Round(100 * time.Microsecond)
	}
	return d.Round(time.Millisecond)
}
