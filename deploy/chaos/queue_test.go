package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/queue"
)

// queueProgram is the environment variable by which this test's program handles tasks: the URL
// of its Redis.
const queueProgram = "HOOKLADDER_CHAOS_QUEUE"

// byOverrun is a cause that only handlers have.
const byOverrun = "its handler took twice its timeout"

const (
	handlerTimeout = 2 * time.Second
	lateBy         = handlerTimeout + 300*time.Millisecond   // after the deadline, but its success counts
	lostAfter      = 2*handlerTimeout + 500*time.Millisecond // its delivery is handled again meanwhile
	tickEvery      = time.Second
)

// TestChaosOfQueues runs three Go programs that handle tasks on a real Redis, each a process of
// its own. They are killed and ended, and Redis is killed and started again, while handlers
// fail, panic, return typed nils, snooze and come late, and tasks are moved and cancelled. In the
// end each task has ended as it should, and what was handled twice has its cause.
func TestChaosOfQueues(t *testing.T) {
	if url := os.Getenv(queueProgram); url != "" {
		handleTasks(t, url)
		return
	}
	t.Parallel()
	redistest.Long(t)
	seed := oneSeed()
	t.Logf("seed %d", seed)
	r := &queueRun{t: t, server: redistest.Start(t, "appendfsync always"), random: rand.New(rand.NewPCG(seed, 0))}
	var err error
	r.publisher, err = queue.Open(t.Context(), r.server.URL(), queueOptions())
	require.NoError(t, err)
	defer r.publisher.Close()
	for i := range slots {
		r.start(i)
	}
	publishing, stop := context.WithTimeout(t.Context(), *chaosFor)
	defer stop()
	var publishers sync.WaitGroup
	for n := range 3 {
		random := rand.New(rand.NewPCG(seed, uint64(n+1)))
		publishers.Go(func() {
			for i := 0; kit.Rest(publishing, between(random, 0, 200*time.Millisecond)); i++ {
				r.publish(fmt.Sprintf("t%d_%d", n, i), random)
			}
		})
	}
	for kit.Rest(publishing, between(r.random, 300*time.Millisecond, 1500*time.Millisecond)) {
		r.breakSomething()
	}
	publishers.Wait()
	r.end()
}

func queueOptions() queue.Options {
	return queue.Options{
		Project: "chaos", Workers: 16, AttemptTimeout: handlerTimeout, Grace: 5 * time.Second, Log: slog.New(slog.DiscardHandler),
		Ladder: []time.Duration{
			100 * time.Millisecond, 300 * time.Millisecond, time.Second, time.Second, time.Second, time.Second, time.Second, time.Second,
		},
	}
}

// handleTasks is a program that handles tasks until it is ended.
func handleTasks(t *testing.T, url string) {
	ctx, stop := signal.NotifyContext(t.Context(), syscall.SIGTERM)
	defer stop()
	o := queueOptions()
	o.Log = slog.New(takenOver{o.Log.Handler()})
	var q *queue.Queue
	require.NoError(t, kit.Until(ctx, "Redis answers", func() (err error) {
		q, err = queue.Open(ctx, url, o)
		return err
	}))
	q.Handle("work", handleTask)
	q.Handle("tick", handleTask)
	q.Every("tick", func(now time.Time) time.Time { return now.Truncate(tickEvery).Add(tickEvery) },
		func(at time.Time) queue.Task {
			return queue.Task{Queue: "tick", Topic: "task.plain", Body: at.UnixMilli()}
		})
	fmt.Println("handles tasks")
	require.NoError(t, q.Run(ctx))
}

// takenOver is a log that only has the line that a program was taken over.
type takenOver struct{ slog.Handler }

func (takenOver) Enabled(context.Context, slog.Level) bool { return true }

func (h takenOver) Handle(_ context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, "declared dead") {
		say(eventTaken, "-", 0)
	}
	return nil
}

