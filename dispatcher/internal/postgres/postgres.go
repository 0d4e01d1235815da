// Package postgres keeps an archive in PostgreSQL, 14 or later: messages and events in a
// partition for each month, and what has not finished in one small table.
//
// An Archive has one connection, which it opens when it needs one, and closes after any
// error. So a server may come and go. All times are the server's, or come from the store.
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

// Options say which archive it is.
type Options struct {
	URL     string // postgres://user:password@host/database
	Project string // has tables of its own
	Bodies  string // whose bodies are kept: all, failed (of dead ones) or none; empty: all
	Log     *slog.Logger

	LookTime time.Duration // of one look-up by a Reader, its connection included; 0: 800 ms
}

// The words for Options.Bodies.
const (
	bodiesAll    = "all"
	bodiesFailed = "failed"
	bodiesNone   = "none"
)

// Archive keeps an archive in PostgreSQL. Its methods may be called from several
// goroutines, and wait for each other, but for Maintain.
type Archive struct {
	config *pgx.ConnConfig
	schema schema
	bodies string
	log    *slog.Logger

	mu      sync.Mutex // guards what follows, for as long as a call takes
	session *session   // nil: there is no connection
	walks   map[string]int64
	buffer  []byte // of a COPY
}

var _ archive.Archive = (*Archive)(nil)

// Open prepares an archive, and connects to nothing: the server may be away. It fails
// where the options can't be used.
func Open(o Options) (*Archive, error) {
	config, err := parse(o.URL)
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

// Close ends the connection.
func (a *Archive) Close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.drop()
}

// drop closes the connection. mu is held.
func (a *Archive) drop() {
	if a.session != nil {
		a.session.close()
		a.session = nil
	}
}

// schema is the name of a project's schema, as SQL has it.
type schema string

// plain is what the SQL texts of this package have as the schema's name.
const plain = "hookladder"

// longestName is how long a name may be in PostgreSQL, in bytes. It cuts longer ones.
const longestName = 63

// schemaOf is hookladder for the project default, else hookladder_<project>. The end of
// a long name is replaced by a hash.
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

// sql is a text with the schema's own name.
func (s schema) sql(text string) string {
	if s == plain {
		return text
	}
	return strings.ReplaceAll(text, plain+".", string(s)+".")
}

// callTime bounds each call: longer than the server may need for a statement, since a
// server that is gone does not say so.
const callTime = 45 * time.Second

// monthsEvery is how often it is looked which months there are: far less than they are
// made ahead.
var monthsEvery = time.Hour

// in does something in one transaction. After any error but ErrMoved the connection is
// closed, so that the next call begins anew.
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

// connected opens the connection where there is none. mu is held.
func (a *Archive) connected(ctx context.Context) error {
	if s := a.session; s != nil && !s.conn.IsClosed() {
		if time.Since(s.read) < monthsEvery {
			return nil
		}
		return s.readMonths(ctx) // another instance makes them
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
