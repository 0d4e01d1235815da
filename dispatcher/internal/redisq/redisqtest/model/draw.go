package model

import (
	"context"
	"flag"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// The default size of a random test, unless -rapid.checks and -rapid.steps set
// it. It is small enough for make test. make fuzz runs more, and a change of the
// scripts deserves thousands of checks.
const (
	usualChecks = 12
	usualSteps  = 120 // on average
)

// Run does random things to the stores of open. After every step it reads the
// whole store and compares it with a model of the rules in memory. It makes a
// failure as short as possible before it reports it. The number of checks is
// divided by each, so that a slow store has fewer of them. A delivery may only
// make the moves in moves; nil allows all.
func Run(t *testing.T, open redisqtest.FixtureFunc, each int, moves *Moves) {
	t.Helper()
	setFlag(t, "rapid.checks", max(1, usual(t, "rapid.checks", usualChecks)/each))
	setFlag(t, "rapid.steps", usual(t, "rapid.steps", usualSteps))
	runChecks(t, open, moves)
}

func runChecks(t *testing.T, open redisqtest.FixtureFunc, moves *Moves) {
	t.Helper()
	rapid.Check(quiet{t}, func(rt *rapid.T) {
		m := newModel(check{TB: t, rt: rt}, open, &dice{rt})
		m.moves = moves
		defer m.logTrail()
		m.compare()
		rt.Repeat(map[string]func(*rapid.T){"step": func(*rapid.T) { m.step() }})
		m.drain()
	})
}

// quiet is a test that does not log each number that rapid draws. The trail
// lists the steps instead.
type quiet struct{ *testing.T }

func (q quiet) Logf(format string, args ...any) {
	q.Helper()
	if !strings.HasPrefix(format, "[rapid] draw") {
		q.T.Logf(format, args...)
	}
}

// usual returns the value of a flag of rapid if it was set. Otherwise it
// returns our default.
func usual(t *testing.T, name string, ours int) int {
	t.Helper()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	if !given {
		return ours
	}
	n, err := strconv.Atoi(flag.Lookup(name).Value.String())
	require.NoError(t, err)
	return n
}

// setFlag sets a flag of rapid for the rest of a test. Rapid reads the amount
// of work only from its flags.
func setFlag(t *testing.T, name string, n int) {
	t.Helper()
	value := flag.Lookup(name).Value
	before := value.String()
	require.NoError(t, value.Set(strconv.Itoa(n)))
	t.Cleanup(func() { require.NoError(t, value.Set(before)) })
}

// dice draws all choices from rapid. Rapid can repeat them and leave some out.
// Without rapid it always draws 0.
type dice struct{ rt *rapid.T }

// die returns a generator of numbers below n, each with the same chance. The
// integers of rapid itself are mostly small. The simplest number is 0.
func die(n int) *rapid.Generator[int] {
	return rapid.Custom(func(rt *rapid.T) int {
		v := 0
		for range bits.Len(uint(n-1)) + 4 { // four more bits, so that the remainder hardly prefers any number
			v *= 2
			if rapid.Bool().Draw(rt, "") {
				v++
			}
		}
		return v % n
	})
}

func (d *dice) IntN(n int) int {
	if n == 1 || d.rt == nil {
		return 0
	}
	return die(n).Draw(d.rt, "die")
}

func (d *dice) Shuffle(n int, swap func(i, j int)) {
	for i := n - 1; i > 0; i-- {
		swap(i, d.IntN(i+1))
	}
}

func pick[T any](d *dice, from ...T) T { return from[d.IntN(len(from))] }

// check is one run of rapid as a test. It can fail and end alone.
type check struct {
	testing.TB
	rt *rapid.T
}

func (c check) Cleanup(f func())                  { c.rt.Cleanup(f) }
func (c check) Context() context.Context          { return c.rt.Context() }
func (c check) Error(args ...any)                 { c.rt.Error(args...) }
func (c check) Errorf(format string, args ...any) { c.rt.Errorf(format, args...) }
func (c check) Fail()                             { c.rt.Fail() }
func (c check) FailNow()                          { c.rt.FailNow() }
func (c check) Failed() bool                      { return c.rt.Failed() }
func (c check) Fatal(args ...any)                 { c.rt.Fatal(args...) }
func (c check) Fatalf(format string, args ...any) { c.rt.Fatalf(format, args...) }
func (c check) Log(args ...any)                   { c.rt.Log(args...) }
func (c check) Logf(format string, args ...any)   { c.rt.Logf(format, args...) }

func (m *model) logf(format string, args ...any) {
	m.trail = append(m.trail, fmt.Sprintf(format, args...))
}

// logTrail logs the last steps.
func (m *model) logTrail() {
	if !m.Failed() {
		return
	}
	const shown = 60
	m.Logf("%d things were done, at last:\n%s", len(m.trail), strings.Join(m.trail[max(0, len(m.trail)-shown):], "\n"))
}
