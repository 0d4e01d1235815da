package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// takeAPI has deliveries to take, and notes what became of them.
type takeAPI struct {
	mu      sync.Mutex
	waiting []wire.TakenDelivery
	fails   []error // of the next calls of Take
	asked   []wire.Take
	settled []wire.Settlement
	posted  chan wire.Settlement
}

func newTakeAPI(bodies ...string) *takeAPI {
	a := &takeAPI{posted: make(chan wire.Settlement, 1000)}
	for i, body := range bodies {
		a.waiting = append(a.waiting, wire.TakenDelivery{
			ID: fmt.Sprintf("q_a:m%d", i), Lease: fmt.Sprint("lease", i), Attempt: 1 + i, RawBodyBase64: []byte(body),
			Message: wire.TakenMessage{ID: fmt.Sprint("m", i), Topic: "a.b", ContentType: "text/plain"},
			Headers: map[string]string{"content-type": "text/plain", "webhook-id": fmt.Sprint("m", i)},
		})
	}
	return a
}

func (a *takeAPI) Take(ctx context.Context, _ string, t wire.Take) ([]wire.TakenDelivery, error) {
	a.mu.Lock()
	a.asked = append(a.asked, t)
	var err error
	if len(a.fails) > 0 {
		err, a.fails = a.fails[0], a.fails[1:]
	}
	var got []wire.TakenDelivery
	if err == nil {
		n := min(t.Max, len(a.waiting))
		got, a.waiting = a.waiting[:n:n], a.waiting[n:]
	}
	a.mu.Unlock()
	if err == nil && len(got) == 0 && t.Wait > 0 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return got, err
}

func (a *takeAPI) Settle(_ context.Context, _ string, results []wire.Settlement) ([]wire.SettledDelivery, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := make([]wire.SettledDelivery, len(results))
	for i, s := range results {
		a.settled = append(a.settled, s)
		out[i] = wire.SettledDelivery{ID: s.ID, Result: "ok"}
		a.posted <- s
	}
	return out, nil
}

func (a *takeAPI) outcomes() map[string]string {
	out := map[string]string{}
	for _, s := range a.settled {
		out[s.ID] = s.Outcome
	}
	return out
}

// forwardSaid notes what a person is told.
type forwardSaid struct {
	mu    sync.Mutex
	lines []string
}

func (s *forwardSaid) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, fmt.Sprintf(format, args...))
}

func testLoop(a *takeAPI, h takenHandler) *takeLoop {
	return &takeLoop{Take: a.Take, Settle: a.Settle, Queue: "a", Workers: 4, Lease: time.Hour, Drain: true, Handle: h, Grace: time.Minute, Say: (&forwardSaid{}).say}
}

func TestEachBodyIsHandedToAProgramAndItsExitStatusSaysWhatBecameOfIt(t *testing.T) {
	a := newTakeAPI("exit 0", "exit 65", "echo why >&2; exit 3")
	var out, errs bytes.Buffer
	program := &execHandler{
		Command: `echo "$HOOKLADDER_MESSAGE_ID $HOOKLADDER_TOPIC $HOOKLADDER_ATTEMPT $HOOKLADDER_DELIVERY_ID"; exec sh`,
		Timeout: time.Minute, Environ: []string{"PATH=/usr/bin:/bin"}, Out: &out, Err: &errs,
	}
	require.NoError(t, testLoop(a, program.Handle).Run(t.Context()))
	require.Equal(t, map[string]string{"q_a:m0": "delivered", "q_a:m1": "dead", "q_a:m2": "retry"}, a.outcomes())
	for _, s := range a.settled {
		if s.ID == "q_a:m2" {
			require.Equal(t, "exit status 3: why", s.Error)
			require.Equal(t, "lease2", s.Lease)
		}
	}
	require.Contains(t, out.String(), "m2 a.b 3 q_a:m2\n")
	require.Contains(t, errs.String(), "why\n")
}

