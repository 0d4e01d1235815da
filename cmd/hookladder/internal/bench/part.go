package bench

import "context"

// A part measures some figures. Parts of a run follow each other, and runs
// follow each other, so that what the machine does to one it does to all.
type part struct {
	name    string                                             // for --only
	about   string                                             // one line, for --help
	prepare func(ctx context.Context, l *lab) error            // once, before the first run; may be nil
	measure func(ctx context.Context, l *lab, s *sample) error // once a run
}

// parts are all there are, in the order in which each run has them.
func parts() []part { return append(throughputParts(), quietParts()...) }

// throughputParts are those that ask for as much as the machine can do.
func throughputParts() []part {
	return []part{
		{"limit", "what the machine can do: a bare loop of signed POSTs, no queue", nil, measureLimit},
		{"drain", "accepted messages that are all due at one moment, to 1 and to 100 destinations", nil, measureDrain},
		{"slow", "100 destinations that answer after 200 ms, with 1,024 permits", nil, measureSlow},
		{"through", "64 publishers through the API while it delivers, one by one and in batches of 100", nil, measureThrough},
		{"accept", "64 publishers and no delivery, one by one and in batches of 100, fsync everysec and always", nil, measureAccept},
	}
}

// quietParts are the parts that measure what is there when there is little to
// do, or much that waits.
func quietParts() []part {
	var waiting levels
	return []part{
		latenessPart(), latencyPart(), waitingPart(&waiting), startPart(&waiting),
		scalePart(), isolationPart(), abusePart(), idlePart(),
	}
}

// sample is what one run measured.
type sample struct {
	run     int // from 0
	figures []figure
}

// figure is one value. Its name is "<measurement>: <what>", the same in each
// run and unlike all others.
type figure struct {
	name  string
	unit  string // "/s", "µs", "ms", "s", "B", "MiB", or empty for ratios and counts
	value float64
}

// add notes a figure.
func (s *sample) add(name, unit string, value float64) {
	s.figures = append(s.figures, figure{name, unit, value})
}
