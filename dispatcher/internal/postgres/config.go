package postgres

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/hookladder/hookladder/dispatcher/internal/input"
)

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