// say writes one event. A line that was written is read even if this program is killed afterwards.
func say(kind eventKind, id string, call int64) {
	fmt.Printf("event %s %s %d %d\n", kind, id, call, time.Now().UnixMicro())
}

// calls counts the calls of handlers in this program.
var calls atomic.Int64

// nilError is an error whose method needs more than a nil pointer.
type nilError struct{ text string }

func (e *nilError) Error() string { return e.text }

// handleTask does what the topic says, and says so.
func handleTask(ctx context.Context, d queue.Delivery) error {
	call := calls.Add(1)
	say(eventBegun, d.MessageID, call)
	err := does(ctx, d)
	if err == nil {
		say(eventDone, d.MessageID, call)
	}
	return err
}

func does(ctx context.Context, d queue.Delivery) error {
	first := d.Attempt == 1
	switch {
	case d.Topic == "task.fails" && d.Attempt <= 2:
		return errors.New("not yet")
	case d.Topic == "task.panics" && first:
		panic("boom")
	case d.Topic == "task.nil" && first:
		var e *nilError
		return e
	case d.Topic == "task.snoozes" && d.Snoozes < 2:
		return queue.Snooze(200 * time.Millisecond)
	case d.Topic == "task.late" && first:
		time.Sleep(lateBy)
	case d.Topic == "task.lost" && first:
		time.Sleep(lostAfter)
	case d.Topic == "task.skips":
		return queue.SkipRetry(errors.New("it makes no sense"))
	default:
		kit.Rest(ctx, time.Duration(rand.Int64N(int64(50*time.Millisecond))))
	}
	return nil
}

// queueRun is a run of TestChaosOfQueues.
type queueRun struct {
	t         *testing.T
	server    *redistest.Server
	random    *rand.Rand
	publisher *queue.Queue
	running   [3]*kit.Process
	programs  []*kit.Process // all that ever ran
	history   queueHistory
	broken    map[string]int

	mu    sync.Mutex // guards tasks
	tasks []queueTask
}

func (r *queueRun) start(i int) {
	p, err := kit.Start(kit.Command{
		Name: fmt.Sprintf("program %d", len(r.programs)+1), Path: os.Args[0], Args: []string{"-test.run=^TestChaosOfQueues$", "-test.timeout=0"},
		Env: append(os.Environ(), queueProgram+"="+r.server.URL()),
	})
	require.NoError(r.t, err)
	r.t.Cleanup(p.Kill)
	r.running[i] = p
	r.programs = append(r.programs, p)
}

// breakSomething kills or ends a program, or kills Redis, and starts it again after a moment.
func (r *queueRun) breakSomething() {
	if r.broken == nil {
		r.broken, r.history.deaths = map[string]int{}, map[string]time.Time{}
	}
	i, what := r.random.IntN(len(r.running)), r.random.IntN(10)
	p, away := r.running[i], between(r.random, 0, 700*time.Millisecond)
	switch {
	case what < 6:
		r.broken["programs killed"]++
		p.Kill()
		r.history.deaths[p.Name] = time.Now()
		kit.Rest(r.t.Context(), away)
		r.start(i)
	case what < 8:
		r.broken["programs ended"]++
		if p.Terminate() != nil { // outcomes were not recorded, because Redis was away
			r.history.deaths[p.Name] = time.Now()
		}
		kit.Rest(r.t.Context(), away)
		r.start(i)
	default:
		r.broken["Redis killed"]++
		r.server.Kill()
		kit.Rest(r.t.Context(), away)
		r.server.Restart()
	}
}

