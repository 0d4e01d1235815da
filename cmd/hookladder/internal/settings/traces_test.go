package settings

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTracesAreOffUnlessAStandardVariableTurnsThemOn(t *testing.T) {
	const endpoint, traces = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	for name, c := range map[string]struct {
		environ map[string]string
		url     string // empty: off
	}{
		"nothing is set":                  {nil, ""},
		"only a name is set":              {map[string]string{"OTEL_SERVICE_NAME": "x"}, ""},
		"the endpoint is empty":           {map[string]string{endpoint: ""}, ""},
		"an endpoint":                     {map[string]string{endpoint: "http://c:4318"}, "http://c:4318/v1/traces"},
		"an endpoint with a path":         {map[string]string{endpoint: "https://c/otel/"}, "https://c/otel/v1/traces"},
		"an endpoint of traces":           {map[string]string{traces: "http://c:4318/own"}, "http://c:4318/own"},
		"both":                            {map[string]string{endpoint: "http://a", traces: "http://b/x"}, "http://b/x"},
		"only the exporter":               {map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, "http://localhost:4318/v1/traces"},
		"the SDK is disabled":             {map[string]string{endpoint: "http://c", "OTEL_SDK_DISABLED": "true"}, ""},
		"the SDK is disabled in capitals": {map[string]string{endpoint: "http://c", "OTEL_SDK_DISABLED": "TRUE"}, ""},
		"the SDK is not disabled":         {map[string]string{endpoint: "http://c", "OTEL_SDK_DISABLED": "false"}, "http://c/v1/traces"},
		"no exporter":                     {map[string]string{endpoint: "http://c", "OTEL_TRACES_EXPORTER": "none"}, ""},
		"gRPC, but off":                   {map[string]string{"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := mustRead(t, c.environ)
			require.Equal(t, c.url != "", s.Traces.On)
			require.Equal(t, c.url, s.Traces.URL)
		})
	}
}

func TestTheStandardVariablesOfTracesAreRead(t *testing.T) {
	s, found := mustRead(t, map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_EXPORTER_OTLP_HEADERS": "a=1", "OTEL_EXPORTER_OTLP_TRACES_HEADERS": " x-token = s%2Cecret%20 , b=2",
		"OTEL_EXPORTER_OTLP_TIMEOUT": "2500", "OTEL_EXPORTER_OTLP_COMPRESSION": "none", "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION": "gzip",
		"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.25", "OTEL_SERVICE_NAME": "hooks", "OTEL_RESOURCE_ATTRIBUTES": "service.name=other,team=a%20b",
		"OTEL_BSP_SCHEDULE_DELAY": "100", "OTEL_BSP_EXPORT_TIMEOUT": "200", "OTEL_BSP_MAX_QUEUE_SIZE": "300", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "40",
	})
	require.Equal(t, Traces{
		On: true, URL: "http://c:4318/v1/traces", Headers: map[string]string{"x-token": "s,ecret ", "b": "2"}, Timeout: 2500 * time.Millisecond, Gzip: true,
		Sampler: "parentbased_traceidratio", Share: 0.25, Attributes: [][2]string{{"service.name", "other"}, {"team", "a b"}, {"service.name", "hooks"}},
		Delay: 100 * time.Millisecond, Export: 200 * time.Millisecond, Queue: 300, Batch: 40,
	}, s.Traces)
	named := 0
	for _, f := range found {
		if f.Name == "OTEL_EXPORTER_OTLP_TRACES_HEADERS" {
			require.True(t, f.Secret, "its value may be a token")
			named++
		}
	}
	require.Equal(t, 1, named)
	s, _ = mustRead(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_BSP_MAX_QUEUE_SIZE": "10"})
	require.Equal(t, Traces{
		On: true, URL: "http://c/v1/traces", Headers: map[string]string{}, Timeout: 10 * time.Second, Sampler: "parentbased_always_on", Share: 1,
		Attributes: [][2]string{{"service.name", "hookladder"}}, Delay: 5 * time.Second, Export: 30 * time.Second, Queue: 10, Batch: 10,
	}, s.Traces)
}

