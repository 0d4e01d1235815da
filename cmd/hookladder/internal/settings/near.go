package settings

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ours are variables that commands read besides the settings.
var ours = []string{"HOOKLADDER_URL", "HOOKLADDER_KEY"}

// Near returns warnings about variables that look like a setting and have no effect.
func Near(vars map[string]string) (warnings []string) {
	known := append(slices.Clone(ours), TraceNames()...)
	for _, s := range Table() {
		known = append(known, s.Name)
		if s.File {
			known = append(known, s.Name+"_FILE")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		if vars[name] == "" || slices.Contains(known, name) {
			continue
		}
		if strings.HasPrefix(vars[name], "tcp://") {
			continue // Kubernetes sets HOOKLADDER_PORT for a service of this name
		}
		if meant := nearest(name, known); meant != "" {
			warnings = append(warnings, fmt.Sprintf("%s is not a setting and has no effect: did you mean %s?", name, meant))
		}
	}
	return warnings
}

// prefixes are common prefixes of settings in other programs.
var prefixes = []string{"HOOKLADDER_", "HL_"}

// nearest returns the known name that is closest to a misspelled name; empty: none.
func nearest(name string, known []string) string {
	plain := strings.ToUpper(name)
	for _, prefix := range prefixes {
		plain = strings.TrimPrefix(plain, prefix)
	}
	plain = strings.ReplaceAll(plain, "-", "_")
	if plain != name && slices.Contains(known, plain) {
		return plain
	}
	return Closest(plain, known)
}

// Closest returns the known name that differs least from a misspelled name; empty: none is close.
func Closest(name string, known []string) string {
	best, least := "", 3
	for _, k := range known {
		if max(len(name)-len(k), len(k)-len(name)) > slips(k) {
			continue // each letter more or less is a change
		}
		if d := distance(name, k); d <= slips(k) && d < least {
			best, least = k, d
		}
	}
	return best
}

// slips returns the number of wrong letters that are allowed in a name. A short name allows
// fewer, because it is close to others (PATH is two from PORT).
func slips(name string) int {
	switch {
	case len(name) < 6:
		return 0
	case len(name) < 9:
		return 1
	default:
		return 2
	}
}

// distance returns the number of changes from a to b: insert, delete or change a letter, or swap
// two neighbors.
func distance(a, b string) int {
	var before, last []int // the rows before the current one
	for i := range len(a) + 1 {
		row := make([]int, len(b)+1)
		for j := range row {
			switch {
			case i == 0:
				row[j] = j
			case j == 0:
				row[j] = i
			default:
				change := last[j-1]
				if a[i-1] != b[j-1] {
					change++
				}
				row[j] = min(last[j]+1, row[j-1]+1, change)
				if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
					row[j] = min(row[j], before[j-2]+1)
				}
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
