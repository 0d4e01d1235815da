package bench

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/dustin/go-humanize"
)

// Table writes the report for people.
func (r *Report) Table(w io.Writer) error {
	lines := [][]string{{"", "median", "min", "max", "target", "verdict"}}
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
		target, verdict := "", "—"
		if f.Target != nil {
			target, verdict = f.Target.String(), f.Verdict
		}
		lines = append(lines, []string{"  " + what, number(f.Median), number(f.Min), number(f.Max), target, verdict})
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
	return strings.Join(machine, ", ") + "\n" + how + "\n"
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
