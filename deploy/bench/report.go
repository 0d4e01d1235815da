package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dustin/go-humanize"
)

// Report has all figures of a bench, and the machine that it ran on.
type Report struct {
	Hookladder string    `json:"hookladder"` // its version
	Date       time.Time `json:"date"`
	Took       float64   `json:"took_seconds"`
	Machine    Machine   `json:"machine"`
	Runs       int       `json:"runs"`
	Disturbed  int       `json:"disturbed_runs"` // of them: other programs disturbed them
	Dropped    int       `json:"dropped_runs"`   // more disturbed ones, which are not in the figures
	Quick      bool      `json:"quick"`
	Messages   int       `json:"messages,omitzero"` // -messages
	Figures    []Figure  `json:"figures"`
}

// Machine has the facts that affect the figures.
type Machine struct {
	OS    string `json:"os"`
	Arch  string `json:"arch"`
	CPU   string `json:"cpu,omitzero"`
	Cores int    `json:"cores"`
	Go    string `json:"go"`
	Redis string `json:"redis"`
}

// Figure is one figure over all runs.
type Figure struct {
	Name   string    `json:"name"` // "<measurement>: <what>"
	Unit   string    `json:"unit,omitzero"`
	Median float64   `json:"median"`
	Min    float64   `json:"min"`
	Max    float64   `json:"max"`
	Values []float64 `json:"values"` // one of each run that has it
}

func newReport(o options, date time.Time) *Report {
	return &Report{
		Hookladder: o.Version, Date: date.UTC(), Runs: o.Runs, Quick: o.Quick, Messages: o.Messages,
		Machine: Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, CPU: cpuModel(), Cores: runtime.NumCPU(), Go: runtime.Version()},
	}
}

