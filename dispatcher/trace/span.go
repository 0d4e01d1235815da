package trace

import (
	"context"
	"log/slog"
	"time"
)

// Kind is the side of a call that a span describes.
type Kind uint8

// The kinds of spans.
const (
	Internal Kind = iota
	Server
	Client
	Producer
	Consumer
)

// Start describes the beginning of a span.
type Start struct {
	Name   string
	Kind   Kind
	Parent Context   // zero: the span of the context is its parent, if there is one
	Links  []Context // spans that caused this one; a zero one is skipped
	At     time.Time // zero: now
	Attrs  []slog.Attr
}

// Tracer records spans. A part of the process that gets no Tracer records nothing, and does no
// work for traces.
type Tracer interface {
	// Begin begins a span. The context that it returns has the span.
	Begin(ctx context.Context, s Start) (context.Context, Span)
	// Recorded reports whether the context has a span that is recorded.
	Recorded(ctx context.Context) bool
}

// Span is a span that was begun. It has to be ended once.
type Span interface {
	// Context identifies the span.
	Context() Context
	// Recorded reports whether the span is sent to a collector. The attributes of any other one
	// are not needed.
	Recorded() bool
	// Set adds attributes.
	Set(attrs ...slog.Attr)
	// Link adds the span that caused this one. A zero Context adds nothing.
	Link(to Context)
	// End ends the span. failed is the class of its error, and empty after a success. A zero
	// time is now.
	End(failed string, at time.Time)
}

// The attributes of spans, by the conventions of OpenTelemetry for messaging, HTTP and
// databases (semantic conventions 1.45).
const (
	System        = "messaging.system"
	Operation     = "messaging.operation.name"
	OperationType = "messaging.operation.type"
	MessageID     = "messaging.message.id"
	BodySize      = "messaging.message.body.size"
	Messages      = "messaging.batch.message_count"
	Destination   = "messaging.destination.name"
	Method        = "http.request.method"
	Route         = "http.route"
	Status        = "http.response.status_code"
	Scheme        = "url.scheme"
	ServerAddress = "server.address"
	ServerPort    = "server.port"
	ErrorType     = "error.type"
	Database      = "db.system.name"
	DatabaseCall  = "db.operation.name"
	DatabaseBatch = "db.operation.batch.size"
)

// The types of operations on messages.
const (
	Send    = "send"
	Receive = "receive"
	Process = "process"
	Settle  = "settle"
)

// The attributes of our own.
const (
	Attempt    = "hookladder.attempt"     // its number, from 1
	DeliveryID = "hookladder.delivery.id" // <lane>:<message id>
	Outcome    = "hookladder.outcome"     // delivered, retry or dead; of a publish accepted, duplicate and so on
	Reason     = "hookladder.reason"      // why a delivery is dead
	Topic      = "hookladder.topic"
	Tenant     = "hookladder.tenant"
	Resend     = "hookladder.resend" // a person requested the attempt
	Deliveries = "hookladder.deliveries"
	RowAge     = "hookladder.outbox.age_ms" // since its insert
)

// Redis names the database of all spans of the store.
func Redis() slog.Attr { return slog.String(Database, "redis") }

// Ours names the messaging system of all spans.
func Ours() slog.Attr { return slog.String(System, "hookladder") }
