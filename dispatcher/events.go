package dispatcher

import "time"

// Events are what an engine hears of its queue besides the answers of its calls.
// Each is called by the goroutine of the call that brought the news, and must not
// block: the engine keeps no more of it than that there is something to do.
type Events struct {
	Ready  func()               // Claimable may answer more than before
	Due    func()               // something is due sooner than Move answered
	Unseen func()               // an answer was lost: Look has something to ask
	Back   func()               // the queue's clock went back: Look has to ask all
	Ended  func(deliveries int) // they ended, so that there is something to trim
	Dead   func(deaths []Death) // but for those that a Settled tells of

	Emptied func(*Emptied) // the store lost data; nil: they were restored or given up

	Failing func(LaneFailing)                                    // an attempt failed, or succeeded again after it
	Opened  func(lane Lane, since time.Time, wait time.Duration) // its breaker opened, or opened again; it fails since then
	Closed  func(lane Lane, since time.Time)                     // its breaker closed; it failed since then; zero: no attempt closed it
}

// LaneFailing says that a lane fails, or does no more.
type LaneFailing struct {
	Lane      Lane
	Since     time.Time     // of the first failure without a success since
	For       time.Duration // how long that is by now
	Recovered bool          // it fails no more
	Why       LaneWhy       // of Recovered: WhyChanged or WhyResumed; empty: an attempt succeeded
}

// Whole is Events in which nothing is nil.
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

// Attempted is one settled attempt, as observers see it.
type Attempted struct {
	ID      DeliveryID
	Topic   string
	Host    string // of the destination
	Attempt Attempt
	Wait    time.Duration // Retry: until the next attempt
	Reason  DeadReason    // Dead: why
	Taken   bool          // a taker made it, and nothing was called
	Late    time.Duration // how long after its due time, or its acceptance where that was later, it began

	// Since is how long a delivery took that this attempt delivered: since it was
	// accepted, or since the time it was published for where that is later, with
	// all rungs and pauses. 0: it was not delivered, or a person had it sent again.
	Since time.Duration
}

// Observer is told what happens, for metrics and for people who watch. Its
// methods are called on the hot path and must not block.
type Observer interface {
	Attempted(a Attempted)
	// Published tells what became of one message of a Publish, also where that
	// is an error. An accepted one without deliveries matched no endpoint.
	Published(p Published)
	// TookOver tells that this instance moved all that another one held, which
	// died.
	TookOver(deliveries int)
	// Died tells of a delivery that died, once, whatever ended it: the call of
	// this instance that did so was answered.
	Died(d Death)
}
