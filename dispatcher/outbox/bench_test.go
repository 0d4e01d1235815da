package outbox_test

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/pgtest"
	"github.com/hookladder/hookladder/dispatcher/outbox"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// BenchmarkPublish has 16 callers commit, each with one message, while the relay sleeps, so
// that they notify, and while it is awake; and with an insert that is nothing but that. Compare
// commits/s of interleaved runs.
func BenchmarkPublish(b *testing.B) {
	server := pgtest.Start(b, pgtest.Options{Fsync: true})
	server.Exec(outbox.Schema())
	m := &wire.Message{Topic: "order.paid", Endpoint: "shop-1", Body: json.RawMessage(`{"order":4711}`)}
	call := func(ctx context.Context, tx pgx.Tx) error {
		_, err := outbox.Publish(ctx, tx, m)
		return err
	}
	for _, way := range []struct {
		name, set string
		publish   func(context.Context, pgx.Tx) error
	}{
		{"awake", `update hookladder_relay set asleep = false`, call},
		{"asleep", `update hookladder_relay set asleep = true`, call},
		{"insert", `select 1`, func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `insert into hookladder_outbox (id, message, body) values ('x', '{"topic":"order.paid","endpoint":"shop-1"}', '{"order":4711}')`)
			return err
		}},
	} {
		b.Run(way.name, func(b *testing.B) {
			server.Exec(`truncate hookladder_outbox`, way.set)
			var left atomic.Int64
			left.Store(int64(b.N))
			var callers sync.WaitGroup
			for range 16 {
				conn, err := pgx.Connect(b.Context(), server.URL())
				require.NoError(b, err)
				defer conn.Close(context.Background()) //nolint:errcheck // it ends
				callers.Go(func() {
					for left.Add(-1) >= 0 {
						err := pgx.BeginFunc(b.Context(), conn, func(tx pgx.Tx) error { return way.publish(b.Context(), tx) })
						if err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			b.ResetTimer()
			callers.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
		})
	}
}
