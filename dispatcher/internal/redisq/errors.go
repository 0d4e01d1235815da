package redisq

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
	context.DeadlineExceeded, context.Canceled, errNotTried,
}

var (
	errAnswer   = errors.New("unexpected answer of a script")
	errNotTried = errors.New("not tried")
)

// asAnswer finds what Redis answered in an error. That there is nothing is no
// error of Redis'.
func asAnswer(err error, answer *redis.Error) bool {
	return errors.As(err, answer) && !errors.Is(err, redis.Nil)
}

// meaningOf tells what an error of go-redis means to the engine; nil: it is a
// fault of ours.
func meaningOf(err error) error {
	text := wordOf(err)
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
	text := wordOf(err)
	return slices.ContainsFunc(refusing, func(prefix string) bool { return strings.HasPrefix(text, prefix) })
}

// failed gives an error its meaning.
func failed(doing string, err error) error {
	if err == nil {
		return nil
	}
	if meaning := meaningOf(err); meaning != nil {
		return fmt.Errorf("%s: %w: %w", doing, meaning, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}
