package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheAnswersOfAFileAreBounded(t *testing.T) {
	t.Parallel()
	const page = `{"path":"/app","answer":{"data":[],"done":true}}` + "\n"
	most := importBounds{document: len(page), documents: 3}
	for text, want := range map[string]string{
		page + strings.Replace(page, "/app", "/app?limit=250", 1): "document 2 has more than 49 bytes: save smaller pages",
		`"` + strings.Repeat("a", 100):                            "document 1 has more than 49 bytes",
		strings.Repeat(page, 4):                                   "the file has more than 3 documents: import it in parts, by tenant",
		page + `{"path`:                                           "document 2 is not JSON: unexpected EOF",
		"":                                                        "the file is empty",
	} {
		_, _, err := foreignEntries(strings.NewReader(text), fromSvix, most)
		require.ErrorContains(t, err, want)
	}
	_, _, err := foreignEntries(strings.NewReader(strings.Repeat(page, 3)), fromSvix, most)
	require.NoError(t, err)
}
