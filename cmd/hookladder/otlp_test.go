package main

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/hookladder/hookladder/cmd/hookladder/internal/settings"
)

// queuedSpans and batched are the limits of these tests: spans that wait, and spans of one export.
const queuedSpans, batched = 8, 4

// spanCollector is an exporter to a collector that answers after a call of answer.
type spanCollector struct {
	answers context.Context // ended: it answers
	answer  context.CancelFunc
	got     int // spans that it accepted
}

// ExportSpans waits for an answer.
func (c *spanCollector) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	select {
	case <-c.answers.Done():
		c.got += len(spans)
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Shutdown has nothing to do.
func (*spanCollector) Shutdown(context.Context) error { return nil }

// logLines are the numbers of spans in the warnings of a log, by message.
func logLines(t *testing.T, log *bytes.Buffer) (messages []string, spans []int) {
	t.Helper()
	for d := json.NewDecoder(bytes.NewReader(log.Bytes())); d.More(); {
		var line struct {
			Msg   string
			Spans int
		}
		require.NoError(t, d.Decode(&line))
		messages, spans = append(messages, line.Msg), append(spans, line.Spans)
	}
	return messages, spans
}

// openTestTraces returns a provider for a collector that does not answer yet, and its log.
func openTestTraces(t *testing.T) (*traceProvider, *spanCollector, *bytes.Buffer) {
	t.Helper()
	c, log := &spanCollector{}, &bytes.Buffer{}
	c.answers, c.answer = context.WithCancel(t.Context())
	t.Setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", strconv.Itoa(batched))
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "1000")
	t.Setenv("OTEL_BSP_EXPORT_TIMEOUT", "3600000")
	p := provideTraces(t.Context(), c, settings.Traces{Queue: queuedSpans}, "1.2.3",
		slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn})))
	t.Cleanup(func() { p.Close(context.Background()) })
	return p, c, log
}

// endSpans ends spans.
func endSpans(p *traceProvider, spans int) {
	for range spans {
		_, s := p.Tracer("test").Start(context.Background(), "attempt")
		s.End()
	}
}

const (
	continues      = "traces are not sent; deliveries continue"
	lossesAtTheEnd = "traces were not sent"
)

func TestACollectorThatDoesNotAnswerGetsNoMoreSpansThanTheQueueHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, c, log := openTestTraces(t)
		for range 10 {
			endSpans(p, queuedSpans)
			synctest.Wait()
		}
		require.EqualValues(t, 9*queuedSpans, p.Dropped())
		messages, spans := logLines(t, log)
		require.Equal(t, []string{continues}, messages, "the next line is due in a minute")
		require.Equal(t, []int{1}, spans)

		c.answer()
		p.Close(t.Context())
		require.Equal(t, queuedSpans, c.got, "it kept no more")
		require.EqualValues(t, 9*queuedSpans, p.Dropped())
		messages, spans = logLines(t, log)
		require.Equal(t, []string{continues, lossesAtTheEnd}, messages)
		require.Equal(t, []int{1, 9*queuedSpans - 1}, spans)
	})
}

func TestACollectorThatIsBackGetsWhatFitsIntoTheQueueAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, c, _ := openTestTraces(t)
		endSpans(p, 2*queuedSpans)
		c.answer()
		time.Sleep(2 * time.Second) // simulated
		synctest.Wait()
		require.Equal(t, queuedSpans, c.got)
		endSpans(p, queuedSpans)
		p.Close(t.Context())
		require.Equal(t, 2*queuedSpans, c.got)
		require.EqualValues(t, queuedSpans, p.Dropped())
	})
}

func TestAStopWaitsForACollectorForItsOwnTimeOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _, log := openTestTraces(t)
		endSpans(p, queuedSpans)
		synctest.Wait()
		began := time.Now()
		p.Close(t.Context())
		require.Equal(t, 5*time.Second, time.Since(began))
		require.EqualValues(t, queuedSpans, p.Dropped(), "the spans that waited are lost")
		_, spans := logLines(t, log)
		require.Equal(t, []int{queuedSpans}, spans)
		time.Sleep(3 * time.Hour) // simulated; its exports end
		require.EqualValues(t, queuedSpans, p.Dropped(), "they are counted once")
	})
}

func TestTheStandardVariablesNameTheProcess(t *testing.T) {
	for name, c := range map[string]struct {
		environ map[string]string
		want    map[string]string
	}{
		"nothing is set": {nil, map[string]string{"service.name": "hookladder", "service.version": "1.2.3"}},
		"both are set": {
			map[string]string{"OTEL_SERVICE_NAME": "hooks", "OTEL_RESOURCE_ATTRIBUTES": "service.name=other,team=a%20b"},
			map[string]string{"service.name": "hooks", "team": "a b"},
		},
		"a part is wrong": {map[string]string{"OTEL_RESOURCE_ATTRIBUTES": "odd,team=a"}, map[string]string{"service.name": "hookladder", "team": "a"}},
	} {
		t.Run(name, func(t *testing.T) {
			for variable, value := range c.environ {
				t.Setenv(variable, value)
			}
			exported := tracetest.NewInMemoryExporter()
			p := provideTraces(t.Context(), exported, settings.Traces{Queue: queuedSpans}, "1.2.3", slog.New(slog.DiscardHandler))
			endSpans(p, 1)
			require.NoError(t, p.ForceFlush(t.Context()))
			spans := exported.GetSpans()
			p.Close(t.Context())
			require.Len(t, spans, 1)
			for key, want := range c.want {
				value, ok := spans[0].Resource.Set().Value(attribute.Key(key))
				require.True(t, ok, key)
				require.Equal(t, want, value.AsString(), key)
			}
		})
	}
}
