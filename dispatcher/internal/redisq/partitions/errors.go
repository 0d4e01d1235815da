package partitions

import (
	"errors"
	"fmt"
	"slices"

	"github.com/hookladder/hookladder/dispatcher"
)

// failure is that one partition did not answer, or not as it should.
type failure struct {
	partition int
	err       error
}

func (e *failure) Error() string { return fmt.Sprintf("partition %d: %s", e.partition, e.err) }

// Unwrap is the reason.
func (e *failure) Unwrap() error { return e.err }

// Failed says that an error is of one partition of so many; nil stays nil.
func Failed(n, of int, err error) error {
	if err == nil {
		return nil
	}
	return &dispatcher.Degraded{Failed: 1, Of: of, Errs: []error{&failure{partition: n, err: err}}}
}

// joined is what errors.Join makes, but told by its first: where a node is down
// a third of all partitions say the same.
type joined []error

func (j joined) Error() string {
	if len(j) == 1 {
		return j[0].Error()
	}
	return fmt.Sprintf("%s (and %d more)", j[0], len(j)-1)
}

// Unwrap are the errors.
func (j joined) Unwrap() []error { return j }

// Join joins errors: a Degraded where each is of a partition, with the number of
// those that failed. It is nil where there is none.
func Join(errs ...error) error {
	var all joined
	of, whole := 0, false
	for _, err := range errs {
		if err == nil {
			continue
		}
		var d *dispatcher.Degraded
		if errors.As(err, &d) {
			of = d.Of
		} else {
			whole = true
		}
		all = append(all, err)
	}
	switch {
	case len(all) == 0:
		return nil
	case whole:
		return all
	}
	var flat []error
	for _, err := range all {
		if d, ok := err.(*dispatcher.Degraded); ok {
			flat = append(flat, d.Errs...)
		} else {
			flat = append(flat, err)
		}
	}
	return &dispatcher.Degraded{Failed: len(In(all)), Of: of, Errs: flat}
}

// In are the partitions that an error names, in their order.
func In(err error) []int {
	failed := failedIn(err)
	slices.Sort(failed)
	return slices.Compact(failed)
}

func failedIn(err error) (failed []int) {
	switch e := err.(type) {
	case nil:
	case *failure:
		failed = []int{e.partition}
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			failed = append(failed, failedIn(one)...)
		}
	default:
		failed = failedIn(errors.Unwrap(err))
	}
	return failed
}
