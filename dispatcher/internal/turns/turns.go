package turns

import "context"

import (
	"github.com/hookladder/hookladder/dispatcher"
)

// Readers take turns: of one instance listsAtOnce lists are read at a time, so
// that lists hold up no publish. listsWaiting more may wait.
const (
	listsAtOnce  = 2
	listsWaiting = 16
)

// Turns bounds how many do something at once, and how many wait for that.
type Turns struct {
	places  chan struct{} // one for each that is there, waiting or not
	running chan struct{}
}

func New() Turns {
	return Turns{
		places:  make(chan struct{}, listsAtOnce+listsWaiting),
		running: make(chan struct{}, listsAtOnce),
	}
}

// Enter waits for a turn, which ends with leave.
func (t Turns) Enter(ctx context.Context) error {
	select {
	case t.places <- struct{}{}:
	default:
		return dispatcher.ErrListing
	}
	select {
	case t.running <- struct{}{}:
		return nil
	case <-ctx.Done():
		<-t.places
		return ctx.Err()
	}
}

func (t Turns) Leave() {
	<-t.running
	<-t.places
}
