package bench

// Target is the limit that a figure must meet.
type Target struct {
	AtLeast bool    `json:"at_least"` // otherwise the value is a maximum
	Value   float64 `json:"value"`
	Always  bool    `json:"always,omitzero"` // judged on the worst run, not on the median
}

// The verdicts on a target.
const (
	met    = "met"
	missed = "missed"
)

func atLeast(v float64) Target { return Target{AtLeast: true, Value: v} }
func atMost(v float64) Target  { return Target{Value: v} }

// targets has the targets by the name of their figure.
var targets = map[string]Target{
	"drain to 1: ÷ limit":             atLeast(0.78),
	"drain to 100: ÷ limit":           atLeast(0.66),
	"drain to 1: Redis CPU":           atMost(30),
	"drain to 100: Redis CPU":         atMost(30),
	"drain to 1: calls":               atMost(0.12),
	"drain to 100: calls":             atMost(0.12),
	"slow to 100: ÷ permits":          atLeast(0.9),
	"slow to 100: dispatcher memory":  atMost(100),
	"slow to 1024: ÷ permits":         atLeast(0.9),
	"through to 1: ÷ limit":           atLeast(0.33),
	"through to 1: Redis CPU":         atMost(17),
	"through to 1: calls":             atMost(0.12),
	"through to 100: Redis CPU":       atMost(24),
	"through to 100: calls":           atMost(0.12),
	"through, batches: ÷ limit":       atLeast(0.54),
	"through, batches: calls":         atMost(0.12),
	"accept, everysec: ÷ limit":       atLeast(0.7),
	"accept, batches, everysec: rate": atLeast(80_000),

	"lateness: p99":                          atMost(3),
	"lateness: least":                        {AtLeast: true, Value: 0, Always: true}, // never early
	"latency at 50/s: p99":                   atMost(3),
	"waiting: memory of each":                atMost(1650),
	"waiting: the script that grows most":    atMost(2), // the most waiting ÷ the fewest
	"start: first delivery":                  atMost(1),
	"isolation, some hung: p99":              atMost(5),
	"newcomers: p99":                         atMost(1000),
	"newcomers: hung ones called":            atLeast(newcomersHung),
	"abuse: peak memory":                     atMost(300),
	"abuse, publish: p99":                    atMost(50),
	"abuse: lost":                            {Value: 0, Always: true},
	"idle at 1 partition: Redis commands":    atMost(3),
	"idle at 128 partitions: Redis commands": atMost(3 + 128/10.0), // the epoch of each one every ten seconds
}

// String returns the target as the table shows it.
func (t Target) String() string {
	if t.AtLeast {
		return "≥ " + number(t.Value)
	}
	return "≤ " + number(t.Value)
}

// verdict returns the verdict on a figure.
func (t Target) verdict(f Figure) string {
	value := f.Median
	switch {
	case t.Always && t.AtLeast:
		value = f.Min
	case t.Always:
		value = f.Max
	}
	if t.AtLeast && value >= t.Value || !t.AtLeast && value <= t.Value {
		return met
	}
	return missed
}
