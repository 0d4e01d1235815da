package main

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
)

// reportOf is a report over runs, each with a figure's values by name.
func reportOf(quick bool, runs ...map[string]float64) *Report {
	r := newReport(options{Version: "1.2.3", Runs: len(runs), Quick: quick}, time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC))
	for i, values := range runs {
		s := &sample{run: i}
		for name, value := range values {
			s.add(name, "µs", value)
		}
		r.add(s)
	}
	return r
}

func TestAFigureIsTheMedianOfItsRuns(t *testing.T) {
	for _, c := range []struct {
		name             string
		values           []float64
		median, min, max float64
	}{
		{"one", []float64{3}, 3, 3, 3},
		{"two: their mean", []float64{4, 2}, 3, 2, 4},
		{"an odd number, in any order", []float64{9, 1, 5}, 5, 1, 9},
		{"an even number", []float64{8, 2, 4, 6}, 5, 2, 8},
		{"one that is far off does not matter", []float64{5, 5, 1000, 6, 4}, 5, 4, 1000},
	} {
		t.Run(c.name, func(t *testing.T) {
			var runs []map[string]float64
			for _, v := range c.values {
				runs = append(runs, map[string]float64{"a: b": v})
			}
			f := reportOf(false, runs...).Figures[0]
			require.Equal(t, []float64{c.median, c.min, c.max}, []float64{f.Median, f.Min, f.Max})
			require.Equal(t, c.values, f.Values)
		})
	}
}

func TestTheTableIsAlignedAndGrouped(t *testing.T) {
	r := reportOf(true, map[string]float64{"drain to 1: Redis CPU": 31}, map[string]float64{"drain to 1: Redis CPU": 33})
	r.Figures = append(r.Figures,
		Figure{Name: "drain to 1: ÷ limit", Median: 0.8125, Min: 0.5, Max: 12},
		Figure{Name: "waiting: rate", Unit: "/s", Median: 123456.4, Min: 1.234, Max: -0.25})
	r.Machine = Machine{OS: "linux", Arch: "amd64", CPU: "Fast", Cores: 2, Go: "go1.26", Redis: "Redis 7.0.15"}
	r.Took = 61.2
	var out bytes.Buffer
	require.NoError(t, r.Table(&out))
	require.Equal(t, `hookladder 1.2.3, Redis 7.0.15, go1.26, linux/amd64, 2 cores, Fast
21 Nov 2026 12:00 UTC, 2 runs, 61 s, fewer messages than a full one: rough figures

                  median    min     max
drain to 1
  Redis CPU, µs     32.0   31.0    33.0
  ÷ limit          0.812  0.500    12.0
waiting
  rate, /s       123,456   1.23  -0.250
`, out.String())
}

func TestTheJSONHasEachRunAndTheMachine(t *testing.T) {
	r := reportOf(false, map[string]float64{"drain to 1: Redis CPU": 20}, map[string]float64{"drain to 1: Redis CPU": 40}, map[string]float64{"drain to 1: Redis CPU": 21})
	var out bytes.Buffer
	require.NoError(t, r.JSON(&out))
	var read Report
	require.NoError(t, json.Unmarshal(out.Bytes(), &read))
	require.Equal(t, *r, read)
	require.Equal(t, []Figure{{
		Name: "drain to 1: Redis CPU", Unit: "µs", Median: 21, Min: 20, Max: 40, Values: []float64{20, 40, 21},
	}}, read.Figures)
	require.NotZero(t, read.Machine.Cores)
	require.NotEmpty(t, read.Machine.Go)
}

func TestTheLimitOfARunIsTheMeanOfItsMeasurementsAndComesFirst(t *testing.T) {
	for _, c := range []struct {
		rates []float64
		want  []figure
	}{
		{[]float64{10, 20, 30}, []figure{{"limit: rate", "/s", 20}, {"other: rate", "/s", 1}}},
		{nil, []figure{{"other: rate", "/s", 1}}},
	} {
		m, s := limits{rates: c.rates}, &sample{}
		s.add("other: rate", "/s", 1)
		m.report(s)
		require.Equal(t, c.want, s.figures)
	}
}

