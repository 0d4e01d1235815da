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
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/partitions"
)

// unavailable are the prefixes of Redis' answers that pass, some by themselves and
// some once a person has set Redis right. It is loading, failing over, being
// resharded or busy, has too few replicas or too many
// clients. RESTORING and EMPTIED are schedule's own: an archive is being put back, or
// the partition lost its data.
var unavailable = []string{
	"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MOVED ", "ASK ",
	"BUSY ", "NOREPLICAS", "NOSCRIPT", "RESTORING", "EMPTIED", "NOAUTH", "WRONGPASS", "ERR max number of clients",
}

// readOnly begins Redis' answer to every change while it can't write to its disk, and
// diskFull is in it where that is full.
const (
	readOnly = "MISCONF"
	diskFull = "No space left on device"
)

// full are the words of Redis and its managed kinds for no memory left.
var full = []string{"OOM", "size exceeded", "quota exceeded"}

// brokenOff are the errors of calls without an answer. A connection that ends in
// the middle of one says io.EOF or io.ErrUnexpectedEOF.
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

// asAnswer finds Redis' answer in an error. A missing value is no error of Redis.
func asAnswer(err error, answer *redis.Error) bool {
	return errors.As(err, answer) && !errors.Is(err, redis.Nil)
}

// Meaning tells what an error of go-redis means to the engine: that the store is
// full, read only or unavailable. It is nil for a fault of ours.
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
	switch {
	case strings.HasPrefix(text, readOnly) && strings.Contains(text, diskFull):
		return dispatcher.ErrDiskFull
	case strings.HasPrefix(text, readOnly):
		return dispatcher.ErrReadOnly
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

// refusing are the prefixes of Redis' answers to an unknown user or a wrong
// password.
var refusing = []string{"NOAUTH", "WRONGPASS"}

// Refused reports whether Redis refused the user or the password. That does not
// pass by itself.
func Refused(err error) bool {
	text := Word(err)
	return slices.ContainsFunc(refusing, func(prefix string) bool { return strings.HasPrefix(text, prefix) })
}

// Failed wraps an error with the verb and with its meaning. It is nil for nil.
func Failed(doing string, err error) error {
	if err == nil {
		return nil
	}
	if meaning := Meaning(err); meaning != nil {
		return fmt.Errorf("%s: %w: %w", doing, meaning, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// InPartition says which partition an error is of. nil stays nil, and an error of
// home stays as it is.
func (c *Client) InPartition(n int, err error) error {
	if n == Home {
		return err
	}
	return partitions.Failed(n, len(c.tags), err)
}
