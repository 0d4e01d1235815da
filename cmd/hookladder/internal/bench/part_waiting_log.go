package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher/app"
)

// scriptsOfFlow are those that each delivery needs that had to wait.
var scriptsOfFlow = []string{"schedule", "move", "claim", "settle"}

const (
	// slowLogMost is more than what is called while some thousand messages are
	// delivered.
	slowLogMost = 100_000
	// slowLogFrom keeps out most of what scripts call, which would be logged too
	// and would make them look slower than they are. A script itself takes longer.
	slowLogFrom = 10 * time.Microsecond
)

// slowLog has a server note how long each command takes. That costs time
// itself, so it does so only until stop.
type slowLog struct{ of *redis.Client }

func logCommands(ctx context.Context, st *store) (*slowLog, error) {
	s := &slowLog{of: st.nodes[0]}
	return s, errors.Join(
		s.ask(ctx, "config", "set", "slowlog-max-len", slowLogMost),
		s.ask(ctx, "slowlog", "reset"),
		s.ask(ctx, "config", "set", "slowlog-log-slower-than", slowLogFrom.Microseconds()),
	)
}

// costs ends the log and answers what each script took of each of n messages,
// in microseconds.
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
			return nil, fmt.Errorf("the log of redis-server's commands has no %s", script)
		}
	}
	return costs, s.ask(ctx, "slowlog", "reset") // it takes memory
}

// stop ends the log.
func (s *slowLog) stop() error {
	return s.ask(context.Background(), "config", "set", "slowlog-log-slower-than", -1)
}

func (s *slowLog) ask(ctx context.Context, command ...any) error {
	if err := s.of.Do(ctx, command...).Err(); err != nil {
		return fmt.Errorf("log the commands of redis-server: %w", err)
	}
	return nil
}

// A call that took more than stoppedFrom times what most calls of its script
// take was stopped meanwhile, for another process or a page fault: on a busy
// machine a few such would be the whole figure. It counts as that many.
const stoppedFrom = 4

// costsIn adds up the calls of each script, and shares them among n messages.
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
