package dispatcher

import "time"

// Events are the callbacks of a queue to its engine. They run on the goroutine that called the
// queue, so they must not block: the engine only records that there is work.
type Events struct {
	Ready  func()               // Claimable may return more than before
	Due    func()               // something is due sooner than Move returned
	Unseen func()               // a response was lost: Look has to query the queue
	Back   func()               // the queue's clock went back: Look has to query everything
	Ended  func(deliveries int) // deliveries ended, so a Trim may find work
	Dead   func(deaths []Death) // without the deaths that a Settled reports

	Emptied func(*Emptied) // the store lost data; nil: they were restored or given up

	Failing func(LaneFailing)                                    // an attempt failed, or succeeded after a failure
	Opened  func(lane Lane, since time.Time, wait time.Duration) // a lane's breaker opened, or opened again; the lane fails since then
	Closed  func(lane Lane, since time.Time)                     // a lane's breaker closed; the lane failed since then; zero: no attempt closed it
}

// LaneFailing reports that a lane fails, or no longer fails.
type LaneFailing struct {
	Lane      Lane
	Since     time.Time     // of the first failure after the last success
	For       time.Duration // the time from Since until now
	Recovered bool          // it no longer fails
	Why       LaneWhy       // of Recovered: WhyChanged or WhyResumed; empty: an attempt succeeded
}

// Whole returns the events with an empty function for each nil one.
func (e Events) Whole() Events {
	for _, f := range []*func(){&e.Ready, &e.Due, &e.Unseen, &e.Back} {
		if *f == nil {
			*f = func() {}
		}
	}
	if e.Ended == nil {
		e.Ended = func(int) {}
	}
	if e.Dead == nil {
		e.Dead = func([]Death) {}
	}
	if e.Emptied == nil {
		e.Emptied = func(*Emptied) {}
	}
	if e.Opened == nil {
		e.Opened = func(Lane, time.Time, time.Duration) {}
	}
	if e.Closed == nil {
		e.Closed = func(Lane, time.Time) {}
	}
	if e.Failing == nil {
		e.Failing = func(LaneFailing) {}
	}
	return e
}

// Attempted is one settled attempt, as reported to observers.
type Attempted struct {
	ID      DeliveryID
	Topic   string
	Host    string // of the destination
	Attempt Attempt
	Wait    time.Duration // Retry: until the next attempt
	Reason  DeadReason    // Dead: why
	Taken   bool          // a taker made it, and no receiver was called
	Late    time.Duration // the delay of its start after its due time, or after its acceptance if that was later

	// Since is the time from acceptance to delivery, if this attempt delivered, with all rungs
	// and pauses. For a delivery with a later scheduled time, it counts from then. 0: it was not
	// delivered, or a person had it sent again.
	Since time.Duration
}

// Observer receives events for metrics and for followers. The hot path calls its methods, so
// they must not block.
type Observer interface {
	Attempted(a Attempted)
	// Published is called with the result of each message of a Publish, also if that is an error.
	// An accepted message without deliveries matched no endpoint.
	Published(p Published)
	// TookOver is called after this instance took over all deliveries of a dead one.
	TookOver(deliveries int)
	// Died is called once for each delivery that a call of this instance ended as dead.
	Died(d Death)
}
