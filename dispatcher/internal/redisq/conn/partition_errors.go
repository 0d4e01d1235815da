package conn

import (
	"errors"
	"fmt"
	"slices"

	"github.com/hookladder/hookladder/dispatcher"
)

// failure is the error of one partition that did not reply, or returned a wrong reply.
type failure struct {
	partition int
	err       error
}

func (e *failure) Error() string { return fmt.Sprintf("partition %d: %s", e.partition, e.err) }

// Unwrap returns the cause.
func (e *failure) Unwrap() error { return e.err }

// FailedPartition returns err as the error of partition n of all partitions. It returns nil if err is nil.
func FailedPartition(n, of int, err error) error {
	if err == nil {
		return nil
	}
	return &dispatcher.Degraded{Failed: 1, Of: of, Errs: []error{&failure{partition: n, err: err}}}
}

// joined works like errors.Join, but its text has only the first error. If a node is down, a third
// of all partitions return the same error.
type joined []error

func (j joined) Error() string {
	if len(j) == 1 {
		return j[0].Error()
	}
	return fmt.Sprintf("%s (and %d more)", j[0], len(j)-1)
}

// Unwrap returns the errors.
func (j joined) Unwrap() []error { return j }

// JoinErrors joins errors. If each is the error of a partition, it returns a Degraded with the number of
// failed partitions. It returns nil if there is no error.
func JoinErrors(errs ...error) error {
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
	return &dispatcher.Degraded{Failed: len(FailedPartitions(all)), Of: of, Errs: flat}
}

// FailedPartitions returns the partitions that an error names, in their order.
func FailedPartitions(err error) []int {
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
