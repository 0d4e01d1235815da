package engine

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/wait"
)

// stillMost is the number of readings without progress after which an instance is stuck. Every
// call of the store ends within seconds, also if the store does not respond, so a stage that
// works for 30 s without a step waits for something that may never come.
//
// Readings are counted, and not time, because a process that was suspended has one reading for
// any time that it was away.
const stillMost = int(30 * time.Second / wait.BeatEvery)

// What the goroutines of a delivery may wait for, besides work. Each call of the store ends after
// outage.CallWithin, and is repeated after at most outage.PauseMost.
//
//	accepter     schedule  a call; on a full store also an eviction (evictWithin)
//	mover        move      a call
//	claimer      claim     a call; endpoints that are not in memory (endpoints.CheckVersions, 2 s);
//	                       free permits and settled outcomes are signals, and no wait
//	loader       -         its turn among the readers of a node, then a call or two (Store.Body)
//	worker       -         a suspect: a call first; the sender: the timeout of the attempt
//	worker       record    a receiver's 410: a change of the endpoint (a call), of which its entry in the audit has 1 s
//	settler      settle    a call
//	watcher      look      a call
//	reaper       reap      a call for each dead instance
//	heartbeat    beat      a call of beatWithin
//	progress     -         nothing
//
// Their side effects wait for nothing. Lines of the log (observe.Log), spans, notices
// (notices.Notify), counts (metrics.Metrics, observe.Gauge) and followers (Tail) have bounded
// queues or counters in memory, and the archive follows the log in the store. operate.md says
// it to operators.

// stage is a part of the engine that has to move while it has work. The work may be on several
// goroutines; it moves if one of them does.
type stage struct {
	name  string
	at    atomic.Int64 // goroutines that work now, and do not wait for work
	steps atomic.Int64 // grows with each step
}

// begin says that a goroutine has work. Each begin needs an end.
func (s *stage) begin() {
	s.at.Add(1)
	s.steps.Add(1)
}

// end says that a goroutine did its work, or a step of it.
func (s *stage) end() {
	s.steps.Add(1)
	s.at.Add(-1)
}

// stages are all that are watched.
type stages struct {
	accept, claim, move, record, settle, reap, poll, beat stage
}

func newStages() *stages {
	s := &stages{}
	s.accept.name, s.claim.name, s.move.name, s.record.name = "schedule", "claim", "move", "record"
	s.settle.name, s.reap.name, s.poll.name, s.beat.name = "settle", "reap", "look", stageBeat
	return s
}

func (s *stages) all() []*stage {
	return []*stage{&s.accept, &s.claim, &s.move, &s.record, &s.settle, &s.reap, &s.poll, &s.beat}
}

// progress finds out whether an instance is stuck. It waits for nothing but its own timer, so
// it works whatever else hangs. A stuck instance has no heartbeat, and others take over what
// it leased.
type progress struct {
	*stages
	log   *slog.Logger
	stuck atomic.Pointer[stage] // nil: none is
}

// Run watches until ctx ends.
func (p *progress) Run(ctx context.Context) error {
	tick := time.NewTicker(wait.BeatEvery)
	defer tick.Stop()
	last := map[*stage]int64{}
	still := map[*stage]int{} // readings without a step
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		var stuck *stage
		for _, s := range p.all() {
			steps := s.steps.Load()
			if s.at.Load() == 0 || steps != last[s] {
				still[s] = 0
			} else {
				still[s]++
			}
			last[s] = steps
			if still[s] >= stillMost && stuck == nil {
				stuck = s
			}
		}
		was := p.stuck.Swap(stuck)
		switch {
		case stuck != nil && was == nil:
			p.log.Error("stuck: work waits and does not move, so the heartbeat stops and another instance takes over", "stage", stuck.name,
				"cure", "restart this instance; report its goroutines (SIGQUIT prints them)")
		case stuck == nil && was != nil:
			p.log.Warn("no longer stuck", "stage", was.name)
		}
	}
}

// Alive returns an error if work waits and has not moved for half a minute. A store that does
// not respond is no such case. It waits for nothing.
func (e *Engine) Alive() error {
	if s := e.progress.stuck.Load(); s != nil {
		return fmt.Errorf("stuck: %s has not moved for %s: %w", s.name, time.Duration(stillMost)*wait.BeatEvery, dispatcher.ErrUnavailable)
	}
	return nil
}
