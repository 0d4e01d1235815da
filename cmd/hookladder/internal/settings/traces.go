package settings

import (
	"fmt"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/hookladder/hookladder/dispatcher/app"
)

// Traces are the settings of traces. OpenTelemetry's SDK reads the standard variables itself, so
// these are only the ones that decide about more. The zero Traces records nothing.
type Traces struct {
	On        bool
	Collector string            // its host, for people
	Local     bool              // no variable names the collector: it is on this host, without TLS
	Queue     int               // spans that may wait
	Dotenv    map[string]string // standard variables of the .env file, which the SDK does not read
}

// The settings of traces that turn them on or off, or that are named in other places.
const (
	otelEndpoint       = "OTEL_EXPORTER_OTLP_ENDPOINT"
	otelTracesEndpoint = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	otelExporter       = "OTEL_TRACES_EXPORTER"
	otelDisabled       = "OTEL_SDK_DISABLED"
)

// otlp is the prefix of the variables of the exporter. Each has a form for traces alone, which
// wins.
const otlp = "OTEL_EXPORTER_OTLP_"

// exporterNames follow otlp, or otlp and TRACES_.
var exporterNames = []string{"ENDPOINT", "HEADERS", "TIMEOUT", "COMPRESSION", "PROTOCOL", "CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY"}

// otelNames are the other standard variables that have an effect.
var otelNames = []string{
	otelDisabled, otelExporter, "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG", "OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES",
	"OTEL_BSP_SCHEDULE_DELAY", "OTEL_BSP_EXPORT_TIMEOUT", "OTEL_BSP_MAX_QUEUE_SIZE", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
}

// TraceNames returns the standard variables that have an effect, in order.
func TraceNames() []string {
	names := slices.Clone(otelNames)
	for _, name := range exporterNames {
		names = append(names, otlp+name, otlp+"TRACES_"+name)
	}
	slices.Sort(names)
	return names
}

// unused are standard variables without an effect, with the reason. A person who sets one expects
// another behaviour.
var unused = map[string]string{
	"OTEL_CONFIG_FILE":                   "traces are set by variables only",
	"OTEL_EXPERIMENTAL_CONFIG_FILE":      "traces are set by variables only",
	"OTEL_EXPORTER_OTLP_INSECURE":        "it is for gRPC; http:// in the endpoint means the same",
	"OTEL_EXPORTER_OTLP_TRACES_INSECURE": "it is for gRPC; http:// in the endpoint means the same",
}

// limitNames begin the variables of the limits of a span, which are fixed.
var limitNames = []string{"OTEL_SPAN_", "OTEL_ATTRIBUTE_", "OTEL_EVENT_", "OTEL_LINK_"}

// IgnoredTraces returns warnings about standard variables that have no effect here.
func (from Sources) IgnoredTraces() (warnings []string) {
	r := otelReader{from: from}
	for name, why := range unused {
		if r.value(name) != "" {
			warnings = append(warnings, name+" has no effect: "+why)
		}
	}
	for name := range from.Environ {
		if slices.ContainsFunc(limitNames, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			warnings = append(warnings, name+" has no effect: the limits of a span are fixed")
		}
	}
	if text := r.value("OTEL_PROPAGATORS"); text != "" && !slices.Contains(words(text), "tracecontext") {
		warnings = append(warnings, fmt.Sprintf("OTEL_PROPAGATORS=%q has no effect: only traceparent is read and sent", text))
	}
	if text := r.value("OTEL_TRACES_SAMPLER_ARG"); text != "" && !strings.HasSuffix(r.value("OTEL_TRACES_SAMPLER"), "traceidratio") {
		warnings = append(warnings, "OTEL_TRACES_SAMPLER_ARG has no effect: OTEL_TRACES_SAMPLER is not traceidratio or parentbased_traceidratio")
	}
	slices.Sort(warnings)
	return warnings
}

// otelReader reads the standard variables and collects the mistakes.
type otelReader struct {
	from   Sources
	faults []mistake
	found  []Found
}

// traces reads the standard variables. If they do not turn traces on, the others are not checked.
// It checks what the SDK would not report in a way that helps: another protocol, a secret that the
// SDK would log, and numbers that it would not bound.
func (from Sources) traces() (t Traces, found []Found, faults []mistake) {
	r := &otelReader{from: from}
	t.Dotenv = map[string]string{}
	for _, name := range TraceNames() {
		if value := r.value(name); value != "" {
			secret := strings.HasSuffix(name, "_HEADERS") || strings.HasSuffix(name, "_ENDPOINT") // a URL may have a token
			r.found = append(r.found, Found{Setting: Setting{Name: name, Secret: secret, URL: strings.HasSuffix(name, "_ENDPOINT")}, Value: value, Source: r.source(name)})
			if r.source(name) == SourceDotenv {
				t.Dotenv[name] = value
			}
		}
	}
	if !r.wanted() {
		return Traces{}, r.found, r.faults
	}
	t.On, t.Local = true, r.value(otelEndpoint) == "" && r.value(otelTracesEndpoint) == ""
	t.Collector = r.collector()
	r.checkHeaders()
	const longest = 10 * time.Minute
	t.Queue = r.number("OTEL_BSP_MAX_QUEUE_SIZE", 2048, mostSpans)
	r.number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512, mostSpans)
	r.number("OTEL_BSP_SCHEDULE_DELAY", 0, int(longest.Milliseconds()))
	r.number("OTEL_BSP_EXPORT_TIMEOUT", 0, int(longest.Milliseconds()))
	return t, r.found, r.faults
}

