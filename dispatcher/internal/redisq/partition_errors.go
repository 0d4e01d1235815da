package redisq

import (
	"fmt"

	"github.com/hookladder/hookladder/dispatcher"
)

// inPartition says which partition an error is of; nil stays nil, and one of
// home as it is.
func inPartition(n int, err error) error {
	if err == nil || n == home {
		return err
	}
	return &dispatcher.PartitionError{Partition: n, Err: err}
}

// joinedError is what errors.Join makes, but told by its first: where a node is
// down a third of all partitions say the same.
type joinedError []error

// join joins errors; nil where there is none.
func join(errs ...error) error {
	var all joinedError
	for _, err := range errs {
		if err != nil {
			all = append(all, err)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

func (j joinedError) Error() string {
	if len(j) == 1 {
		return j[0].Error()
	}
	return fmt.Sprintf("%s (and %d more)", j[0], len(j)-1)
}

// Unwrap are the errors.
func (j joinedError) Unwrap() []error { return j }
