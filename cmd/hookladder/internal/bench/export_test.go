package bench

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Names of what is inside, for the tests beside it.
var (
	CallsIn     = callsIn
	VersionIn   = versionIn
	FieldIn     = field
	Steady      = steady
	UniqueBody  = uniqueBody
	Genuine     = genuine
	Payload     = payload
	Message     = message
	ErrLate     = errLate
	Interrupted = errInterrupted
)

// ReportOf is a report over runs, each with a figure's values by name.
func ReportOf(quick bool, runs ...map[string]float64) *Report {
	r := newReport(Options{Version: "1.2.3", Runs: len(runs), Quick: quick}, time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC))
	for i, values := range runs {
		s := &sample{run: i}
		for name, value := range values {
			s.add(name, "µs", value)
		}
		r.add(s)
	}
	return r
}

// Verdict judges a figure with values by a target.
func Verdict(t Target, values ...float64) string {
	var f Figure
	for _, v := range values {
		f.take(v)
	}
	return t.verdict(f)
}

// Received is what has come of a run, and what would be wrong if n were sent.
func Received(distinct, all, bad, n int) error {
	return received{Distinct: distinct, All: all, Bad: bad, Why: "why"}.fault("run1", n)
}

// Size is the size of something under some options.
func Size(o Options, full, quick int) (size, load int) {
	l := &lab{o: o}
	return l.size(full, quick), l.load(full, quick)
}

// Reckon says how long publishing n takes, after it took that long.
func Reckon(n int, before ...time.Duration) time.Duration {
	var p pacing
	for _, took := range before {
		p.learn(n, took)
	}
	return p.take(n)
}

// Means reports limits as a run's sample has them.
func Means(rates ...float64) string {
	m, s := limits{rates: rates}, &sample{}
	s.add("other: rate", "/s", 1)
	m.report(s)
	return fmt.Sprint(s.figures)
}

// PublishBatch publishes messages in one call.
func PublishBatch(api string, messages ...string) error {
	return newCallers().publishBatch(api, messages)
}

// Complete checks a report of figures with their values by name, in one run.
func Complete(all bool, figures map[string][]float64) error {
	r := &Report{Runs: 1}
	for name, values := range figures {
		r.Figures = append(r.Figures, Figure{Name: name, Values: values})
	}
	return r.complete(all)
}

// Judged are the names of all figures that have a target.
func Judged() []string { return slices.Sorted(maps.Keys(targets)) }

// Noisy is a run with its noise, and a figure.
type Noisy struct{ Others, Spread, Value float64 }

func samplesOf(runs []Noisy) (all []*sample) {
	for i, r := range runs {
		s := &sample{run: i, noise: noise{r.Others, r.Spread}}
		s.add("a: b", "", r.Value)
		if i == 0 {
			s.add("a: once", "", 7)
		}
		all = append(all, s)
	}
	return all
}

// NeedsRun reports whether a bench makes one more run after some.
func NeedsRun(o Options, runs ...Noisy) bool { return o.needsRun(samplesOf(runs)) }

// ReportOfNoisy is a report of the quietest of some runs.
func ReportOfNoisy(most int, runs ...Noisy) *Report {
	r := newReport(Options{Runs: most}, time.Now())
	r.addRuns(samplesOf(runs))
	return r
}

// Others is the share of others, between two readings of all, used and own CPU time.
func Others(before, after [3]float64) float64 {
	use := func(v [3]float64) cpuUse { return cpuUse{v[0], v[1], v[2], true} }
	return use(after).others(use(before))
}

// Spread is how far limits are apart.
var Spread = spread

// OwnCPU is what a lab without children reads of the machine.
func OwnCPU() (all, used, ours float64, known bool) {
	u := (&lab{}).cpuUse()
	return u.all, u.used, u.ours, u.known
}
