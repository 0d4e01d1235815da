package takers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hookladder/hookladder/dispatcher"
)

// settleWithin is how long a caller waits until its outcomes are recorded. After that they
// may be recorded still.
const settleWithin = 10 * time.Second

// readsAtOnce is how many messages one SettleTaken reads at the same time, for the statuses
// of deliveries.
const readsAtOnce = 4

// settling is one call of SettleTaken.
type settling struct {
	t      *Takers
	owner  string
	list   []dispatcher.TakerOutcome
	leases []leaseText
	told   []dispatcher.Told
	unread []int // those whose status has to be read
}

// SettleTaken records the owner's outcomes of deliveries of a lane, in order. An error says
// that some may not be recorded. They may be given again with their leases.
func (t *Takers) SettleTaken(ctx context.Context, lane dispatcher.Lane, owner string, list []dispatcher.TakerOutcome) ([]dispatcher.Told, error) {
	ctx, cancel := context.WithTimeout(ctx, settleWithin)
	defer cancel()
	s := &settling{t: t, owner: owner, list: list, leases: make([]leaseText, len(list)), told: make([]dispatcher.Told, len(list))}
	var todo []int
	for i, o := range list {
		s.told[i] = dispatcher.Told{ID: o.ID, Result: dispatcher.TakerUnknown}
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
	if slices.ContainsFunc(s.told, func(o dispatcher.Told) bool { return o.Result == dispatcher.TakerUnknown }) {
		if err := t.store.Intact(ctx, lane); err != nil {
			return nil, fmt.Errorf("settle: %w", err)
		}
	}
	return s.told, nil
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

// extend has some leases last longer.
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
			s.told[i].Result, s.told[i].Status, s.told[i].Until = dispatcher.TakerOK, dispatcher.StatusInFlight, a.Until
		}
	}
	return nil
}

// refused notes that a lease has ended, or is another's. Where the caller named none and the store knows none, only a
// delivery that ended was late.
func (s *settling) refused(i int, a dispatcher.Adopted) bool {
	if errors.Is(a.Err, dispatcher.ErrNotTaken) {
		if s.list[i].Lease != "" || a.Attempt > 0 {
			s.told[i].Result = dispatcher.TakerLate
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

// finish settles some deliveries. This instance takes their leases over first, so that it
// settles them as those that it attempted.
func (s *settling) finish(ctx context.Context, some []int) error {
	if len(some) == 0 {
		return nil
	}
	adopted, err := s.t.adopt(ctx, s.taken(some))
	if len(adopted) == 0 && err != nil {
		return fmt.Errorf("settle: %w", err)
	}
	answers := make(chan recorded, len(some)) // so that none who answers waits
	verdicts := make(map[int]dispatcher.Verdict, len(some))
	for k, i := range some {
		a, h := adopted[k], s.list[i].Handled
		done := func(is dispatcher.Settled) { answers <- recorded{i, is} }
		switch {
		case a.Claimed != nil:
			h.At = a.Taken
			verdicts[i] = s.t.engine.Finish(*a.Claimed, h, done)
			s.told[i].Result = dispatcher.TakerOK
		case s.refused(i, a) && s.told[i].Result == dispatcher.TakerLate && h.Verdict == dispatcher.Delivered:
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
	told := &s.told[r.i]
	switch r.is.Result {
	case dispatcher.SettledOK:
		told.Status = statusAfter(verdict)
	case dispatcher.SettledDone:
		told.Status = dispatcher.StatusDelivered
	case dispatcher.SettledBefore:
		told.Status = dispatcher.StatusDead
	case dispatcher.SettledEnd: // it was cancelled, say
		s.unread = append(s.unread, r.i)
	default:
		told.Result = dispatcher.TakerLate
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

// read reads the statuses of deliveries that do not follow from their outcomes.
func (s *settling) read(ctx context.Context) error {
	var reading errgroup.Group
	reading.SetLimit(readsAtOnce)
	for _, i := range s.unread {
		reading.Go(func() error {
			told := &s.told[i]
			view, err := s.t.reads.Read(ctx, told.ID.Message)
			var lost *dispatcher.Emptied
			at := slices.IndexFunc(view.Deliveries, func(d dispatcher.Delivery) bool { return d.ID == told.ID })
			switch {
			case at >= 0 && told.Result == dispatcher.TakerUnknown && !view.Deliveries[at].Status.Ended():
			case at >= 0 && told.Result == dispatcher.TakerUnknown:
				told.Result, told.Status = dispatcher.TakerLate, view.Deliveries[at].Status
			case at >= 0:
				told.Status = view.Deliveries[at].Status
			case err == nil || errors.Is(err, dispatcher.ErrNotFound) || errors.As(err, &lost): // the lost data may be another lane's
				if told.Result != dispatcher.TakerOK { // else it was settled, and forgotten since
					told.Result = dispatcher.TakerUnknown
				}
			default:
				return fmt.Errorf("read what was settled: %w", err)
			}
			return nil
		})
	}
	return reading.Wait()
}

// storeError returns the error of a call that the store did not answer; nil: it did, whatever
// it returned for each lease.
func storeError(adopted []dispatcher.Adopted) error {
	for _, a := range adopted {
		if a.Err != nil && !errors.Is(a.Err, dispatcher.ErrNotTaken) && !errors.Is(a.Err, dispatcher.ErrNotYours) {
			return a.Err
		}
	}
	return nil
}
