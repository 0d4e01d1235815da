package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/pgtest"
	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher/outbox"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// writers publish in transactions of their own, each with an ordering key, one after the
// other. Every fifth transaction is rolled back.
type writers struct {
	w     *world
	url   string
	stop  chan struct{}
	done  sync.WaitGroup
	count atomic.Int64

	mu        sync.Mutex // guards what follows
	committed [][]string // ids by writer, in their order
}

func startWriters(w *world, n int, url string) *writers {
	ws := &writers{w: w, url: url, stop: make(chan struct{}), committed: make([][]string, n)}
	for i := range n {
		ws.done.Go(func() { ws.run(i) })
	}
	return ws
}

func (ws *writers) run(writer int) {
	var conn *pgx.Conn
	for n := 0; ; n++ {
		select {
		case <-ws.stop:
			if conn != nil {
				_ = conn.Close(context.Background())
			}
			return
		case <-time.After(often):
		}
		if conn == nil || conn.IsClosed() {
			var err error
			if conn, err = pgx.Connect(context.Background(), ws.url); err != nil {
				continue // it is restarted
			}
		}
		id := fmt.Sprintf("w%d-%06d", writer, n)
		m := &wire.Message{ID: id, Topic: "t", URL: ws.w.receiver.URL(0) + fmt.Sprint("/w", writer), OrderingKey: fmt.Sprint("w", writer), Body: json.RawMessage(fmt.Sprintf(`{"n": %d}`, n))}
		if n%5 == 4 {
			ws.rollBack(conn, m)
			continue
		}
		ws.w.receiver.expect(id, m)
		if ws.commit(conn, m) {
			ws.count.Add(1)
			ws.mu.Lock()
			ws.committed[writer] = append(ws.committed[writer], id)
			ws.mu.Unlock()
		}
	}
}

// rollBack publishes what must never arrive: the receiver does not expect it.
func (ws *writers) rollBack(conn *pgx.Conn, m *wire.Message) {
	tx, err := conn.Begin(context.Background())
	if err == nil {
		_, _ = outbox.Publish(context.Background(), tx, m)
		_ = tx.Rollback(context.Background())
	}
}

// commit reports whether PostgreSQL confirmed it. What it did not may have been committed.
func (ws *writers) commit(conn *pgx.Conn, m *wire.Message) bool {
	tx, err := conn.Begin(context.Background())
	if err != nil {
		return false
	}
	if _, err := outbox.Publish(context.Background(), tx, m); err != nil {
		_ = tx.Rollback(context.Background())
		return false
	}
	return tx.Commit(context.Background()) == nil
}

// end answers what was committed, by writer.
func (ws *writers) end() [][]string {
	close(ws.stop)
	ws.done.Wait()
	return ws.committed
}

// arrivedInOrder waits until all that was committed has arrived, and has come once and in its order.
func (ws *writers) arrivedInOrder() {
	t := ws.w.t
	t.Helper()
	all := 0
	for writer, ids := range ws.end() {
		require.NotEmpty(t, ids)
		ws.w.receiver.waitAll(ids...)
		came := ws.w.receiver.at(fmt.Sprint("/w", writer))
		require.True(t, slices.IsSorted(came), "those of writer %d came out of order: %v", writer, came)
		all += len(ids)
	}
	ws.w.receiver.once()
	t.Log(all, "were committed")
}

