package queue

import (
	"context"

	"github.com/hookladder/hookladder/dispatcher"
)

// Look reads a message with its deliveries.
func (q *Queue) Look(ctx context.Context, id string) (dispatcher.MessageView, error) {
	return q.engine.Message(ctx, id)
}
