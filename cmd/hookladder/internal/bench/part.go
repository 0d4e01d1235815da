package bench

import "context"

// A part measures some figures. Each run measures all parts in turn, so that a slow
// phase of the machine affects all of them alike.
type part struct {
	name    string                                             // for --only
	about   string                                             // one line, for --help
	prepare func(ctx context.Context, l *lab) error            // once, before the first run; may be nil
	measure func(ctx context.Context, l *lab, s *sample) error // once per run
}

// parts returns all parts in the order in which a run measures them.
func parts() []part { return append(throughputParts(), quietParts()...) }

// throughputParts returns the parts that use the machine as much as possible.
func throughputParts() []part {
	return []part{
		{"limit", "what the machine can do: a bare loop of signed POSTs, no queue", nil, measureLimit},
		{"drain", "accepted messages that are all due at one moment, to 1 and to 100 destinations", nil, measureDrain},
		{"slow", "100 destinations that answer after 200 ms, with 1,024 permits", nil, measureSlow},
		{"through", "64 publishers through the API while it delivers, one by one and in batches of 100", nil, measureThrough},
		{"accept", "64 publishers and no delivery, one by one and in batches of 100, fsync everysec and always", nil, measureAccept},
	}
}

// quietParts returns the parts that measure with little load, or with many waiting
// messages.
func quietParts() []part {
	var waiting levels
	return []part{
		latenessPart(), latencyPart(), waitingPart(&waiting), startPart(&waiting),
		scalePart(), isolationPart(), abusePart(), idlePart(),
	}
}

// sample has the figures of one run.
type sample struct {
	run     int // from 0
	figures []figure
}

// figure is one value. Its name is "<measurement>: <what>". The name is the same in
// each run and unique within a run.
type figure struct {
	name  string
	unit  string // "/s", "µs", "ms", "s", "B", "MiB", or empty for ratios and counts
	value float64
}

// add adds a figure.
func (s *sample) add(name, unit string, value float64) {
	s.figures = append(s.figures, figure{name, unit, value})
}