// cpuModel returns the name of the processor on Linux, and an empty text on other
// systems.
func cpuModel() string {
	text, _ := os.ReadFile("/proc/cpuinfo") // empty if the file is missing
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		if strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// facts adds the facts about the store to the report. It runs first, so that a store
// that cannot start is reported early.
func (l *lab) facts(ctx context.Context, r *Report) (err error) {
	st, err := l.store(ctx, "")
	if err != nil {
		return err
	}
	defer stopping(&err, st.stop)
	text, err := st.nodes[0].Client.Info(ctx, "server").Result()
	if err != nil {
		return err
	}
	r.Machine.Redis = serverIn(text)
	return nil
}

// noise is the disturbance of a run by other programs.
type noise struct {
	others float64 // share of all CPU time that they used; negative: unknown
	spread float64 // fastest limit of the run ÷ slowest; 0: unknown
}

// On a quiet machine others use less than 2 %, and the limit varies by less than a tenth.
// A tenth for others lowers the limit as much, and the rate of a queue by more than that.
const (
	mostOthers = 0.1
	mostSpread = 1.3
)

func (n noise) disturbed() bool { return n.others > mostOthers || n.spread > mostSpread }

// degree orders runs by their noise. It is above 1 for a disturbed run.
func (n noise) degree() float64 {
	return max(n.others/mostOthers, n.spread/mostSpread)
}

// report adds the noise to the figures of its run.
func (n noise) report(s *sample) {
	if n.others >= 0 {
		s.add("machine: used by other programs", "%", 100*n.others)
	}
	if n.spread > 0 {
		s.add("machine: fastest limit ÷ slowest", "", n.spread)
	}
}

// spread returns the highest rate divided by the lowest, or 0 if there are fewer than two.
func spread(rates []float64) float64 {
	if len(rates) < 2 {
		return 0
	}
	return slices.Max(rates) / slices.Min(rates)
}

// needsRun reports whether a bench needs one more run. A disturbed run is repeated, but
// all runs together are at most twice as many. A quick bench repeats none.
func (o options) needsRun(all []*sample) bool {
	quiet := 0
	for _, s := range all {
		if !s.noise.disturbed() {
			quiet++
		}
	}
	return len(all) < o.Runs || !o.Quick && quiet < o.Runs && len(all) < 2*o.Runs
}

// addRuns adds the figures of the quietest runs, in the order of the runs. From the
// others it adds only figures that no other run has.
func (r *Report) addRuns(all []*sample) {
	kept := slices.Clone(all)
	slices.SortStableFunc(kept, func(a, b *sample) int { return cmp.Compare(a.noise.degree(), b.noise.degree()) })
	kept = kept[:min(r.Runs, len(kept))]
	r.Dropped = len(all) - len(kept)
	var rest sample
	for _, s := range all {
		if !slices.Contains(kept, s) {
			rest.figures = append(rest.figures, s.figures...)
			continue
		}
		r.add(s)
		if s.noise.disturbed() {
			r.Disturbed++
		}
	}
	rest.figures = slices.DeleteFunc(rest.figures, func(f figure) bool {
		return slices.ContainsFunc(r.Figures, func(g Figure) bool { return g.Name == f.name })
	})
	r.add(&rest)
}

// add adds the figures of a run.
func (r *Report) add(s *sample) {
	for _, f := range s.figures {
		i := slices.IndexFunc(r.Figures, func(g Figure) bool { return g.Name == f.name })
		if i < 0 {
			i = len(r.Figures)
			r.Figures = append(r.Figures, Figure{Name: f.name, Unit: f.unit})
		}
		r.Figures[i].take(f.value)
	}
}

// take adds the value of a run.
func (f *Figure) take(value float64) {
	f.Values = append(f.Values, value)
	sorted := slices.Sorted(slices.Values(f.Values))
	n := len(sorted)
	f.Min, f.Max = sorted[0], sorted[n-1]
	f.Median = (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// complete returns an error if a run has a figure twice.
func (r *Report) complete() error {
	var errs []error
	for _, f := range r.Figures {
		if len(f.Values) > r.Runs {
			errs = append(errs, fmt.Errorf("%d runs have %d values of %q", r.Runs, len(f.Values), f.Name))
		}
	}
	return errors.Join(errs...)
}

// JSON writes the whole report as JSON.
func (r *Report) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	if err := e.Encode(r); err != nil {
		return fmt.Errorf("write the figures: %w", err)
	}
	return nil
}

// Table writes the report for people.
func (r *Report) Table(w io.Writer) error {
	lines := [][]string{{"", "median", "min", "max"}}
	group := ""
	for _, f := range r.Figures {
		of, what, _ := strings.Cut(f.Name, ": ")
		if of != group {
			lines = append(lines, []string{of})
			group = of
		}
		if f.Unit != "" {
			what += ", " + f.Unit
		}
		lines = append(lines, []string{"  " + what, number(f.Median), number(f.Min), number(f.Max)})
	}
	if _, err := io.WriteString(w, r.head()+"\n"+aligned(lines)); err != nil {
		return fmt.Errorf("write the table: %w", err)
	}
	return nil
}

// head returns the facts above the table: version, machine and settings.
func (r *Report) head() string {
	m := r.Machine
	machine := []string{fmt.Sprintf("hookladder %s", r.Hookladder), m.Redis, m.Go, m.OS + "/" + m.Arch, fmt.Sprintf("%d cores", m.Cores)}
	if m.CPU != "" {
		machine = append(machine, m.CPU)
	}
	runs := "1 run"
	if r.Runs > 1 {
		runs = fmt.Sprintf("%d runs", r.Runs)
	}
	how := fmt.Sprintf("%s, %s, %.0f s", r.Date.Format("2 Jan 2006 15:04 MST"), runs, r.Took)
	if r.Quick || r.Messages > 0 {
		how += ", fewer messages than a full one: rough figures"
	}
	text := strings.Join(machine, ", ") + "\n" + how + "\n"
	if r.Disturbed > 0 {
		text += fmt.Sprintf("Other programs disturbed %d of the runs: rough figures. Repeat it on a quiet machine.\n", r.Disturbed)
	}
	return text
}

// aligned formats cells as columns: the first one to the left, the others to the
// right.
func aligned(lines [][]string) string {
	var widths []int
	for _, line := range lines {
		for i, cell := range line {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	text := &strings.Builder{}
	for _, line := range lines {
		row := ""
		for i, cell := range line {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				row = cell + pad
			} else {
				row += "  " + pad + cell
			}
		}
		text.WriteString(strings.TrimRight(row, " ") + "\n")
	}
	return text.String()
}

// number formats a value with three significant digits.
func number(v float64) string {
	switch size := math.Abs(v); {
	case size >= 100:
		return humanize.Comma(int64(math.Round(v)))
	case size >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case size >= 1:
		return strconv.FormatFloat(v, 'f', 2, 64)
	default:
		return strconv.FormatFloat(v, 'f', 3, 64)
	}
}
