package e2e_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/pgtest"
	"github.com/hookladder/hookladder/dispatcher/outbox"
)

// BenchmarkOutbox has the real program relay 50,000 rows with bodies of 1 KiB, and deliver
// none, on a PostgreSQL that waits for its disk. Of each order there are two rows.
func BenchmarkOutbox(b *testing.B) {
	const rows = 50_000
	w := newWorld(b)
	server := pgtest.Start(b, pgtest.Options{Fsync: true})
	server.Exec(outbox.Schema())
	conn, err := pgx.Connect(context.Background(), server.URL())
	require.NoError(b, err)
	b.Cleanup(func() { _ = conn.Close(context.Background()) })
	for b.Loop() {
		b.StopTimer()
		mustSQL(b, conn, `truncate hookladder_outbox`)
		mustSQL(b, conn, `insert into hookladder_outbox (id, message, body)
select hookladder_id(), jsonb_build_object('topic', 'order.paid', 'url', $1::text, 'ordering_key', 'order-' || n / 2),
	convert_to(to_json(repeat('x', 1022))::text, 'UTF8') from generate_series(1, $2) as n`, w.receiver.URL(0), rows)
		mustSQL(b, conn, `vacuum analyze hookladder_outbox`)
		i := w.serve("MAX_IN_FLIGHT=0", "LOG_LEVEL=info", "OUTBOX_URL="+server.URL())
		b.StartTimer()
		began := time.Now()
		eventually(b, "all is relayed", func() bool { return mustNumber(b, conn, `select count(*) from hookladder_outbox`) == 0 })
		b.ReportMetric(rows/time.Since(began).Seconds(), "rows/s")
		b.StopTimer()
		require.Zero(b, i.stop())
		require.Equal(b, int64(rows), w.rdb.HLen(context.Background(), "{default:0}:messages").Val())
		require.NoError(b, w.rdb.FlushAll(context.Background()).Err())
		b.StartTimer()
	}
}
