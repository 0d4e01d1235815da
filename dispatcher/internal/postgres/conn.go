package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/hookladder/hookladder/dispatcher/archive"
	"github.com/hookladder/hookladder/dispatcher/internal/input"
)

// session is a connection with a cache of the months.
type session struct {
	conn   *pgx.Conn
	schema schema
	log    *slog.Logger
	final  bool      // a final migration may be made
	months months    // that have a table for messages and for events
	read   time.Time // when months was read

	orphans map[int]int64  // per partition, as counted last
	epochs  map[int]string // when they were counted
	counted time.Time
}

func (a *Archive) dial(ctx context.Context) (*session, error) {
	conn, err := pgx.ConnectConfig(ctx, a.config)
	if err != nil {
		return nil, err
	}
	return &session{conn: conn, schema: a.schema, log: a.log}, nil
}

// oldestVersion is the first version that can detach a partition concurrently.
const oldestVersion = 14

// unfit returns an error if the server's version is too old.
func unfit(version string) error {
	digits := version[:len(version)-len(strings.TrimLeft(version, "0123456789"))]
	if n, err := strconv.Atoi(digits); err != nil || n < oldestVersion {
		return fmt.Errorf("PostgreSQL %d or later is needed, and the server is %q", oldestVersion, version)
	}
	return nil
}

// begin migrates the tables and reads which months exist.
func (s *session) begin(ctx context.Context) error {
	if err := unfit(s.conn.PgConn().ParameterStatus("server_version")); err != nil {
		return err
	}
	if err := s.migrate(ctx); err != nil {
		return err
	}
	err := s.makeMonths(ctx)
	if err != nil { // the existing tables may suffice
		s.log.WarnContext(ctx, "creating tables of the coming months failed", "err", explain(err))
	}
	return s.readMonths(ctx)
}

// closeTimeout is the timeout for closing a connection.
const closeTimeout = time.Second

func (s *session) close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_ = s.conn.Close(ctx) // the connection is not needed any more
}

// beginTransaction begins a transaction. It limits the time of a statement and of an idle
// transaction, because an abandoned transaction keeps its locks. A commit waits for the
// server's disk, even if the server's default is another.
const beginTransaction = `begin;
set local statement_timeout = '30s';
set local lock_timeout = '10s';
set local idle_in_transaction_session_timeout = '60s';
select set_config('synchronous_commit', 'on', true) where current_setting('synchronous_commit') = 'off'`

// transaction runs a function in one transaction.
func (s *session) transaction(ctx context.Context, do func(context.Context, *session) error) error {
	if _, err := s.conn.PgConn().Exec(ctx, beginTransaction).ReadAll(); err != nil {
		return err
	}
	if err := do(ctx, s); err != nil {
		return err
	}
	tag, err := s.conn.Exec(ctx, "commit")
	if err == nil && tag.String() != "COMMIT" {
		err = errors.New("the server rolled back instead of committing")
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

// codeOf returns the SQLSTATE of an error, empty if the server did not return one.
func codeOf(err error) string {
	var answer *pgconn.PgError
	if errors.As(err, &answer) {
		return answer.Code
	}
	return ""
}

// SQLSTATEs that this package handles.
const (
	codeExists    = "42P07" // a table
	codeNoTable   = "42P01"
	codeNoSchema  = "3F000"
	codeForbidden = "42501"
	codeLocked    = "55P03" // by another session
)

// noTables reports whether the tables do not exist, because no instance has created them
// yet.
func noTables(err error) bool {
	code := codeOf(err)
	return code == codeNoTable || code == codeNoSchema
}

// ofData reports whether a row caused the error: its month does not exist, it repeats
// another row, or a column rejects its value. Other errors may be temporary.
func ofData(err error) bool {
	code := codeOf(err)
	return strings.HasPrefix(code, "22") || strings.HasPrefix(code, "23") || strings.HasPrefix(code, "54")
}

// fault returns an error for callers. It adds ErrUnavailable to all errors except ErrMoved and
// ErrVersion, because a retry may succeed.
func fault(verb string, err error) error {
	if errors.Is(err, archive.ErrMoved) || errors.Is(err, archive.ErrVersion) {
		return fmt.Errorf("%s: %w", verb, err)
	}
	return fmt.Errorf("%s: %w: %w", verb, archive.ErrUnavailable, explain(err))
}

// oneLine is an error without line breaks. A failed connection has one for each address.
type oneLine struct{ error }

// Error returns the text on one line.
func (e oneLine) Error() string { return strings.Join(strings.Fields(e.error.Error()), " ") }

// Unwrap returns the cause.
func (e oneLine) Unwrap() error { return e.error }

// explain adds a fix to an error that the operator can fix.
func explain(err error) error {
	if strings.ContainsAny(err.Error(), "\n\t") {
		err = oneLine{err}
	}
	if codeOf(err) == codeForbidden {
		return fmt.Errorf("%w: the role of the archive's URL must own the archive's tables", err)
	}
	return err
}

// How to connect, and how to detect a dead connection.
const (
	connectTime = 5 * time.Second
	keepAlive   = 5 * time.Second // between probes; three without an answer end the connection
)

// The names of our connections in pg_stat_activity, if the URL has none.
const (
	archiveName = "hookladder"
	outboxName  = "hookladder outbox"
)

// execMode is the parameter of pgx for the mode of statements.
const execMode = "default_query_exec_mode"

// configOf reads a URL for any connection of this package. Its errors have no part of the URL, and
// no text of pgx, which quotes it, because it has a password.
func configOf(text, name string) (*pgx.ConnConfig, error) {
	u, err := input.ParseURL(text, "postgres", "postgresql")
	if err != nil {
		return nil, fmt.Errorf("%w, as in postgres://user:password@host/database", err)
	}
	config, err := pgx.ParseConfig(text)
	if err != nil {
		return nil, wrongParameter(u.Query())
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
		config.RuntimeParams["application_name"] = name
	}
	if config.ValidateConnect == nil { // of several hosts, use the one that accepts writes
		config.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	if !u.Query().Has(execMode) {
		// No prepared statements, because a transaction pooler may hand the connection to another client.
		config.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	return config, nil
}

// CheckURL returns an error if a URL can't be used. The error has no part of the URL.
func CheckURL(text string) error {
	_, err := configOf(text, "")
	return err
}

// wrongParameter returns the likely reason why pgx refuses the parameters of a URL.
func wrongParameter(query url.Values) error {
	for _, name := range []string{"sslrootcert", "sslcert", "sslkey"} {
		if file := query.Get(name); file != "" && file != "system" {
			if _, err := os.Stat(file); err != nil {
				return fmt.Errorf("the file of its parameter %s can't be read", name)
			}
		}
	}
	return errors.New("it has a parameter that PostgreSQL does not know, or a wrong value of one")
}
