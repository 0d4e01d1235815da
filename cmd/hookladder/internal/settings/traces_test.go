package settings

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTracesAreOffUnlessAStandardVariableTurnsThemOn(t *testing.T) {
	const endpoint, traces = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	for name, c := range map[string]struct {
		environ map[string]string
		on      bool
	}{
		"nothing is set":                  {nil, false},
		"only a name is set":              {map[string]string{"OTEL_SERVICE_NAME": "x"}, false},
		"the endpoint is empty":           {map[string]string{endpoint: ""}, false},
		"an endpoint":                     {map[string]string{endpoint: "http://c:4318"}, true},
		"an endpoint with a path":         {map[string]string{endpoint: "https://c/otel/"}, true},
		"an endpoint of traces":           {map[string]string{traces: "http://c:4318/own"}, true},
		"both":                            {map[string]string{endpoint: "http://a", traces: "http://b/x"}, true},
		"only the exporter":               {map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, true},
		"the SDK is disabled":             {map[string]string{endpoint: "http://c", "OTEL_SDK_DISABLED": "true"}, false},
		"the SDK is disabled in capitals": {map[string]string{endpoint: "http://c", "OTEL_SDK_DISABLED": "TRUE"}, false},
		"the SDK is not disabled":         {map[string]string{endpoint: "http://c", "OTEL_SDK_DISABLED": "false"}, true},
		"no exporter":                     {map[string]string{endpoint: "http://c", "OTEL_TRACES_EXPORTER": "none"}, false},
		"gRPC, but off":                   {map[string]string{"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := mustRead(t, c.environ)
			require.Equal(t, c.on, s.Traces.On)
			require.Equal(t, name == "only the exporter", s.Traces.Local)
		})
	}
}

// The SDK reads the environment itself, but not the .env file.
func TestTheStandardVariablesOfTheDotenvFileAreKeptForTheSDK(t *testing.T) {
	s, found, err := Read(Sources{
		Environ: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_BSP_MAX_QUEUE_SIZE": "300"},
		Dotenv: map[string]string{
			"OTEL_EXPORTER_OTLP_ENDPOINT": "http://other", "OTEL_EXPORTER_OTLP_TRACES_HEADERS": " x-token = s%2Cecret%20 , b=2", "OTEL_TRACES_SAMPLER": "always_off",
		},
	})
	require.NoError(t, err)
	require.Equal(t, Traces{
		On: true, Collector: "c:4318", Queue: 300, Dotenv: map[string]string{"OTEL_EXPORTER_OTLP_TRACES_HEADERS": "x-token = s%2Cecret%20 , b=2", "OTEL_TRACES_SAMPLER": "always_off"},
	}, s.Traces)
	named := 0
	for _, f := range found {
		if f.Name == "OTEL_EXPORTER_OTLP_TRACES_HEADERS" {
			require.True(t, f.Secret, "its value may be a token")
			named++
		}
	}
	require.Equal(t, 1, named)
}

// The SDK would log secrets of these, send by another protocol, or keep spans without a bound.
func TestMistakesInTheVariablesOfTracesEndTheStart(t *testing.T) {
	for name, c := range map[string]struct{ value, says string }{
		"OTEL_EXPORTER_OTLP_PROTOCOL":        {"grpc", `OTEL_EXPORTER_OTLP_PROTOCOL="grpc": must be http/protobuf: gRPC and JSON are not built in. Set it to http/protobuf and the endpoint to the collector's HTTP port, usually 4318`},
		"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": {"http/json", `must be http/protobuf`},
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": {"collector:4318", "must be an http or https URL"},
		"OTEL_EXPORTER_OTLP_ENDPOINT":        {"http://user:pass@c", "OTEL_EXPORTER_OTLP_ENDPOINT: must have no user, query or fragment: a token goes into OTEL_EXPORTER_OTLP_HEADERS"},
		"OTEL_EXPORTER_OTLP_HEADERS":         {"secret-token", "OTEL_EXPORTER_OTLP_HEADERS: must be name=value"},
		"OTEL_TRACES_EXPORTER":               {"zipkin", "must be otlp, none"},
		"OTEL_SDK_DISABLED":                  {"yes", "must be true, false"},
		"OTEL_BSP_MAX_QUEUE_SIZE":            {"0", "must be a whole number from 1 to 65536"},
		"OTEL_BSP_MAX_EXPORT_BATCH_SIZE":     {"-1", "must be a whole number from 1 to 65536"},
		"OTEL_BSP_SCHEDULE_DELAY":            {"1h", "must be a whole number from 1 to 600000"},
		"OTEL_EXPORTER_OTLP_TRACES_HEADERS":  {"a=1,secret-token", "OTEL_EXPORTER_OTLP_TRACES_HEADERS: must be name=value"},
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
