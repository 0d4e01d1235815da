package conn_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/stretchr/testify/require"
)

func BenchmarkEncode(b *testing.B) {
	e := entryOf(&dispatcher.Message{
		ID: "m1", Topic: "order.paid", URL: "https://example.com/hook", ContentType: "application/json",
		Body: bytes.Repeat([]byte("x"), 1024), CreatedAt: time.Now(),
	})
	b.ReportAllocs()
	for b.Loop() {
		conn.EncodeWhole(e, e.Message.CreatedAt)
	}
}

func BenchmarkDecode(b *testing.B) {
	e := entryOf(&dispatcher.Message{
		ID: "m1", Topic: "order.paid", URL: "https://example.com/hook", ContentType: "application/json",
		Body: bytes.Repeat([]byte("x"), 1024), CreatedAt: time.Now(),
	})
	record := string(conn.EncodeWhole(e, e.Message.CreatedAt))
	b.ReportAllocs()
	for b.Loop() {
		_, err := conn.DecodeRecord(e.Message.ID, record)
		require.NoError(b, err)
	}
}
