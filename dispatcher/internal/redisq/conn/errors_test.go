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
