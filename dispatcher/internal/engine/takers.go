package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/wait"
)

// TakerStore has the methods of the queue that takers call.
type TakerStore interface {
	Take(ctx context.Context, by string, t dispatcher.Take) (dispatcher.Taken, error)
	Adopt(ctx context.Context, by string, leases []dispatcher.TakenLease) []dispatcher.Adopted
	Extend(ctx context.Context, by string, leases []dispatcher.TakenLease, lasts time.Duration) []dispatcher.Adopted
	Intact(ctx context.Context, lanes ...dispatcher.Lane) error
	Polls() bool
}

// TakerReads reads the messages of taken deliveries.
type TakerReads interface {
	Read(ctx context.Context, id string) (dispatcher.MessageView, error)
}

// TakerEngine has the methods of the engine that takers call.
type TakerEngine interface {
	BeginLease(ctx context.Context) (LeaseCall, error)
	BeginRegain(ctx context.Context) (LeaseCall, error)
	EndLease(call LeaseCall, claimed []dispatcher.Claimed, err error) error
	Fit(ctx context.Context, leased []dispatcher.Claimed, bytes int) (fit []dispatcher.Claimed, unfit []dispatcher.Settlement)
	Headers(c dispatcher.Claimed, at time.Time) (http.Header, error)
	Finish(c dispatcher.Claimed, h dispatcher.Handled, done func(dispatcher.Settled)) dispatcher.Verdict
	Succeeded(id dispatcher.DeliveryID, attempt int, done func(dispatcher.Settled))
	Settle(outcomes ...dispatcher.Settlement)
	Now() time.Time
}

// Takers serves the callers of an instance that take deliveries.
type Takers struct {
	store  TakerStore
	reads  TakerReads
	engine TakerEngine
	log    *slog.Logger

	mu      sync.Mutex                    // guards the fields below
	lines   map[dispatcher.Lane][]*waiter // in order of arrival
	stopped bool

	stop chan struct{} // closed when no caller may wait any more
	gaps wait.Signal   // an event may have been missed
}

// NewTakers returns Takers. OnTakeable must be called for the events of the queue.
func NewTakers(store TakerStore, reads TakerReads, engine TakerEngine, log *slog.Logger) *Takers {
	return &Takers{
		store: store, reads: reads, engine: engine, log: log, lines: map[dispatcher.Lane][]*waiter{},
		stop: make(chan struct{}), gaps: wait.NewSignal(),
	}
}

const (
	// pollEvery is the poll interval for all waiting callers, if the store has no pub/sub.
	pollEvery = time.Second

	// After a gap one caller of each lane takes. There are gapLanes lanes at a time, with
	// gapPause between them, because all instances do so when a node returns.
	gapLanes = 16
	gapPause = 20 * time.Millisecond
)

// Run works until ctx ends. After that no caller waits.
func (t *Takers) Run(ctx context.Context) error {
	defer t.end()
	var poll <-chan time.Time
	if t.store.Polls() {
		tick := time.NewTicker(pollEvery)
		defer tick.Stop()
		poll = tick.C
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.gaps:
			t.askAll(ctx)
		case <-poll:
			t.poll(ctx)
		}
	}
}

func (t *Takers) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.stopped {
		t.stopped = true
		close(t.stop)
	}
}

// OnTakeable wakes one caller for each of these lanes, because they have deliveries. AllLanes
// means that an event may have been missed, and one caller of each lane queries the store.
func (t *Takers) OnTakeable(lanes []dispatcher.Lane) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, lane := range lanes {
		if lane == dispatcher.AllLanes {
			t.gaps.Set()
			continue
		}
		t.wakeOne(lane)
	}
}

// OnGone ends the waits for a lane whose endpoint was deleted.
func (t *Takers) OnGone(lane dispatcher.Lane) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, w := range t.lines[lane] {
		if !w.ended {
			w.ended = true
			close(w.gone)
		}
	}
}

