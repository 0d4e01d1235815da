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

// Limits of a lookup. The caller waits and has the store's result already, so a lookup must
// fail fast.
const (
	readers      = 4                      // connections; the writer has its own
	queryTimeout = 800 * time.Millisecond // timeout of one query, including the connection
	restTime     = 3 * time.Second        // without queries after a failure
	freshFor     = 5 * time.Second        // how long Since is cached
)

// Reader queries an archive through a connection pool. It connects on demand. Its methods
// may be called from several goroutines.
type Reader struct {
	pool    *pgxpool.Pool
	schema  schema
	breaker breaker

	timeout time.Duration

	mu          sync.Mutex // guards since and sinceReadAt
	since       time.Time
	sinceReadAt time.Time // when since was read; zero: never
}

var _ archive.Finder = (*Reader)(nil)

// OpenReader prepares a reader. It does not connect. It returns an error if the options are
// invalid.
func OpenReader(o Options) (*Reader, error) {
	conn, err := configOf(o.URL, archiveName)
	if err != nil {
		return nil, err
	}
	config, err := pgxpool.ParseConfig("")
	if err != nil {
		return nil, fmt.Errorf("archive: %w", err)
	}
	config.ConnConfig, config.MaxConns, config.MinConns = conn, readers, 0
	config.MaxConnIdleTime = 5 * time.Minute // lookups often come in series
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return nil, fmt.Errorf("archive: %w", err)
	}
	return &Reader{pool: pool, schema: schemaOf(o.Project), timeout: cmp.Or(o.QueryTimeout, queryTimeout)}, nil
}

// Close closes all connections.
func (r *Reader) Close() { r.pool.Close() }

// beginSnapshot begins a read-only transaction with one snapshot. It limits the time of a
// statement and of an idle transaction.
const beginSnapshot = `begin isolation level repeatable read read only;
set local statement_timeout = '%dms';
set local idle_in_transaction_session_timeout = '%dms'`

// query runs queries in one transaction, and fails fast if the breaker is open.
func (r *Reader) query(ctx context.Context, verb string, do func(context.Context, *session) error) error {
	if !r.breaker.enter() {
		return fmt.Errorf("%s: %w: the last query failed a moment ago", verb, archive.ErrUnavailable)
	}
	short, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	err := r.inSnapshot(short, r.timeout, do)
	r.breaker.leave(err == nil || ctx.Err() != nil || noTables(err)) // a canceled caller is no failure of the archive
	if err == nil {
		return nil
	}
	return fault(verb, err)
}

// inSnapshot runs queries in one transaction. most limits the time of each statement.
func (r *Reader) inSnapshot(ctx context.Context, most time.Duration, do func(context.Context, *session) error) error {
	return r.pool.AcquireFunc(ctx, func(c *pgxpool.Conn) error {
		conn := c.Conn()
		s := &session{conn: conn, schema: r.schema}
		if _, err := conn.PgConn().Exec(ctx, fmt.Sprintf(beginSnapshot, most.Milliseconds(), most.Milliseconds())).ReadAll(); err != nil {
			return err
		}
		if err := do(ctx, s); err != nil {
			_ = s.rollback(ctx) // the pool closes a connection that is still in a transaction
			return err
		}
		return s.exec(ctx, "commit")
	})
}

// Version returns the number of migrations that the tables have; 0: there are no tables.
func (r *Reader) Version(ctx context.Context) (version int, err error) {
	err = r.query(ctx, "read the version of the tables", func(ctx context.Context, s *session) (err error) {
		version, err = s.version(ctx)
		return err
	})
	if noTables(err) {
		return 0, nil
	}
	return version, err
}

// Since returns the time from which the archive is complete: all partitions are archived,
// without a gap, and no month is dropped.
func (r *Reader) Since(ctx context.Context) (time.Time, error) {
	r.mu.Lock()
	since, fresh := r.since, !r.sinceReadAt.IsZero() && time.Since(r.sinceReadAt) < freshFor
	r.mu.Unlock()
	if fresh && r.breaker.closed() {
		return since, nil
	}
	err := r.query(ctx, "read since when the archive is complete", func(ctx context.Context, s *session) error {
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
	r.since, r.sinceReadAt = since, time.Now()
	r.mu.Unlock()
	return since, nil
}

// breaker is a circuit breaker. After a failure it rejects queries for restTime, and then
// lets one through as a probe.
type breaker struct {
	mu      sync.Mutex
	failed  time.Time // zero: the last query succeeded
	probing bool
}

// enter reports whether a query may run.
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

// leave records the result of a query.
func (b *breaker) leave(ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.probing, b.failed = false, time.Time{}
	if !ok {
		b.failed = time.Now()
	}
}

// closed reports whether the last query succeeded.
func (b *breaker) closed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failed.IsZero()
}
