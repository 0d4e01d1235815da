package queue_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/queue"
)

// faulty is an error whose methods do something else than to answer.
type faulty struct{ text, unwrap, as func() }

func (e *faulty) Error() string { e.text(); return "faulty" }
func (e *faulty) Unwrap() error { e.unwrap(); return nil }
func (e *faulty) As(any) bool   { e.as(); return false }

// bomb is a panic's value that panics itself, with such a value again.
type bomb struct{}

func (b bomb) String() string { panic(b) }

func TestCodeOfAHandlersErrorEndsNoProgram(t *testing.T) {
	fine := func() {}
	boom := func() { panic("boom") }
	for name, c := range map[string]struct {
		err    func() error
		status dispatcher.Status
		says   []string
	}{
		"a nil pointer as an error": {
			func() error { var e *faulty; return e }, dispatcher.StatusDelivered,
			[]string{"a nil *queue_test.faulty, which as an error is not nil", "runtime error", "queue_test.(*faulty)"},
		},
		"its text panics":   {func() error { return &faulty{boom, fine, fine} }, dispatcher.StatusDelivered, []string{"*queue_test.faulty: boom\n"}},
		"Unwrap panics":     {func() error { return &faulty{fine, boom, fine} }, dispatcher.StatusDelivered, []string{"*queue_test.faulty: boom\n", ".Unwrap"}},
		"As panics":         {func() error { return &faulty{fine, fine, boom} }, dispatcher.StatusDelivered, []string{"*queue_test.faulty: boom\n", ".As"}},
		"a wrapped one too": {func() error { return fmt.Errorf("order 17: %w", &faulty{fine, boom, fine}) }, dispatcher.StatusDelivered, []string{"boom\n"}},
		"what it panics with panics too": {
			func() error { return &faulty{func() { panic(bomb{}) }, fine, fine} }, dispatcher.StatusDelivered,
			[]string{"a queue_test.bomb, which panics when it is printed"},
		},
		"so does what the handler panics with": {
			func() error { panic(bomb{}) }, dispatcher.StatusDelivered, []string{"panic: a queue_test.bomb, which panics when it is printed"},
		},
		"it ends the goroutine": {func() error { return &faulty{runtime.Goexit, fine, fine} }, dispatcher.StatusDelivered, []string{"ended its goroutine"}},
		"a panic's value ends the goroutine": {
			func() error { panic(&faulty{runtime.Goexit, fine, fine}) }, dispatcher.StatusDelivered, []string{"ended its goroutine"},
		},
		"what it says besides counts": {func() error { return queue.SkipRetry(&faulty{boom, fine, fine}) }, dispatcher.StatusDead, []string{"boom"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newTestQueue(t, queue.Options{Ladder: rungs, Workers: 1})
			p.Handle("work", once(c.err))
			p.start(t)
			d := p.ends(t, p.publish(t, queue.Task{}).ID)
			require.Equal(t, c.status, d.Status)
			for _, text := range c.says {
				require.Contains(t, d.History[0].Error, text)
			}
			next := p.ends(t, p.publish(t, queue.Task{}).ID)
			require.Equal(t, dispatcher.StatusDelivered, next.Status, "its worker goes on")
		})
	}
}

// logged tells the messages of a log.
type logged struct {
	slog.Handler
	lines chan string
}

func newLogged() logged { return logged{slog.DiscardHandler, make(chan string, 100)} }

func (l logged) Enabled(context.Context, slog.Level) bool { return true }

func (l logged) Handle(_ context.Context, r slog.Record) error {
	select {
	case l.lines <- r.Level.String() + " " + r.Message:
	default:
	}
	return nil
}

// waitFor waits for a line.
func (l logged) waitFor(t testing.TB, line string) {
	t.Helper()
	for receive(t, l.lines) != line {
		continue
	}
}

// unread is a log whose reader hangs.
type unread struct {
	logged
	reads chan struct{} // closed: it reads
}

func (l unread) Handle(ctx context.Context, r slog.Record) error {
	<-l.reads
	return l.logged.Handle(ctx, r)
}

func TestALogThatHangsStopsNoHandler(t *testing.T) {
	log := unread{newLogged(), make(chan struct{})}
	p := newTestQueue(t, queue.Options{Workers: 2, MaxAttempts: 1, Log: slog.New(log)})
	p.Handle("work", func(_ context.Context, d queue.Delivery) error {
		if d.Topic == "bad" {
			panic("bad")
		}
		return nil
	})
	p.start(t)
	for range 5 {
		require.Equal(t, dispatcher.StatusDead, p.ends(t, p.publish(t, queue.Task{Topic: "bad"}).ID).Status)
	}
	require.Equal(t, dispatcher.StatusDelivered, p.ends(t, p.publish(t, queue.Task{}).ID).Status)
	close(log.reads)
	log.waitFor(t, "ERROR handler panicked")
}

