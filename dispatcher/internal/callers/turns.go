package callers

import (
	"context"
	"sync"
)

// Of each caller up to callerWaits calls may wait for a turn, and of all callers together up to
// listsWait.
const (
	callerWaits = 16
	listsWait   = 256
)

// Turns limits how many calls read at once, and how many wait for a turn. The waiting callers
// take turns (round robin).
type Turns struct {
	most int   // how many read at once
	full error // returned if too many wait

	mu      sync.Mutex // guards the fields below
	running int
	waiting int
	each    map[Identity]*queuer
	round   []*queuer // callers that wait, the next one first
}

// queuer is one caller that reads a list or waits.
type queuer struct {
	who     Identity
	running int
	waiting []*turn
}

// turn is one waiting call.
type turn struct {
	given chan struct{} // closed when the turn has come, or is refused
	err   error         // why it is refused; nil: it has come
}

// NewTurns returns Turns for most calls at once. Enter returns full if too many wait.
func NewTurns(most int, full error) *Turns {
	return &Turns{most: most, full: full, each: map[Identity]*queuer{}}
}

// Enter waits for a turn of the context's caller. The turn ends with leave. It returns
// full if too many wait, and the context's error if ctx ends first.
func (t *Turns) Enter(ctx context.Context) (leave func(), err error) {
	who := Of(ctx)
	mine, err := t.enter(who)
	if err != nil {
		return nil, err
	}
	leave = func() { t.leave(who) }
	select {
	case <-mine.given:
		if mine.err != nil {
			return nil, mine.err
		}
		return leave, nil
	case <-ctx.Done():
		t.giveUp(who, mine)
		return nil, ctx.Err()
	}
}

// enter gives a turn at once, or a place to wait.
func (t *Turns) enter(who Identity) (*turn, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	q := t.each[who]
	if q == nil {
		q = &queuer{who: who}
		t.each[who] = q
	}
	if len(q.waiting) >= callerWaits || t.waiting >= listsWait && !t.makeRoom(q) {
		t.forget(q)
		return nil, t.full
	}
	mine := &turn{given: make(chan struct{})}
	if len(q.waiting) == 0 {
		t.round = append(t.round, q)
	}
	q.waiting = append(q.waiting, mine)
	t.waiting++
	t.next()
	return mine, nil
}

// makeRoom refuses the newest call of the caller with the most waiting calls, if q has
// fewer.
func (t *Turns) makeRoom(q *queuer) bool {
	most := q
	for _, other := range t.round {
		if len(other.waiting) > len(most.waiting) {
			most = other
		}
	}
	if len(most.waiting) <= len(q.waiting)+1 {
		return false
	}
	last := most.waiting[len(most.waiting)-1]
	last.err = t.full
	close(last.given)
	t.remove(most, last)
	return true
}

// next gives free turns to waiting callers, one to each in the round. All links of a
// tenant read one list at a time.
func (t *Turns) next() {
	for i := 0; i < len(t.round) && t.running < t.most; {
		q := t.round[i]
		if q.who.Rank == Linked && q.running > 0 {
			i++
			continue
		}
		first := q.waiting[0]
		t.remove(q, first)
		if len(q.waiting) > 0 { // to the end of the round
			t.round = append(append(t.round[:i:i], t.round[i+1:]...), q)
		}
		t.running++
		q.running++
		close(first.given)
	}
}

func (t *Turns) leave(who Identity) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running--
	q := t.each[who]
	q.running--
	t.forget(q)
	t.next()
}

// giveUp ends the wait of a call whose context has ended. Its turn may have come in the
// meantime.
func (t *Turns) giveUp(who Identity, mine *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	q := t.each[who]
	select {
	case <-mine.given:
		if mine.err == nil {
			t.running--
			q.running--
			t.forget(q)
			t.next()
		}
	default:
		t.remove(q, mine)
		t.forget(q)
	}
}

// remove removes a waiting call from its caller's queue, and the caller from the round
// after its last call.
func (t *Turns) remove(q *queuer, one *turn) {
	for i := range q.waiting {
		if q.waiting[i] == one {
			q.waiting = append(q.waiting[:i:i], q.waiting[i+1:]...)
			t.waiting--
			break
		}
	}
	if len(q.waiting) > 0 {
		return
	}
	for i := range t.round {
		if t.round[i] == q {
			t.round = append(t.round[:i:i], t.round[i+1:]...)
			break
		}
	}
}

// forget removes a caller that reads nothing and waits for nothing.
func (t *Turns) forget(q *queuer) {
	if q != nil && q.running == 0 && len(q.waiting) == 0 {
		delete(t.each, q.who)
	}
}