// newOutbox is the database of a caller.
func newOutbox(t testing.TB) (url string, conn *pgx.Conn) {
	t.Helper()
	redistest.Long(t)
	url = pgtest.New(t)
	conn, err := pgx.Connect(context.Background(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	mustSQL(t, conn, outbox.Schema())
	return url, conn
}

func mustSQL(t testing.TB, conn *pgx.Conn, query string, args ...any) {
	t.Helper()
	_, err := conn.Exec(context.Background(), query, args...)
	require.NoError(t, err)
}

func mustNumber(t testing.TB, conn *pgx.Conn, query string) (n int) {
	t.Helper()
	require.NoError(t, conn.QueryRow(context.Background(), query).Scan(&n))
	return n
}

// drained waits until no row is left. A relay removes rows behind their acceptance, by when their
// messages may have arrived.
func (w *world) drained(conn *pgx.Conn) {
	w.t.Helper()
	eventually(w.t, "no row is left", func() bool { return mustNumber(w.t, conn, `select count(*) from hookladder_outbox`) == 0 })
}

// Relays die, each somewhere between a commit and the acceptance of what was
// committed: none is missing, and none comes twice. The instance that delivers stays, so that
// what comes twice was accepted twice.
func TestKilledRelaysLoseAndDoubleNothing(t *testing.T) {
	t.Parallel()
	url, _ := newOutbox(t)
	w := newWorld(t, "appendfsync always")
	w.serve("LOG_LEVEL=info", "GUARD_INTERVAL=1s")
	ws := startWriters(w, 4, url)
	seed := rand.Uint64()
	t.Log("seed", seed)
	const relays, deaths = 4, 2
	var killed sync.WaitGroup
	for n := range relays {
		random := rand.New(rand.NewPCG(seed, uint64(n)))
		killed.Go(func() {
			for range deaths {
				i := w.begin("MAX_IN_FLIGHT=0", "OUTBOX_URL="+url, "LOG_LEVEL=info")
				i.says(`"msg":"started"`)
				_, before := w.receiver.ids()
				w.receiver.until("something is relayed", func() bool {
					_, now := w.receiver.ids()
					return now > before
				})
				<-time.After(time.Duration(random.IntN(20)) * time.Millisecond) // anywhere in a batch
				i.Kill()
			}
		})
	}
	killed.Wait()
	w.serve("MAX_IN_FLIGHT=0", "OUTBOX_URL="+url)
	ws.arrivedInOrder()
}

func TestTwoRelaysKeepTheOrderOfAKey(t *testing.T) {
	t.Parallel()
	url, conn := newOutbox(t)
	w := newWorld(t)
	relays := w.serves(2, "OUTBOX_URL="+url, "PARTITIONS=4")
	ws := startWriters(w, 4, url)
	eventually(t, "many are committed", func() bool { return ws.count.Load() > 150 })
	relays[0].stop()
	eventually(t, "more are committed", func() bool { return ws.count.Load() > 250 })
	ws.arrivedInOrder()
	w.drained(conn)
	require.Contains(t, relays[1].metrics(), "hookladder_outbox_up 1")
	require.Contains(t, relays[1].metrics(), `hookladder_outbox_relayed_total{result="accepted"}`)
}

// Six writers, and two instances with their relays and archives, share three connections of a
// transaction pooler.
func TestOutboxAndArchiveWorkBehindATransactionPooler(t *testing.T) {
	t.Parallel()
	url, conn := newOutbox(t)
	pooled := pgtest.Pool(t, url, 3)
	w := newWorld(t)
	relays := w.serves(2, append(archived(pooled), "OUTBOX_URL="+pooled, "PARTITIONS=4")...)
	ws := startWriters(w, 6, pooled+"&default_query_exec_mode=exec")
	eventually(t, "many are committed", func() bool { return ws.count.Load() > 150 })
	ws.arrivedInOrder()
	w.drained(conn)
	for _, i := range relays {
		require.NotContains(t, i.log(), "outbox lost")
		require.NotContains(t, i.log(), "archive lost")
	}
}

func TestAnOutboxThatIsAwayStopsNothing(t *testing.T) {
	t.Parallel()
	redistest.Long(t)
	server := pgtest.Start(t, pgtest.Options{})
	server.Stop()
	w := newWorld(t)
	i := w.serve("OUTBOX_URL=" + server.URL())
	i.troubled = true
	i.says(`"msg":"outbox lost`)
	i.send("over-http")
	w.receiver.wait("over-http", 1)
	require.Contains(t, i.metrics(), "hookladder_outbox_up 0")
	server.Restart()
	i.says(`hookladder outbox schema | psql`)
	server.Exec(outbox.Schema())
	i.says(`"msg":"outbox found"`)
	ws := startWriters(w, 2, server.URL())
	for n := range 4 {
		eventually(t, "more is committed", func() bool { return ws.count.Load() > int64(100*(n+1)) })
		if n%2 == 0 {
			server.Kill()
		}
		server.Restart()
	}
	eventually(t, "more is committed", func() bool { return ws.count.Load() > 250 })
	ws.arrivedInOrder()
	require.Zero(t, i.stop())
}

// A lane is full, so its rows wait, and later ones behind them, over many batches and two
// relays. Another lane gets what is published meanwhile under the same key.
func TestAFullLaneKeepsTheOrderOfItsRows(t *testing.T) {
	t.Parallel()
	url, conn := newOutbox(t)
	w := newWorld(t)
	barrier := newBarrier()
	w.receiver.answers(barrier.answer("slow-00"))
	i := w.serves(2, "OUTBOX_URL="+url, "ENDPOINT_MAX_WAITING=20")[0]
	i.endpoint("/slow", wire.Endpoint{UID: "slow", Secret: w.secret.Reveal()})
	i.endpoint("/quick", wire.Endpoint{UID: "quick", Secret: w.secret.Reveal()})
	put := func(uid string, n int) string {
		m := &wire.Message{ID: fmt.Sprintf("%s-%02d", uid, n), Topic: "t", Endpoint: uid, OrderingKey: "k", Body: json.RawMessage(`1`)}
		w.receiver.expect(m.ID, m)
		id, err := outbox.Publish(t.Context(), conn, m)
		require.NoError(t, err)
		return id
	}
	var slow []string
	for n := range 30 {
		slow = append(slow, put("slow", n))
	}
	eventually(t, "the lane is full", func() bool {
		return mustNumber(t, conn, `select count(*) from hookladder_outbox where retry_at is not null`) > 0
	})
	for n := range 30 {
		slow = append(slow, put("slow", 30+n))
		w.receiver.wait(put("quick", n), 1)
	}
	close(barrier.release)
	w.receiver.waitAll(slow...)
	require.Equal(t, slow, w.receiver.at("/slow"))
	w.receiver.once()
}

// A process that runs now and then relays what the outbox has before it ends.
func TestATickRelaysWhatIsCommitted(t *testing.T) {
	t.Parallel()
	url, conn := newOutbox(t)
	w := newWorld(t)
	for n := range 30 {
		m := &wire.Message{ID: fmt.Sprint("m", n), Topic: "t", URL: w.receiver.URL(0), Body: json.RawMessage(`1`)}
		w.receiver.expect(m.ID, m)
		_, err := outbox.Publish(t.Context(), conn, m)
		require.NoError(t, err)
	}
	tick := w.tick("OUTBOX_URL=" + url)
	require.Equal(t, int64(30), int64(tick.Delivered))
	w.receiver.once()
	require.Zero(t, mustNumber(t, conn, `select count(*) from hookladder_outbox`))
}
