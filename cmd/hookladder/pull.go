package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/term"

	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/ladder"
)

// The outcomes of a delivery in the API.
const (
	deliveredOutcome = "delivered"
	retryOutcome     = "retry"
	deadOutcome      = "dead"
	extendOutcome    = "extend"
)

// takenHandler handles a delivery, and returns its settlement. An error ends the loop after the
// settlement was sent.
type takenHandler func(ctx context.Context, d *wire.TakenDelivery) (wire.Settlement, error)

// takeLoop takes deliveries and handles each of them.
type takeLoop struct {
	// The calls of the API: a client's Take and Settle.
	Take   func(ctx context.Context, queue string, t wire.Take) ([]wire.TakenDelivery, error)
	Settle func(ctx context.Context, queue string, results []wire.Settlement) ([]wire.SettledDelivery, error)

	Queue   string        // or the id of an endpoint of kind pull
	Workers int           // deliveries that are handled at once
	Lease   time.Duration // extended while a delivery is handled
	Most    int           // ends after this number of deliveries; 0: no limit
	Drain   bool          // ends when there are no more deliveries
	Grace   time.Duration // how long handlers may run after ctx has ended
	Handle  takenHandler
	Say     func(format string, args ...any) // prints errors for people
}

// takeWait is how long a call waits for a delivery.
const takeWait = 20 * time.Second

// Run takes deliveries until ctx ends or a limit of the loop is reached. It returns an error
// if the first call fails, or if a retry would fail too.
func (l *takeLoop) Run(ctx context.Context) error {
	taking, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	handling, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	defer context.AfterFunc(taking, func() { time.AfterFunc(l.Grace, cut) })()
	var running sync.WaitGroup
	slots := make(chan struct{}, l.Workers)
	err := l.take(taking, func(d *wire.TakenDelivery) {
		running.Go(func() {
			defer func() { <-slots }()
			if err := l.handle(handling, d); err != nil {
				stop(err)
			}
		})
	}, slots)
	running.Wait()
	if cause := context.Cause(taking); err == nil && ctx.Err() == nil && cause != nil {
		err = cause
	}
	return err
}

// take sends the deliveries that it takes to begin, with a slot for each of them.
func (l *takeLoop) take(ctx context.Context, begin func(*wire.TakenDelivery), slots chan struct{}) error {
	again := backoff{say: l.Say}
	for n := 0; l.Most == 0 || n < l.Most; {
		free := l.gather(ctx, slots, l.Most-n)
		if free == 0 {
			return nil // ctx has ended
		}
		t := wire.Take{Max: free, Lease: wire.Duration(l.Lease), Wait: wire.Duration(takeWait)}
		if l.Drain {
			t.Wait = 0
		}
		got, err := l.Take(ctx, l.Queue, t)
		for range free - len(got) {
			<-slots
		}
		n += len(got)
		for i := range got {
			begin(&got[i])
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			if err := again.wait(ctx, err); err != nil {
				return err
			}
		default:
			again.worked()
			if l.Drain && len(got) == 0 {
				return nil
			}
		}
	}
	return nil
}

// mostTaken is the most deliveries of one call.
const mostTaken = 100

// gather waits for a slot, and takes other free slots, up to the limit. It returns 0 when ctx
// has ended.
func (l *takeLoop) gather(ctx context.Context, slots chan struct{}, most int) (got int) {
	if most <= 0 || most > mostTaken {
		most = mostTaken
	}
	select {
	case slots <- struct{}{}:
	case <-ctx.Done():
		return 0
	}
	for got = 1; got < most; got++ {
		select {
		case slots <- struct{}{}:
		default:
			return got
		}
	}
	return got
}

// handle handles one delivery, extends its lease in the meantime, and sends the settlement.
func (l *takeLoop) handle(ctx context.Context, d *wire.TakenDelivery) error {
	working, done := context.WithCancel(ctx)
	var extending sync.WaitGroup
	extending.Go(func() { l.extendLease(working, d) })
	s, failed := l.Handle(ctx, d)
	done()
	extending.Wait()
	s.ID, s.Lease = d.ID, d.Lease
	l.settle(context.WithoutCancel(ctx), s)
	return failed
}

// extendLease extends the lease in time until ctx ends.
func (l *takeLoop) extendLease(ctx context.Context, d *wire.TakenDelivery) {
	every := time.NewTicker(l.Lease / 2)
	defer every.Stop()
	lasts := wire.Duration(l.Lease)
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
		l.settle(ctx, wire.Settlement{ID: d.ID, Lease: d.Lease, Outcome: extendOutcome, After: &lasts})
	}
}

// settleTakenWithin is the time limit of a settlement.
const settleTakenWithin = 20 * time.Second

// settle sends the settlement of a delivery. If that fails, the lease ends, and the delivery
// is taken again.
func (l *takeLoop) settle(ctx context.Context, s wire.Settlement) {
	call, cancel := context.WithTimeout(ctx, settleTakenWithin)
	defer cancel()
	results, err := l.Settle(call, l.Queue, []wire.Settlement{s})
	switch {
	case ctx.Err() != nil:
	case err != nil:
		l.Say("%s: %s could not be sent, so the delivery is taken again after its lease: %v", s.ID, s.Outcome, err)
	case len(results) == 1 && results[0].Result != "ok":
		l.Say("%s: %s came too late, because its lease had ended: the delivery is %s", s.ID, s.Outcome, results[0].Status)
	}
}

