package dispatcher

// The statistics of deliveries over time: an instance counts them as it attempts deliveries,
// and stores a MinuteCount for each minute. The store merges the counts of all instances into
// a Minute for the project and a Bar for each lane. The console and the API show these.

import (
	"net/http"
	"time"
)

const (
	// KeptMinutes is how long minutes are kept.
	KeptMinutes = 72 * time.Hour
	// HalfHour is the duration of one bar of a lane, and KeptBars the number of bars.
	HalfHour = 30 * time.Minute
	KeptBars = 48
)

// durationBounds are the upper bounds of the histogram's buckets in ms. Longer durations have
// their own bucket, so there are len(durationBounds)+1.
var durationBounds = [...]int64{10, 50, 100, 250, 500, 1000, 5000}

// Durations is a histogram of durations.
type Durations [len(durationBounds) + 1]int64

// Add counts one duration.
func (d *Durations) Add(took time.Duration) {
	ms := took.Milliseconds()
	for i, bound := range durationBounds {
		if ms <= bound {
			d[i]++
			return
		}
	}
	d[len(durationBounds)]++
}

// Total returns the number of durations.
func (d Durations) Total() (n int64) {
	for _, one := range d {
		n += one
	}
	return n
}

// Quantile returns the upper bound of the bucket with the q-th quantile, such as 0.95.
// more reports that it is above the last bound. It returns 0 if there are no durations.
func (d Durations) Quantile(q float64) (at time.Duration, more bool) {
	total := d.Total()
	if total == 0 {
		return 0, false
	}
	rest := int64(q * float64(total))
	for i, bound := range durationBounds {
		if rest -= d[i]; rest < 0 {
			return time.Duration(bound) * time.Millisecond, false
		}
	}
	return time.Duration(durationBounds[len(durationBounds)-1]) * time.Millisecond, true
}

// Merge adds the counts of another histogram.
func (d *Durations) Merge(o Durations) {
	for i, n := range o {
		d[i] += n
	}
}

// Failures counts failed attempts by their cause.
type Failures struct {
	Refused  int64 // any other status, or a response or a handler that reports a failure
	Server   int64 // 5xx
	Timeout  int64 // no response before the timeout
	Connect  int64 // no connection, one that broke or is not allowed, or a response that is not HTTP
	TLS      int64 // no trust, or no common version
	DNS      int64 // a name that is not found
	Internal int64 // our own fault, or a lease that ended
}

// Add counts a failed attempt.
func (f *Failures) Add(a *Attempt) {
	switch a.Class {
	case ClassStatus:
		if a.Status >= http.StatusInternalServerError {
			f.Server++
		} else {
			f.Refused++
		}
	case ClassBody, ClassHandler:
		f.Refused++
	case ClassTimeout:
		f.Timeout++
	case ClassConnect, ClassReset, ClassProtocol, ClassRefused:
		f.Connect++
	case ClassTLS:
		f.TLS++
	case ClassDNS:
		f.DNS++
	default:
		f.Internal++
	}
}

// ReceiverAnswered reports whether the receiver or the handler ended an attempt, so that the
// duration is theirs.
func ReceiverAnswered(c Class) bool {
	switch c {
	case ClassNone, ClassStatus, ClassBody, ClassHandler:
		return true
	}
	return false
}

// Merge adds other counts.
func (f *Failures) Merge(o Failures) {
	f.Refused += o.Refused
	f.Server += o.Server
	f.Timeout += o.Timeout
	f.Connect += o.Connect
	f.TLS += o.TLS
	f.DNS += o.DNS
	f.Internal += o.Internal
}

// Total returns the number of failed attempts.
func (f Failures) Total() int64 {
	return f.Refused + f.Server + f.Timeout + f.Connect + f.TLS + f.DNS + f.Internal
}

// Minute has the counts of a project in one minute.
type Minute struct {
	At        time.Time // its start, by the store's clock
	Accepted  int64     // messages
	Delivered int64     // attempts that succeeded
	Failed    int64     // attempts that failed
	Dead      int64     // deliveries
	Late      Durations // from the due time to the attempt
}

// Merge adds other counts of the same minute.
func (m *Minute) Merge(o Minute) {
	m.Accepted += o.Accepted
	m.Delivered += o.Delivered
	m.Failed += o.Failed
	m.Dead += o.Dead
	m.Late.Merge(o.Late)
}

// Moved reports whether any count is not zero.
func (m *Minute) Moved() bool { return m.Accepted|m.Delivered|m.Failed|m.Dead != 0 }

// Bar has the counts of one lane in half an hour.
type Bar struct {
	At        time.Time // its start, by the store's clock
	Delivered int64
	Failed    Failures
	Took      Durations // of the attempts that the receiver ended
	Unsure    bool      // there were too many lanes for a bar each, so this one may be incomplete
}

// Merge adds other counts of the same half hour.
func (b *Bar) Merge(o Bar) {
	b.Unsure = b.Unsure || o.Unsure
	b.Delivered += o.Delivered
	b.Failed.Merge(o.Failed)
	b.Took.Merge(o.Took)
}

// OtherLanes is the lane of the common bar for lanes without their own bar, because there
// were too many.
const OtherLanes = AllLanes

// LaneBar is a Bar of a lane.
type LaneBar struct {
	Lane Lane
	Bar
}

// MinuteCount has the counts of one instance in one minute. The store adds it once, even if it
// is sent again.
type MinuteCount struct {
	Number int64     // increases with each count of the instance
	Minute           // the project's part; if nothing moved, it is stored already
	Lanes  []LaneBar // of the half hour with the minute; stored lanes are removed
}
