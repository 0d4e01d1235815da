// Package otlp sends spans to a collector: the SDK of OpenTelemetry and its exporter of OTLP over
// HTTP. It gets typed settings, so the SDK's own reading of the environment has no effect.
package otlp

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

// flushWithin bounds the last export. A kill timeout has 15 s beyond delay and grace, of which
// open requests take 5 s.
const flushWithin = 5 * time.Second

// limits bound the memory of one span. Our own spans have at most 20 attributes, and a take at
// most 100 links.
var limits = sdk.SpanLimits{
	AttributeValueLengthLimit: 1024, AttributeCountLimit: 64, EventCountLimit: 8, LinkCountLimit: 128,
	AttributePerEventCountLimit: 8, AttributePerLinkCountLimit: 8,
}

// Provider gives spans to an exporter.
type Provider struct {
	*sdk.TracerProvider
	queue *queue
}

// Open returns a Provider. It does not connect: a collector that is away stops no start.
func Open(ctx context.Context, t settings.Traces, version string, log *slog.Logger) (*Provider, error) {
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
	return provide(sender, t, version, log), nil
}

// provide returns a Provider for an exporter.
func provide(sender sdk.SpanExporter, t settings.Traces, version string, log *slog.Logger) *Provider {
	l := newLosses(log)
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { l.add(0, err) }))
	otel.SetLogger(logr.FromSlogHandler(log.Handler()))
	q := &queue{most: int64(t.Queue), losses: l}
	q.batches = sdk.NewBatchSpanProcessor(reporting{sender, q}, sdk.WithMaxQueueSize(t.Queue), sdk.WithMaxExportBatchSize(t.Batch),
		sdk.WithBatchTimeout(t.Delay), sdk.WithExportTimeout(t.Export))
	attributes := []attribute.KeyValue{
		attribute.String("service.version", version), attribute.String("service.instance.id", rand.Text()),
		attribute.String("telemetry.sdk.name", "opentelemetry"), attribute.String("telemetry.sdk.language", "go"), attribute.String("telemetry.sdk.version", otel.Version()),
	}
	for _, a := range t.Attributes {
		attributes = append(attributes, attribute.String(a[0], a[1]))
	}
	return &Provider{queue: q, TracerProvider: sdk.NewTracerProvider(sdk.WithSpanProcessor(q), sdk.WithSampler(sampler(t)),
		sdk.WithRawSpanLimits(limits), sdk.WithResource(resource.NewSchemaless(attributes...)))}
}

// Dropped returns the number of spans that were not sent, because the queue was full or the
// collector did not accept them.
func (p *Provider) Dropped() int64 { return p.queue.losses.dropped() }

// Close sends the spans that wait, for at most flushWithin. Then the others are lost.
func (p *Provider) Close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushWithin)
	defer cancel()
	if err := p.Shutdown(ctx); err != nil {
		p.queue.losses.add(int(p.queue.waiting.Load()), err)
	}
	p.queue.losses.end()
}

// sampler returns the sampler of a name that settings has checked.
func sampler(t settings.Traces) sdk.Sampler {
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

// queue counts the spans that wait, and drops the ones beyond its limit. The SDK would drop them
// too, but silently.
type queue struct {
	batches sdk.SpanProcessor
	losses  *losses
	most    int64
	waiting atomic.Int64
}

// OnStart does nothing.
func (q *queue) OnStart(context.Context, sdk.ReadWriteSpan) {}

// OnEnd queues a span. It never blocks.
func (q *queue) OnEnd(s sdk.ReadOnlySpan) {
	if !s.SpanContext().IsSampled() {
		return
	}
	if q.waiting.Add(1) > q.most {
		q.waiting.Add(-1)
		q.losses.add(1, errFull)
		return
	}
	q.batches.OnEnd(s)
}

// Shutdown exports the spans that wait.
func (q *queue) Shutdown(ctx context.Context) error { return q.batches.Shutdown(ctx) }

// ForceFlush exports the spans that wait.
func (q *queue) ForceFlush(ctx context.Context) error { return q.batches.ForceFlush(ctx) }

// reporting is an exporter that reports the spans that it could not send.
type reporting struct {
	sdk.SpanExporter
	queue *queue
}

// ExportSpans sends spans. It returns no error, because losses has logged it.
func (r reporting) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	defer r.queue.waiting.Add(-int64(len(spans)))
	if err := r.SpanExporter.ExportSpans(ctx, spans); err != nil {
		r.queue.losses.add(len(spans), err)
	}
	return nil
}
