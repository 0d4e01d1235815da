package engine

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

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
