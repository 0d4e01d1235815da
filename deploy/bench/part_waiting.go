package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher/app"
)

// The numbers of waiting messages during the measurement of the scripts, the fewest first.
// Then the number of messages that are delivered at the same time.
var (
	waitingFull  = []int{1_000, 100_000, 1_000_000}
	waitingQuick = []int{1_000, 10_000, 50_000}
)

const (
	waitingMessages, waitingMessagesQuick = 4000, 1000

	waitingBatch             = 1000 // the most that a call accepts
	waitingFrom, waitingOver = 30 * 24 * time.Hour, 24 * time.Hour
)

// level is a store with waiting messages.
type level struct {
	*site
	memory float64 // bytes for each of them
}

// waitingNumbers returns the number of waiting messages in each store.
func waitingNumbers(l *lab) (list []int) {
	for i := range waitingFull {
		list = append(list, l.size(waitingFull[i], waitingQuick[i]))
	}
	return slices.Compact(list)
}

// newLevel fills a store with n waiting messages. Because that takes long, all runs use
// the same one.
func newLevel(ctx context.Context, l *lab, n int) (*level, error) {
	w, err := newSite(ctx, l)
	if err != nil {
		return nil, err
	}
	v := &level{site: w}
	if err := v.warm(ctx, many); err != nil {
		return nil, err
	}
	if err := v.wait(ctx, n); err != nil {
		return nil, fmt.Errorf("fill a store with %s messages: %w", humanize.Comma(int64(n)), err)
	}
	return v, nil
}

// wait publishes the waiting messages. All bodies differ, the API makes the ids, and
// the due times are spread over some days of next month.
func (v *level) wait(ctx context.Context, n int) error {
	before, err := v.store.memory(ctx)
	if err != nil {
		return err
	}
	from := time.Now().Add(waitingFrom)
	err = v.fill(ctx, n, waitingBatch, func(i int) string {
		return messageWith("", v.url("", i, many), dueAt(from.Add(rand.N(waitingOver))), uniqueBody(i))
	})
	if err != nil {
		return err
	}
	after, err := v.store.memory(ctx)
	v.memory = (after - before) / float64(n)
	v.waiting = n
	return err
}

// waitingPart measures the memory of a waiting message, and how waiting messages
// affect the cost of delivered messages.
func waitingPart() part {
	var levels []*level
	return part{
		name:  "waiting",
		about: "memory of waiting messages, and what the scripts cost while 1k, 100k and 1M wait",
		prepare: func(ctx context.Context, l *lab) error {
			for _, n := range waitingNumbers(l) {
				v, err := newLevel(ctx, l, n)
				if err != nil {
					return err
				}
				levels = append(levels, v)
			}
			return nil
		},
		measure: func(ctx context.Context, _ *lab, s *sample) error {
			var numbers []int
			var costs []map[string]float64
			for i, v := range levels {
				var cost map[string]float64
				err := v.again(func() (err error) {
					cost, err = v.costs(ctx)
					return err
				})
				if err != nil {
					return err
				}
				numbers, costs = append(numbers, v.waiting), append(costs, cost)
				if s.run == 0 && i == len(levels)-1 { // once, because no run changes it
					s.add("waiting: memory of each", "B", v.memory)
				} else if s.run == 0 && i > 0 { // the first store has too few messages for a useful figure
					s.add("waiting: memory of each of "+humanize.Comma(int64(v.waiting)), "B", v.memory)
				}
			}
			addCosts(s, numbers, costs)
			return nil
		},
	}
}

// addCosts adds the cost of the scripts per message at each level. It also adds the
// ratio between the level with the most and the level with the fewest messages.
func addCosts(s *sample, numbers []int, costs []map[string]float64) {
	worst := 0.0
	for _, script := range scriptsOfFlow {
		for i, n := range numbers {
			s.add(fmt.Sprintf("waiting: %s while %s wait", script, humanize.Comma(int64(n))), "µs", costs[i][script])
		}
		growth := costs[len(costs)-1][script] / costs[0][script]
		s.add(fmt.Sprintf("waiting: %s, most ÷ fewest", script), "", growth)
		worst = max(worst, growth)
	}
	s.add("waiting: the script that grows most", "", worst)
}

