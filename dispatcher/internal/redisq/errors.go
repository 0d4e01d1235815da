package redisq

import (
	"errors"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
)

// unavailable are the prefixes of Redis' answers that pass by themselves: it is
// loading, failing over, being resharded, busy, or takes no more clients.
var unavailable = []string{
	"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MOVED", "ASK",
	"BUSY", "NOREPLICAS", "MISCONF", "NOSCRIPT", "NOAUTH", "WRONGPASS", "ERR max number of clients",
}

// full are what Redis and its managed kinds say when there is no memory left.
var full = []string{"OOM", "size exceeded", "quota exceeded"}

// meaningOf tells what an error of go-redis means to the engine; nil: it is a
// fault of ours.
func meaningOf(err error) error {
	var answer redis.Error
	if !errors.As(err, &answer) || errors.Is(err, redis.Nil) {
		var network net.Error
		if errors.As(err, &network) || strings.Contains(err.Error(), "connection pool timeout") {
			return dispatcher.ErrUnavailable
		}
		for _, cut := range brokenOff {
			if errors.Is(err, cut) {
				return dispatcher.ErrUnavailable
			}
		}
		return nil
	}
	text := answer.Error()
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
