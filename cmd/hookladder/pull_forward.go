package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/ladder"
)

// forwardHandler sends each delivery to an app, like a webhook.
type forwardHandler struct {
	URL     string
	Timeout time.Duration
	Delay   time.Duration // before each attempt
	Status  int           // status of attempts that have to fail
	All     bool          // all attempts have to fail
	Out     io.Writer
	Clock   func() string // the time, as a line begins with it

	fails  atomic.Int32 // attempts that have to fail
	last   atomic.Pointer[string]
	client http.Client
	once   sync.Once
	mu     sync.Mutex // a line is written whole
}

// FailNext makes n more attempts fail, without calling the app.
func (f *forwardHandler) FailNext(n int) { f.fails.Add(int32(n)) }

// Last is the message of the last attempt; empty: there was none.
func (f *forwardHandler) Last() string {
	if id := f.last.Load(); id != nil {
		return *id
	}
	return ""
}

// Println writes a line.
func (f *forwardHandler) Println(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fmt.Fprintf(f.Out, format+"\n", args...)
}

// mustFail reports whether an attempt has to fail, and counts it.
func (f *forwardHandler) mustFail() bool {
	if f.All {
		return true
	}
	for {
		n := f.fails.Load()
		if n <= 0 {
			return false
		}
		if f.fails.CompareAndSwap(n, n-1) {
			return true
		}
	}
}

// forwardReply is the app's response to an attempt.
type forwardReply struct {
	status int
	header http.Header
	body   []byte
	err    error
	own    bool // the app was not called
	took   time.Duration
}

// Handle makes one attempt and prints it.
func (f *forwardHandler) Handle(ctx context.Context, d *wire.TakenDelivery) (wire.Settlement, error) {
	f.last.Store(&d.Message.ID)
	if f.Delay > 0 {
		timer := time.NewTimer(f.Delay)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
	r := forwardReply{status: f.Status, own: true}
	if !f.mustFail() {
		r = f.ask(ctx, d)
	}
	s := f.judge(&r)
	f.print(d, &r, s)
	return s, nil
}

// shownAnswer is the most bytes of a response that are read.
const shownAnswer = 4 << 10

// ask calls the app with the headers and the body of a webhook.
func (f *forwardHandler) ask(ctx context.Context, d *wire.TakenDelivery) (r forwardReply) {
	f.once.Do(func() {
		f.client = http.Client{
			Timeout:       f.Timeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.URL, bytes.NewReader(d.Bytes()))
	if err != nil {
		return forwardReply{err: err}
	}
	for name, value := range d.Headers {
		req.Header.Set(name, value)
	}
	began := time.Now()
	resp, err := f.client.Do(req)
	r.took = time.Since(began)
	if err != nil {
		r.err = err
		return r
	}
	defer resp.Body.Close() //nolint:errcheck // the body was read
	r.status, r.header = resp.StatusCode, resp.Header
	r.body, r.err = io.ReadAll(io.LimitReader(resp.Body, shownAnswer))
	return r
}

// judge decides the outcome of a response, as for any receiver.
func (f *forwardHandler) judge(r *forwardReply) wire.Settlement {
	switch {
	case r.err != nil:
		return failedSettlement("no answer: %v", r.err)
	case r.status >= 200 && r.status <= 299:
		return wire.Settlement{Outcome: deliveredOutcome}
	}
	s := failedSettlement("status %d", r.status)
	switch {
	case r.status == http.StatusGone, r.header.Get("webhook-delivery") == "abort-message":
		s.Outcome = deadOutcome
	case r.status == http.StatusTooManyRequests || r.status == http.StatusServiceUnavailable:
		if seconds, err := strconv.Atoi(r.header.Get("Retry-After")); err == nil && seconds > 0 {
			after := wire.Duration(time.Duration(min(seconds, 24*60*60)) * time.Second)
			s.After = &after
		}
	}
	return s
}

// print prints a line for an attempt, and the first lines of a response that is no success.
func (f *forwardHandler) print(d *wire.TakenDelivery, r *forwardReply, s wire.Settlement) {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s %s, attempt %d: ", f.Clock(), visible(d.Message.Topic), d.Message.ID, d.Attempt)
	switch {
	case r.own:
		fmt.Fprintf(&b, "answered %d for the app", r.status)
	case r.err != nil:
		fmt.Fprintf(&b, "%s", visible(s.Error))
	default:
		fmt.Fprintf(&b, "%d in %d ms", r.status, r.took.Milliseconds())
	}
	switch {
	case s.Outcome == deadOutcome:
		b.WriteString("; it is not tried again")
	case s.Outcome == retryOutcome && s.After != nil:
		fmt.Fprintf(&b, "; tried again in %s", ladder.FormatDuration(time.Duration(*s.After)))
	case s.Outcome == retryOutcome:
		b.WriteString("; tried again after its ladder's next wait")
	}
	if s.Outcome != deliveredOutcome {
		lines := strings.SplitN(strings.TrimRight(string(r.body), "\r\n"), "\n", shownAnswerLines+1)
		for _, line := range lines[:min(len(lines), shownAnswerLines)] {
			if line = strings.TrimRight(line, "\r"); line != "" {
				fmt.Fprintf(&b, "\n  | %s", visible(line))
			}
		}
	}
	f.Println("%s", b.String())
}

// shownAnswerLines is the number of printed lines of a response.
const shownAnswerLines = 8
