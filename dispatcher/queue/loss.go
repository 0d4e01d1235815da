package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
)

// Emptied says which data of a project Redis lost. Every call that needs these data
// returns it, and it is also an ErrUnavailable. It ends when the data are restored, or
// given up by AcceptLoss.
type Emptied = dispatcher.Emptied

// errArchived is returned because the archive still has the lost data.
var errArchived = errors.New("the project has an archive: restore the data with hookladder restore, or give them up with hookladder doctor --accept-loss --discard-archive")

// AcceptLoss gives up the data that the Redis at url lost. Pass the same options as to
// Open. Open queues continue within some seconds. It returns false if nothing was lost,
// and changes nothing then.
func AcceptLoss(ctx context.Context, url string, o Options) (accepted bool, err error) {
	s, err := o.settings(url)
	if err == nil && ctx == nil {
		err = errNoContext
	}
	if err != nil {
		return false, fmt.Errorf("accept loss: %w", err)
	}
	store, err := redisq.Open(ctx, s.store.Options)
	if err != nil {
		return false, failed(ctx, "accept loss", err)
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
		return false, failed(ctx, "accept loss", err)
	}
	return true, nil
}
