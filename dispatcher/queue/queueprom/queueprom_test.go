package queueprom_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/queue"
	"github.com/hookladder/hookladder/dispatcher/queue/queueprom"
	"github.com/hookladder/hookladder/dispatcher/queue/queuetest"
)

// gather returns all values by their names, without the prefix, and the values of their labels. Of a
// histogram it returns the count.
func gather(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	require.NoError(t, err)
	found := map[string]float64{}
	for _, f := range families {
		require.NotEmpty(t, f.GetHelp())
		name, ok := strings.CutPrefix(f.GetName(), "hookladder_queue_")
		require.True(t, ok, f.GetName())
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() { // sorted by name: outcome, queue
				labels = append(labels, l.GetValue())
			}
			value := m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
			found[name+"{"+strings.Join(labels, ",")+"}"] = value
		}
	}
	return found
}

func TestTheMetricsOfAProgramAreItsCallsAndTheCountsOfRedis(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queuetest.Open(t, queue.Options{Log: slog.New(slog.DiscardHandler)})
		results := map[string]func() error{
			"good":    func() error { return nil },
			"wrong":   func() error { return errors.New("no") },
			"skipped": func() error { return queue.SkipRetry(errors.New("no")) },
			"snoozed": func() error { return queue.Snooze(time.Hour) },
			"panics":  func() error { panic("no") },
		}
		q.Handle("mail", func(_ context.Context, d queue.Delivery) error { return results[d.MessageID]() })
		reg := prometheus.NewRegistry()
		require.NoError(t, queueprom.Register(reg, q, "mail", "bills"))
		require.Error(t, queueprom.Register(reg, q), "it is registered already")
		queuetest.Run(t, q)
		for id := range results {
			_, err := q.Publish(t.Context(), queue.Task{ID: id, Queue: "mail", Topic: "mail"})
			require.NoError(t, err)
		}
		_, err := q.Publish(t.Context(), queue.Task{Queue: "bills", Topic: "bill"})
		require.NoError(t, err)
		require.NoError(t, q.Pause(t.Context(), "bills"))
		queuetest.Advance(time.Second)
		require.Equal(t, map[string]float64{
			`handled_total{error,mail}`: 1, `handled_total{ok,mail}`: 1, `handled_total{panic,mail}`: 1, `handled_total{skipped,mail}`: 1, `handled_total{snoozed,mail}`: 1,
			`handler_seconds{mail}`: 5, `up{}`: 1,
			`dead{bills}`: 0, `in_flight{bills}`: 0, `paused{bills}`: 1, `waiting{bills}`: 1,
			`dead{mail}`: 1, `in_flight{mail}`: 0, `paused{mail}`: 0, `waiting{mail}`: 3,
		}, gather(t, reg))
		require.NoError(t, q.Resume(t.Context(), "bills"))
	})
}

// Without them, each scrape would fail, and nobody would know why.
func TestWrongArgumentsAreErrorsAndRegisterNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queuetest.Open(t, queue.Options{Log: slog.New(slog.DiscardHandler)})
		reg := prometheus.NewRegistry()
		require.EqualError(t, queueprom.Register(nil, q), "register the metrics of a queue: the registerer is nil")
		require.ErrorIs(t, queueprom.Register(reg, nil), queue.ErrUnopened)
		require.ErrorIs(t, queueprom.Register(reg, &queue.Queue{}), queue.ErrUnopened)
		require.EqualError(t, queueprom.Register(reg, q, "mail", "a b"), `register the metrics of a queue: invalid: "a b" is no name of a queue`)
		require.ErrorIs(t, queueprom.Register(reg, q, make([]string, 257)...), queue.ErrInvalid)
		require.Empty(t, gather(t, reg))
		require.NoError(t, q.Close())
		require.ErrorIs(t, queueprom.Register(reg, q), queue.ErrClosed)
	})
}

func TestAScrapeWithoutRedisSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queuetest.Open(t, queue.Options{Log: slog.New(slog.DiscardHandler)})
		reg := prometheus.NewRegistry()
		require.NoError(t, queueprom.Register(reg, q))
		require.NoError(t, q.Close())
		require.Equal(t, map[string]float64{`up{}`: 0}, gather(t, reg))
	})
}
