package otlp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	sdk "go.opentelemetry.io/otel/sdk/trace"

	"github.com/hookladder/hookladder/cmd/hookladder/internal/otlp"
	"github.com/hookladder/hookladder/cmd/hookladder/internal/settings"
)

// queued and batched are the limits of these tests: spans that wait, and spans of one export.
const queued, batched = 8, 4

// collector is an exporter to a collector that answers after a call of answer.
type collector struct {
	answers context.Context // ended: it answers
	answer  context.CancelFunc
	got     int // spans that it accepted
}

// ExportSpans waits for an answer.
func (c *collector) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	select {
	case <-c.answers.Done():
		c.got += len(spans)
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Shutdown has nothing to do.
func (*collector) Shutdown(context.Context) error { return nil }

// lines are the numbers of spans in the warnings of a log, by message.
func lines(t *testing.T, log *bytes.Buffer) (messages []string, spans []int) {
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

// open returns a provider for a collector that does not answer yet, and its log.
func open(t *testing.T) (*otlp.Provider, *collector, *bytes.Buffer) {
	t.Helper()
	c, log := &collector{}, &bytes.Buffer{}
	c.answers, c.answer = context.WithCancel(t.Context())
	p := otlp.Provide(c, settings.Traces{Queue: queued, Batch: batched, Delay: time.Second, Export: time.Hour}, "1.2.3",
		slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn})))
	t.Cleanup(func() { p.Close(context.Background()) })
	return p, c, log
}

// end ends spans.
func end(p *otlp.Provider, spans int) {
	for range spans {
		_, s := p.Tracer("test").Start(context.Background(), "attempt")
		s.End()
	}
}

const (
	continues = "traces are not sent; deliveries continue"
	atTheEnd  = "traces were not sent"
)

func TestACollectorThatDoesNotAnswerGetsNoMoreSpansThanTheQueueHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, c, log := open(t)
		for range 10 {
			end(p, queued)
			synctest.Wait()
		}
		require.EqualValues(t, 9*queued, p.Dropped())
		messages, spans := lines(t, log)
		require.Equal(t, []string{continues}, messages, "the next line is due in a minute")
		require.Equal(t, []int{1}, spans)

		c.answer()
		p.Close(t.Context())
		require.Equal(t, queued, c.got, "it kept no more")
		require.EqualValues(t, 9*queued, p.Dropped())
		messages, spans = lines(t, log)
		require.Equal(t, []string{continues, atTheEnd}, messages)
		require.Equal(t, []int{1, 9*queued - 1}, spans)
	})
}

func TestACollectorThatIsBackGetsWhatFitsIntoTheQueueAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, c, _ := open(t)
		end(p, 2*queued)
		c.answer()
		time.Sleep(2 * time.Second) // simulated
		synctest.Wait()
		require.Equal(t, queued, c.got)
		end(p, queued)
		p.Close(t.Context())
		require.Equal(t, 2*queued, c.got)
		require.EqualValues(t, queued, p.Dropped())
	})
}

func TestAStopWaitsForACollectorForItsOwnTimeOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _, log := open(t)
		end(p, queued)
		synctest.Wait()
		began := time.Now()
		p.Close(t.Context())
		require.Equal(t, 5*time.Second, time.Since(began))
		require.EqualValues(t, queued, p.Dropped(), "the spans that waited are lost")
		_, spans := lines(t, log)
		require.Equal(t, []int{queued}, spans)
		time.Sleep(3 * time.Hour) // simulated; its exports end
		require.EqualValues(t, queued, p.Dropped(), "they are counted once")
	})
}
