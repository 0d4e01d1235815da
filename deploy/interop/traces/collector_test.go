// Package traces_test starts the real program with a collector of its own, which decodes OTLP,
// and compares the spans with what callers and receivers saw.
package traces_test

import (
	"compress/gzip"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/dispatcher/trace"
)

// span is a span as the collector got it.
type span struct {
	name, kind    string
	id, parent    string // of spans
	traceID       string
	failed        bool
	attributes    map[string]any
	process       map[string]any // attributes of the process
	began, ended  uint64
	scope         string
	linkedTo      []string // ids of spans
	linkedToTrace []string
}

// spans is a collector of OTLP over HTTP.
type spans struct {
	*httptest.Server

	mu      sync.Mutex // guards the fields below
	all     []span
	headers []http.Header
	paths   []string
	refuse  func(http.ResponseWriter, *http.Request) bool // reports whether it has answered; nil: every export is accepted
}

func newSpans(t testing.TB) *spans {
	c := &spans{}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Server.Close)
	return c
}

// ServeHTTP accepts an export.
func (c *spans) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	refuse := c.refuse
	c.headers, c.paths = append(c.headers, r.Header), append(c.paths, r.URL.Path)
	c.mu.Unlock()
	if refuse != nil && refuse(w, r) {
		return
	}
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		var err error
		if body, err = gzip.NewReader(r.Body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	text, err := io.ReadAll(body)
	var export collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(text, &export)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, of := range export.ResourceSpans {
		for _, scoped := range of.ScopeSpans {
			for _, s := range scoped.Spans {
				c.all = append(c.all, read(s, attributes(of.Resource.Attributes), scoped.Scope.Name))
			}
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

func read(s *otlp.Span, process map[string]any, scope string) span {
	out := span{
		name: s.Name, kind: strings.TrimPrefix(s.Kind.String(), "SPAN_KIND_"), id: hex.EncodeToString(s.SpanId), parent: hex.EncodeToString(s.ParentSpanId),
		traceID: hex.EncodeToString(s.TraceId), failed: s.Status.GetCode() == otlp.Status_STATUS_CODE_ERROR,
		attributes: attributes(s.Attributes), process: process, began: s.StartTimeUnixNano, ended: s.EndTimeUnixNano, scope: scope,
	}
	for _, l := range s.Links {
		out.linkedTo, out.linkedToTrace = append(out.linkedTo, hex.EncodeToString(l.SpanId)), append(out.linkedToTrace, hex.EncodeToString(l.TraceId))
	}
	return out
}

func attributes(all []*common.KeyValue) map[string]any {
	out := map[string]any{}
	for _, a := range all {
		switch v := a.Value.Value.(type) {
		case *common.AnyValue_StringValue:
			out[a.Key] = v.StringValue
		case *common.AnyValue_IntValue:
			out[a.Key] = int(v.IntValue)
		case *common.AnyValue_BoolValue:
			out[a.Key] = v.BoolValue
		}
	}
	return out
}

// got returns the spans that came so far.
func (c *spans) got() []span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]span{}, c.all...)
}

// requests returns the number of exports so far, also of refused ones.
func (c *spans) requests() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.headers)
}

// wait waits for n spans that satisfy is.
func (c *spans) wait(t testing.TB, n int, what string, is func(span) bool) (found []span) {
	t.Helper()
	require.NoError(t, kit.Until(t.Context(), fmt.Sprintf("%d spans %s are there", n, what), func() error {
		found = nil
		for _, s := range c.got() {
			if is(s) {
				found = append(found, s)
			}
		}
		if len(found) < n {
			return fmt.Errorf("%d of %d", len(found), n)
		}
		return nil
	}))
	require.Len(t, found, n, what)
	return found
}

// named finds spans by their name and the id of their message.
func named(name, message string) func(span) bool {
	return func(s span) bool { return s.name == name && s.attributes[trace.MessageID] == message }
}
