package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"

	"github.com/hookladder/hookladder/cmd/hookladder/internal/settings"
	"github.com/hookladder/hookladder/dispatcher/app"
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
// The SDK reads the standard variables from the environment of the process, and logs the values
// that it does not understand.
func openTraces(ctx context.Context, t settings.Traces, version string, log *slog.Logger) (*traceProvider, error) {
	otel.SetLogger(logr.FromSlogHandler(log.Handler()))
	for name, value := range t.Dotenv {
		if err := os.Setenv(name, value); err != nil {
			return nil, fmt.Errorf("pass %s of the .env file on: %w", name, err)
		}
	}
	var options []otlptracehttp.Option
	if t.Local {
		options = append(options, otlptracehttp.WithInsecure())
	}
	sender, err := otlptracehttp.New(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("open exporter of traces: %w", err)
	}
	return provideTraces(ctx, sender, t, version, log), nil
}

// provideTraces returns a traceProvider for an exporter.
func provideTraces(ctx context.Context, sender sdk.SpanExporter, t settings.Traces, version string, log *slog.Logger) *traceProvider {
	l := newSpanLosses(log)
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { l.add(0, err) }))
	q := &spanQueue{most: int64(t.Queue), losses: l}
	q.batches = sdk.NewBatchSpanProcessor(reportingExporter{sender, q}, sdk.WithMaxQueueSize(t.Queue))
	// The later ones win. One that can't be read is left out, and the others stay.
	process, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(attribute.String("service.name", "hookladder"),
		attribute.String("service.version", version), attribute.String("service.instance.id", rand.Text())), resource.WithFromEnv())
	if err != nil {
		log.Warn("attributes of traces are left out", "err", err.Error())
	}
	return &traceProvider{queue: q, TracerProvider: sdk.NewTracerProvider(sdk.WithSpanProcessor(q),
		sdk.WithRawSpanLimits(spanLimits), sdk.WithResource(process))}
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

// logLossesEvery is the least time between two lines about losses. A collector that is away loses spans
// all the time.
const logLossesEvery = time.Minute

var errSpansFull = errors.New("more spans ended than the collector takes: the queue is full (OTEL_BSP_MAX_QUEUE_SIZE)")

// spanLosses logs what could not be sent, at most once a minute, with the number of spans since the
// last line.
type spanLosses struct {
	log *slog.Logger

	mu    sync.Mutex // guards the fields below
	spans int        // lost and not logged
	all   int
	next  time.Time // of the next line
	ended bool      // later losses were counted by Close
}

func newSpanLosses(log *slog.Logger) *spanLosses { return &spanLosses{log: log} }

// lossCause returns a loss without the URL of the collector, which may have a token, and without the
// body of its response.
func lossCause(err error) error {
	text := app.Cause(err).Error()
	if before, _, found := strings.Cut(text, "failed to send to "); found {
		status := responsePattern.FindString(text)
		return errors.New(before + "the collector did not accept them: " + cmp.Or(status, "no status"))
	}
	return errors.New(text)
}

// responsePattern is the status in the text of the exporter.
var responsePattern = regexp.MustCompile(`: [1-5][0-9]{2}\b`)

// add counts lost spans, and logs the reason if the last line is old enough.
func (l *spanLosses) add(spans int, why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	l.spans += spans
	l.all += spans
	if now := time.Now(); !now.Before(l.next) {
		l.next = now.Add(logLossesEvery)
		l.log.Warn("traces are not sent; deliveries continue", "spans", l.spans, "err", lossCause(why).Error())
		l.spans = 0
	}
}

// dropped returns the number of spans that were lost so far.
func (l *spanLosses) dropped() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int64(l.all)
}

// end logs the spans that no line has named.
func (l *spanLosses) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	if l.spans > 0 {
		l.log.Warn("traces were not sent", "spans", l.spans, "in_all", l.all)
	}
}