// backoff waits between calls that fail, and says when they fail and when one succeeds again.
type backoff struct {
	say    func(format string, args ...any)
	stood  bool // a call was answered
	next   time.Duration
	failed bool
}

// The pause between two failed calls, which doubles.
const (
	firstPause = 500 * time.Millisecond
	mostPause  = 15 * time.Second
)

// wait waits after a failed call. It returns the error if a retry would fail too.
func (b *backoff) wait(ctx context.Context, err error) error {
	var p *client.Problem
	answered := errors.As(err, &p)
	lasting := answered && p.Status < 500 && p.Status != http.StatusTooManyRequests || !answered && !errors.Is(err, client.ErrUnreachable)
	if lasting || !b.stood {
		return err
	}
	if !b.failed {
		b.say("%s; retrying", visible(err.Error()))
		b.failed, b.next = true, firstPause
	}
	pause := b.next/2 + rand.N(b.next/2+1) // not all callers at once
	if answered {
		pause = max(pause, min(p.RetryAfter, mostPause))
	}
	b.next = min(2*b.next, mostPause)
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	return nil
}

// worked records a successful call.
func (b *backoff) worked() {
	if b.failed {
		b.say("connected again")
	}
	b.stood, b.failed = true, false
}

// failedSettlement is the settlement of a failed attempt.
func failedSettlement(format string, args ...any) wire.Settlement {
	return wire.Settlement{Outcome: retryOutcome, Error: fmt.Sprintf(format, args...)}
}

// Exit statuses with a meaning: EX_DATAERR of sysexits.h, and the statuses of a shell that
// can't run a program.
const (
	exitDead   = 65
	exitNoRun  = 126
	exitNoFind = 127
)

// errNoProgram means that the program could not be started.
var errNoProgram = errors.New("the program can't be started")

// execHandler runs a program for each delivery, with the body as standard input. Exit status 0
// means delivered, 65 means dead, and any other status means that it failed.
type execHandler struct {
	Command string // of the shell
	Timeout time.Duration
	Environ []string // it gets these and HOOKLADDER_...
	Out     io.Writer
	Err     io.Writer

	mu sync.Mutex // keeps the lines of parallel programs whole
}

// shownError is the most bytes of a program's last line that are stored as the error.
const shownError = 1 << 10

// Handle runs the program for one delivery.
func (e *execHandler) Handle(ctx context.Context, d *wire.TakenDelivery) (wire.Settlement, error) {
	ctx, cancel := context.WithTimeout(ctx, e.Timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", e.Command)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 5 * time.Second
	cmd.Stdin = bytes.NewReader(d.Bytes())
	said := &tailBuffer{most: shownError}
	cmd.Stdout, cmd.Stderr = &sharedWriter{mu: &e.mu, out: e.Out}, io.MultiWriter(&sharedWriter{mu: &e.mu, out: e.Err}, said)
	cmd.Env = append(append([]string{}, e.Environ...),
		"HOOKLADDER_DELIVERY_ID="+d.ID, "HOOKLADDER_MESSAGE_ID="+d.Message.ID, "HOOKLADDER_TOPIC="+d.Message.Topic,
		"HOOKLADDER_TENANT="+d.Message.Tenant, "HOOKLADDER_SUBJECT="+d.Message.Subject,
		"HOOKLADDER_ATTEMPT="+strconv.Itoa(d.Attempt), "HOOKLADDER_CONTENT_TYPE="+d.Message.ContentType)
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return failedSettlement("the program took longer than %s", ladder.FormatDuration(e.Timeout)), nil
	case err == nil, errors.Is(err, exec.ErrWaitDelay): // a child process still has its output open
		return wire.Settlement{Outcome: deliveredOutcome}, nil
	case !errors.As(err, &exit):
		return failedSettlement("%v: %v", errNoProgram, err), fmt.Errorf("%w: %w", errNoProgram, err)
	}
	s := failedSettlement("%s%s", exit, said.last())
	switch exit.ExitCode() {
	case exitDead:
		s.Outcome = deadOutcome
	case exitNoRun, exitNoFind:
		return s, fmt.Errorf("%w: %s", errNoProgram, s.Error)
	}
	return s, nil
}

// sharedWriter writes to an output of several writers.
type sharedWriter struct {
	mu  *sync.Mutex
	out io.Writer
}

func (s *sharedWriter) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.Write(b)
}

// tailBuffer keeps the end of the written text.
type tailBuffer struct {
	most int
	kept []byte
}

func (t *tailBuffer) Write(b []byte) (int, error) {
	t.kept = append(t.kept, b...)
	if len(t.kept) > 2*t.most {
		t.kept = append(t.kept[:0], t.kept[len(t.kept)-t.most:]...)
	}
	return len(b), nil
}

// last is the last line that is not empty, behind a colon.
func (t *tailBuffer) last() string {
	text := strings.TrimSpace(strings.ToValidUTF8(string(t.kept), "\uFFFD"))
	if text = text[strings.LastIndexByte(text, '\n')+1:]; text == "" {
		return ""
	}
	return ": " + text[max(len(text)-t.most, 0):]
}

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
