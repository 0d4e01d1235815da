package wait

import (
	"maps"
	"slices"
	"time"
)

// Three timeouts limit the silence of an instance. Each is longer than the
// one before, so an instance has stopped before another takes over from it.
//
//   - BeatOld: an instance with an older last beat leases nothing. It accepts
//     nothing until it has read again how the store is divided. The time counts
//     from before the beat was sent.
//   - Three readings, one with each beat: then its peers report it dead. That takes
//     at least 6 s, because one beat may be lost and the next one slow.
//   - DeadFor: then doctor and repartition report it dead. They poll only for that
//     time, and leave the peers a second to be first.
const (
	BeatEvery = 2 * time.Second
	BeatOld   = 5 * time.Second
	DeadFor   = DeadReadings*BeatEvery + time.Second
)

// DeadReadings is the number of readings in a row without growth after which an instance is
// dead.
const DeadReadings = 3

// readingLate is the largest delay of a reading. A later one proves nothing, because its
// delay may have delayed the beats of others too.
const readingLate = time.Second

// Pulses finds dead instances by their heartbeats: each instance raises a number in the store,
// and the others read it. An instance is dead
// when its number was the same in several punctual readings in a row. No two clocks are
// compared.
type Pulses struct {
	every    time.Duration // between two readings
	readings int           // with the same number, after the first with it
	round    int           // punctual readings in a row, after the first
	seen     map[string]pulse
}

type pulse struct {
	number int64
	same   int // punctual readings in a row without growth
}

// NewPulses expects a reading in each interval. An instance is dead after the given number of
// readings in a row without a change.
func NewPulses(every time.Duration, readings int) *Pulses {
	return &Pulses{every: every, readings: readings}
}

// Read adds a reading that came the given time after the one before. It returns the instances
// that are new or whose number grew, and the dead ones.
func (p *Pulses) Read(numbers map[string]int64, since time.Duration) (grown, dead []string) {
	first, punctual := p.seen == nil, since <= p.every+readingLate
	if first {
		p.seen = make(map[string]pulse, len(numbers))
	}
	if p.round++; first || !punctual {
		p.round = 0
	}
	for name, number := range numbers {
		was, known := p.seen[name]
		now := pulse{number: number}
		switch {
		case known && was.number == number && punctual:
			now.same = was.same + 1
		case known && was.number != number, !known && !first:
			grown = append(grown, name)
		}
		p.seen[name] = now
		if now.same >= p.readings {
			dead = append(dead, name)
		}
	}
	maps.DeleteFunc(p.seen, func(name string, _ pulse) bool {
		_, there := numbers[name]
		return !there
	})
	return grown, dead
}

// Complete reports whether there were enough punctual readings in a row to find a dead
// instance.
func (p *Pulses) Complete() bool { return p.round >= p.readings }

// Decided reports whether each instance of the first reading is known to be dead or alive. It
// ignores later instances.
func (p *Pulses) Decided() bool {
	silent := func(n pulse) bool { return n.same == p.round }
	return p.Complete() || !slices.ContainsFunc(slices.Collect(maps.Values(p.seen)), silent)
}
