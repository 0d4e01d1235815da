package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/wire"

	"github.com/hookladder/hookladder/cmd/hookladder/internal/settings"
)

// TestTheContractIsKept compares testdata/contract.txt, which names all that
// callers, receivers and operators rely on, with what there is. What is added or
// renamed has to be written down there too.
func TestTheContractIsKept(t *testing.T) {
	is, later := mustReadContract(t)
	there := everyName(t)
	require.NotEmpty(t, is)
	var wrong []string
	for kind, names := range is {
		require.NotEmpty(t, there[kind], "nothing is known of any %s", kind)
		for name := range names {
			if !there[kind][name] {
				wrong = append(wrong, kind+" "+name+" is in testdata/contract.txt, and not there")
			}
		}
	}
	for kind, names := range there {
		for name := range names {
			switch {
			case later[kind][name]:
				wrong = append(wrong, kind+" "+name+" is there: take it out of what is to come")
			case !is[kind][name]:
				wrong = append(wrong, kind+" "+name+" is there: write it into testdata/contract.txt")
			}
		}
	}
	slices.Sort(wrong)
	require.Empty(t, strings.Join(wrong, "\n"))
}

// names are the names of each kind of thing.
type names map[string]map[string]bool

func (n names) add(kind string, all ...string) {
	if n[kind] == nil {
		n[kind] = map[string]bool{}
	}
	for _, name := range all {
		n[kind][name] = true
	}
}

// mustReadContract reads the table: what is there, promised or not, and what is to come. A line is a kind
// and a name; what follows two spaces and a # is a remark.
func mustReadContract(t testing.TB) (is, later names) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "contract.txt"))
	require.NoError(t, err)
	is, later = names{}, names{}
	to := is
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "  #")
		switch line = strings.TrimSpace(line); {
		case line == "" || line[0] == '#':
		case line == "[kept]", line == "[beside]":
			to = is
		case line == "[to come]":
			to = later
		default:
			kind, name, ok := strings.Cut(line, " ")
			require.True(t, ok, line)
			require.False(t, to[kind][name], "%s is there twice", line)
			to.add(kind, name)
		}
	}
	return is, later
}

// everyName is all that there is, as it is seen from outside.
func everyName(t *testing.T) names {
	t.Helper()
	n := names{}
	for _, s := range settings.Table() {
		n.add("setting", s.Name)
		if s.File {
			n.add("file", s.Name+"_FILE")
		}
	}
	for _, cmd := range newRoot(world{}).Commands() {
		n.add("command", cmd.Name())
	}
	for kind, words := range dispatcher.WordLists() {
		n.add(kind, words...)
	}
	_, api, _ := newTestDev(t, nil)
	get := func(path string) string {
		resp, err := http.Get(api + path)
		require.NoError(t, err)
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		return string(text)
	}
	n.addMetrics(get("/metrics"))
	n.add("metric", "hookladder_store_used_ratio", // left out here, since this store has no maxmemory
		// and these, since dev has no archive
		"hookladder_archive_up", "hookladder_archive_lag_seconds", "hookladder_archive_backlog_bytes", "hookladder_archive_dropped_total",
		"hookladder_archive_orphans", "hookladder_archive_rows_total{table}", "hookladder_archive_comparing")
	n.add("metric", "hookladder_outbox_lag_seconds", "hookladder_outbox_rejected", "hookladder_outbox_relayed_total{result}", "hookladder_outbox_up", // nor an outbox
		"hookladder_traces_dropped_total") // nor traces
	n.addDocument(t, get("/openapi.json"))
	n.addHeaders(t, api)
	return n
}

// addMetrics adds each metric with its labels.
func (n names) addMetrics(page string) {
	labels := regexp.MustCompile(`([a-z_]+)="`)
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (hookladder_\S+) \S+\n(\S+) `).FindAllStringSubmatch(page, -1) {
		var own []string
		for _, l := range labels.FindAllStringSubmatch(m[2], -1) {
			if l[1] != "le" {
				own = append(own, l[1])
			}
		}
		if slices.Sort(own); len(own) > 0 {
			m[1] += "{" + strings.Join(own, ",") + "}"
		}
		n.add("metric", m[1])
	}
}

// addDocument adds calls, their successes, problems and fields.
func (n names) addDocument(t testing.TB, text string) {
	t.Helper()
	var doc struct {
		Paths map[string]map[string]struct {
			Parameters []struct{ Name, In string }
			Responses  map[string]struct{ Description string }
		}
		Webhooks   map[string]any
		Components struct {
			Schemas map[string]struct{ Properties map[string]any }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(text), &doc))
	word := regexp.MustCompile(`\(([a-z-]+)\)`)
	for path, methods := range doc.Paths {
		for method, o := range methods {
			call := strings.ToUpper(method) + " " + path
			for status, answer := range o.Responses {
				if status[0] == '2' {
					n.add("call", call+" "+status)
				}
				for _, w := range word.FindAllStringSubmatch(answer.Description, -1) {
					n.add("problem", status+" "+w[1])
				}
			}
			for _, p := range o.Parameters {
				switch p.In {
				case "query":
					n.add("filter", call+" "+p.Name)
				case "header":
					n.add("header", "taken "+p.Name)
				}
			}
		}
	}
	n.add("webhook", slices.Collect(maps.Keys(doc.Webhooks))...)
	schemas := doc.Components.Schemas
	n.add("schema", slices.Collect(maps.Keys(schemas))...)
	for of, schema := range map[string]string{"message": "Message", "endpoint": "EndpointView", "delivery": "Delivery", "attempt": "Attempt", "lane": "LaneState"} {
		for name := range maps.Keys(schemas[schema].Properties) {
			n.add("field", of+" "+name)
		}
	}
}

// addHeaders adds the headers that receivers get, of every scheme, and those that callers
// may not set.
func (n names) addHeaders(t testing.TB, api string) {
	t.Helper()
	for _, name := range dispatcher.ReservedHeaders() {
		n.add("header", "reserved "+name)
	}
	got := make(chan http.Header, 16)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.Header }))
	t.Cleanup(receiver.Close)
	post := func(path, body string, status int) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, api+path, strings.NewReader(body))
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
		resp, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, status, resp.StatusCode, "%s: %s", path, text)
	}
	sent := func() {
		for name := range <-got {
			if name != "Content-Length" { // of HTTP itself
				n.add("header", "sent "+strings.ToLower(name))
			}
		}
	}
	resp, err := http.Get(api + "/healthz")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, wire.InMemory, resp.Header.Get(wire.HeaderStore))
	n.add("header", "answered "+wire.HeaderStore)
	for i, scheme := range schemeNames() {
		post("/v1/endpoints", fmt.Sprintf(`{"uid":"e%d","url":"%s","signature":"%s","tenant":"m7","trace":true}`, i, receiver.URL, scheme), http.StatusCreated)
		post("/v1/messages", fmt.Sprintf(`{"topic":"t","tenant":"m7","endpoint":"e%d","body":1}`, i), http.StatusAccepted)
		sent()
	}
	post("/v1/messages", `{"id":"m","topic":"t","url":"`+receiver.URL+`","delay":3600,"body":1}`, http.StatusAccepted)
	post("/v1/messages/m/retry", "", http.StatusAccepted)
	sent()
}
