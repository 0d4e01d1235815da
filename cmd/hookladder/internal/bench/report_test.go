package bench_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/cmd/hookladder/internal/bench"
	"github.com/hookladder/hookladder/deploy/kit"
)

// judged is a figure with a target: at most 30.
const judged = "drain to 1: Redis CPU"

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
			f := bench.ReportOf(false, runs...).Figures[0]
			require.Equal(t, []float64{c.median, c.min, c.max}, []float64{f.Median, f.Min, f.Max})
			require.Equal(t, c.values, f.Values)
			require.Nil(t, f.Target)
			require.Empty(t, f.Verdict)
		})
	}
}

func TestVerdicts(t *testing.T) {
	for _, c := range []struct {
		name    string
		target  bench.Target
		values  []float64
		verdict string
	}{
		{"at least, above", bench.Target{AtLeast: true, Value: 5}, []float64{6}, "met"},
		{"at least, equal", bench.Target{AtLeast: true, Value: 5}, []float64{5}, "met"},
		{"at least, below", bench.Target{AtLeast: true, Value: 5}, []float64{4.99}, "missed"},
		{"at most, below", bench.Target{Value: 5}, []float64{4}, "met"},
		{"at most, equal", bench.Target{Value: 5}, []float64{5}, "met"},
		{"at most, above", bench.Target{Value: 5}, []float64{5.01}, "missed"},
		{"the median counts, not the worst", bench.Target{Value: 5}, []float64{4, 4, 9}, "met"},
		{"nor the best", bench.Target{Value: 5}, []float64{4, 9, 9}, "missed"},
		{"always at least: the worst counts", bench.Target{AtLeast: true, Always: true}, []float64{1, 1, -0.1}, "missed"},
		{"always at least, and it is", bench.Target{AtLeast: true, Always: true}, []float64{1, 1, 0}, "met"},
		{"always at most: the worst counts", bench.Target{Always: true, Value: 5}, []float64{1, 1, 6}, "missed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.verdict, bench.Verdict(c.target, c.values...))
		})
	}
}

func TestTheTableIsAlignedAndGrouped(t *testing.T) {
	r := bench.ReportOf(true, map[string]float64{judged: 31}, map[string]float64{judged: 33})
	r.Figures = append(r.Figures,
		bench.Figure{Name: "drain to 1: ÷ limit", Median: 0.8125, Min: 0.5, Max: 12},
		bench.Figure{Name: "waiting: rate", Unit: "/s", Median: 123456.4, Min: 1.234, Max: -0.25})
	r.Machine = bench.Machine{OS: "linux", Arch: "amd64", CPU: "Fast", Cores: 2, Go: "go1.26", Redis: "Redis 7.0.15"}
	r.Took = 61.2
	var out bytes.Buffer
	require.NoError(t, r.Table(&out))
	require.Equal(t, `hookladder 1.2.3, Redis 7.0.15, go1.26, linux/amd64, 2 cores, Fast
21 Nov 2026 12:00 UTC, 2 runs, 61 s, fewer messages than a full one: rough figures

                  median    min     max  target  verdict
drain to 1
  Redis CPU, µs     32.0   31.0    33.0  ≤ 30.0   missed
  ÷ limit          0.812  0.500    12.0                —
waiting
  rate, /s       123,456   1.23  -0.250                —
`, out.String())
}

func TestTheJSONHasEachRunAndTheMachine(t *testing.T) {
	r := bench.ReportOf(false, map[string]float64{judged: 20}, map[string]float64{judged: 40}, map[string]float64{judged: 21})
	var out bytes.Buffer
	require.NoError(t, r.JSON(&out))
	var read bench.Report
	require.NoError(t, json.Unmarshal(out.Bytes(), &read))
	require.Equal(t, *r, read)
	require.Equal(t, []bench.Figure{{
		Name: judged, Unit: "µs", Median: 21, Min: 20, Max: 40, Values: []float64{20, 40, 21},
		Target: &bench.Target{Value: 30}, Verdict: "met",
	}}, read.Figures)
	require.NotZero(t, read.Machine.Cores)
	require.NotEmpty(t, read.Machine.Go)
}

func TestTheLimitOfARunIsTheMeanOfItsMeasurementsAndComesFirst(t *testing.T) {
	require.Equal(t, "[{limit: rate /s 20} {other: rate /s 1}]", bench.Means(10, 20, 30))
	require.Equal(t, "[{other: rate /s 1}]", bench.Means())
}

