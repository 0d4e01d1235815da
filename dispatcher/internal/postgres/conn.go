package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/hookladder/hookladder/dispatcher/archive"
)

// How a connection is made, and noticed as dead where nothing says so.
const (
	connectTime = 5 * time.Second
	keepAlive   = 5 * time.Second // between probes; three go unanswered
)

// parse reads a URL. Its errors do not repeat it, since it has a password.
func parse(text string) (*pgx.ConnConfig, error) {
	if u, err := url.Parse(text); err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return nil, errors.New("the archive's URL is not of the form postgres://user:password@host/database")
	}
	config, err := pgx.ParseConfig(text)
	if err != nil {
		return nil, errors.New("the archive's URL has a part that PostgreSQL does not know")
	}
	if config.ConnectTimeout == 0 || config.ConnectTimeout > connectTime {
		config.ConnectTimeout = connectTime
	}
	dialer := net.Dialer{
		Timeout:         connectTime,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: keepAlive, Interval: keepAlive, Count: 3},
	}
	config.DialFunc = dialer.DialContext
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "hookladder"
	}
	if config.ValidateConnect == nil { // of several hosts it is the one that takes writes
		config.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	if !strings.Contains(text, "default_query_exec_mode") {
		// Without prepared statements, which a pooler may hand to another connection.
		config.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	return config, nil
}

// session is a connection, and what is known of the tables by it.
type session struct {
	conn   *pgx.Conn
	schema schema
	log    *slog.Logger
	months months    // there are, for both tables
	read   time.Time // when that was

	orphans map[int]int64  // of partitions, as counted last
	epochs  map[int]string // at that time
	counted time.Time
}

func (a *Archive) dial(ctx context.Context) (*session, error) {
	conn, err := pgx.ConnectConfig(ctx, a.config)
	if err != nil {
		return nil, err
	}
	return &session{conn: conn, schema: a.schema, log: a.log}, nil
}

// oldest is the first version that detaches a month beside its readers.
const oldest = 14

// unfit is why a server of a version can't be used; nil: it can.
func unfit(version string) error {
	digits := version[:len(version)-len(strings.TrimLeft(version, "0123456789"))]
	if n, err := strconv.Atoi(digits); err != nil || n < oldest {
		return fmt.Errorf("PostgreSQL %d or later is needed, and the server is %q", oldest, version)
	}
	return nil
}

// begin brings the tables to this program's version, and reads which months there are.
func (s *session) begin(ctx context.Context) error {
	if err := unfit(s.conn.PgConn().ParameterStatus("server_version")); err != nil {
		return err
	}
	if err := s.migrate(ctx); err != nil {
		return err
	}
	err := s.makeMonths(ctx)
	if err != nil { // those that are there may do
		s.log.WarnContext(ctx, "no tables made for the months to come", "err", explain(err))
	}
	return s.readMonths(ctx)
}

// goodbye bounds the last words to a server.
const goodbye = time.Second

func (s *session) close() {
	ctx, cancel := context.WithTimeout(context.Background(), goodbye)
	defer cancel()
	_ = s.conn.Close(ctx) // there is nothing more to say
}

// opening begins a transaction. A statement that hangs ends, and so does a transaction
// of which nothing more is heard: it would keep its locks. What is confirmed is on the
// server's disk, whatever is usual there.
const opening = `begin;
set local statement_timeout = '30s';
set local lock_timeout = '10s';
set local idle_in_transaction_session_timeout = '60s';
select set_config('synchronous_commit', 'on', true) where current_setting('synchronous_commit') = 'off'`

// transaction does something as a whole, or not at all.
func (s *session) transaction(ctx context.Context, do func(context.Context, *session) error) error {
	if _, err := s.conn.PgConn().Exec(ctx, opening).ReadAll(); err != nil {
		return err
	}
	if err := do(ctx, s); err != nil {
		return err
	}
	tag, err := s.conn.Exec(ctx, "commit")
	if err == nil && tag.String() != "COMMIT" {
		err = errors.New("the server rolled back what it was told to commit")
	}
	return err
}

func (s *session) rollback(ctx context.Context) error {
	_, err := s.conn.Exec(ctx, "rollback")
	return err
}

func (s *session) exec(ctx context.Context, text string, values ...any) error {
	_, err := s.conn.Exec(ctx, s.schema.sql(text), values...)
	return err
}

// codeOf is the SQLSTATE of an error; empty: the server did not answer with one.
func codeOf(err error) string {
	var answer *pgconn.PgError
	if errors.As(err, &answer) {
		return answer.Code
	}
	return ""
}

// SQLSTATEs that are treated in a way of their own.
const (
	codeExists    = "42P07" // a table
	codeNoTable   = "42P01"
	codeNoSchema  = "3F000"
	codeForbidden = "42501"
	codeLocked    = "55P03" // by another
)

// noTables reports whether the tables are not there: no instance made them yet.
func noTables(err error) bool {
	code := codeOf(err)
	return code == codeNoTable || code == codeNoSchema
}

// ofData reports whether a row is at fault: it is of no known month, repeats another one,
// or has what its column does not take. Whatever else happens may pass.
func ofData(err error) bool {
	code := codeOf(err)
	return strings.HasPrefix(code, "22") || strings.HasPrefix(code, "23") || strings.HasPrefix(code, "54")
}

// fault is an error as callers get it.
func fault(verb string, err error) error {
	if errors.Is(err, archive.ErrMoved) || errors.Is(err, archive.ErrVersion) {
		return fmt.Errorf("%s: %w", verb, err)
	}
	return fmt.Errorf("%s: %w: %w", verb, archive.ErrUnavailable, explain(err))
}

// oneLine is an error whose text has no line breaks: those of a failed connection have one
// for each address.
type oneLine struct{ error }

// Error is the text.
func (e oneLine) Error() string { return strings.Join(strings.Fields(e.error.Error()), " ") }

// Unwrap is the error itself.
func (e oneLine) Unwrap() error { return e.error }

// explain adds a cure to an error that a person can mend.
func explain(err error) error {
	if strings.ContainsAny(err.Error(), "\n\t") {
		err = oneLine{err}
	}
	if codeOf(err) == codeForbidden {
		return fmt.Errorf("%w: the role of the archive's URL has to own the archive's tables", err)
	}
	return err
}
