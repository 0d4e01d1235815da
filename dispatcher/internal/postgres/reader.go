package postgres

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/hookladder/hookladder/dispatcher/archive"
)

// Bounds of looking up. A caller waits, and has the store's answer already: so it is
// told soon that the archive does not answer.
const (
	readers  = 4                      // connections: the archive's writer has one of its own
	lookTime = 800 * time.Millisecond // of one look-up, its connection included
	restTime = 3 * time.Second        // in which nothing is asked after a failure
	freshFor = 5 * time.Second        // Since is not asked again
)

// Reader looks up what an archive keeps, over connections of its own, which are opened
// when they are needed. Its methods may be called from several goroutines.
type Reader struct {
	pool    *pgxpool.Pool
	schema  schema
	breaker breaker

	lookTime time.Duration

	mu    sync.Mutex // guards since and asked
	since time.Time
	asked time.Time // when since was read; zero: it was not
}

var _ archive.Finder = (*Reader)(nil)

// OpenReader prepares a reader, and connects to nothing. It fails where the options
// can't be used.
func OpenReader(o Options) (*Reader, error) {
	conn, err := parse(o.URL)
	if err != nil {
		return nil, err
	}
	config, err := pgxpool.ParseConfig("")
	if err != nil {
		return nil, fmt.Errorf("archive: %w", err)
	}
	config.ConnConfig, config.MaxConns, config.MinConns = conn, readers, 0
	config.MaxConnIdleTime = 5 * time.Minute // most look-ups come in series
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return nil, fmt.Errorf("archive: %w", err)
	}
	return &Reader{pool: pool, schema: schemaOf(o.Project), lookTime: cmp.Or(o.LookTime, lookTime)}, nil
}

// Close ends all connections.
func (r *Reader) Close() { r.pool.Close() }

// looking begins a transaction that sees one state of the archive, and ends by itself
// where nothing more is heard of it.
const looking = `begin isolation level repeatable read read only;
set local statement_timeout = '%dms';
set local idle_in_transaction_session_timeout = '%dms'`

// look reads in one transaction, soon or not at all.
func (r *Reader) look(ctx context.Context, verb string, do func(context.Context, *session) error) error {
	if !r.breaker.enter() {
		return fmt.Errorf("%s: %w: it did not answer a moment ago", verb, archive.ErrUnavailable)
	}
	short, cancel := context.WithTimeout(ctx, r.lookTime)
	defer cancel()
	err := r.inSnapshot(short, r.lookTime, do)
	r.breaker.leave(err == nil || ctx.Err() != nil || noTables(err)) // a caller that left says nothing of the archive
	if err == nil {
		return nil
	}
	return fault(verb, err)
}

// inSnapshot reads in one transaction. Statements may take so long.
func (r *Reader) inSnapshot(ctx context.Context, most time.Duration, do func(context.Context, *session) error) error {
	return r.pool.AcquireFunc(ctx, func(c *pgxpool.Conn) error {
		conn := c.Conn()
		s := &session{conn: conn, schema: r.schema}
		if _, err := conn.PgConn().Exec(ctx, fmt.Sprintf(looking, most.Milliseconds(), most.Milliseconds())).ReadAll(); err != nil {
			return err
		}
		if err := do(ctx, s); err != nil {
			_ = s.rollback(ctx) // the pool drops a connection that is in a transaction still
			return err
		}
		return s.exec(ctx, "commit")
	})
}

// Since is from when on the archive is whole: since all partitions of the store are
// archived, without a gap, and no month of it was dropped.
func (r *Reader) Since(ctx context.Context) (time.Time, error) {
	r.mu.Lock()
	since, fresh := r.since, !r.asked.IsZero() && time.Since(r.asked) < freshFor
	r.mu.Unlock()
	if fresh && r.breaker.closed() {
		return since, nil
	}
	err := r.look(ctx, "read since when the archive is whole", func(ctx context.Context, s *session) error {
		err := s.conn.QueryRow(ctx, r.schema.sql(`
			select coalesce(max(greatest(began, to_timestamp(greatest(walk_ms, gap_ms, 0) / 1000.0))), now())
			from hookladder.position where partition >= 0`)).Scan(&since)
		if err == nil {
			err = s.readMonths(ctx)
		}
		if err != nil {
			return err
		}
		if since = since.UTC(); s.months[0].first().After(since) {
			since = s.months[0].first()
		}
		return nil
	})
	if err != nil {
		return time.Time{}, err
	}
	r.mu.Lock()
	r.since, r.asked = since, time.Now()
	r.mu.Unlock()
	return since, nil
}

// breaker keeps callers from waiting for an archive that does not answer: after a failure
// none asks for a while, and then one does.
type breaker struct {
	mu      sync.Mutex
	failed  time.Time // zero: the last look-up was answered
	probing bool
}

// enter reports whether the archive may be asked.
func (b *breaker) enter() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failed.IsZero() {
		return true
	}
	if b.probing || time.Since(b.failed) < restTime {
		return false
	}
	b.probing = true
	return true
}

// leave takes in what became of a look-up.
func (b *breaker) leave(ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.probing, b.failed = false, time.Time{}
	if !ok {
		b.failed = time.Now()
	}
}

// closed reports whether the last look-up was answered.
func (b *breaker) closed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failed.IsZero()
}
