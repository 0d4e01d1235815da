package docs_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// placeholders replace what differs between two runs.
var placeholders = []struct {
	pattern *regexp.Regexp
	name    string
}{
	{regexp.MustCompile(`\bmsg_[0-9A-Z]{26}\b`), "MESSAGE"},
	{regexp.MustCompile(`\b(ep|lnk)_[0-9a-z]+\b`), "ID"},
	{regexp.MustCompile(`\bwh(sec|pk|sk)_[0-9A-Za-z+/=.]+`), "SECRET"},
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\dT[0-9:.]+Z`), "TIME"},
	{regexp.MustCompile(`\b\d\d:\d\d:\d\d\.\d+\b`), "TIME"},
	{regexp.MustCompile(`\b\d+(\.\d+)? ?(µs|ms)`), "DURATION"},
	{regexp.MustCompile(` +`), " "},
}

// generic returns a line of output with placeholders. A JSON object becomes the list
// of its fields.
func generic(line string) string {
	line = strings.TrimSpace(line)
	var object map[string]any
	if json.Unmarshal([]byte(line), &object) == nil {
		return fmt.Sprint("object of ", slices.Sorted(maps.Keys(object)))
	}
	for _, p := range placeholders {
		line = p.pattern.ReplaceAllString(line, p.name)
	}
	return line
}

// unseen returns the shown lines from the first one that is not in the output. Lines
// come in the shown order, and others may be between them.
func unseen(shown, output string) []string {
	want := lines(shown)
	for _, line := range lines(output) {
		if len(want) > 0 && generic(line) == generic(want[0]) {
			want = want[1:]
		}
	}
	return want
}

// lines returns the lines of a text that are not empty.
func lines(text string) (found []string) {
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) != "" {
			found = append(found, strings.TrimSuffix(line, "\n"))
		}
	}
	return found
}

// differs compares all lines, where "..." in the shown text is any number of lines.
func differs(shown, output string) error {
	rest := lines(output)
	for n, part := range strings.Split("\n"+shown, "\n...\n") {
		want := lines(part)
		if n > 0 { // skip what the page leaves out
			for len(rest) > 0 && (len(want) == 0 || generic(rest[0]) != generic(want[0])) {
				rest = rest[1:]
			}
		}
		for _, line := range want {
			if len(rest) == 0 || generic(rest[0]) != generic(line) {
				return fmt.Errorf("%q is shown, but the output is:\n%s", line, output)
			}
			rest = rest[1:]
		}
	}
	if len(rest) > 0 {
		return fmt.Errorf("the output has more than is shown:\n%s", strings.Join(rest, "\n"))
	}
	return nil
}

func TestOutputIsComparedWithPlaceholders(t *testing.T) {
	const shown = "07:52:38.674  msg_01M7YHFM061SCAKS1RM6CVC2V7  503 in 300µs\n...\n{\"n\":1}\n"
	require.NoError(t, differs(shown, "17:52:38.600 msg_11M7YHFM061SCAKS1RM6CVC2V7 503 in 3.1ms\nx\ny\n{\"n\":2}\n"))
	require.ErrorContains(t, differs(shown, "17:52:38.600 msg_11M7YHFM061SCAKS1RM6CVC2V7 500 in 3.1ms\n{\"n\":2}\n"), "503 in 300µs")
	require.ErrorContains(t, differs(shown, "17:52:38.600 msg_11M7YHFM061SCAKS1RM6CVC2V7 503 in 3.1ms\n{\"m\":2}\n"), `{\"n\":1}`)
	require.ErrorContains(t, differs("a\n", "a\nb\n"), "has more")
	require.Empty(t, unseen("a\nc\n", "a\nb\nc\n"))
	require.Equal(t, []string{"b"}, unseen("a\nb\n", "b\na\n"))
}
