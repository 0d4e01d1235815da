package chaos_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/deploy/kit/pgtest"
	"github.com/hookladder/hookladder/dispatcher/outbox"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// poolerKilled is the fault of the PgBouncer before the outbox. Rows wait meanwhile, so it explains no duplicate.
const poolerKilled = "pooler killed"

// box is an outbox. Callers and instances reach it through a PgBouncer only.
type box struct {
	straight  *pgxpool.Pool // its database, past the PgBouncer
	pooler    *pgtest.Pooler
	committed atomic.Int64 // messages
}

// poolSize is less than callers and instances need at once, so that they share connections.
const poolSize = 8

func newBox(t testing.TB) *box {
	t.Helper()
	url := pgtest.New(t)
	pool, err := pgxpool.New(context.WithoutCancel(t.Context()), url+"&pool_max_conns=4") // each message that waits asks it
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	b := &box{straight: pool}
	_, err = pool.Exec(t.Context(), outbox.Schema())
	require.NoError(t, err)
	b.pooler = pgtest.StartPooler(t, url, poolSize)
	return b
}

func (b *box) env() []string { return []string{"OUTBOX_URL=" + b.pooler.URL()} }

// commit publishes a message in a transaction. After an error it may be committed all the same.
func (b *box) commit(ctx context.Context, m *wire.Message) error {
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	c, err := pgx.Connect(ctx, b.pooler.URL()+"&default_query_exec_mode=exec")
	if err != nil {
		return err
	}
	defer c.Close(ctx) //nolint:errcheck // the commit was answered, or not
	return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
		_, err := outbox.Publish(ctx, tx, m)
		return err
	})
}

// relayed waits until no row of a message waits for the relay any more, or none at all if id is empty.
func (b *box) relayed(ctx context.Context, id string) error {
	return kit.Until(ctx, "the outbox is relayed", func() error {
		var left int
		err := b.straight.QueryRow(ctx, "select count(*) from hookladder_outbox where $1 in ('', id)", id).Scan(&left)
		if err == nil && left > 0 {
			err = fmt.Errorf("%d rows wait", left)
		}
		return err
	})
}

// commit publishes a message through the outbox until it is committed, or given up. From the commit on it
// must not get lost. The try ends when the row has left PostgreSQL: until then Redis can't lose it, and after
// that it has been accepted there.
func (c *caller) commit(ctx context.Context, m *message, w *wire.Message) {
	for began := time.Now(); time.Since(began) < givesUp; kit.Rest(ctx, between(c.random, 50*time.Millisecond, 400*time.Millisecond)) {
		t := try{began: time.Now()}
		err := c.outbox.commit(ctx, w)
		if err == nil {
			c.outbox.committed.Add(1)
			t.acceptance, t.words = accepted, "committed"
			if err := c.outbox.relayed(ctx, m.id); err != nil {
				c.fleet.t.Errorf("%s: %v", m.id, err)
			}
		} else {
			t.words = "not committed: " + err.Error()
		}
		t.ended = time.Now()
		c.h.tried(m, t)
		if t.acceptance == accepted {
			return
		}
	}
}

// pooling breaks the way to the outbox.
type pooling struct {
	*trouble
	box *box
}

func (b *pooling) kill(ctx context.Context, random *rand.Rand) {
	defer b.begins(poolerKilled, "")()
	b.box.pooler.Kill()
	kit.Rest(ctx, between(random, 0, 6*time.Second))
	b.box.pooler.Restart()
}
