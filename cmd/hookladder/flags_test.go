package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/wire"
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

// One name means one thing: a filter of the API is a flag of the same name. A new filter makes this
// red until its command has the flag, and a new operation until it has a row here.
func TestEachFilterOfTheAPIIsAFlagOfItsCommand(t *testing.T) {
	pages := []string{"limit", "cursor"}
	rows := map[string]struct {
		command string
		without []string // filters that the command needs no flag for
	}{
		"GET /v1/attempts":                  {"tail", pages}, // follows a stream, or prints all of a time
		"GET /v1/audit":                     {"audit", nil},
		"GET /v1/dead":                      {"dead", nil},
		"GET /v1/deliveries":                {"deliveries", nil},
		"GET /v1/endpoints":                 {"endpoints list", nil},
		"POST /v1/endpoints":                {"endpoints import", nil},
		"PATCH /v1/endpoints/{id}":          {"endpoints import", nil},
		"GET /v1/endpoints/{id}/deliveries": {"endpoints deliveries", nil},
		"GET /v1/instances":                 {"ping", pages}, // reads all pages
		"GET /v1/jobs":                      {"jobs", nil},
		"GET /v1/lanes":                     {"lanes", nil},
		"GET /v1/links":                     {"link list", nil},
		"DELETE /v1/messages/{id}":          {"cancel", nil},
		"POST /v1/messages/{id}/retry":      {"retry", nil},
		"POST /v1/lanes/{lane}/pause":       {"pause", pages}, // reads all pages
		"POST /v1/lanes/{lane}/resume":      {"resume", pages},
		"POST /v1/tick":                     {"tick", nil},

		"GET /.well-known/webhook-keys": {"", nil}, // receivers ask for them, not people
	}
	_, api, _ := newTestDev(t, nil)
	resp, err := http.Get(api + "/openapi.json")
	require.NoError(t, err)
	defer resp.Body.Close() //nolint:errcheck // it was read
	document, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	n := names{}
	n.addDocument(t, string(document))
	require.Greater(t, len(n["filter"]), 50)
	for filter := range n["filter"] {
		at := strings.LastIndexByte(filter, ' ')
		row, ok := rows[filter[:at]]
		require.True(t, ok, "which command has the filters of %s?", filter[:at])
		name := filter[at+1:]
		if row.command == "" || slices.Contains(row.without, name) {
			continue
		}
		cmd, _, err := newRoot(world{}).Find(strings.Fields(row.command))
		require.NoError(t, err)
		require.NotNil(t, cmd.Flags().Lookup(strings.ReplaceAll(name, "_", "-")), "%s has no flag for %s", row.command, filter)
	}
}

// Jobs have the same filters, as fields of a body.
func TestEachFieldOfAJobIsAFlagOfItsCommands(t *testing.T) {
	t.Parallel()
	for command, without := range map[string][]string{
		"retry": nil, "cancel": {"probe"}, "dead purge": {"status", "failed", "probe"},
	} {
		cmd, _, err := newRoot(world{}).Find(strings.Fields(command))
		require.NoError(t, err)
		for _, f := range reflect.VisibleFields(reflect.TypeFor[wire.JobRequest]()) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if !slices.Contains(without, name) && name != "count_all" { // which --dry-run sets
				require.NotNil(t, cmd.Flags().Lookup(strings.ReplaceAll(name, "_", "-")), "%s has no flag for %s", command, name)
			}
		}
	}
}

// The formats have the same names everywhere.
func TestFormatsAreFlagsOfOneName(t *testing.T) {
	t.Parallel()
	for _, cmd := range everyCommand(newRoot(world{})) {
		for _, other := range []string{"format", "output", "reason", "as"} {
			require.Nil(t, cmd.Flags().Lookup(other), "%s --%s", cmd.CommandPath(), other)
		}
		if f := cmd.Flags().Lookup("csv"); f != nil {
			require.Equal(t, "bool", f.Value.Type(), cmd.CommandPath())
			require.NotNil(t, cmd.Flags().Lookup("json"), cmd.CommandPath())
		}
	}
}

func everyCommand(cmd *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{cmd}
	for _, below := range cmd.Commands() {
		all = append(all, everyCommand(below)...)
	}
	return all
}

func TestTailPrintsThePastAndEnds(t *testing.T) {
	t.Parallel()
	line := func(message string) string {
		return `{"message_id":"` + message + `","destination":"u_1","outcome":"retry","at":"2026-01-02T03:04:05Z"}`
	}
	environ, calls := newTestLanes(t, `{"data":[`+line("order_3")+`,`+line("order_2")+`],"next_cursor":"c1"}`, `{"data":[`+line("order_1")+`],"next_cursor":null}`)
	got := command(t, environ, "", "tail", "--tenant", "m7", "--since", "2026-01-02T03:00:00Z", "--until", "2026-01-02T04:00:00Z")
	require.Equal(t, exitOK, got.code, got.err)
	require.Regexp(t, `(?s)order_1.*order_2.*order_3`, got.out)
	require.Equal(t, []string{
		"GET /v1/attempts?limit=500&since=2026-01-02T03%3A00%3A00Z&tenant=m7&until=2026-01-02T04%3A00%3A00Z",
		"GET /v1/attempts?cursor=c1&limit=500&since=2026-01-02T03%3A00%3A00Z&tenant=m7&until=2026-01-02T04%3A00%3A00Z",
	}, *calls)
}

func TestLanesOfSomeDestinationsAreListed(t *testing.T) {
	t.Parallel()
	environ, calls := newTestLanes(t, `{"data":[],"next_cursor":null}`)
	got := command(t, environ, "", "lanes", "--destination", "https://shop.example", "--destination", "shop-1", "--tenant", "m7")
	require.Equal(t, exitOK, got.code, got.err)
	require.Equal(t, []string{"GET /v1/lanes?destination=https%3A%2F%2Fshop.example&destination=shop-1&tenant=m7"}, *calls)
}
