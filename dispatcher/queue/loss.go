package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
)

// Emptied says what of a project's data Redis lost. It is the error of each call that needs
// these data, and an ErrUnavailable, until they are restored, or AcceptLoss gives them up.
type Emptied = dispatcher.Emptied

// errArchived refuses to give up what an archive has.
var errArchived = errors.New("the project has an archive: hookladder restore brings the data back, hookladder doctor --accept-loss --discard-archive gives them up")

// AcceptLoss gives up the data that the Redis at url lost, with the same options as Open.
// Queues that are open continue within some seconds. It reports whether anything had been
// lost; where nothing was, it changes nothing.
func AcceptLoss(ctx context.Context, url string, o Options) (accepted bool, err error) {
	s, err := o.settings(url)
	if err != nil {
		return false, fmt.Errorf("accept loss: %w", err)
	}
	store, err := redisq.Open(ctx, s.store.Options)
	if err != nil {
		return false, fmt.Errorf("accept loss: %w", err)
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	loss := store.Emptied()
	switch {
	case loss == nil:
		return false, nil
	case loss.Archived:
		return false, fmt.Errorf("accept loss: %w", errArchived)
	}
	store.Audit().Record(ctx, dispatcher.AuditEntry{By: dispatcher.System, What: "loss.accept", Detail: loss.Error()})
	if err := store.EndLoss(ctx, loss); err != nil {
		return false, fmt.Errorf("accept loss: %w", err)
	}
	return true, nil
}
