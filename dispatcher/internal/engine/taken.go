package engine

import (
	"math/rand/v2"

	"github.com/hookladder/hookladder/dispatcher"
)

// Finish records a taker's outcome of a delivery that this instance holds. It returns the
// verdict that counts if the lease is still valid. done is called after it was recorded, or
// can't be any more, and must not block.
func (e *Engine) Finish(c dispatcher.Claimed, h dispatcher.Handled, done func(dispatcher.Settled)) dispatcher.Verdict {
	d, now := e.deliverer, e.store.Now()
	if h.At.IsZero() {
		h.At = now
	}
	if c.Message == nil {
		s := poisoned(c, h.At)
		e.settler.putAndReport(s, true, done)
		d.report(c, s, h.At, true)
		return s.Verdict
	}
	var endpoint *dispatcher.Endpoint
	if c.ID.Lane.IsEndpoint() {
		if dest, err := e.endpoints.Cache.Get(d.cut, string(c.ID.Lane)); err == nil {
			endpoint = dest.Endpoint
		} else {
			endpoint = e.endpoints.Cache.Cached(c.ID.Lane)
		}
	}
	m := c.Message
	o := dispatcher.JudgeHandled(dispatcher.Case{
		Rung: c.Rung, Ladder: d.defaults(m, endpoint).ladder, MaxAttempts: m.MaxAttempts, WaitsOn: c.WaitsOn,
		Now: now, ExpiresAt: m.ExpiresAt, Jitter: d.jitter, Random: rand.Float64(),
	}, h)
	s := dispatcher.Settlement{ID: c.ID, Due: c.Due, First: c.First, Leased: c.Leased, Endpoint: endpoint}
	s.Judged(o)
	s.Attempt.Number, s.Attempt.At, s.Attempt.Resend = c.Attempt, h.At, c.Asked
	e.settler.putAndReport(s, true, done)
	d.report(c, s, h.At, true)
	return s.Verdict
}

// Succeeded records that an attempt at a delivery succeeded whose lease had ended. That
// counts where the delivery has not ended. done is called as by Finish.
func (e *Engine) Succeeded(id dispatcher.DeliveryID, attempt int, done func(dispatcher.Settled)) {
	now := e.store.Now()
	s := dispatcher.Settlement{ID: id, Verdict: dispatcher.Delivered}
	s.Attempt = dispatcher.Attempt{Number: attempt, At: now, Verdict: dispatcher.Delivered}
	e.settler.putAndReport(s, false, func(is dispatcher.Settled) {
		if is.Result == dispatcher.SettledOK || is.Result == dispatcher.SettledDone {
			e.deliverer.report(dispatcher.Claimed{ID: id, Due: now, Attempt: attempt}, s, now, true)
		}
		done(is)
	})
}

// Settle records the outcomes of leases without attempts, as Fit returns them.
func (e *Engine) Settle(outcomes ...dispatcher.Settlement) { e.settler.put(outcomes...) }

// HandBack gives up leases without attempts: their deliveries go back to the heads
// of their lanes, in their order.
func (e *Engine) HandBack(leased ...dispatcher.Claimed) { e.settler.put(backs(leased, 0)...) }

// HandBackLater is HandBack of deliveries that can't be begun now. Their lanes pause for a
// moment.
func (e *Engine) HandBackLater(leased ...dispatcher.Claimed) {
	e.settler.put(backs(leased, backPause)...)
}
