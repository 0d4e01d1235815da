package observe

import (
	"context"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	otel "go.opentelemetry.io/otel/trace"

	"github.com/hookladder/hookladder/dispatcher/trace"
)

// scope is the name of the instrumentation in each span.
const scope = "github.com/hookladder/hookladder"

// NewTracer returns a Tracer for a provider. It returns nil for nil: nothing is recorded.
func NewTracer(p otel.TracerProvider, version string) trace.Tracer {
	if p == nil {
		return nil
	}
	return &tracer{p.Tracer(scope, otel.WithInstrumentationVersion(version))}
}

// WithSpan returns a context with the span c of another process. A span that is begun with this
// context is its child.
func WithSpan(ctx context.Context, c trace.Context) context.Context {
	if c.IsZero() {
		return ctx
	}
	return otel.ContextWithRemoteSpanContext(ctx, remote(c))
}

// SpanOf returns the span of a context.
func SpanOf(ctx context.Context) trace.Context { return local(otel.SpanContextFromContext(ctx)) }

type tracer struct{ otel otel.Tracer }

// kinds has the kinds of OpenTelemetry.
var kinds = [...]otel.SpanKind{
	trace.Internal: otel.SpanKindInternal, trace.Server: otel.SpanKindServer, trace.Client: otel.SpanKindClient,
	trace.Producer: otel.SpanKindProducer, trace.Consumer: otel.SpanKindConsumer,
}

// Begin begins a span.
func (t *tracer) Begin(ctx context.Context, s trace.Start) (context.Context, trace.Span) {
	options := make([]otel.SpanStartOption, 0, 4)
	options = append(options, otel.WithSpanKind(kinds[s.Kind]), otel.WithAttributes(attributes(s.Attrs)...))
	for _, c := range s.Links {
		if !c.IsZero() {
			options = append(options, otel.WithLinks(otel.Link{SpanContext: remote(c)}))
		}
	}
	if !s.At.IsZero() {
		options = append(options, otel.WithTimestamp(s.At))
	}
	ctx, begun := t.otel.Start(WithSpan(ctx, s.Parent), s.Name, options...)
	return ctx, span{begun}
}

// Recorded reports whether the context has a span that is recorded.
func (t *tracer) Recorded(ctx context.Context) bool { return otel.SpanFromContext(ctx).IsRecording() }

type span struct{ otel otel.Span }

// Context identifies the span.
func (s span) Context() trace.Context { return local(s.otel.SpanContext()) }

// Recorded reports whether the span is recorded.
func (s span) Recorded() bool { return s.otel.IsRecording() && s.otel.SpanContext().IsSampled() }

// Set adds attributes.
func (s span) Set(attrs ...slog.Attr) { s.otel.SetAttributes(attributes(attrs)...) }

// Link adds the span that caused this one.
func (s span) Link(to trace.Context) {
	if !to.IsZero() {
		s.otel.AddLink(otel.Link{SpanContext: remote(to)})
	}
}

// End ends the span.
func (s span) End(failed string, at time.Time) {
	if failed != "" {
		s.otel.SetAttributes(attribute.String(trace.ErrorType, failed))
		s.otel.SetStatus(codes.Error, "")
	}
	if at.IsZero() {
		s.otel.End()
		return
	}
	s.otel.End(otel.WithTimestamp(at))
}

// attributes converts attributes. It leaves out empty texts, because they say nothing.
func attributes(all []slog.Attr) []attribute.KeyValue {
	list := make([]attribute.KeyValue, 0, len(all))
	for _, a := range all {
		switch a.Value.Kind() {
		case slog.KindInt64:
			list = append(list, attribute.Int64(a.Key, a.Value.Int64()))
		case slog.KindBool:
			list = append(list, attribute.Bool(a.Key, a.Value.Bool()))
		default:
			if text := a.Value.String(); text != "" {
				list = append(list, attribute.String(a.Key, text))
			}
		}
	}
	return list
}

func remote(c trace.Context) otel.SpanContext {
	return otel.NewSpanContext(otel.SpanContextConfig{TraceID: c.TraceID, SpanID: c.SpanID, TraceFlags: otel.TraceFlags(c.Flags), Remote: true})
}

func local(c otel.SpanContext) trace.Context {
	if !c.IsValid() {
		return trace.Context{}
	}
	return trace.Context{TraceID: c.TraceID(), SpanID: c.SpanID(), Flags: byte(c.TraceFlags())}
}