// costs delivers some messages while all others wait. It returns the time of each
// script per message, in microseconds.
func (v *level) costs(ctx context.Context) (costs map[string]float64, err error) {
	n := v.lab.size(waitingMessages, waitingMessagesQuick)
	log, err := logCommands(ctx, v.store)
	if err != nil {
		return nil, err
	}
	defer stopping(&err, log.stop)
	if err := v.deliverDue(ctx, n, many); err != nil {
		return nil, err
	}
	return log.costs(ctx, n)
}

// scriptsOfFlow are the scripts that each delivery after a wait needs.
var scriptsOfFlow = []string{"schedule", "move", "claim", "settle"}

const (
	// slowLogMost is the size limit of the log. It is more than the number of
	// calls for some thousand deliveries.
	slowLogMost = 100_000
	// slowLogFrom excludes most commands that scripts call. The server would log
	// them too, and the scripts would look slower than they are. A script itself
	// takes longer.
	slowLogFrom = 10 * time.Microsecond
)

// slowLog makes a server log the time of each command. Because the log itself takes
// time, it is on only until stop.
type slowLog struct{ of *redis.Client }

func logCommands(ctx context.Context, st *store) (*slowLog, error) {
	s := &slowLog{of: st.nodes[0].Client}
	return s, errors.Join(
		s.ask(ctx, "config", "set", "slowlog-max-len", slowLogMost),
		s.ask(ctx, "slowlog", "reset"),
		s.ask(ctx, "config", "set", "slowlog-log-slower-than", slowLogFrom.Microseconds()),
	)
}

// costs stops the log and returns the time of each script per message, in
// microseconds.
func (s *slowLog) costs(ctx context.Context, n int) (map[string]float64, error) {
	if err := s.stop(); err != nil {
		return nil, err
	}
	entries, err := s.of.SlowLogGet(ctx, -1).Result()
	if err != nil {
		return nil, fmt.Errorf("read the log of redis-server's commands: %w", err)
	}
	costs := costsIn(entries, app.Scripts(), n)
	for _, script := range scriptsOfFlow {
		if costs[script] == 0 {
			return nil, fmt.Errorf("the log of redis-server's commands has no %s: the scripts of -binary must be those of this source", script)
		}
	}
	return costs, s.ask(ctx, "slowlog", "reset") // the log uses memory
}

// stop turns off the log.
func (s *slowLog) stop() error {
	return s.ask(context.Background(), "config", "set", "slowlog-log-slower-than", -1)
}

func (s *slowLog) ask(ctx context.Context, command ...any) error {
	if err := s.of.Do(ctx, command...).Err(); err != nil {
		return fmt.Errorf("log the commands of redis-server: %w", err)
	}
	return nil
}

// A call of more than stoppedFrom times its script's median was interrupted by
// another process or a page fault. On a busy machine a few such calls would dominate
// the figure. Such a call therefore counts as stoppedFrom times the median.
const stoppedFrom = 4

// costsIn adds up the calls of each script, and divides the sums by n messages.
func costsIn(entries []redis.SlowLog, names map[string]string, n int) map[string]float64 {
	calls := map[string][]time.Duration{}
	for _, e := range entries {
		if len(e.Args) < 2 || e.Args[0] != "evalsha" {
			continue
		}
		if name, ok := names[e.Args[1]]; ok {
			calls[name] = append(calls[name], e.Duration)
		}
	}
	costs := make(map[string]float64, len(calls))
	for name, took := range calls {
		slices.Sort(took)
		most := stoppedFrom * max(quantile(took, 0.5), time.Microsecond)
		var sum time.Duration
		for _, d := range took {
			sum += min(d, most)
		}
		costs[name] = float64(sum) / float64(time.Microsecond) / float64(n)
	}
	return costs
}
