package guests

// Waiting bounds how many callers wait at once. Their connections are lost to others
// meanwhile.
type Waiting struct{ places chan struct{} }

// NewWaiting makes room for at most so many.
func NewWaiting(most int) *Waiting { return &Waiting{make(chan struct{}, max(most, 1))} }

// Enter takes a place, which Leave gives back. It is false where there is none.
func (w *Waiting) Enter() bool {
	select {
	case w.places <- struct{}{}:
		return true
	default:
		return false
	}
}

// Leave gives a place back.
func (w *Waiting) Leave() { <-w.places }
