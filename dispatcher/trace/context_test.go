package trace_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/trace"
)

const valid = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestTraceparentsAreReadAsTheStandardSays(t *testing.T) {
	for name, c := range map[string]struct{ text, is string }{
		"valid":                          {valid, valid},
		"not sampled":                    {valid[:53] + "00", valid[:53] + "00"},
		"an unknown flag":                {valid[:53] + "03", valid[:53] + "03"},
		"a later version":                {"01" + valid[2:], valid},
		"a later version with more":      {"01" + valid[2:] + "-what-comes", valid},
		"a later version, unknown flags": {"cc" + valid[2:53] + "ff", valid},
	} {
		t.Run(name, func(t *testing.T) {
			parsed, ok := trace.Parse(c.text)
			require.True(t, ok)
			require.Equal(t, c.is, parsed.String())
			require.Equal(t, parsed, trace.FromBytes(string(parsed.Bytes())))
		})
	}
	for name, text := range map[string]string{
		"empty":                        "",
		"one character is missing":     valid[:54],
		"one character too many":       valid + "0",
		"more after version 00":        valid + "-more",
		"more without a dash":          "01" + valid[2:] + "more",
		"version ff":                   "ff" + valid[2:],
		"a version that is no hex":     "0g" + valid[2:],
		"capital letters":              strings.ToUpper(valid),
		"capital letters in a flag":    valid[:53] + "0A",
		"a trace id of zeros":          "00-00000000000000000000000000000000-b7ad6b7169203331-01",
		"a span id of zeros":           "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
		"another sign than dashes":     strings.ReplaceAll(valid, "-", "_"),
		"a trace id that is no hex":    "00-0af7651916cd43dd8448eb211c80319x-b7ad6b7169203331-01",
		"a space before it":            " " + valid[:54],
		"two headers as one":           valid + "," + valid,
		"a line end in the trace's id": "00-0af7651916cd43dd8448eb211c80319\n-b7ad6b7169203331-01",
	} {
		t.Run(name, func(t *testing.T) {
			parsed, ok := trace.Parse(text)
			require.False(t, ok)
			require.True(t, parsed.IsZero())
		})
	}
}

func TestStoredBytesThatAreNoContextAreNone(t *testing.T) {
	c, ok := trace.Parse(valid)
	require.True(t, ok)
	whole := string(c.Bytes())
	for _, text := range []string{"", whole[1:], whole + "x", strings.Repeat("\x00", trace.Size), strings.Repeat("\x00", 16) + whole[16:]} {
		require.True(t, trace.FromBytes(text).IsZero(), "%q", text)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(valid)
	f.Add("01" + valid[2:] + "-x")
	f.Fuzz(func(t *testing.T, text string) {
		c, ok := trace.Parse(text)
		if !ok {
			return
		}
		again, ok := trace.Parse(c.String())
		require.True(t, ok)
		require.Equal(t, c, again)
		require.Len(t, c.String(), 55)
	})
}
