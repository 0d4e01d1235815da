package app

import (
	"fmt"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/messages"
	"github.com/hookladder/hookladder/dispatcher/internal/pgoutbox"
	"github.com/hookladder/hookladder/dispatcher/internal/relay"
)

// A row of the outbox may have its body in JSON, where a byte takes six letters at most, and has
// an envelope beside it.
const (
	rowEscaped  = 6
	rowEnvelope = 64 << 10
)

// newRelay makes what relays from the outbox to the engine; nil: there is no outbox.
func newRelay(e *engine.Engine, policy dispatcher.Policy, o Options) (*relay.Relay, error) {
	if o.OutboxURL == "" {
		return nil, nil
	}
	rows, err := pgoutbox.New(o.OutboxURL, o.MaxBody*rowEscaped+rowEnvelope)
	if err != nil {
		return nil, fmt.Errorf("OUTBOX_URL: %w", err)
	}
	return relay.New(relay.Options{
		Outbox: rows,
		Read: func(r *dispatcher.OutboxRow) (*dispatcher.Message, relay.Refusal) {
			m, status, problem := messages.Row(r.ID, r.Message, r.Body, policy)
			return m, relay.Refusal{Status: status, Problem: problem}
		},
		Publish: e.Publish,
		Judge: func(p *dispatcher.Published) relay.Refusal {
			status, problem := messages.Outcome(p)
			return relay.Refusal{Status: status, Problem: problem}
		},
		Retention: o.Engine.Keep.Finished,
		Log:       o.Log,
	}), nil
}
