package conn_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
)

// answered is an error that Redis sent, as go-redis has it.
type answered string

func (a answered) Error() string { return string(a) }
func (answered) RedisError()     {}

func TestErrorsOfRedisHaveAMeaning(t *testing.T) {
	for text, want := range map[error]error{
		answered("OOM command not allowed when used memory > 'maxmemory'. script: 1f, on @user_script:3."):  dispatcher.ErrFull,
		answered("ERR max daily request size exceeded"):                                                     dispatcher.ErrFull,
		answered("ERR quota exceeded"):                                                                      dispatcher.ErrFull,
		answered("LOADING Redis is loading the dataset in memory"):                                          dispatcher.ErrUnavailable,
		answered("READONLY You can't write against a read only replica."):                                   dispatcher.ErrUnavailable,
		answered("MISCONF Errors writing to the AOF file: No space left on device"):                         dispatcher.ErrDiskFull,
		answered("MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist"): dispatcher.ErrReadOnly,
		answered("MOVED 1 127.0.0.1:7000"):                                                                  dispatcher.ErrUnavailable,
		answered("BUSY Redis is busy running a script."):                                                    dispatcher.ErrUnavailable,
		answered("WRONGTYPE Operation against a key holding the wrong kind of value"):                       nil,
		answered("ERR Error running script: user_script:3: attempt to index nil"):                           nil,
		io.EOF:               dispatcher.ErrUnavailable,
		io.ErrUnexpectedEOF:  dispatcher.ErrUnavailable,
		redis.ErrPoolTimeout: dispatcher.ErrUnavailable,
		redis.ErrClosed:      dispatcher.ErrUnavailable,
		&net.OpError{Op: "dial", Err: errors.New("connection refused")}:           dispatcher.ErrUnavailable,
		fmt.Errorf("claim: %w", context.DeadlineExceeded):                         dispatcher.ErrUnavailable,
		answered("NOPERM this user has no permissions to run the 'eval' command"): nil,

		redis.Nil:                   nil,
		errors.New("fault of ours"): nil,
	} {
		require.Equal(t, want, conn.Meaning(text), text.Error())
	}
}

// A right that is missing makes the store unavailable, and the error names it if Redis does.
func TestAMissingRightIsNamed(t *testing.T) {
	for text, right := range map[string]string{
		"NOPERM this user has no permissions to run the 'evalsha' command":                                      "+evalsha",
		"NOPERM User hookladder has no permissions to run the 'script|load' command":                            "+script|load",
		"ERR The user executing the script can't run this command or subcommand script: 1f, on @user_script:3.": "",
		"NOPERM this user has no permissions to access one of the keys used as arguments":                       "",
	} {
		err := conn.Failed("publish", answered(text))
		require.ErrorIs(t, err, dispatcher.ErrUnavailable)
		var missing *dispatcher.NoRight
		require.ErrorAs(t, err, &missing)
		require.Equal(t, right, missing.Right, text)
		require.True(t, conn.Forbidden(err), "a probe recognises it")
	}
	require.NotErrorIs(t, conn.Failed("publish", answered("WRONGTYPE")), dispatcher.ErrUnavailable)
}

func TestAListIsSharedOutByPartitionInItsOrder(t *testing.T) {
	partitions := []int{2, 0, 2, 2, 0}
	partitionOf := func(i int) int { return partitions[i] }
	require.Equal(t, []conn.Share{{Partition: 2, At: []int{0, 2, 3}}, {Partition: 0, At: []int{1, 4}}},
		conn.Grouped(5, 0, partitionOf))
	require.Equal(t, []conn.Share{{Partition: 2, At: []int{0, 2}}, {Partition: 0, At: []int{1, 4}}, {Partition: 2, At: []int{3}}},
		conn.Grouped(5, 2, partitionOf), "a share that is full is followed by another")
	require.Empty(t, conn.Grouped(0, 2, partitionOf))
}

func TestAnErrorOfOnePartitionNamesItAndStopsNoOther(t *testing.T) {
	t.Parallel()
	_, c := newTestProbe(t, redistest.Start(t).URL(), dispatcher.Durability{})
	var calls []conn.Call
	for _, n := range c.All() {
		calls = append(calls, conn.Call{Partition: n, Fill: func(p redis.Pipeliner) { p.Ping(t.Context()) }})
	}
	var read []int
	err := c.SendEach(t.Context(), conn.Batch{Doing: "ping", Calls: calls}, func(i int, r *conn.Call) error {
		require.Equal(t, i, r.Partition)
		read = append(read, r.Partition)
		if r.Partition == 0 {
			return conn.ErrReply
		}
		return r.Err
	})
	require.Equal(t, []int{0, 1}, read)
	require.ErrorIs(t, err, conn.ErrReply)
	require.Equal(t, []int{0}, conn.FailedPartitions(err))
	shares := []conn.Share{{Partition: 1}, {Partition: 0}}
	err = c.EachShare(t.Context(), "run", shares, func(p redis.Pipeliner, k int) {
		p.Do(t.Context(), []any{"NO-SUCH-COMMAND", "PING"}[k])
	})
	require.Equal(t, []int{1}, conn.FailedPartitions(err))
}

func TestHowManyHaveAWriteIsJudged(t *testing.T) {
	for _, c := range []struct {
		name       string
		have, want int
		ok         bool
	}{
		{"none of one", 0, 1, false},
		{"one of two", 1, 2, false},
		{"two of two", 2, 2, true},
		{"more than asked for", 3, 1, true},
	} {
		err := conn.NotDurable(c.have, c.want, "disks have it", nil)
		if c.ok {
			require.NoError(t, err, c.name)
		} else {
			require.ErrorIs(t, err, dispatcher.ErrUnavailable, c.name)
		}
	}
}
