package dispatcher

import "context"

// Readers take turns: of one instance listsAtOnce lists are read at a time, so
// that lists hold up no publish. listsWaiting more may wait.
const (
	listsAtOnce  = 2
	listsWaiting = 16
)

// turns bounds how many do something at once, and how many wait for that.
type turns struct {
	places  chan struct{} // one for each that is there, waiting or not
	running chan struct{}
}

func newTurns() turns {
	return turns{
		places:  make(chan struct{}, listsAtOnce+listsWaiting),
		running: make(chan struct{}, listsAtOnce),
	}
}

// enter waits for a turn, which ends with leave.
func (t turns) enter(ctx context.Context) error {
	select {
	case t.places <- struct{}{}:
	default:
		return ErrListing
	}
	select {
	case t.running <- struct{}{}:
		return nil
	case <-ctx.Done():
		<-t.places
		return ctx.Err()
	}
}

func (t turns) leave() {
	<-t.running
	<-t.places
}