func TestAProgramThatTakesTooLongIsInterrupted(t *testing.T) {
	a := newTakeAPI("1")
	program := &execHandler{Command: "exec sleep 1000", Timeout: 50 * time.Millisecond, Environ: []string{"PATH=/usr/bin:/bin"}, Out: io.Discard, Err: io.Discard}
	require.NoError(t, testLoop(a, program.Handle).Run(t.Context()))
	require.Equal(t, "retry", a.settled[0].Outcome)
	require.Equal(t, "the program took longer than 50ms", a.settled[0].Error)
}

func TestAProgramThatIsNotThereCostsOneAttemptAndEndsIt(t *testing.T) {
	a := newTakeAPI("a", "b", "c")
	program := &execHandler{Command: "no-such-program-here", Timeout: time.Minute, Environ: []string{"PATH=/usr/bin:/bin"}, Out: io.Discard, Err: io.Discard}
	l := testLoop(a, program.Handle)
	l.Workers = 1
	err := l.Run(t.Context())
	require.ErrorIs(t, err, errNoProgram)
	require.Equal(t, map[string]string{"q_a:m0": "retry"}, a.outcomes())
}

func TestOnlySoManyAreTakenAndHandledAtOnce(t *testing.T) {
	a := newTakeAPI("1", "2", "3", "4", "5", "6")
	var mu sync.Mutex
	running, most := 0, 0
	l := testLoop(a, func(context.Context, *wire.TakenDelivery) (wire.Settlement, error) {
		mu.Lock()
		running++
		most = max(most, running)
		mu.Unlock()
		defer func() {
			mu.Lock()
			running--
			mu.Unlock()
		}()
		return wire.Settlement{Outcome: "delivered"}, nil
	})
	l.Workers, l.Most, l.Drain = 2, 5, false
	require.NoError(t, l.Run(t.Context()))
	require.Len(t, a.settled, 5)
	require.LessOrEqual(t, most, 2)
	for _, asked := range a.asked {
		require.LessOrEqual(t, asked.Max, 2)
	}
}

func TestALeaseIsMadeLongerWhileItsDeliveryIsHandled(t *testing.T) {
	a := newTakeAPI("1")
	l := testLoop(a, func(context.Context, *wire.TakenDelivery) (wire.Settlement, error) {
		s := <-a.posted
		return wire.Settlement{Outcome: "delivered", Error: s.Outcome}, nil
	})
	l.Lease = 20 * time.Millisecond
	require.NoError(t, l.Run(t.Context()))
	last := a.settled[len(a.settled)-1]
	require.Equal(t, "delivered", last.Outcome)
	require.Equal(t, "extend", last.Error, "it was made longer before")
	require.Equal(t, wire.Duration(20*time.Millisecond), *a.settled[0].After)
}

func TestAnOutageIsPassedOverButNotAtTheBeginningNorARefusal(t *testing.T) {
	away := fmt.Errorf("take: %w", client.ErrUnreachable)
	handle := func(context.Context, *wire.TakenDelivery) (wire.Settlement, error) {
		return wire.Settlement{Outcome: "delivered"}, nil
	}
	a := newTakeAPI("1")
	a.fails = []error{away}
	require.ErrorIs(t, testLoop(a, handle).Run(t.Context()), client.ErrUnreachable)

	a = newTakeAPI("1", "2")
	a.fails = []error{nil, away}
	l, reported := testLoop(a, handle), &forwardSaid{}
	l.Workers, l.Say = 1, reported.say
	require.NoError(t, l.Run(t.Context()))
	require.Len(t, a.settled, 2)
	require.Len(t, reported.lines, 2, "once that it is away, and once that it is back")

	refused := &client.Problem{Problem: wire.Problem{Status: http.StatusForbidden}}
	a = newTakeAPI("1", "2")
	a.fails = []error{nil, refused}
	l = testLoop(a, handle)
	l.Workers = 1
	err := l.Run(t.Context())
	require.True(t, errors.As(err, &refused), err)
}