// publish publishes a task of some kind until that is known to have worked.
func (r *queueRun) publish(id string, random *rand.Rand) {
	ctx := r.t.Context()
	task := queue.Task{ID: id, Queue: "work", Body: id}
	kinds := []string{"plain", "plain", "plain", "fails", "panics", "nil", "snoozes", "late", "lost", "skips", "delayed", "moved", "cancelled", "unique"}
	kind := kinds[random.IntN(len(kinds))]
	task.Topic = "task." + kind
	want := queueTask{kind: kind, due: time.Now(), ends: dispatcher.StatusDelivered}
	switch kind {
	case "skips":
		want.ends = dispatcher.StatusDead
	case "delayed":
		task.Delay = 500 * time.Millisecond
		want.due = want.due.Add(task.Delay)
	case "moved", "cancelled":
		task.Delay = time.Hour
	case "unique":
		task.ID, task.Body, task.UniqueFor = "unique", nil, time.Second
	}
	r.until(func() error {
		pub, err := r.publisher.Publish(ctx, task)
		want.id = pub.ID
		if pub.Duplicate { // it may have been handled before this call
			want.due = time.Time{}
		}
		return err
	})
	switch kind {
	case "moved":
		want.due = time.Now().Add(700 * time.Millisecond)
		r.until(func() error {
			err := r.publisher.Reschedule(ctx, id, want.due)
			if errors.Is(err, queue.ErrBegun) { // an earlier call moved it, and had no answer
				err = nil
			}
			return err
		})
	case "cancelled":
		want.ends = dispatcher.StatusCancelled
		r.until(func() error { return r.publisher.Cancel(ctx, id) })
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tasks = append(r.tasks, want)
}

// until repeats a call while Redis is away.
func (r *queueRun) until(call func() error) {
	err := kit.Until(r.t.Context(), "Redis answers", func() error {
		err := call()
		if err != nil && !errors.Is(err, queue.ErrUnavailable) {
			err = kit.Stop(err)
		}
		return err
	})
	if err != nil {
		r.t.Error(err)
	}
}

// end waits until all tasks have ended, ends the programs, and judges.
func (r *queueRun) end() {
	r.t.Helper()
	ctx := r.t.Context()
	r.mu.Lock()
	h := &r.history
	h.tasks = slices.Clone(r.tasks)
	r.mu.Unlock()
	for i := range h.tasks {
		task := &h.tasks[i]
		err := kit.Until(ctx, "the end of "+task.id, func() (err error) {
			task.record, err = r.publisher.Get(ctx, task.id)
			if err == nil && !task.record.Status.Ended() {
				err = fmt.Errorf("it is %s", task.record.Status)
			}
			return err
		})
		if err != nil {
			r.t.Error(err)
		}
	}
	for _, p := range r.running {
		require.NoError(r.t, p.Terminate())
	}
	for _, p := range r.programs {
		for line := range strings.Lines(p.Output.String()) {
			var e queueEvent
			var micros int64
			if n, _ := fmt.Sscanf(line, "event %s %s %d %d\n", &e.kind, &e.id, &e.call, &micros); n == 4 {
				e.program, e.at = p.Name, time.UnixMicro(micros)
				h.events = append(h.events, e)
			}
		}
	}
	found := h.judge()
	fmt.Fprintf(r.t.Output(), "%d tasks, %d ticks, handled twice: %v, broken: %v\n", len(h.tasks), found.ticks, found.twice, r.broken)
	for _, complaint := range found.complaints[:min(len(found.complaints), 10)] {
		r.t.Error(complaint)
	}
	require.Positive(r.t, found.ticks)
}

type eventKind string

const (
	eventBegun eventKind = "begun"
	eventDone  eventKind = "done"  // its handler returns nil next
	eventTaken eventKind = "taken" // the program learnt that it was declared dead
)

// queueEvent is a line of a program.
type queueEvent struct {
	kind    eventKind
	program string
	id      string // of the message
	call    int64  // of the program's handlers
	at      time.Time
}

// queueTask is a task that was accepted, how it has to end, and how it ended.
type queueTask struct {
	id, kind string
	due      time.Time
	ends     dispatcher.Status
	record   queue.Record
}

// queueHistory is all that a run of queues knows.
type queueHistory struct {
	tasks  []queueTask
	events []queueEvent
	deaths map[string]time.Time // of programs that were killed, or ended without having recorded all
}

// queueFindings are what a run came to.
type queueFindings struct {
	ticks      int
	twice      map[string]int // by its cause
	complaints []string
}

// judge compares what was accepted with what handlers did.
func (h *queueHistory) judge() queueFindings {
	f := queueFindings{twice: map[string]int{}}
	complain := func(format string, args ...any) { f.complaints = append(f.complaints, fmt.Sprintf(format, args...)) }
	events := map[string][]queueEvent{}
	for _, e := range h.events {
		events[e.id] = append(events[e.id], e)
	}
	for _, task := range h.tasks {
		mine, r := events[task.id], task.record
		begun, done := count(mine, eventBegun), count(mine, eventDone)
		poison := r.Status == dispatcher.StatusDead && r.Reason == dispatcher.ReasonPoison && h.diedWith(mine) >= 3
		switch {
		case r.Status != task.ends && !poison:
			complain("%s (%s) ended %s %s %q, not %s", task.id, task.kind, r.Status, r.Reason, r.LastError, task.ends)
		case r.Status == dispatcher.StatusDelivered && done == 0:
			complain("%s (%s) was lost: it is delivered, but no handler returned nil", task.id, task.kind)
		case task.ends == dispatcher.StatusCancelled && begun > 0:
			complain("%s was handled after it was cancelled", task.id)
		}
		if slices.ContainsFunc(mine, func(e queueEvent) bool { return e.at.Before(task.due.Truncate(time.Millisecond)) }) {
			complain("%s (%s) was handled early", task.id, task.kind)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(events)) {
		mine := events[id]
		slices.SortFunc(mine, func(a, b queueEvent) int { return a.at.Compare(b.at) })
		if strings.HasPrefix(id, "every_") && count(mine, eventDone) > 0 {
			f.ticks++
		}
		for i, e := range mine {
			if e.kind != eventDone || count(mine, eventDone) == 1 {
				continue
			}
			cause := ""
			switch begun := beginning(mine[:i], e); {
			case e.at.Sub(begun) > 2*handlerTimeout: // it was handled again meanwhile
				cause = byOverrun
			case !slices.ContainsFunc(mine[i+1:], func(l queueEvent) bool {
				return l.kind == eventDone && l.at.Sub(beginning(mine, l)) <= 2*handlerTimeout
			}):
				continue // the last one, which counts
			default:
				cause = h.cause(begun, e)
			}
			if f.twice[cause]++; cause == "" {
				complain("%s was handled again after a success, without a cause:%s", id, story(mine))
			}
		}
	}
	return f
}

func count(events []queueEvent, kind eventKind) (n int) {
	for _, e := range events {
		if e.kind == kind {
			n++
		}
	}
	return n
}

// diedWith returns the number of programs that were killed with the delivery in hand.
func (h *queueHistory) diedWith(events []queueEvent) int {
	programs := map[string]bool{}
	for _, e := range events {
		if _, died := h.deaths[e.program]; died && e.kind == eventBegun {
			programs[e.program] = true
		}
	}
	return len(programs)
}

// beginning returns the time when the call began that ended with done.
func beginning(events []queueEvent, done queueEvent) (begun time.Time) {
	for _, e := range events {
		if e.program == done.program && e.call == done.call && e.kind == eventBegun {
			begun = e.at
		}
	}
	return begun
}

// cause returns why a delivery was handled again after a success; empty: nothing explains it.
func (h *queueHistory) cause(begun time.Time, done queueEvent) string {
	if died, ok := h.deaths[done.program]; ok && died.Sub(done.at) < settleSlack {
		return byKill
	}
	if slices.ContainsFunc(h.events, func(e queueEvent) bool {
		return e.kind == eventTaken && e.program == done.program && e.at.After(begun)
	}) {
		return byCut
	}
	return ""
}

// story has a line for each event.
func story(events []queueEvent) string {
	var b strings.Builder
	for _, e := range events {
		fmt.Fprintf(&b, "\n  %s %s %s", e.at.Format("15:04:05.000"), e.program, e.kind)
	}
	return b.String()
}
