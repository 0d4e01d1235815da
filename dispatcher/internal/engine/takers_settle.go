package engine

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
