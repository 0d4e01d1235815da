package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheAnswersOfAFileAreBounded(t *testing.T) {
	t.Parallel()
	const page = `{"path":"/app","answer":{"data":[],"done":true}}` + "\n"
	const most = 3 * int64(len(page))
	for text, want := range map[string]string{
		strings.Repeat(page, 4):                       "the file has more than 147 bytes: import it in parts, by tenant",
		page + `"` + strings.Repeat("a", 3*len(page)): "the file has more than 147 bytes",
		page + `{"path`:                               "document 2 is not JSON: unexpected EOF",
		"":                                            "the file is empty",
	} {
		_, _, err := foreignEntries(strings.NewReader(text), fromSvix, most)
		require.ErrorContains(t, err, want)
	}
	_, _, err := foreignEntries(strings.NewReader(strings.Repeat(page, 3)), fromSvix, most)
	require.NoError(t, err)
}
