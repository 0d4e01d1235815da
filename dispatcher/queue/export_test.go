package queue

import (
	"context"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
)

// Read returns a message with its deliveries.
func (q *Queue) Read(ctx context.Context, id string) (dispatcher.MessageView, error) {
	return q.engine.Message(ctx, id)
}

// StoreOptions returns the options of the store.
func (o Options) StoreOptions(url string) (redisq.AwaitOptions, error) {
	s, err := o.settings(url)
	return s.store, err
}