const (
	isOverdue = "WARN a handler did not return by its deadline; its worker is not free until it does"
	gaveUp    = "WARN a handler took twice its timeout: its attempt has failed"
	cameLate  = "WARN a handler returned after its attempt was given up"
)

func TestASuccessAfterTheDeadlineCountsAndKeepsTheOrder(t *testing.T) {
	log := newLogged()
	p := newTestQueue(t, queue.Options{Ladder: rungs, Log: slog.New(log)})
	var mu sync.Mutex
	var order []string
	note := func(what string, d queue.Delivery) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, fmt.Sprintf("%s %s %d", what, d.MessageID, d.Attempt))
	}
	release := make(chan struct{})
	p.Handle("work", func(_ context.Context, d queue.Delivery) error {
		note("begin", d)
		if d.MessageID == "first" {
			<-release
		}
		note("end", d)
		return nil
	})
	p.start(t)
	p.publish(t, queue.Task{ID: "first", OrderingKey: "account", Timeout: time.Second})
	p.publish(t, queue.Task{ID: "second", OrderingKey: "account"})
	log.waitFor(t, isOverdue)
	close(release)
	for _, id := range []string{"first", "second"} {
		d := p.ends(t, id)
		require.Equal(t, dispatcher.StatusDelivered, d.Status)
		require.Equal(t, 1, d.Attempts)
	}
	require.Equal(t, []string{"begin first 1", "end first 1", "begin second 1", "end second 1"}, order)
}

func TestAnErrorAfterTheDeadlineIsATimeout(t *testing.T) {
	for name, err := range map[string]error{"any": errors.New("no stock"), "one that skips retries": queue.SkipRetry(errors.New("no stock"))} {
		t.Run(name, func(t *testing.T) {
			log := newLogged()
			p := newTestQueue(t, queue.Options{MaxAttempts: 1, Log: slog.New(log)})
			release := make(chan struct{})
			p.Handle("work", func(context.Context, queue.Delivery) error { <-release; return err })
			p.start(t)
			id := p.publish(t, queue.Task{Timeout: time.Second}).ID
			log.waitFor(t, isOverdue)
			close(release)
			d := p.ends(t, id)
			require.Equal(t, dispatcher.StatusDead, d.Status)
			require.Equal(t, dispatcher.ClassTimeout, d.History[0].Class)
			require.Equal(t, "no stock", d.LastError)
		})
	}
}

func TestAHandlerThatTakesTwiceItsTimeLosesItsDeliveryAndItsSuccessCountsStill(t *testing.T) {
	log := newLogged()
	p := newTestQueue(t, queue.Options{Workers: 1, Ladder: []time.Duration{time.Hour}, Log: slog.New(log)})
	release := make(chan struct{})
	p.Handle("work", func(context.Context, queue.Delivery) error { <-release; return nil })
	p.start(t)
	id := p.publish(t, queue.Task{Timeout: time.Second}).ID
	log.waitFor(t, gaveUp)
	d := p.delivery(t, id, func(d dispatcher.Delivery) bool { return d.Attempts == 1 })
	require.Equal(t, dispatcher.StatusRetrying, d.Status)
	require.Equal(t, dispatcher.ClassTimeout, d.History[0].Class)
	require.Equal(t, "the handler did not return within 1s, nor within twice that time", d.History[0].Error)
	close(release)
	log.waitFor(t, cameLate)
	require.Equal(t, dispatcher.StatusDelivered, p.ends(t, id).Status)
}

func TestRunReportsOutcomesThatWereNotRecorded(t *testing.T) {
	redistest.Long(t)
	server := redistest.Start(t)
	q, err := queue.Open(t.Context(), server.URL(), queue.Options{Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	begun, release := make(chan struct{}, 3), make(chan struct{})
	q.Handle("work", func(context.Context, queue.Delivery) error {
		begun <- struct{}{}
		<-release
		return nil
	})
	for range 3 {
		_, err := q.Publish(t.Context(), queue.Task{Topic: "test", Queue: "work"})
		require.NoError(t, err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- q.Run(ctx) }()
	for range 3 {
		receive(t, begun)
	}
	server.Kill()
	close(release)
	stop()
	err = receive(t, ended)
	require.ErrorIs(t, err, queue.ErrUnrecorded)
	require.ErrorContains(t, err, "not recorded: 3, ")
}

func TestWithoutALogWarningsGoToTheDefaultOne(t *testing.T) {
	log, before := newLogged(), slog.Default()
	slog.SetDefault(slog.New(log))
	defer slog.SetDefault(before)
	p := newTestQueue(t, queue.Options{Ladder: rungs})
	p.Handle("work", once(func() error { panic("boom") }))
	p.start(t)
	p.ends(t, p.publish(t, queue.Task{}).ID)
	log.waitFor(t, "ERROR handler panicked")
	p.end(t)
	for len(log.lines) > 0 {
		require.NotContains(t, <-log.lines, "INFO")
	}
}
