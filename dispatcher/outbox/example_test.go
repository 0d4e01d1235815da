package outbox_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/hookladder/hookladder/dispatcher/outbox"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// tag stands for a pgconn.CommandTag.
type tag struct{}

// printed stands for a pgx.Tx, or a *sql.Tx, and prints what it is to do.
type printed struct{}

func (printed) Exec(_ context.Context, query string, args ...any) (tag, error) {
	fmt.Printf("%s\n%s\n%s\n%s\n", query, args[0], args[1], args[2])
	return tag{}, nil
}

func (p printed) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	_, err := p.Exec(ctx, query, args...)
	return nil, err
}

func ExamplePublish() {
	var tx printed // tx, err := pool.Begin(ctx)
	id, err := outbox.Publish(context.Background(), tx, &wire.Message{
		ID: "order-4711-paid", Topic: "order.paid", Endpoint: "shop-1", OrderingKey: "order-4711",
		Body: json.RawMessage(`{ "order": 4711, "amount": 1.00 }`),
	})
	fmt.Println(id, err)
	// Output:
	// select hookladder_publish($1::jsonb, $2::bytea, $3::text)
	// {"id":"order-4711-paid","topic":"order.paid","endpoint":"shop-1","ordering_key":"order-4711"}
	// { "order": 4711, "amount": 1.00 }
	// order-4711-paid
	// order-4711-paid <nil>
}

func ExamplePublishSQL() {
	var tx printed // tx, err := db.BeginTx(ctx, nil)
	text := "status=paid&order=4711"
	id, err := outbox.PublishSQL(context.Background(), tx, &wire.Message{
		ID: "order-4711-paid", Topic: "order.paid", Endpoint: "shop-1",
		RawBody: &text, ContentType: "application/x-www-form-urlencoded",
	})
	fmt.Println(id, err)
	// Output:
	// select hookladder_publish($1::jsonb, $2::bytea, $3::text)
	// {"id":"order-4711-paid","topic":"order.paid","endpoint":"shop-1","content_type":"application/x-www-form-urlencoded"}
	// status=paid&order=4711
	// order-4711-paid
	// order-4711-paid <nil>
}
