// Package postgres keeps an archive in PostgreSQL, version 14 or later, and reads an outbox
// there. Messages and events of the archive are in tables with a partition for each month;
// unfinished deliveries are in one small table.
//
// Its types follow its callers:
//   - Archive is written by an Archiver: Lease, then Write and See, and Maintain for
//     the months.
//   - Reader answers lookups and exports.
//   - Vault is read by the restore command, and Eraser is used by the forget command.
//   - Outbox is read by the engine's Relay.
//
// An Archive has one connection. It connects on the first call and closes the connection
// after any error, so a server may restart at any time. All times are the server's, or come
// from the store.
package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hookladder/hookladder/dispatcher/archive"
)

// Options select an archive and its settings.
type Options struct {
	URL     string // postgres://user:password@host/database
	Project string // of the store; each project has its own schema
	Bodies  string // which bodies are kept: all, failed (only of dead deliveries) or none; default all
	Log     *slog.Logger

	QueryTimeout time.Duration // timeout of one query of a Reader, including the connection; default 800 ms
}

// The values of Options.Bodies.
const (
	bodiesAll    = "all"
	bodiesFailed = "failed"
	bodiesNone   = "none"
)

// Archive writes an archive in PostgreSQL. Its methods may be called from several
// goroutines. They run one at a time, except Maintain.
type Archive struct {
	config *pgx.ConnConfig
	schema schema
	bodies string
	log    *slog.Logger

	mu      sync.Mutex       // guards the fields below for the whole of a call
	session *session         // nil if not connected
	walks   map[string]int64 // names of the running walks, by epoch
	buffer  []byte           // reused for COPY
}

var _ archive.Archive = (*Archive)(nil)

// Open prepares an archive. It does not connect, because the server may be down. It returns
// an error if the options are invalid.
func Open(o Options) (*Archive, error) {
	config, err := configOf(o.URL, archiveName)
	if err != nil {
		return nil, err
	}
	switch o.Bodies {
	case "":
		o.Bodies = bodiesAll
	case bodiesAll, bodiesFailed, bodiesNone:
	default:
		return nil, fmt.Errorf("bodies %q: must be all, failed or none", o.Bodies)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Archive{config: config, schema: schemaOf(o.Project), bodies: o.Bodies, log: o.Log, walks: map[string]int64{}}, nil
}

// Close closes the connection.
func (a *Archive) Close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.drop()
}

// drop closes the connection. The caller holds mu.
func (a *Archive) drop() {
	if a.session != nil {
		a.session.close()
		a.session = nil
	}
}

// schema is the quoted name of a project's schema.
type schema string

// plain is the name of the schema in the SQL texts of this package.
const plain = "hookladder"

// longestName is PostgreSQL's limit for a name, in bytes. It truncates longer names.
const longestName = 63

// schemaOf returns hookladder for the project default, and hookladder_<project> for others.
// A hash replaces the end of a name that is too long.
func schemaOf(project string) schema {
	if project == "" || project == "default" {
		return plain
	}
	name := plain + "_" + project
	if len(name) > longestName {
		sum := sha256.Sum256([]byte(name))
		end := "_" + hex.EncodeToString(sum[:8])
		name = name[:longestName-len(end)] + end
	}
	return schema(pgx.Identifier{name}.Sanitize())
}

// sql returns a text with the project's schema in it.
func (s schema) sql(text string) string {
	if s == plain {
		return text
	}
	return strings.ReplaceAll(text, plain+".", string(s)+".")
}

// callTime is the timeout of each call. It is longer than the server's own timeout for a
// statement, because a server that is gone reports nothing.
const callTime = 45 * time.Second

// monthsEvery is how often the list of months is read again. Months are made long before
// they are needed.
var monthsEvery = time.Hour

// in runs a function in one transaction. After any error except ErrMoved and bad data it
// closes the connection, so the next call starts with a new one.
func (a *Archive) in(ctx context.Context, verb string, do func(context.Context, *session) error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	err := a.connected(ctx)
	if err == nil {
		err = a.session.transaction(ctx, do)
	}
	if err == nil {
		return nil
	}
	kept := a.session != nil && (errors.Is(err, archive.ErrMoved) || ofData(err)) && a.session.rollback(ctx) == nil
	if !kept {
		a.drop()
	}
	return fault(verb, err)
}

// connected connects if there is no connection. The caller holds mu.
func (a *Archive) connected(ctx context.Context) error {
	if s := a.session; s != nil && !s.conn.IsClosed() {
		if time.Since(s.read) < monthsEvery {
			return nil
		}
		return s.readMonths(ctx) // another instance may have made some
	}
	a.session = nil
	s, err := a.dial(ctx)
	if err != nil {
		return err
	}
	if err := s.begin(ctx); err != nil {
		s.close()
		return err
	}
	a.session = s
	return nil
}
