// Package health has the words of how deliveries went over time: how many were accepted,
// delivered and failed in each minute, and how each destination did.
package health

import (
	"net/http"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

const (
	// KeptMinutes is for how long minutes are kept.
	KeptMinutes = 72 * time.Hour
	// Half is the length of one bar of a lane, and KeptBars how many there are.
	Half     = 30 * time.Minute
	KeptBars = 48
)

// Bounds are the upper ends of the classes of a duration, in ms. What is longer than the
// last is in a class of its own: there are len(Bounds)+1.
var Bounds = [...]int64{10, 50, 100, 250, 500, 1000, 5000}

// Durations counts durations by class.
type Durations [len(Bounds) + 1]int64

// Add counts one.
func (d *Durations) Add(took time.Duration) {
	ms := took.Milliseconds()
	for i, bound := range Bounds {
		if ms <= bound {
			d[i]++
			return
		}
	}
	d[len(Bounds)]++
}

// Total is how many were counted.
func (d Durations) Total() (n int64) {
	for _, one := range d {
		n += one
	}
	return n
}

// Quantile is the upper end of the class in which the q-th of the durations lies, such
// as 0.95. more says that it is longer than the last bound. 0: none was counted.
func (d Durations) Quantile(q float64) (at time.Duration, more bool) {
	total := d.Total()
	if total == 0 {
		return 0, false
	}
	rest := int64(q * float64(total))
	for i, bound := range Bounds {
		if rest -= d[i]; rest < 0 {
			return time.Duration(bound) * time.Millisecond, false
		}
	}
	return time.Duration(Bounds[len(Bounds)-1]) * time.Millisecond, true
}

// Merge adds what others counted.
func (d *Durations) Merge(o Durations) {
	for i, n := range o {
		d[i] += n
	}
}

// Failures are counted by what went wrong.
type Failures struct {
	Refused  int64 // any other status, or an answer or a handler that says no
	Server   int64 // 5xx
	Timeout  int64 // no answer in time
	Connect  int64 // no connection, also where none is allowed, one that broke, or an answer that is not HTTP
	TLS      int64 // no trust, or no common version
	DNS      int64 // a name that is not found
	Internal int64 // our own fault, or a lease that ended
}

// Add counts an attempt that failed.
func (f *Failures) Add(a *dispatcher.Attempt) {
	switch a.Class {
	case dispatcher.ClassStatus:
		if a.Status >= http.StatusInternalServerError {
			f.Server++
		} else {
			f.Refused++
		}
	case dispatcher.ClassBody, dispatcher.ClassHandler:
		f.Refused++
	case dispatcher.ClassTimeout:
		f.Timeout++
	case dispatcher.ClassConnect, dispatcher.ClassReset, dispatcher.ClassProtocol, dispatcher.ClassRefused:
		f.Connect++
	case dispatcher.ClassTLS:
		f.TLS++
	case dispatcher.ClassDNS:
		f.DNS++
	default:
		f.Internal++
	}
}

// Answered reports whether somebody said what became of an attempt: the time that it took
// is theirs.
func Answered(c dispatcher.Class) bool {
	switch c {
	case dispatcher.ClassNone, dispatcher.ClassStatus, dispatcher.ClassBody, dispatcher.ClassHandler:
		return true
	}
	return false
}

// Merge adds what others counted.
func (f *Failures) Merge(o Failures) {
	f.Refused += o.Refused
	f.Server += o.Server
	f.Timeout += o.Timeout
	f.Connect += o.Connect
	f.TLS += o.TLS
	f.DNS += o.DNS
	f.Internal += o.Internal
}

// Total is how many attempts failed.
func (f Failures) Total() int64 {
	return f.Refused + f.Server + f.Timeout + f.Connect + f.TLS + f.DNS + f.Internal
}

// Minute is what one minute brought to a project.
type Minute struct {
	At        time.Time // its beginning, by the store's clock
	Accepted  int64     // messages
	Delivered int64     // attempts that succeeded
	Failed    int64     // attempts that failed
	Dead      int64     // deliveries
	Late      Durations // from due to attempted
}

// Merge adds what others counted of the same minute.
func (m *Minute) Merge(o Minute) {
	m.Accepted += o.Accepted
	m.Delivered += o.Delivered
	m.Failed += o.Failed
	m.Dead += o.Dead
	m.Late.Merge(o.Late)
}

// Moved reports that something was counted.
func (m *Minute) Moved() bool { return m.Accepted|m.Delivered|m.Failed|m.Dead != 0 }

// Bar is what half an hour brought to one lane.
type Bar struct {
	At        time.Time // its beginning, by the store's clock
	Delivered int64
	Failed    Failures
	Took      Durations // the attempts that were answered
	Unsure    bool      // there were too many lanes for each to have a bar: this one may have had more
}

// Merge adds what others counted of the same half hour.
func (b *Bar) Merge(o Bar) {
	b.Unsure = b.Unsure || o.Unsure
	b.Delivered += o.Delivered
	b.Failed.Merge(o.Failed)
	b.Took.Merge(o.Took)
}

// Others is the lane of the bar for all lanes that have none of their own, since there
// were too many.
const Others = dispatcher.AllLanes

// LaneBar is a Bar of a lane.
type LaneBar struct {
	Lane dispatcher.Lane
	Bar
}

// Count is what one instance counted in one minute. It is added once, however often it
// is given.
type Count struct {
	Number int64     // of the instance's counts: each is greater than the one before
	Minute           // what it brought to the project; nothing moved: that part is added
	Lanes  []LaneBar // of the half hour in which the minute lies; those that are added are missing
}
