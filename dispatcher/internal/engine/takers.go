package engine

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

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

// Limits of one response: the records in one reply of the store, and the bytes of bodies for a
// caller. One body is always returned.
const (
	recordBytes = 1 << 20
	bodyBytes   = 4 << 20
)

// takeAgain is the wait before another take, if none of the taken deliveries could be given
// out and there are more.
const takeAgain = 50 * time.Millisecond

// lateWait is the wait of a caller that comes while this instance stops. A caller that repeats
// its call at once makes one call per second, and delays no stop.
const lateWait = time.Second

// Take leases some deliveries to a caller, and waits for one if there is none. It returns none
// after the wait, or when this instance stops. If ctx ends, nothing is taken.
func (t *Takers) Take(ctx context.Context, a dispatcher.TakerAsk) ([]dispatcher.Given, error) {
	if a.Wait <= 0 {
		given, more, err := t.take(ctx, a)
		if more {
			t.OnTakeable([]dispatcher.Lane{a.Lane})
		}
		return t.unlessGone(ctx, a.Lane, given, err)
	}
	stop := t.stop
	select {
	case <-stop:
		stop, a.Wait = nil, min(a.Wait, lateWait)
	default:
	}
	w, pass := t.join(a.Lane), false // before its first take, so that it misses no later delivery
	defer func() { t.leave(w, pass) }()
	end := time.NewTimer(a.Wait)
	defer end.Stop()
	for last := false; ; {
		if ctx.Err() != nil {
			pass = true
			return nil, ctx.Err()
		}
		given, more, err := t.take(ctx, a)
		pass = more || err != nil || ctx.Err() != nil
		if len(given) > 0 || err != nil || ctx.Err() != nil || last {
			return t.unlessGone(ctx, a.Lane, given, err)
		}
		var again <-chan time.Time
		if more {
			again = time.After(takeAgain)
		}
		select {
		case <-w.wake:
		case <-again:
		case <-w.gone:
			return nil, fmt.Errorf("take from %s: %w", a.Lane, dispatcher.ErrNoEndpoint)
		case <-end.C:
			last = true // a delivery may have come at the end
		case <-stop:
			return t.unlessGone(ctx, a.Lane, nil, nil)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// unlessGone gives back the deliveries of a caller that is gone. It returns an empty result
// only if the store still has the data of that lane.
func (t *Takers) unlessGone(ctx context.Context, lane dispatcher.Lane, given []dispatcher.Given, err error) ([]dispatcher.Given, error) {
	if ctx.Err() != nil {
		t.GiveBack(given)
		return nil, ctx.Err()
	}
	if err == nil && len(given) == 0 {
		err = t.store.Intact(ctx, lane)
	}
	return given, err
}

// take queries the store once. more reports that there are more deliveries now.
func (t *Takers) take(ctx context.Context, a dispatcher.TakerAsk) (given []dispatcher.Given, more bool, err error) {
	token := rand.Text()
	call, err := t.engine.BeginLease(ctx)
	if err != nil {
		return nil, false, err
	}
	taken, err := t.store.Take(call.Ctx, call.By, dispatcher.Take{
		Lanes: []dispatcher.Lane{a.Lane}, Most: a.Most, Bytes: recordBytes, For: a.For, Token: token, Owner: a.Owner,
	})
	err = t.engine.EndLease(call, nil, err) // no instance holds these leases
	if err != nil || len(taken.Claimed) == 0 {
		return nil, err == nil && len(taken.More) > 0, err
	}
	fit, unfit := t.engine.Fit(ctx, taken.Claimed, bodyBytes)
	at := t.engine.Now()
	for _, c := range fit {
		h, err := t.engine.Headers(c, at)
		if err != nil { // its endpoint changed after it was checked
			t.log.LogAttrs(ctx, slog.LevelWarn, "delivery not given out", slog.String("delivery_id", c.ID.String()), slog.Any("err", err))
			rests := back(c)
			rests.Pause, rests.Stalled = restFor, dispatcher.WhySealed
			unfit = append(unfit, rests)
			continue
		}
		given = append(given, dispatcher.Given{
			Claimed: c, Lease: leaseText{c.Attempt, token}.text(c.ID, a.Owner), Until: taken.Until, Header: h, Token: token, Owner: a.Owner,
		})
	}
	t.refuse(ctx, unfit, token, a.Owner)
	return given, len(taken.More) > 0, nil
}

// restFor is the pause of a lane after a delivery that can't be given out. Otherwise its
// takers would get it again at once.
const restFor = 5 * time.Second

func back(c dispatcher.Claimed) dispatcher.Settlement {
	return dispatcher.Settlement{ID: c.ID, Verdict: dispatcher.Back, Due: c.Due}
}

// GiveBack gives back deliveries that a caller did not receive, without an attempt.
func (t *Takers) GiveBack(given []dispatcher.Given) {
	if len(given) == 0 {
		return
	}
	outcomes := make([]dispatcher.Settlement, len(given))
	for i := range given {
		outcomes[i] = back(given[i].Claimed)
	}
	t.refuse(context.Background(), outcomes, given[0].Token, given[0].Owner)
}

// refuse settles deliveries that were leased to a caller and not given out. If that fails,
// the leases end by themselves.
func (t *Takers) refuse(ctx context.Context, outcomes []dispatcher.Settlement, token, owner string) {
	if len(outcomes) == 0 {
		return
	}
	leases := make([]dispatcher.TakenLease, len(outcomes))
	for i := range outcomes {
		leases[i] = dispatcher.TakenLease{ID: outcomes[i].ID, Token: token, Owner: owner, NotReceived: true}
	}
	adopted, err := t.adopt(ctx, leases)
	kept := outcomes[:0]
	for i := range adopted {
		if c := adopted[i].Claimed; c != nil {
			outcomes[i].Leased = c.Leased
			kept = append(kept, outcomes[i])
		}
	}
	t.engine.Settle(kept...)
	if err != nil {
		t.log.LogAttrs(ctx, slog.LevelWarn, "deliveries not given back, their leases end by themselves",
			slog.Int("deliveries", len(outcomes)-len(kept)), slog.Any("err", err))
	}
}

// adopt takes over leases that this instance or another one gave out. It returns the store's
// error for any of them.
func (t *Takers) adopt(ctx context.Context, leases []dispatcher.TakenLease) (adopted []dispatcher.Adopted, err error) {
	call, err := t.engine.BeginRegain(ctx)
	if err != nil {
		return nil, err
	}
	adopted = t.store.Adopt(call.Ctx, call.By, leases)
	var claimed []dispatcher.Claimed
	for i := range adopted {
		if adopted[i].Claimed != nil {
			claimed = append(claimed, *adopted[i].Claimed)
		}
	}
	return adopted, t.engine.EndLease(call, claimed, storeError(adopted))
}

// settleWithin is the timeout of a caller's request. After it, the outcomes may still be
// recorded.
const settleWithin = 10 * time.Second

// readsAtOnce is the number of messages that one SettleTaken reads concurrently, for the
// statuses of deliveries.
const readsAtOnce = 4

// settling is one call of SettleTaken.
type settling struct {
	t       *Takers
	owner   string
	list    []dispatcher.TakerOutcome
	leases  []leaseText
	results []dispatcher.TakerSettled
	unread  []int // indexes of deliveries whose status must be read
}

// SettleTaken records the owner's outcomes of deliveries of a lane, in order. If it returns an
// error, some may not be recorded. The caller may repeat them with their leases.
func (t *Takers) SettleTaken(ctx context.Context, lane dispatcher.Lane, owner string, list []dispatcher.TakerOutcome) ([]dispatcher.TakerSettled, error) {
	ctx, cancel := context.WithTimeout(ctx, settleWithin)
	defer cancel()
	s := &settling{t: t, owner: owner, list: list, leases: make([]leaseText, len(list)), results: make([]dispatcher.TakerSettled, len(list))}
	var todo []int
	for i, o := range list {
		s.results[i] = dispatcher.TakerSettled{ID: o.ID, Result: dispatcher.TakerUnknown}
		ok := o.Lease == ""
		if !ok {
			s.leases[i], ok = parseLease(o.Lease, o.ID, owner)
		}
		if ok && o.ID.Lane == lane {
			todo = append(todo, i)
		}
	}
	for len(todo) > 0 {
		// A second outcome of a delivery comes after the first was recorded.
		var now, later []int
		met := map[dispatcher.DeliveryID]bool{}
		for _, i := range todo {
			if met[list[i].ID] {
				later = append(later, i)
			} else {
				now = append(now, i)
			}
			met[list[i].ID] = true
		}
		if err := s.round(ctx, now); err != nil {
			return nil, err
		}
		todo = later
	}
	if err := s.read(ctx); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(s.results, func(o dispatcher.TakerSettled) bool { return o.Result == dispatcher.TakerUnknown }) {
		if err := t.store.Intact(ctx, lane); err != nil {
			return nil, fmt.Errorf("settle: %w", err)
		}
	}
	return s.results, nil
}

// round records some outcomes, each of another delivery.
func (s *settling) round(ctx context.Context, round []int) error {
	extended := map[time.Duration][]int{}
	var ended []int
	for _, i := range round {
		if lasts := s.list[i].Extend; lasts > 0 {
			extended[lasts] = append(extended[lasts], i)
		} else {
			ended = append(ended, i)
		}
	}
	for lasts, some := range extended {
		if err := s.extend(ctx, some, lasts); err != nil {
			return err
		}
	}
	return s.finish(ctx, ended)
}

func (s *settling) taken(some []int) []dispatcher.TakenLease {
	leases := make([]dispatcher.TakenLease, len(some))
	for k, i := range some {
		leases[k] = dispatcher.TakenLease{ID: s.list[i].ID, Token: s.leases[i].token, Owner: s.owner}
	}
	return leases
}

// extend extends some leases.
func (s *settling) extend(ctx context.Context, some []int, lasts time.Duration) error {
	call, err := s.t.engine.BeginRegain(ctx)
	if err != nil {
		return fmt.Errorf("extend leases: %w", err)
	}
	adopted := s.t.store.Extend(call.Ctx, call.By, s.taken(some), lasts)
	if err := s.t.engine.EndLease(call, nil, storeError(adopted)); err != nil {
		return fmt.Errorf("extend leases: %w", err)
	}
	for k, i := range some {
		if a := adopted[k]; !s.refused(i, a) {
			s.results[i].Result, s.results[i].Status, s.results[i].Until = dispatcher.TakerOK, dispatcher.StatusInFlight, a.Until
		}
	}
	return nil
}

// refused records that a lease has ended, or belongs to another caller. If the caller named no
// lease and the store has none, it is late only if the delivery has ended.
func (s *settling) refused(i int, a dispatcher.Adopted) bool {
	if errors.Is(a.Err, dispatcher.ErrNotTaken) {
		if s.list[i].Lease != "" || a.Attempt > 0 {
			s.results[i].Result = dispatcher.TakerLate
		}
		s.unread = append(s.unread, i)
	}
	return a.Err != nil
}

// recorded is the result of an outcome.
type recorded struct {
	i  int
	is dispatcher.Settled
}

// finish settles some deliveries. This instance first takes over their leases, so that it
// settles them like its own attempts.
func (s *settling) finish(ctx context.Context, some []int) error {
	if len(some) == 0 {
		return nil
	}
	adopted, err := s.t.adopt(ctx, s.taken(some))
	if len(adopted) == 0 && err != nil {
		return fmt.Errorf("settle: %w", err)
	}
	answers := make(chan recorded, len(some)) // so that no sender waits
	verdicts := make(map[int]dispatcher.Verdict, len(some))
	for k, i := range some {
		a, h := adopted[k], s.list[i].Handled
		done := func(is dispatcher.Settled) { answers <- recorded{i, is} }
		switch {
		case a.Claimed != nil:
			h.At = a.Taken
			verdicts[i] = s.t.engine.Finish(*a.Claimed, h, done)
			s.results[i].Result = dispatcher.TakerOK
		case s.refused(i, a) && s.results[i].Result == dispatcher.TakerLate && h.Verdict == dispatcher.Delivered:
			s.unread = s.unread[:len(s.unread)-1]
			verdicts[i] = dispatcher.Delivered
			s.t.engine.Succeeded(s.list[i].ID, cmp.Or(s.leases[i].attempt, a.Attempt), done)
		}
	}
	for range verdicts {
		select {
		case r := <-answers:
			if r.is.Err != nil {
				err = errors.Join(err, r.is.Err)
			}
			s.note(r, verdicts[r.i])
		case <-ctx.Done():
			return fmt.Errorf("settle: not recorded yet: %w", dispatcher.ErrUnavailable)
		}
	}
	if err != nil {
		return fmt.Errorf("settle: %w", err)
	}
	return nil
}

// note sets the status of a delivery after its outcome was recorded.
func (s *settling) note(r recorded, verdict dispatcher.Verdict) {
	result := &s.results[r.i]
	switch r.is.Result {
	case dispatcher.SettledOK:
		result.Status = statusAfter(verdict)
	case dispatcher.SettledDone:
		result.Status = dispatcher.StatusDelivered
	case dispatcher.SettledBefore:
		result.Status = dispatcher.StatusDead
	case dispatcher.SettledEnd: // for example, it was cancelled
		s.unread = append(s.unread, r.i)
	default:
		result.Result = dispatcher.TakerLate
		s.unread = append(s.unread, r.i)
	}
}

func statusAfter(v dispatcher.Verdict) dispatcher.Status {
	switch v {
	case dispatcher.Delivered:
		return dispatcher.StatusDelivered
	case dispatcher.Dead:
		return dispatcher.StatusDead
	default:
		return dispatcher.StatusRetrying
	}
}

// read queries the statuses of deliveries that do not follow from their outcomes.
func (s *settling) read(ctx context.Context) error {
	var reading errgroup.Group
	reading.SetLimit(readsAtOnce)
	for _, i := range s.unread {
		reading.Go(func() error {
			result := &s.results[i]
			view, err := s.t.reads.Read(ctx, result.ID.Message)
			var lost *dispatcher.Emptied
			at := slices.IndexFunc(view.Deliveries, func(d dispatcher.Delivery) bool { return d.ID == result.ID })
			switch {
			case at >= 0 && result.Result == dispatcher.TakerUnknown && !view.Deliveries[at].Status.Ended():
			case at >= 0 && result.Result == dispatcher.TakerUnknown:
				result.Result, result.Status = dispatcher.TakerLate, view.Deliveries[at].Status
			case at >= 0:
				result.Status = view.Deliveries[at].Status
			case err == nil || errors.Is(err, dispatcher.ErrNotFound) || errors.As(err, &lost): // the lost data may belong to another lane
				if result.Result != dispatcher.TakerOK { // otherwise it was settled, and deleted after that
					result.Result = dispatcher.TakerUnknown
				}
			default:
				return fmt.Errorf("read the settled deliveries: %w", err)
			}
			return nil
		})
	}
	return reading.Wait()
}

// storeError returns the error of a call without a reply from the store. It returns nil after
// a reply, whatever the result of each lease is.
func storeError(adopted []dispatcher.Adopted) error {
	for _, a := range adopted {
		if a.Err != nil && !errors.Is(a.Err, dispatcher.ErrNotTaken) && !errors.Is(a.Err, dispatcher.ErrNotYours) {
			return a.Err
		}
	}
	return nil
}
