package dispatcher

import "fmt"

// Degraded says that some parts of the store did not do what was asked, or all of
// them; the others did. The store leaves the parts alone that failed, and looks
// at them again by itself: no call needs to be repeated for them.
type Degraded struct {
	Failed, Of int     // parts
	Errs       []error // why; never empty
}

// Error is told by the first: where a node is down all its parts say the same.
func (e *Degraded) Error() string {
	if len(e.Errs) == 1 {
		return e.Errs[0].Error()
	}
	return fmt.Sprintf("%s (and %d more)", e.Errs[0], len(e.Errs)-1)
}

// Unwrap are the reasons.
func (e *Degraded) Unwrap() []error { return e.Errs }
