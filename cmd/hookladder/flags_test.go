package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A new field of a message makes this red until send has its flag, and a row here.
func TestSendHasAFlagForEachFieldOfAMessage(t *testing.T) {
	t.Parallel()
	flags := map[string][]string{
		"topic": {}, "body": {}, // of every line below
		"id":              {"--id=order_17"},
		"tenant":          {"--tenant=m7"},
		"subject":         {"--subject=bill 9"},
		"url":             {"--url=https://shop.example/"},
		"endpoint":        {"--endpoint=shop-1"},
		"queue":           {"--queue=orders"},
		"raw_body":        {"--raw"},
		"raw_body_base64": {"--body-file=" + mustKeep(t, "\xff")},
		"content_type":    {"--content-type=text/xml"},
		"delay":           {"--delay=1d"},
		"deliver_at":      {"--deliver-at=2027-01-31T09:00:00+01:00"},
		"expires_at":      {"--expires-at=2027-01-31T09:00:00+01:00"},
		"ordering_key":    {"--ordering-key=order_17"},
		"headers":         {"--header=x-a: b"},
		"ladder":          {"--ladder=1s,5s"},
		"max_attempts":    {"--max-attempts=3"},
		"timeout":         {"--timeout=5s"},
		"success":         {"--success=2xx,404"},
		"require_match":   {"--require-match"},
	}
	sent := map[string]any{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		clear(sent)
		assert.NoError(t, json.NewDecoder(r.Body).Decode(&sent))
		_, _ = io.WriteString(w, "{}")
	}))
	t.Cleanup(server.Close)
	fields, _ := mustReadContract(t)
	for name := range fields["field"] {
		if field, ok := strings.CutPrefix(name, "message "); ok {
			require.Contains(t, flags, field)
			args := append([]string{"send", "--server", server.URL, "--topic", "a.b"}, flags[field]...)
			if field != "raw_body_base64" {
				args = append(args, "--body", "1")
			}
			got := command(t, nil, "", args...)
			require.Equal(t, exitOK, got.code, got.err)
			require.Contains(t, sent, field, "it is not sent")
		}
	}
}

// mustKeep is a file that holds text.
func mustKeep(t testing.TB, text string) (name string) {
	t.Helper()
	name = filepath.Join(t.TempDir(), "file")
	mustWrite(t, name, text)
	return name
}

func TestItsVersionIsAFlagToo(t *testing.T) {
	t.Parallel()
	got := command(t, nil, "", "--version")
	require.Equal(t, exitOK, got.code)
	require.Equal(t, command(t, nil, "", "version").out, got.out)
	require.Regexp(t, `^hookladder \d+\.\d+\.\d+`, got.out)
}
