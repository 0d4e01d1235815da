package main

import (
	"cmp"
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/hookladder/hookladder/deploy/kit"
)

// limits has the measurements of the limit in one run. The limit is the rate of the
// machine without a queue.
type limits struct {
	rates, sender, receiver []float64
	longest                 time.Duration // the longest time of one measurement, in any run
}

// limitFirst is the default time of a measurement before the first one.
const limitFirst = 2 * time.Second

// take returns an upper limit for the time of one measurement: 1.5 times the slowest
// time so far, and 250 ms more.
func (m *limits) take() time.Duration { return time.Second/4 + 3*cmp.Or(m.longest, limitFirst)/2 }

// doubt doubles the estimate for later measurements.
func (m *limits) doubt() { m.longest = 2 * cmp.Or(m.longest, limitFirst) }

// measureLimit measures the limit once more than the other parts do, so that the
// report has a limit if this is the only part.
func measureLimit(ctx context.Context, l *lab, _ *sample) error {
	_, err := l.limit(ctx)
	return err
}

// limit measures the bare loop and returns its rate in deliveries per second. In the bare loop
// one goroutine for each publisher sends signed POSTs straight to the receiver. Neither the
// loop nor the receiver is tuned: both are ordinary code with net/http.
func (l *lab) limit(ctx context.Context) (rate float64, err error) {
	if l.limits.longest == 0 { // no connection is open yet
		l.limits.longest = limitFirst
		if _, err := l.limit(ctx); err != nil {
			return 0, err
		}
		l.limits = limits{}
	}
	r, err := l.receiver(ctx)
	if err != nil {
		return 0, err
	}
	n, run, body := l.load(30_000, 4_000), l.newRun("limit"), []byte(payload)
	url := r.url(0) + "/" + run
	ours, _ := kit.CPU(0)
	theirs, known := r.cpu()
	begin := time.Now()
	err = l.bare.each(ctx, publishers, n, func(i int) error {
		id, at := run+"_"+strconv.Itoa(i), time.Now()
		_, err := l.bare.post(url, http.Header{
			"Content-Type": {"application/json"}, "Webhook-Id": {id},
			"Webhook-Timestamp": {strconv.FormatInt(at.Unix(), 10)}, "Webhook-Signature": {l.sign.Sign(id, at, body)},
		}, payload, http.StatusOK)
		return err
	})
	took := time.Since(begin)
	if err != nil {
		return 0, err
	}
	l.limits.longest = max(l.limits.longest, took)
	if known {
		oursNow, _ := kit.CPU(0)
		theirsNow, _ := r.cpu()
		l.limits.sender = append(l.limits.sender, (oursNow-ours)/float64(n))
		l.limits.receiver = append(l.limits.receiver, (theirsNow-theirs)/float64(n))
	}
	if _, err := r.expect(ctx, run, n); err != nil {
		return 0, err
	}
	rate = float64(n) / took.Seconds()
	l.limits.rates = append(l.limits.rates, rate)
	return rate, r.forget(ctx, run)
}

// against measures a rate between two measurements of the limit. It adds the rate and
// its ratio to the limit, which it returns.
func (l *lab) against(ctx context.Context, s *sample, name string, measure func() (rate float64, err error)) (ratio float64, err error) {
	before, err := l.limit(ctx)
	if err != nil {
		return 0, err
	}
	rate, err := measure()
	if err != nil {
		return 0, err
	}
	after, err := l.limit(ctx)
	if err != nil {
		return 0, err
	}
	ratio = rate / ((before + after) / 2)
	s.add(name+": rate", "/s", rate)
	s.add(name+": ÷ limit", "", ratio)
	return ratio, nil
}

// report adds the means of a run before its other figures, and resets m for the next
// run.
func (m *limits) report(s *sample) {
	means := &sample{}
	means.mean("limit: rate", "/s", m.rates)
	means.mean("limit: sender CPU", "µs", m.sender)
	means.mean("limit: receiver CPU", "µs", m.receiver)
	s.figures = append(means.figures, s.figures...)
	*m = limits{longest: m.longest}
}

// mean adds the mean of values, or no figure if there are no values.
func (s *sample) mean(name, unit string, values []float64) {
	if len(values) == 0 {
		return
	}
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	s.add(name, unit, sum/float64(len(values)))
}
