package main

import (
	"cmp"
	"errors"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/hookladder/hookladder/dispatcher/app"
)

// logLossesEvery is the least time between two lines about losses. A collector that is away loses spans
// all the time.
const logLossesEvery = time.Minute

var errSpansFull = errors.New("more spans ended than the collector takes: the queue is full (OTEL_BSP_MAX_QUEUE_SIZE)")

// spanLosses logs what could not be sent, at most once a minute, with the number of spans since the
// last line.
type spanLosses struct {
	log *slog.Logger

	mu    sync.Mutex // guards the fields below
	spans int        // lost and not logged
	all   int
	next  time.Time // of the next line
	ended bool      // later losses were counted by Close
}

func newSpanLosses(log *slog.Logger) *spanLosses { return &spanLosses{log: log} }

// lossCause returns a loss without the URL of the collector, which may have a token, and without the
// body of its response.
func lossCause(err error) error {
	text := app.Cause(err).Error()
	if before, _, found := strings.Cut(text, "failed to send to "); found {
		status := responsePattern.FindString(text)
		return errors.New(before + "the collector did not accept them: " + cmp.Or(status, "no status"))
	}
	return errors.New(text)
}

// responsePattern is the status in the text of the exporter.
var responsePattern = regexp.MustCompile(`: [1-5][0-9]{2}\b`)

// add counts lost spans, and logs the reason if the last line is old enough.
func (l *spanLosses) add(spans int, why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	l.spans += spans
	l.all += spans
	if now := time.Now(); !now.Before(l.next) {
		l.next = now.Add(logLossesEvery)
		l.log.Warn("traces are not sent; deliveries continue", "spans", l.spans, "err", lossCause(why).Error())
		l.spans = 0
	}
}

// dropped returns the number of spans that were lost so far.
func (l *spanLosses) dropped() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int64(l.all)
}

// end logs the spans that no line has named.
func (l *spanLosses) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	if l.spans > 0 {
		l.log.Warn("traces were not sent", "spans", l.spans, "in_all", l.all)
	}
}