func TestWhatIsUnderWayMayFinish(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	a := newTakeAPI("1")
	l := testLoop(a, func(ctx context.Context, _ *wire.TakenDelivery) (wire.Settlement, error) {
		stop()
		return wire.Settlement{Outcome: "delivered"}, ctx.Err()
	})
	l.Drain = false
	require.NoError(t, l.Run(ctx))
	require.Equal(t, map[string]string{"q_a:m0": "delivered"}, a.outcomes())

	ctx, stop = context.WithCancel(t.Context())
	a = newTakeAPI("1")
	l = testLoop(a, func(ctx context.Context, _ *wire.TakenDelivery) (wire.Settlement, error) {
		stop()
		<-ctx.Done() // cut, since there is no grace
		return wire.Settlement{Outcome: "retry"}, nil
	})
	l.Drain, l.Grace = false, 0
	require.NoError(t, l.Run(ctx))
	require.Equal(t, map[string]string{"q_a:m0": "retry"}, a.outcomes())
}

func TestAnAppGetsACallbackAndItsAnswerDecides(t *testing.T) {
	var mu sync.Mutex
	var got []string
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		got = append(got, r.Method+" "+r.URL.Path+" "+r.Header.Get("webhook-id")+" "+string(body))
		mu.Unlock()
		switch string(body) {
		case "gone":
			w.WriteHeader(http.StatusGone)
		case "later":
			w.Header().Set("Retry-After", "30")
			w.WriteHeader(http.StatusServiceUnavailable)
		case "wrong":
			http.Error(w, "a\x1b[2Jb\nsecond", http.StatusBadRequest)
		}
	}))
	defer app.Close()
	a := newTakeAPI("good", "gone", "later", "wrong")
	var out bytes.Buffer
	f := &forwardHandler{URL: app.URL + "/hooks", Timeout: time.Minute, Status: 500, Out: &out, Clock: func() string { return "12:00" }}
	l := testLoop(a, f.Handle)
	l.Workers = 1
	require.NoError(t, l.Run(t.Context()))
	require.Equal(t, []string{"POST /hooks m0 good", "POST /hooks m1 gone", "POST /hooks m2 later", "POST /hooks m3 wrong"}, got)
	require.Equal(t, map[string]string{"q_a:m0": "delivered", "q_a:m1": "dead", "q_a:m2": "retry", "q_a:m3": "retry"}, a.outcomes())
	later := a.settled[slices.IndexFunc(a.settled, func(s wire.Settlement) bool { return s.ID == "q_a:m2" })]
	require.Equal(t, wire.Duration(30*time.Second), *later.After)
	require.Equal(t, "m3", f.Last())
	require.Regexp(t, `(?m)^12:00  a\.b m0, attempt 1: 200 in \d+ ms$`, out.String())
	require.Regexp(t, `(?m)^12:00  a\.b m1, attempt 2: 410 in \d+ ms; it is not tried again$`, out.String())
	require.Contains(t, out.String(), "; tried again in 30s\n")
	require.Contains(t, out.String(), `  | a\u{1b}[2Jb`+"\n  | second\n", "nothing of an answer moves the cursor")
}

func TestAttemptsFailAsAskedWithoutTheApp(t *testing.T) {
	calls := 0
	app := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls++ }))
	a := newTakeAPI("1", "2", "3")
	var out bytes.Buffer
	f := &forwardHandler{URL: app.URL, Timeout: time.Minute, Status: 503, Out: &out, Clock: func() string { return "12:00" }}
	f.FailNext(2)
	l := testLoop(a, f.Handle)
	l.Workers = 1
	require.NoError(t, l.Run(t.Context()))
	require.Equal(t, 1, calls)
	require.Equal(t, map[string]string{"q_a:m0": "retry", "q_a:m1": "retry", "q_a:m2": "delivered"}, a.outcomes())
	require.Equal(t, 2, strings.Count(out.String(), "answered 503 for the app"))

	app.Close()
	a = newTakeAPI("1")
	f.All = false
	require.NoError(t, testLoop(a, f.Handle).Run(t.Context()))
	require.Contains(t, a.settled[0].Error, "no answer: ")
}
