package bench

import (
	"net"
	"time"
)

// What the tests of the quiet parts look at from outside.
var (
	Quantile = quantile
	CostsIn  = costsIn
	Pace     = pace
	DueAt    = dueAt
)

// Hung are ports that hang.
type Hung struct{ *hung }

// Hang opens some.
func Hang(n int) (Hung, error) {
	h, err := hang(n)
	return Hung{h}, err
}

// Addr is a port's.
func (h Hung) Addr(i int) net.Addr { return h.ports[i].Addr() }

// All is closed when each was called.
func (h Hung) All() <-chan struct{} { return h.all }

// Tried is how many were called, and Now how many calls hang.
func (h Hung) Tried() int { return h.tried() }
func (h Hung) Now() int   { return h.now() }

// Stop closes them.
func (h Hung) Stop() { h.stop() }

// Growth is the worst that addCosts finds, and how many figures it adds.
func Growth(numbers []int, costs []map[string]float64) (worst float64, figures int) {
	s := &sample{}
	addCosts(s, numbers, costs)
	last := s.figures[len(s.figures)-1]
	return last.value, len(s.figures)
}

// Numbers are how many messages wait in each store.
func Numbers(o Options) []int { return new(levels).numbers(&lab{o: o}) }

// Idle is what an instance did for nothing: commands a second since the run
// before, and CPU microseconds a second since before.
func Idle(commands, micros float64, since, quiet time.Duration) map[string]float64 {
	now := time.Unix(1000, 0)
	i := &idler{partitions: 1, last: idleReading{at: now.Add(-since), commands: 50}}
	s := &sample{}
	i.report(s,
		idleReading{at: now.Add(-quiet), commands: 50 + commands/2, redis: 10, serve: 20},
		idleReading{at: now, commands: 50 + commands, redis: 10 + micros, serve: 20 + 2*micros})
	figures := map[string]float64{}
	for _, f := range s.figures {
		figures[f.name] = f.value
	}
	return figures
}

// Lead is how long before the first due time n messages are published that take
// so long each.
func Lead(each time.Duration, n int) time.Duration { return (&site{each: each}).lead(n) }
