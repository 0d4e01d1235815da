package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"

	"github.com/hookladder/hookladder/cmd/hookladder/internal/settings"
)

// flushTracesWithin bounds the last export. A kill timeout has 15 s beyond delay and grace, of which
// open requests take 5 s.
const flushTracesWithin = 5 * time.Second

// spanLimits bound the memory of one span. Our own spans have at most 20 attributes, and a take at
// most 100 links.
var spanLimits = sdk.SpanLimits{
	AttributeValueLengthLimit: 1024, AttributeCountLimit: 64, EventCountLimit: 8, LinkCountLimit: 128,
	AttributePerEventCountLimit: 8, AttributePerLinkCountLimit: 8,
}

// traceProvider gives spans to an exporter.
type traceProvider struct {
	*sdk.TracerProvider
	queue *spanQueue
}

// openTraces returns a traceProvider. It does not connect: a collector that is away stops no start.
func openTraces(ctx context.Context, t settings.Traces, version string, log *slog.Logger) (*traceProvider, error) {
	options := []otlptracehttp.Option{otlptracehttp.WithEndpointURL(t.URL), otlptracehttp.WithHeaders(t.Headers), otlptracehttp.WithTimeout(t.Timeout)}
	if t.Gzip {
		options = append(options, otlptracehttp.WithCompression(otlptracehttp.GzipCompression))
	} else {
		options = append(options, otlptracehttp.WithCompression(otlptracehttp.NoCompression))
	}
	if t.TLS != nil {
		options = append(options, otlptracehttp.WithTLSClientConfig(t.TLS))
	}
	sender, err := otlptracehttp.New(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("open exporter of traces: %w", err)
	}
	return provideTraces(sender, t, version, log), nil
}

// provideTraces returns a traceProvider for an exporter.
func provideTraces(sender sdk.SpanExporter, t settings.Traces, version string, log *slog.Logger) *traceProvider {
	l := newSpanLosses(log)
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { l.add(0, err) }))
	otel.SetLogger(logr.FromSlogHandler(log.Handler()))
	q := &spanQueue{most: int64(t.Queue), losses: l}
	q.batches = sdk.NewBatchSpanProcessor(reportingExporter{sender, q}, sdk.WithMaxQueueSize(t.Queue), sdk.WithMaxExportBatchSize(t.Batch),
		sdk.WithBatchTimeout(t.Delay), sdk.WithExportTimeout(t.Export))
	attributes := []attribute.KeyValue{
		attribute.String("service.version", version), attribute.String("service.instance.id", rand.Text()),
		attribute.String("telemetry.sdk.name", "opentelemetry"), attribute.String("telemetry.sdk.language", "go"), attribute.String("telemetry.sdk.version", otel.Version()),
	}
	for _, a := range t.Attributes {
		attributes = append(attributes, attribute.String(a[0], a[1]))
	}
	return &traceProvider{queue: q, TracerProvider: sdk.NewTracerProvider(sdk.WithSpanProcessor(q), sdk.WithSampler(traceSampler(t)),
		sdk.WithRawSpanLimits(spanLimits), sdk.WithResource(resource.NewSchemaless(attributes...)))}
}

// Dropped returns the number of spans that were not sent, because the queue was full or the
// collector did not accept them.
func (p *traceProvider) Dropped() int64 { return p.queue.losses.dropped() }

// Close sends the spans that wait, for at most flushTracesWithin. Then the others are lost.
func (p *traceProvider) Close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTracesWithin)
	defer cancel()
	if err := p.Shutdown(ctx); err != nil {
		p.queue.losses.add(int(p.queue.waiting.Load()), err)
	}
	p.queue.losses.end()
}

// traceSampler returns the sampler of a name that settings has checked.
func traceSampler(t settings.Traces) sdk.Sampler {
	switch t.Sampler {
	case "always_on":
		return sdk.AlwaysSample()
	case "always_off":
		return sdk.NeverSample()
	case "traceidratio":
		return sdk.TraceIDRatioBased(t.Share)
	case "parentbased_always_off":
		return sdk.ParentBased(sdk.NeverSample())
	case "parentbased_traceidratio":
		return sdk.ParentBased(sdk.TraceIDRatioBased(t.Share))
	default:
		return sdk.ParentBased(sdk.AlwaysSample())
	}
}

// spanQueue counts the spans that wait, and drops the ones beyond its limit. The SDK would drop them
// too, but silently.
type spanQueue struct {
	batches sdk.SpanProcessor
	losses  *spanLosses
	most    int64
	waiting atomic.Int64
}

// OnStart does nothing.
func (q *spanQueue) OnStart(context.Context, sdk.ReadWriteSpan) {}

// OnEnd queues a span. It never blocks.
func (q *spanQueue) OnEnd(s sdk.ReadOnlySpan) {
	if !s.SpanContext().IsSampled() {
		return
	}
	if q.waiting.Add(1) > q.most {
		q.waiting.Add(-1)
		q.losses.add(1, errSpansFull)
		return
	}
	q.batches.OnEnd(s)
}

// Shutdown exports the spans that wait.
func (q *spanQueue) Shutdown(ctx context.Context) error { return q.batches.Shutdown(ctx) }

// ForceFlush exports the spans that wait.
func (q *spanQueue) ForceFlush(ctx context.Context) error { return q.batches.ForceFlush(ctx) }

// reportingExporter is an exporter that reports the spans that it could not send.
type reportingExporter struct {
	sdk.SpanExporter
	queue *spanQueue
}

// ExportSpans sends spans. It returns no error, because losses has logged it.
func (r reportingExporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	defer r.queue.waiting.Add(-int64(len(spans)))
	if err := r.SpanExporter.ExportSpans(ctx, spans); err != nil {
		r.queue.losses.add(len(spans), err)
	}
	return nil
}
