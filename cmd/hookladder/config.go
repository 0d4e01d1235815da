package main

import (
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

func newConfig(s world) *cobra.Command {
	var dev bool
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print every setting, its value and where it comes from",
		Long: `Prints every setting with its value and where it comes from: the default, the
environment, a file that <name>_FILE names, or with --dev the .env file. Secrets
are not shown. If settings are wrong, the errors follow, and the exit code is 2.`,
		Example: `  hookladder config
  LADDER=5s,1m hookladder config | grep LADDER
  hookladder config --dev`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			from := sources{environ: s.vars()}
			if dev {
				var err error
				if from, err = devSources(s.vars()); err != nil {
					return err
				}
			}
			_, found, wrong := readSettings(from)
			if err := printSettings(cmd.OutOrStdout(), found); err != nil {
				return err
			}
			warn(cmd.ErrOrStderr(), from)
			if wrong != nil {
				return usageError{wrong}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&dev, "dev", false, "as the dev command sees them: with .env and its own defaults")
	return cmd
}

func printSettings(out io.Writer, found []foundSetting) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SETTING\tVALUE\tSOURCE")
	for _, c := range found {
		fmt.Fprintf(table, "%s\t%s\t%s\n", c.Name, shown(c), c.Source)
	}
	return table.Flush()
}

// shown is a value without its secret parts.
func shown(c foundSetting) string {
	switch {
	case c.Value == "":
		return "(unset)"
	case c.Name == "REDIS_URL", c.Name == "EGRESS_PROXY":
		return redactedURL(c.Value)
	case c.Secret:
		return "(set, not shown)"
	}
	return c.Value
}

// redactedURL shows where a store or a proxy is, without user and password. The
// query stays out, since it may hold a token.
func redactedURL(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "(set, not a URL)"
	}
	safe := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	if u.User != nil {
		safe.User = url.User("...")
	}
	return safe.String()
}

// warn tells of variables that look like settings and are none.
func warn(out io.Writer, from sources) {
	for _, w := range append(nearNames(from.environ), nearNames(from.dotenv)...) {
		fmt.Fprintln(out, "warning: "+w)
	}
}

// ours are variables that commands read besides the settings.
var ours = []string{"HOOKLADDER_URL", "HOOKLADDER_KEY"}

// nearNames warns of variables that are almost one of ours: they look like a
// setting and have no effect.
func nearNames(vars map[string]string) (warnings []string) {
	known := slices.Clone(ours)
	for _, s := range settingsTable() {
		known = append(known, s.Name)
		if s.File {
			known = append(known, s.Name+"_FILE")
		}
	}
	known = append(known, slices.Sorted(maps.Keys(kept))...)
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		if vars[name] == "" || slices.Contains(known, name) {
			continue
		}
		if meant := nearest(name, known); meant != "" {
			warnings = append(warnings, fmt.Sprintf("%s is not a setting and has no effect: did you mean %s?", name, meant))
		}
	}
	return warnings
}

// prefixes are what other programs put before names of settings.
var prefixes = []string{"HOOKLADDER_", "HL_"}

// nearest is the known name that name is a misspelling of, or empty.
func nearest(name string, known []string) string {
	plain := strings.ToUpper(name)
	for _, prefix := range prefixes {
		plain = strings.TrimPrefix(plain, prefix)
	}
	plain = strings.ReplaceAll(plain, "-", "_")
	if plain != name && slices.Contains(known, plain) {
		return plain
	}
	best, least := "", 3
	for _, k := range known {
		if d := distance(plain, k); d <= slips(k) && d < least {
			best, least = k, d
		}
	}
	return best
}

// slips is how many letters may be wrong in a name that is still meant: a short
// one is too near to others (PATH is two from PORT).
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

// distance counts the letters to insert, delete, change or swap with the next
// one that make a into b.
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