// awaited returns the lanes with waiting callers.
func (t *Takers) awaited() (lanes []dispatcher.Lane) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for lane := range t.lines {
		lanes = append(lanes, lane)
	}
	return lanes
}

// askAll wakes one caller of each lane.
func (t *Takers) askAll(ctx context.Context) {
	for lanes := t.awaited(); len(lanes) > 0 && ctx.Err() == nil; {
		n := min(gapLanes, len(lanes))
		t.OnTakeable(lanes[:n])
		if lanes = lanes[n:]; len(lanes) > 0 {
			wait.Sleep(ctx, gapPause)
		}
	}
}

// poll polls the lanes of all waiting callers for deliveries. After an error, the next poll
// and each caller's last query repeat it.
func (t *Takers) poll(ctx context.Context) {
	for lanes := t.awaited(); len(lanes) > 0; {
		n := min(dispatcher.TakeLanes, len(lanes))
		call, err := t.engine.BeginLease(ctx)
		if err == nil {
			var found dispatcher.Taken
			found, err = t.store.Take(call.Ctx, call.By, dispatcher.Take{Lanes: lanes[:n]})
			t.OnTakeable(found.More)
			_ = t.engine.EndLease(call, found.Claimed, err)
		}
		lanes = lanes[n:]
	}
}

// waiter is a caller that waits for a delivery of a lane.
type waiter struct {
	lane dispatcher.Lane
	wake chan struct{} // capacity 1: it is its turn to query
	gone chan struct{} // closed when its endpoint was deleted

	ended bool // gone is closed; guarded by the takers' mu
}

// join adds a caller to the line of a lane.
func (t *Takers) join(lane dispatcher.Lane) *waiter {
	w := &waiter{lane: lane, wake: make(chan struct{}, 1), gone: make(chan struct{})}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines[lane] = append(t.lines[lane], w)
	return w
}

// leave removes a caller from its line. If it was its turn, or it passes its turn on, the next
// caller is woken.
func (t *Takers) leave(w *waiter, pass bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	line := t.lines[w.lane]
	for i := range line {
		if line[i] == w {
			line = append(line[:i:i], line[i+1:]...)
			break
		}
	}
	if len(line) == 0 {
		delete(t.lines, w.lane)
	} else {
		t.lines[w.lane] = line
	}
	if pass || len(w.wake) > 0 {
		t.wakeOne(w.lane)
	}
}

// wakeOne wakes the first caller of a line that was not woken yet. mu is locked.
func (t *Takers) wakeOne(lane dispatcher.Lane) {
	for _, w := range t.lines[lane] {
		select {
		case w.wake <- struct{}{}:
			return
		default:
		}
	}
}

// leaseText is the content of a lease's text: the number of the attempt, and the token that
// distinguishes the lease from others.
type leaseText struct {
	attempt int
	token   string
}

// checkDigits is the number of digits of the check in the text: enough to detect a mistake. It
// is not a secret.
const checkDigits = 10

// text returns the name of a delivery's lease, for its owner only.
func (l leaseText) text(id dispatcher.DeliveryID, owner string) string {
	plain := strconv.Itoa(l.attempt) + "." + l.token
	return plain + "." + check(plain, id, owner)
}

// parseLease parses the text. It returns false if it names no lease of this delivery and
// owner.
func parseLease(text string, id dispatcher.DeliveryID, owner string) (l leaseText, ok bool) {
	number, rest, _ := strings.Cut(text, ".")
	token, sum, _ := strings.Cut(rest, ".")
	attempt, err := strconv.Atoi(number)
	l = leaseText{attempt: attempt, token: token}
	return l, err == nil && attempt > 0 && token != "" && sum == check(number+"."+token, id, owner)
}

func check(plain string, id dispatcher.DeliveryID, owner string) string {
	sum := sha256.Sum256([]byte(owner + " " + plain + " " + id.String()))
	return hex.EncodeToString(sum[:])[:checkDigits]
}