// The SDK would ignore these, and send elsewhere or nothing.
func TestMistakesInTheVariablesOfTracesEndTheStart(t *testing.T) {
	for name, c := range map[string]struct{ value, says string }{
		"OTEL_EXPORTER_OTLP_PROTOCOL":        {"grpc", `OTEL_EXPORTER_OTLP_PROTOCOL="grpc": must be http/protobuf: gRPC and JSON are not built in. Set it to http/protobuf and the endpoint to the collector's HTTP port, usually 4318`},
		"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": {"http/json", `must be http/protobuf`},
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": {"collector:4318", "must be an http or https URL"},
		"OTEL_EXPORTER_OTLP_ENDPOINT":        {"http://user:pass@c", "OTEL_EXPORTER_OTLP_ENDPOINT: must have no user, query or fragment: a token goes into OTEL_EXPORTER_OTLP_HEADERS"},
		"OTEL_EXPORTER_OTLP_HEADERS":         {"secret-token", "OTEL_EXPORTER_OTLP_HEADERS: must be name=value"},
		"OTEL_EXPORTER_OTLP_TIMEOUT":         {"10s", `="10s": must be a whole number from 1 to 600000`},
		"OTEL_EXPORTER_OTLP_COMPRESSION":     {"zstd", "must be gzip, none"},
		"OTEL_EXPORTER_OTLP_CERTIFICATE":     {"/does/not/exist", "must be a file of PEM certificates"},
		"OTEL_EXPORTER_OTLP_CLIENT_KEY":      {"/does/not/exist", "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE: must be a file of PEM certificates that belong to OTEL_EXPORTER_OTLP_CLIENT_KEY"},
		"OTEL_TRACES_SAMPLER":                {"jaeger_remote", "must be always_on, always_off"},
		"OTEL_TRACES_SAMPLER_ARG":            {"2", "must be a number from 0 to 1"},
		"OTEL_TRACES_EXPORTER":               {"zipkin", "must be otlp, none"},
		"OTEL_SDK_DISABLED":                  {"yes", "must be true, false"},
		"OTEL_BSP_MAX_QUEUE_SIZE":            {"0", "must be a whole number from 1 to 65536"},
		"OTEL_BSP_MAX_EXPORT_BATCH_SIZE":     {"4096", "must be at most OTEL_BSP_MAX_QUEUE_SIZE, 2048"},
		"OTEL_RESOURCE_ATTRIBUTES":           {"team", "must be name=value"},
	} {
		t.Run(name, func(t *testing.T) {
			environ := map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}
			environ[name] = c.value
			_, _, err := Read(Sources{Environ: environ})
			require.ErrorContains(t, err, c.says)
			require.NotContains(t, err.Error(), "pass@")
			require.NotContains(t, err.Error(), "secret-token")
		})
	}
}

func TestThePageOfTracesHasEachVariable(t *testing.T) {
	page, err := os.ReadFile("../../../../deploy/docs/traces.md")
	require.NoError(t, err)
	for _, name := range TraceNames() {
		name = strings.Replace(name, "OTLP_TRACES_", "OTLP_", 1)
		if short, ok := strings.CutPrefix(name, "OTEL_EXPORTER_OTLP_CLIENT_"); ok {
			name = "_CLIENT_" + short
		}
		require.Contains(t, string(page), "`"+name+"`")
	}
}

func TestStandardVariablesWithoutAnEffectAreReported(t *testing.T) {
	require.Empty(t, Sources{Environ: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_PROPAGATORS": "tracecontext,baggage", "OTEL_METRICS_EXPORTER": "none"}}.IgnoredTraces())
	require.Equal(t, []string{
		"OTEL_EXPORTER_OTLP_INSECURE has no effect: it is for gRPC; http:// in the endpoint means the same",
		`OTEL_PROPAGATORS="b3" has no effect: only traceparent is read and sent`,
		"OTEL_SPAN_LINK_COUNT_LIMIT has no effect: the limits of a span are fixed",
		"OTEL_TRACES_SAMPLER_ARG has no effect: OTEL_TRACES_SAMPLER is not traceidratio or parentbased_traceidratio",
	}, Sources{Environ: map[string]string{
		"OTEL_PROPAGATORS": "b3", "OTEL_EXPORTER_OTLP_INSECURE": "true", "OTEL_SPAN_LINK_COUNT_LIMIT": "1", "OTEL_TRACES_SAMPLER_ARG": "0.5", "OTEL_TRACES_SAMPLER": "always_on",
	}}.IgnoredTraces())
	require.Equal(t, []string{"OTEL_EXPORTER_OTLP_ENDPONT is not a setting and has no effect: did you mean OTEL_EXPORTER_OTLP_ENDPOINT?"},
		Near(map[string]string{"OTEL_EXPORTER_OTLP_ENDPONT": "http://c"}))
	require.Empty(t, Near(map[string]string{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://c", "OTEL_SERVICE_NAME": "x", "OTEL_LOGS_EXPORTER": "none"}))
}