// mostSpans limits the memory of waiting spans: some 100 MiB.
const mostSpans = 65536

// wanted reports whether traces are on, and checks the variables that say so.
func (r *otelReader) wanted() bool {
	if r.oneOf(otelDisabled, "false", []string{"true", "false"}) == "true" {
		return false
	}
	exporter := r.oneOf(otelExporter, "", []string{"otlp", "none"})
	if exporter == "none" {
		return false
	}
	if exporter == "" && r.value(otelEndpoint) == "" && r.value(otelTracesEndpoint) == "" {
		return false
	}
	name := r.exporter("PROTOCOL")
	if text := r.value(name); text != "" && text != "http/protobuf" {
		r.fault(name, "must be http/protobuf: gRPC and JSON are not built in. Set it to http/protobuf and the endpoint to the collector's HTTP port, usually 4318")
	}
	return true
}

// value returns a variable of the environment, or else of the .env file.
func (r *otelReader) value(name string) string {
	if text := strings.TrimSpace(r.from.Environ[name]); text != "" {
		return text
	}
	return strings.TrimSpace(r.from.Dotenv[name])
}

func (r *otelReader) source(name string) string {
	if strings.TrimSpace(r.from.Environ[name]) != "" {
		return SourceEnviron
	}
	return SourceDotenv
}

// exporter returns the variable for traces alone if it is set, or else the one for all signals.
func (r *otelReader) exporter(name string) string {
	if own := otlp + "TRACES_" + name; r.value(own) != "" {
		return own
	}
	return otlp + name
}

// fault adds a mistake. It shows the value, unless that may have a secret.
func (r *otelReader) fault(name, accepts string) {
	for _, f := range r.found {
		if f.Name == name && !f.Secret {
			accepts = fmt.Sprintf("=%q: %s", f.Short(), accepts)
			r.faults = append(r.faults, mistake{name, accepts})
			return
		}
	}
	r.faults = append(r.faults, mistake{name, ": " + accepts})
}

func (r *otelReader) oneOf(name, usual string, accepted []string) string {
	text := strings.ToLower(r.value(name))
	switch {
	case text == "":
		return usual
	case !slices.Contains(accepted, text):
		r.fault(name, "must be "+strings.Join(accepted, ", "))
	}
	return text
}

func (r *otelReader) number(name string, usual, most int) int {
	text := r.value(name)
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		r.fault(name, fmt.Sprintf("must be a whole number from 1 to %d", most))
		return usual
	}
	return n
}

// collector checks the URL of the collector, and returns its host. The SDK would log a wrong URL,
// which may have a token.
func (r *otelReader) collector() string {
	name := r.exporter("ENDPOINT")
	text := r.value(name)
	if text == "" {
		return "localhost:4318"
	}
	u, err := app.ParseURL(text, "http", "https")
	switch {
	case err != nil:
		r.fault(name, "must be an http or https URL such as http://collector:4318: "+err.Error())
		return ""
	case u.Host == "":
		r.fault(name, "must be an http or https URL such as http://collector:4318")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		r.fault(name, "must have no user, query or fragment: a token goes into "+r.exporter("HEADERS"))
	}
	return u.Host
}

// headerPairs is name=value with commas between, with names that are tokens (RFC 9110, section 5.6.2).
var headerPairs = regexp.MustCompile("^(?:\\s*[!#$%&'*+.^_`|~0-9A-Za-z-]+\\s*=[^,]*(?:,|$))+$")

// checkHeaders checks the headers for the collector. The SDK would log wrong ones, which may have
// a token.
func (r *otelReader) checkHeaders() {
	name := r.exporter("HEADERS")
	text, err := url.PathUnescape(r.value(name))
	if r.value(name) != "" && (err != nil || !headerPairs.MatchString(r.value(name)) || strings.ContainsFunc(text, unicode.IsControl)) {
		r.fault(name, "must be name=value with commas between, percent-encoded, with names and values that HTTP allows")
	}
}

// read reads a file.
func (from Sources) read(file string) ([]byte, error) {
	if from.ReadFile != nil {
		return from.ReadFile(file)
	}
	return os.ReadFile(file)
}

// words returns the parts between commas, without empty ones.
func words(text string) (all []string) {
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			all = append(all, part)
		}
	}
	return all
}