func TestABenchOfAllPartsHasAFigureForEachTarget(t *testing.T) {
	figures := map[string][]float64{}
	for _, name := range bench.Judged() {
		figures[name] = []float64{1}
	}
	require.NoError(t, bench.Complete(true, figures))
	delete(figures, judged)
	require.ErrorContains(t, bench.Complete(true, figures), `no figure is called "drain to 1: Redis CPU", which has a target`)
	require.NoError(t, bench.Complete(false, figures), "of some parts only")
	require.ErrorContains(t, bench.Complete(false, map[string][]float64{"a: b": {1, 2}}), `1 runs have 2 values of "a: b"`)
}

func TestADisturbedRunIsRepeated(t *testing.T) {
	quiet, busy, uneven := bench.Noisy{Others: 0.02, Spread: 1.05}, bench.Noisy{Others: 0.3, Spread: 1.05}, bench.Noisy{Others: -1, Spread: 1.6}
	unknown := bench.Noisy{Others: -1}
	for _, c := range []struct {
		name  string
		quick bool
		runs  []bench.Noisy
		more  bool
	}{
		{"no run yet", false, nil, true},
		{"too few runs", false, []bench.Noisy{quiet}, true},
		{"all quiet", false, []bench.Noisy{quiet, quiet}, false},
		{"nothing is known", false, []bench.Noisy{unknown, unknown}, false},
		{"others used much", false, []bench.Noisy{quiet, busy}, true},
		{"the limit varied", false, []bench.Noisy{uneven, quiet}, true},
		{"the repeat is quiet", false, []bench.Noisy{busy, quiet, quiet}, false},
		{"twice as many, all disturbed", false, []bench.Noisy{busy, busy, uneven, busy}, false},
		{"a quick bench", true, []bench.Noisy{busy, busy}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.more, bench.NeedsRun(bench.Options{Runs: 2, Quick: c.quick}, c.runs...))
		})
	}
}

func TestTheQuietestRunsCount(t *testing.T) {
	r := bench.ReportOfNoisy(2, bench.Noisy{0.5, 1, 10}, bench.Noisy{0.2, 1, 20}, bench.Noisy{0.01, 2, 30}, bench.Noisy{0.01, 1, 40})
	require.Equal(t, []float64{30, 40}, r.Figures[0].Values, "a limit that varies by 2 disturbs less than others with half of the CPU")
	require.Equal(t, []int{1, 2}, []int{r.Disturbed, r.Dropped})
	require.Equal(t, "a: once", r.Figures[1].Name, "a figure that only a dropped run has")
	require.Equal(t, []float64{7}, r.Figures[1].Values)
	var out bytes.Buffer
	require.NoError(t, r.Table(&out))
	require.Contains(t, out.String(), "Other programs disturbed 1 of the runs: rough figures.")

	r = bench.ReportOfNoisy(2, bench.Noisy{0.01, 1, 30}, bench.Noisy{0.02, 1, 40})
	require.Zero(t, r.Disturbed+r.Dropped)
	out.Reset()
	require.NoError(t, r.Table(&out))
	require.NotContains(t, out.String(), "disturbed")
}

func TestOthersAreWhatTheMachineUsedAndTheBenchDidNot(t *testing.T) {
	require.InDelta(t, 0.25, bench.Others([3]float64{1000, 500, 300}, [3]float64{2000, 1200, 750}), 1e-9)
	require.Zero(t, bench.Others([3]float64{1000, 500, 300}, [3]float64{2000, 1200, 1050}), "readings are exact to 10 ms only")
	require.Equal(t, -1.0, bench.Others([3]float64{1000, 500, 300}, [3]float64{1000, 500, 300}), "no time passed")
	require.InDelta(t, 1.5, bench.Spread([]float64{40, 30, 45}), 1e-9)
	require.Zero(t, bench.Spread([]float64{40}))
	for own, known := kit.CPU(0); known && own < 50_000; own, known = kit.CPU(0) { // until this process used some
	}
	all, used, ours, known := bench.OwnCPU()
	if known { // on Linux
		require.Greater(t, all, used)
		require.Greater(t, used, ours)
		require.Greater(t, ours, 20_000.0)
	}
}
