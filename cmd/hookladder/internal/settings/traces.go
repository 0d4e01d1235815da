package settings

import (
	"crypto/tls"
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

// Traces are the settings of traces: the standard variables of OpenTelemetry, whose names and
// meanings are not ours. The zero Traces records nothing.
type Traces struct {
	On         bool
	URL        string // of the collector, for spans
	Headers    map[string]string
	Timeout    time.Duration // of one export
	Gzip       bool
	TLS        *tls.Config // nil: the system's
	Sampler    string
	Share      float64     // of the samplers with a ratio
	Attributes [][2]string // of the process, with service.name

	Queue, Batch  int // spans that wait, and spans of one export
	Delay, Export time.Duration
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

// headerNames are tokens (RFC 9110, section 5.6.2).
var headerNames = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

// otelReader reads the standard variables and collects the mistakes.
type otelReader struct {
	from   Sources
	faults []mistake
	found  []Found
}

// traces reads the standard variables. If they do not turn traces on, the others are not checked.
func (from Sources) traces() (t Traces, found []Found, faults []mistake) {
	r := &otelReader{from: from}
	for _, name := range TraceNames() {
		if value := r.value(name); value != "" {
			secret := strings.HasSuffix(name, "_HEADERS") || strings.HasSuffix(name, "_ENDPOINT") // a URL may have a token
			r.found = append(r.found, Found{Setting: Setting{Name: name, Secret: secret, URL: strings.HasSuffix(name, "_ENDPOINT")}, Value: value, Source: r.source(name)})
		}
	}
	if !r.wanted() {
		return Traces{}, r.found, r.faults
	}
	t = Traces{On: true, Sampler: r.oneOf("OTEL_TRACES_SAMPLER", "parentbased_always_on", samplers), Share: 1}
	t.URL = r.collector()
	t.Headers = r.headers()
	t.Timeout = r.millis(r.exporter("TIMEOUT"), 10*time.Second)
	t.Gzip = r.oneOf(r.exporter("COMPRESSION"), "none", []string{"gzip", "none"}) == "gzip"
	t.TLS = r.certificates()
	t.Attributes = r.attributes()
	t.Queue = r.number("OTEL_BSP_MAX_QUEUE_SIZE", 2048, mostSpans)
	t.Batch = r.number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", min(512, t.Queue), mostSpans)
	t.Delay = r.millis("OTEL_BSP_SCHEDULE_DELAY", 5*time.Second)
	t.Export = r.millis("OTEL_BSP_EXPORT_TIMEOUT", 30*time.Second)
	if t.Batch > t.Queue {
		r.fault("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", fmt.Sprintf("must be at most OTEL_BSP_MAX_QUEUE_SIZE, %d", t.Queue))
	}
	if text := r.value("OTEL_TRACES_SAMPLER_ARG"); text != "" {
		share, err := strconv.ParseFloat(text, 64)
		if err != nil || !(share >= 0 && share <= 1) {
			r.fault("OTEL_TRACES_SAMPLER_ARG", "must be a number from 0 to 1")
		}
		t.Share = share
	}
	return t, r.found, r.faults
}

// mostSpans limits the memory of waiting spans: some 100 MiB.
const mostSpans = 65536

// samplers are the values of OTEL_TRACES_SAMPLER that OpenTelemetry defines for all languages.
var samplers = []string{"always_on", "always_off", "traceidratio", "parentbased_always_on", "parentbased_always_off", "parentbased_traceidratio"}

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

// millis reads a time in milliseconds, as the standard has them.
func (r *otelReader) millis(name string, usual time.Duration) time.Duration {
	const most = 10 * time.Minute
	return time.Duration(r.number(name, int(usual.Milliseconds()), int(most.Milliseconds()))) * time.Millisecond
}

// collector returns the URL for spans. The variable for all signals has the base.
func (r *otelReader) collector() string {
	name := r.exporter("ENDPOINT")
	text := r.value(name)
	if text == "" {
		return "http://localhost:4318/v1/traces"
	}
	u, err := app.ParseURL(text, "http", "https")
	if err != nil || u.Host == "" {
		r.fault(name, "must be an http or https URL such as http://collector:4318"+because(err))
		return ""
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		r.fault(name, "must have no user, query or fragment: a token goes into "+r.exporter("HEADERS"))
		return ""
	}
	if name == otelEndpoint {
		u = u.JoinPath("v1/traces")
	}
	return u.String()
}

// because adds a reason to a mistake.
func because(err error) string {
	if err == nil {
		return ""
	}
	return ": " + err.Error()
}

// headers reads headers for the collector: name=value with commas between, percent-encoded. It
// checks the names, because net/http quotes a wrong one, which may be a part of a token.
func (r *otelReader) headers() map[string]string {
	name, all := r.exporter("HEADERS"), map[string]string{}
	for _, pair := range r.pairs(name) {
		if !headerNames.MatchString(pair[0]) || strings.ContainsFunc(pair[1], unicode.IsControl) {
			r.fault(name, "must be name=value with commas between, with names and values that HTTP allows")
			return nil
		}
		all[pair[0]] = pair[1]
	}
	return all
}

// pairs reads a list of name=value.
func (r *otelReader) pairs(name string) (all [][2]string) {
	for _, part := range words(r.value(name)) {
		key, text, ok := strings.Cut(part, "=")
		key = strings.TrimSpace(key)
		text, err := url.PathUnescape(strings.TrimSpace(text))
		if !ok || key == "" || err != nil {
			r.fault(name, "must be name=value with commas between, and percent-encoded")
			return nil
		}
		all = append(all, [2]string{key, text})
	}
	return all
}

// attributes returns the attributes of the process. OTEL_SERVICE_NAME wins.
func (r *otelReader) attributes() [][2]string {
	all := r.pairs("OTEL_RESOURCE_ATTRIBUTES")
	if text := r.value("OTEL_SERVICE_NAME"); text != "" {
		return append(all, [2]string{"service.name", text})
	}
	if !slices.ContainsFunc(all, func(p [2]string) bool { return p[0] == "service.name" }) {
		all = append(all, [2]string{"service.name", "hookladder"})
	}
	return all
}

// certificates reads the files of certificates; nil: none is named.
func (r *otelReader) certificates() *tls.Config {
	trusted, cert, key := r.exporter("CERTIFICATE"), r.exporter("CLIENT_CERTIFICATE"), r.exporter("CLIENT_KEY")
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	var err error
	if file := r.value(trusted); file != "" {
		if c.RootCAs, err = app.LoadOnlyRoots(file); err != nil { // OpenTelemetry's standard trusts no others
			r.fault(trusted, "must be a file of PEM certificates ("+err.Error()+")")
		}
	}
	if r.value(cert) != "" || r.value(key) != "" {
		if c.Certificates, err = app.LoadCertificate(r.value(cert), r.value(key)); err != nil {
			r.fault(cert, "must be a file of PEM certificates that belong to "+key+" ("+err.Error()+")")
		}
	}
	if c.RootCAs == nil && c.Certificates == nil {
		return nil
	}
	return c
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
