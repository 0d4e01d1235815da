package conn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
)

// unavailable are the prefixes of Redis' answers that pass by themselves, or
// once somebody has set it right: it is loading, failing over, being resharded,
// busy, can't write to its disk, has too few replicas or too many clients.
var unavailable = []string{
	"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MOVED ", "ASK ",
	"BUSY ", "NOREPLICAS", "MISCONF", "NOSCRIPT", "NOAUTH", "WRONGPASS", "ERR max number of clients",
}

// full are what Redis and its managed kinds say when there is no memory left.
var full = []string{"OOM", "size exceeded", "quota exceeded"}

// A connection that ends in the middle says io.EOF or io.ErrUnexpectedEOF.
var brokenOff = []error{
	io.EOF, io.ErrUnexpectedEOF, redis.ErrClosed, redis.ErrPoolTimeout, redis.ErrPoolExhausted,
	context.DeadlineExceeded, context.Canceled, ErrNotTried,
}

var (
	// ErrReply says that a script answered what it never should.
	ErrReply = errors.New("unexpected answer of a script")
	// ErrNotTried says that a call was not sent.
	ErrNotTried = errors.New("not tried")
)

// asAnswer finds what Redis answered in an error. That there is nothing is no
// error of Redis'.
func asAnswer(err error, answer *redis.Error) bool {
	return errors.As(err, answer) && !errors.Is(err, redis.Nil)
}

// Meaning tells what an error of go-redis means to the engine; nil: it is a
// fault of ours.
func Meaning(err error) error {
	text := Word(err)
	if text == "" {
		var network net.Error
		if errors.As(err, &network) {
			return dispatcher.ErrUnavailable
		}
		for _, cut := range brokenOff {
			if errors.Is(err, cut) {
				return dispatcher.ErrUnavailable
			}
		}
		return nil
	}
	for _, word := range full {
		if strings.Contains(text, word) {
			return dispatcher.ErrFull
		}
	}
	for _, prefix := range unavailable {
		if strings.HasPrefix(text, prefix) {
			return dispatcher.ErrUnavailable
		}
	}
	return nil
}

// refusing are the prefixes of Redis' answers to a user or password that is not
// one of its own.
var refusing = []string{"NOAUTH", "WRONGPASS"}

// Refused reports whether Redis answered that it does not know who asks: that
// passes only when somebody has set it right.
func Refused(err error) bool {
	text := Word(err)
	return slices.ContainsFunc(refusing, func(prefix string) bool { return strings.HasPrefix(text, prefix) })
}

// Failed gives an error its meaning.
func Failed(doing string, err error) error {
	if err == nil {
		return nil
	}
	if meaning := Meaning(err); meaning != nil {
		return fmt.Errorf("%s: %w: %w", doing, meaning, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// InPartition says which partition an error is of; nil stays nil, and one of
// home as it is.
func InPartition(n int, err error) error {
	if err == nil || n == Home {
		return err
	}
	return &dispatcher.PartitionError{Partition: n, Err: err}
}

// joinedError is what errors.Join makes, but told by its first: where a node is
// down a third of all partitions say the same.
type joinedError []error

// Join joins errors; nil where there is none.
func Join(errs ...error) error {
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
