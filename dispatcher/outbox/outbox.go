// Package outbox publishes a message inside a transaction of the caller's PostgreSQL. The
// message exists if, and only if, the transaction commits. So a committed order always has
// its callback, and a rolled back one never has.
//
//	tx, err := pool.Begin(ctx)
//	...
//	_, err = tx.Exec(ctx, "update orders set state = 'paid' where id = $1", 4711)
//	...
//	id, err := outbox.Publish(ctx, tx, &wire.Message{
//		Topic: "order.paid", Endpoint: "shop-1",
//		Body: json.RawMessage(`{"order":4711}`),
//	})
//	...
//	err = tx.Commit(ctx)
//
// The database needs the tables of Schema, which hookladder outbox schema prints. A
// hookladder serve with the database's URL as OUTBOX_URL relays the committed messages.
// Programs in other languages call the same function:
//
//	select hookladder_publish('{"topic":"order.paid","endpoint":"shop-1"}', convert_to('{"order":4711}', 'UTF8'))
//
// The package needs no driver, because it calls only one method of a transaction.
package outbox

import (
	"context"
	"database/sql"
	_ "embed" // for schema
	"errors"
	"fmt"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

//go:embed schema.sql
var schema string

// Schema returns the SQL that creates the outbox, for a migration. It may be applied again.
func Schema() string { return schema }

// Publish inserts a message into the outbox of tx, a transaction of pgx, and returns its
// id. It makes an id if the message has none. The message is relayed after tx has
// committed. An error makes PostgreSQL roll tx back, because the message is invalid or the
// database is down.
//
// The relay finds errors that Publish can't, such as an unknown endpoint. It moves the
// message to the table hookladder_rejected. So it does with a message that names no URL,
// Endpoint or Queue and matches no endpoint, unless its RequireMatch is new(false).
func Publish[Tag any](ctx context.Context, tx interface {
	Exec(ctx context.Context, sql string, args ...any) (Tag, error)
}, m *wire.Message) (id string, err error) {
	if m == nil || tx == nil {
		return "", errMissing
	}
	r, err := rowOf(m)
	if err != nil {
		return "", err
	}
	if _, err := tx.Exec(ctx, publish, r.message, r.body, r.id); err != nil {
		return "", fmt.Errorf("publish %s: %w", r.id, err)
	}
	return r.id, nil
}

// PublishSQL is Publish for package database/sql and other types with the methods of a
// *sql.Tx. The driver must use the placeholders $1 and $2, as drivers for PostgreSQL do.
func PublishSQL(ctx context.Context, tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}, m *wire.Message) (id string, err error) {
	if m == nil || tx == nil {
		return "", errMissing
	}
	r, err := rowOf(m)
	if err != nil {
		return "", err
	}
	if _, err := tx.ExecContext(ctx, publish, r.message, r.body, r.id); err != nil {
		return "", fmt.Errorf("publish %s: %w", r.id, err)
	}
	return r.id, nil
}

var errMissing = errors.New("publish: the transaction or the message is nil")

// publish has the types of its arguments, because some drivers would otherwise query them.
const publish = `select hookladder_publish($1::jsonb, $2::bytea, $3::text)`

// row is a message as the outbox stores it.
type row struct {
	id      string
	message string // JSON without the body
	body    []byte
}

func rowOf(m *wire.Message) (row, error) {
	plain := *m
	plain.Body, plain.RawBody, plain.RawBodyBase64 = nil, nil, nil
	r := row{id: m.ID}
	if r.id == "" {
		r.id = dispatcher.NewID()
	}
	bodies := 0
	take := func(body []byte, contentType string) {
		bodies++
		r.body = body
		if plain.ContentType == "" {
			plain.ContentType = contentType
		}
	}
	if m.Body != nil {
		take(m.Body, "") // the relay checks that it is JSON
	}
	if m.RawBody != nil {
		take([]byte(*m.RawBody), "text/plain; charset=utf-8")
	}
	if m.RawBodyBase64 != nil {
		take(m.RawBodyBase64, "application/octet-stream")
	}
	if bodies != 1 {
		return row{}, fmt.Errorf("publish %s: %w", r.id, errBodies)
	}
	text, err := plain.Append(nil)
	if err != nil {
		return row{}, fmt.Errorf("publish %s: %w", r.id, err)
	}
	r.message = string(text) // lib/pq takes bytes for a bytea
	return r, nil
}

var errBodies = errors.New("one of Body, RawBody and RawBodyBase64 is needed")
