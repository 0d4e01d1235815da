package queuetest

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
)

// How much of the random test is run unless -rapid.checks and -rapid.steps say
// otherwise: what a make test can wait for. A change of the scripts deserves
// thousands of checks.
const (
	usualChecks = 24
	usualSteps  = 120 // on average
)

// RunModel does random things to stores that open makes. After every step it
// reads all that the store keeps and compares it with a model of what the rules
// say, held in memory. What fails is made as short as it gets before it is
// told. Of the checks each so-manyth is run, so that a store which is slow to
// test has fewer of them.
func RunModel(t *testing.T, open OpenFunc, each int) {
	t.Helper()
	setFlag(t, "rapid.checks", max(1, usual(t, "rapid.checks", usualChecks)/each))
	setFlag(t, "rapid.steps", usual(t, "rapid.steps", usualSteps))
	rapid.Check(quiet{t}, func(rt *rapid.T) {
		m := newModel(check{TB: t, rt: rt}, open, &dice{rt})
		defer m.tellTrail()
		m.compare()
		rt.Repeat(map[string]func(*rapid.T){"step": func(*rapid.T) { m.step() }})
		m.drain()
	})
}

// quiet is a test that does not tell each number drawn: the trail tells what was
// done with them.
type quiet struct{ *testing.T }

func (q quiet) Logf(format string, args ...any) {
	q.Helper()
	if !strings.HasPrefix(format, "[rapid] draw") {
		q.T.Logf(format, args...)
	}
}

// usual is a number that rapid may have been given, or else ours.
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

// setFlag sets a flag of rapid for the rest of a test: it has no other way to be
// told how much to do.
func setFlag(t *testing.T, name string, n int) {
	t.Helper()
	value := flag.Lookup(name).Value
	before := value.String()
	require.NoError(t, value.Set(strconv.Itoa(n)))
	t.Cleanup(func() { require.NoError(t, value.Set(before)) })
}

// dice draws what happens from rapid, which can draw it again, and less of it.
type dice struct{ rt *rapid.T }

// die gives numbers below n, each as often as another: rapid's own integers are
// mostly small ones. What is simplest is 0.
func die(n int) *rapid.Generator[int] {
	return rapid.Custom(func(rt *rapid.T) int {
		v := 0
		for range bits.Len(uint(n-1)) + 4 { // four more, so that the remainder hardly prefers any
			v *= 2
			if rapid.Bool().Draw(rt, "") {
				v++
			}
		}
		return v % n
	})
}

func (d *dice) IntN(n int) int {
	if n == 1 {
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

// check is one run of rapid as a test: it fails and ends by itself.
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

// tellTrail tells the last of what was done.
func (m *model) tellTrail() {
	if !m.Failed() {
		return
	}
	const shown = 60
	m.Logf("%d things were done, at last:\n%s", len(m.trail), strings.Join(m.trail[max(0, len(m.trail)-shown):], "\n"))
}
