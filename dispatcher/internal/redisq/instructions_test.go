//go:build callgrind

package redisq_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/dispatcher"
)

// The instructions that Redis executes for one delivery in each script, counted by callgrind. A busy
// machine changes CPU times by a third, and these by some 2 %. So they can have a budget.
//
// The budgets are for Redis 7.0 as Debian ships it. Other versions and compilers have other counts.

// instructionsOf is how many calls of a script one count covers. Redis' Lua collects garbage now and
// then, so a few small calls would say little.
func instructionsOf(batch int) (calls int) {
	if batch == 1 {
		return benchBlock
	}
	return 6
}

// overBudget is how much more than its budget a script may take before the benchmark fails.
const overBudget = 1.05

// instructionBudgets are thousands of instructions for one delivery, by load and script.
var instructionBudgets = map[string]map[string]float64{
	"lanes=1/batch=64":  {"schedule": 62, "move": 35, "claim": 31, "settle": 25, "schedule-leased": 60, "settle-leased": 25, "schedule-subject": 160, "trim-subject": 121},
	"lanes=64/batch=64": {"schedule": 119, "move": 53, "claim": 46, "settle": 31},
	"lanes=100/batch=1": {"schedule": 350, "claim": 393, "settle": 350},
}

func BenchmarkInstructions(b *testing.B) {
	for _, load := range []struct{ lanes, batch int }{{1, 64}, {64, 64}, {100, 1}} {
		name := fmt.Sprintf("lanes=%d/batch=%d", load.lanes, load.batch)
		b.Run(name, func(b *testing.B) {
			c := startCallgrind(b)
			r := newBenchRigOn(b, c.url(), load.lanes, load.batch)
			r.later = load.batch > 1
			c.measure(r, instructionBudgets[name])
		})
	}
}

// callgrind is a redis-server that runs in it.
type callgrind struct {
	*kit.Redis
	b     *testing.B
	out   string // the prefix of its files
	dumps int
}

func startCallgrind(b *testing.B) *callgrind {
	b.Helper()
	valgrind, err := exec.LookPath("valgrind")
	require.NoError(b, err, "install valgrind")
	dir := b.TempDir()
	c := &callgrind{b: b, out: filepath.Join(dir, "callgrind.out")}
	c.Redis, err = kit.StartRedis(context.Background(), kit.RedisOptions{
		Dir: dir, Settings: []string{"latency-tracking no", "hz 1", "auto-aof-rewrite-percentage 0", "slowlog-log-slower-than -1"},
		Start: func(cmd kit.Command) (*kit.Process, error) {
			program, err := exec.LookPath(cmd.Path)
			if err != nil {
				return nil, err
			}
			cmd.Args = append([]string{"--tool=callgrind", "--instr-atstart=no", "--callgrind-out-file=" + c.out, program}, cmd.Args...)
			cmd.Path = valgrind
			return kit.Start(cmd)
		},
	})
	require.NoError(b, err)
	b.Cleanup(c.Close)
	return c
}

// url is its address, with time for calls that take fifty times as long.
func (c *callgrind) url() string {
	return c.URL() + "?dial_timeout=1m&read_timeout=5m&write_timeout=5m"
}

// measure counts the instructions of each script for one delivery, and compares them with the budgets.
func (c *callgrind) measure(r *benchRig, budgets map[string]float64) {
	calls := instructionsOf(r.batch)
	var batches [][]dispatcher.Entry
	each := func(act func(k int)) func() {
		return func() {
			for k := range calls {
				act(k)
			}
		}
	}
	entries := func(delay time.Duration) {
		batches = r.entries(delay)[:calls]
	}
	count := func(script string, act func()) {
		budget, has := budgets[script]
		if !has {
			act()
			return
		}
		spent := c.count(act) / 1000 / float64(calls*r.batch)
		c.b.Logf("%-16s %6.1f thousand instructions a delivery, budget %.0f", script, spent, budget)
		if spent > budget*overBudget {
			c.b.Errorf("%s is over its budget", script)
		}
	}

	entries(benchDelay)
	count("schedule", each(func(k int) { r.schedule(batches[k], 0) }))
	r.untilDue()
	count("move", func() {
		for range (calls*r.batch + 127) / 128 {
			r.move()
		}
	})
	claimed := make([][]dispatcher.Claimed, calls)
	count("claim", func() {
		each(func(k int) { claimed[k] = r.claim() })()
		require.NoError(c.b, r.store.Messages(c.b.Context(), r.unread))
		r.unread = nil
	})
	outcomes := make([][]dispatcher.Settlement, calls)
	for k := range claimed {
		outcomes[k] = r.outcomes(dispatcher.Delivered, claimed[k])
	}
	count("settle", each(func(k int) { r.settle(outcomes[k]) }))

	entries(0)
	count("schedule-leased", each(func(k int) { r.schedule(batches[k], r.batch) }))
	for k, batch := range batches {
		outcomes[k] = nil
		for _, e := range batch {
			outcomes[k] = append(outcomes[k], outcome(dispatcher.Delivered, dispatcher.DeliveryID{Lane: e.Lanes[0], Message: e.Message.ID}, 1))
		}
	}
	count("settle-leased", each(func(k int) { r.settle(outcomes[k]) }))

	// Each message of an order of its own, and the end of all of them.
	r.change = func(m *dispatcher.Message) { m.Subject = "order_" + strconv.FormatInt(time.Now().UnixNano(), 10) }
	entries(benchDelay)
	count("schedule-subject", each(func(k int) { r.schedule(batches[k], 0) }))
	r.finish()
	keep := benchKeep
	keep.FinishedMax = calls * r.batch
	trim := func() (more bool) {
		trimmed, err := r.store.Trim(c.b.Context(), "one", []int{0}, keep, false)
		require.NoError(c.b, err)
		return trimmed.More
	}
	for trim() { //nolint:revive // the earlier ones go first
	}
	keep.FinishedMax = 1
	count("trim-subject", each(func(int) { trim() }))
}

// count returns the instructions that Redis executes for act. Redis' Lua has no garbage when it begins,
// so what a script leaves behind is not counted for the next one.
func (c *callgrind) count(act func()) float64 {
	require.NoError(c.b, c.Client.Eval(context.Background(), "collectgarbage('collect') return 0", nil).Err())
	c.control("--zero")
	c.control("--instr=on")
	act()
	c.control("--instr=off")
	c.control("--dump")
	c.dumps++
	f, err := os.Open(c.out + "." + strconv.Itoa(c.dumps))
	require.NoError(c.b, err)
	defer f.Close() //nolint:errcheck // it was read
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if total, is := strings.CutPrefix(lines.Text(), "totals: "); is {
			n, err := strconv.ParseFloat(total, 64)
			require.NoError(c.b, err)
			return n
		}
	}
	require.Fail(c.b, "the dump has no totals", f.Name())
	return 0
}

func (c *callgrind) control(args ...string) {
	out, err := exec.Command("callgrind_control", append(args, strconv.Itoa(c.Process.Pid()))...).CombinedOutput()
	require.NoError(c.b, err, string(out))
}
