package conn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
)

// unavailable are the prefixes of temporary errors of Redis. Some end by themselves,
// others after a person has fixed Redis. It is loading, failing over, being resharded or
// busy, or has too few replicas or too many clients. RESTORING and EMPTIED come from
// schedule: an archive is being restored, or the partition lost its data. TORN: see torn.
var unavailable = []string{
	"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MOVED ", "ASK ",
	"BUSY ", "NOREPLICAS", "NOSCRIPT", "RESTORING", "EMPTIED", tornWord, "NOAUTH", "WRONGPASS", "ERR max number of clients",
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

// ErrSettings reports that the store refuses the settings, so that a retry does not help.
var ErrSettings = errors.New("the settings of the store are wrong")

// Explain adds the wrong setting and its cure to an error that a retry does not end. It
// returns any other error unchanged.
func (o Options) Explain(err error) error {
	wrong, sentinels := "", err != nil && strings.Contains(err.Error(), "all sentinels")
	switch {
	case err == nil || errors.Is(err, ErrSettings):
		return err
	case sentinels && errors.Is(err, redis.Nil):
		wrong = fmt.Sprintf("REDIS_MASTER: no sentinel knows a master named %q", o.Master)
	case sentinels && Refused(err):
		wrong = "REDIS_URL: the sentinels refuse the user or the password: set sentinel_username= and sentinel_password= in REDIS_URL; user:password@ is for the master"
	case strings.HasPrefix(Word(err), "NOAUTH"):
		wrong = "REDIS_URL: it has no password, but the store needs one"
	case Refused(err):
		wrong = "REDIS_URL: the user or the password is wrong, or the user is off"
	default:
		return err
	}
	return fmt.Errorf("%w: %s: %w", ErrSettings, wrong, err)
}

// forbidding are parts of responses to a user without the right to a command, a key or a
// channel. The second one is of a script in Redis 6.2 and 7.0.
var forbidding = []string{"NOPERM", "can't run this command or subcommand"}

// Forbidden reports whether Redis refused a command, a key or a channel to the user. A retry
// does not help until an operator grants the right.
func Forbidden(err error) bool {
	text := Word(err)
	return slices.ContainsFunc(forbidding, func(part string) bool { return strings.Contains(text, part) })
}

// refusedCommand finds the name of the command in such a response.
var refusedCommand = regexp.MustCompile(`'([a-z|]+)' command`)

// noRight returns the right that is missing, after Forbidden. Meaning does not return it, because
// a caller that tries its rights distinguishes it from a store that does not respond.
func noRight(err error) error {
	if m := refusedCommand.FindStringSubmatch(Word(err)); m != nil {
		return &dispatcher.NoRight{Right: "+" + m[1]}
	}
	return &dispatcher.NoRight{}
}

// Failed wraps an error with the verb and its Meaning. It returns nil for nil.
func Failed(doing string, err error) error {
	if err == nil {
		return nil
	}
	meaning := Meaning(err)
	if Forbidden(err) {
		meaning = noRight(err)
	}
	if meaning != nil {
		return fmt.Errorf("%s: %w: %w", doing, meaning, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// InPartition adds the partition to an error. nil and an error of home are unchanged.
func (c *Client) InPartition(n int, err error) error {
	if n == Home {
		return err
	}
	return FailedPartition(n, len(c.tags), err)
}

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
