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

// unavailable are the prefixes of temporary errors of Redis. Some end by themselves,
// others after a person has fixed Redis. It is loading, failing over, being resharded or
// busy, or has too few replicas or too many clients. RESTORING and EMPTIED come from
// schedule: an archive is being restored, or the partition lost its data.
var unavailable = []string{
	"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MOVED ", "ASK ",
	"BUSY ", "NOREPLICAS", "NOSCRIPT", "RESTORING", "EMPTIED", "NOAUTH", "WRONGPASS", "ERR max number of clients",
}

// readOnly is the prefix of the response to every write while Redis can't write to its
// disk. diskFull is part of it if the disk is full.
const (
	readOnly = "MISCONF"
	diskFull = "No space left on device"
)

// full are the words of Redis and its managed versions for no memory left.
var full = []string{"OOM", "size exceeded", "quota exceeded"}

// brokenOff are the errors of calls without a response. A connection that ends within one
// returns io.EOF or io.ErrUnexpectedEOF.
var brokenOff = []error{
	io.EOF, io.ErrUnexpectedEOF, redis.ErrClosed, redis.ErrPoolTimeout, redis.ErrPoolExhausted,
	context.DeadlineExceeded, context.Canceled, ErrNotTried,
}

var (
	// ErrReply means that a script returned an unexpected value.
	ErrReply = errors.New("unexpected response of a script")
	// ErrNotTried means that a call was not sent.
	ErrNotTried = errors.New("not tried")
)

// asAnswer reports whether an error contains an error response of Redis. A missing value
// does not count.
func asAnswer(err error, answer *redis.Error) bool {
	return errors.As(err, answer) && !errors.Is(err, redis.Nil)
}

// Meaning returns the engine's error for an error of go-redis: the store is full, read
// only or unavailable. It returns nil for a bug of ours.
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

// refusing are the prefixes of responses to an unknown user or a wrong password.
var refusing = []string{"NOAUTH", "WRONGPASS"}

// Refused reports whether Redis refused the user or the password. A retry does not help
// then.
func Refused(err error) bool {
	text := Word(err)
	return slices.ContainsFunc(refusing, func(prefix string) bool { return strings.HasPrefix(text, prefix) })
}

// Failed wraps an error with the verb and its Meaning. It returns nil for nil.
func Failed(doing string, err error) error {
	if err == nil {
		return nil
	}
	if meaning := Meaning(err); meaning != nil {
		return fmt.Errorf("%s: %w: %w", doing, meaning, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// InPartition adds the partition to an error. nil and an error of home are unchanged.
func (c *Client) InPartition(n int, err error) error {
	if n == Home {
		return err
	}
	return partitions.Failed(n, len(c.tags), err)
}