func TestARunHasEachFigureOnce(t *testing.T) {
	r := reportOf(false, map[string]float64{"a: b": 1}, map[string]float64{"a: b": 2})
	require.NoError(t, r.complete())
	r.Figures[0].take(3)
	require.ErrorContains(t, r.complete(), `2 runs have 3 values of "a: b"`)
}

// samplesOf are runs with their noise, and a figure that counts them.
func samplesOf(runs []noise) (all []*sample) {
	for i, n := range runs {
		s := &sample{run: i, noise: n}
		s.add("a: b", "", float64(10*(i+1)))
		if i == 0 {
			s.add("a: once", "", 7)
		}
		all = append(all, s)
	}
	return all
}

func TestADisturbedRunIsRepeated(t *testing.T) {
	quiet, busy, uneven := noise{others: 0.02, spread: 1.05}, noise{others: 0.3, spread: 1.05}, noise{others: -1, spread: 1.6}
	unknown := noise{others: -1}
	for _, c := range []struct {
		name  string
		quick bool
		runs  []noise
		more  bool
	}{
		{"no run yet", false, nil, true},
		{"too few runs", false, []noise{quiet}, true},
		{"all quiet", false, []noise{quiet, quiet}, false},
		{"nothing is known", false, []noise{unknown, unknown}, false},
		{"others used much", false, []noise{quiet, busy}, true},
		{"the limit varied", false, []noise{uneven, quiet}, true},
		{"the repeat is quiet", false, []noise{busy, quiet, quiet}, false},
		{"twice as many, all disturbed", false, []noise{busy, busy, uneven, busy}, false},
		{"a quick bench", true, []noise{busy, busy}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.more, options{Runs: 2, Quick: c.quick}.needsRun(samplesOf(c.runs)))
		})
	}
}

func TestTheQuietestRunsCount(t *testing.T) {
	r := newReport(options{Runs: 2}, time.Now())
	r.addRuns(samplesOf([]noise{{0.5, 1}, {0.2, 1}, {0.01, 2}, {0.01, 1}}))
	require.Equal(t, []float64{30, 40}, r.Figures[0].Values, "a limit that varies by 2 disturbs less than others with half of the CPU")
	require.Equal(t, []int{1, 2}, []int{r.Disturbed, r.Dropped})
	require.Equal(t, "a: once", r.Figures[1].Name, "a figure that only a dropped run has")
	require.Equal(t, []float64{7}, r.Figures[1].Values)
	var out bytes.Buffer
	require.NoError(t, r.Table(&out))
	require.Contains(t, out.String(), "Other programs disturbed 1 of the runs: rough figures.")

	r = newReport(options{Runs: 2}, time.Now())
	r.addRuns(samplesOf([]noise{{0.01, 1}, {0.02, 1}}))
	require.Zero(t, r.Disturbed+r.Dropped)
	out.Reset()
	require.NoError(t, r.Table(&out))
	require.NotContains(t, out.String(), "disturbed")
}

func TestOthersAreWhatTheMachineUsedAndTheBenchDidNot(t *testing.T) {
	othersBetween := func(before, after cpuUse) float64 {
		before.known, after.known = true, true
		return after.others(before)
	}
	require.InDelta(t, 0.25, othersBetween(cpuUse{all: 1000, used: 500, ours: 300}, cpuUse{all: 2000, used: 1200, ours: 750}), 1e-9)
	require.Zero(t, othersBetween(cpuUse{all: 1000, used: 500, ours: 300}, cpuUse{all: 2000, used: 1200, ours: 1050}), "readings are exact to 10 ms only")
	require.Equal(t, -1.0, othersBetween(cpuUse{all: 1000, used: 500, ours: 300}, cpuUse{all: 1000, used: 500, ours: 300}), "no time passed")
	require.InDelta(t, 1.5, spread([]float64{40, 30, 45}), 1e-9)
	require.Zero(t, spread([]float64{40}))
	for own, known := kit.CPU(0); known && own < 50_000; own, known = kit.CPU(0) { // until this process used some
	}
	if u := (&lab{}).cpuUse(); u.known { // on Linux
		require.Greater(t, u.all, u.used)
		require.Greater(t, u.used, u.ours)
		require.Greater(t, u.ours, 20_000.0)
	}
}
