package redisq_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
)

// answered is an error that Redis sent, as go-redis has it.
type answered string

func (a answered) Error() string { return string(a) }
func (answered) RedisError()     {}

func TestErrorsOfRedisHaveAMeaning(t *testing.T) {
	for text, want := range map[error]error{
		answered("OOM command not allowed when used memory > 'maxmemory'. script: 1f, on @user_script:3."): dispatcher.ErrFull,
		answered("ERR max daily request size exceeded"):                                                    dispatcher.ErrFull,
		answered("ERR quota exceeded"):                                                                     dispatcher.ErrFull,
		answered("LOADING Redis is loading the dataset in memory"):                                         dispatcher.ErrUnavailable,
		answered("READONLY You can't write against a read only replica."):                                  dispatcher.ErrUnavailable,
		answered("MOVED 1 127.0.0.1:7000"):                                                                 dispatcher.ErrUnavailable,
		answered("BUSY Redis is busy running a script."):                                                   dispatcher.ErrUnavailable,
		answered("WRONGTYPE Operation against a key holding the wrong kind of value"):                      nil,
		answered("ERR Error running script: user_script:3: attempt to index nil"):                          nil,
		io.EOF:               dispatcher.ErrUnavailable,
		io.ErrUnexpectedEOF:  dispatcher.ErrUnavailable,
		redis.ErrPoolTimeout: dispatcher.ErrUnavailable,
		redis.ErrClosed:      dispatcher.ErrUnavailable,
		&net.OpError{Op: "dial", Err: errors.New("connection refused")}: dispatcher.ErrUnavailable,
		fmt.Errorf("claim: %w", context.DeadlineExceeded):               dispatcher.ErrUnavailable,
		redis.Nil:                   nil,
		errors.New("fault of ours"): nil,
	} {
		require.Equal(t, want, redisq.MeaningOf(text), text.Error())
	}
}

func TestACursorIsReadAsItWasWritten(t *testing.T) {
	for _, bad := range []string{"x", "!!", "ZHVl", "bm9wZSAgMCBh"} {
		_, err := redisq.ParseCursor(bad)
		require.ErrorIs(t, err, dispatcher.ErrCursor, bad)
	}
	for _, good := range []string{
		"due  0 0 1790000000000 u_a:m_1  0",
		"ready u_a 3 17 17 u_a:m_1 0123456789abcdef 1790000000000",
		"leases  0 0 1790000000000 ep_000000001:m_1 * 1790000000000",
		"lanes  0 0 1790000000000 u_a  0",
	} {
		text := base64.RawURLEncoding.EncodeToString([]byte(good))
		same, err := redisq.ParseCursor(text)
		require.NoError(t, err, good)
		require.Equal(t, text, same, good)
	}
}

func TestAChangeOfAnEndpointIsReadAsItWasPublished(t *testing.T) {
	for text, want := range map[string]dispatcher.EndpointChange{
		"7 ep_000000001 acme": {ID: "ep_000000001", Tenant: "acme", Version: 7},
		"1 ep_000000001 ":     {ID: "ep_000000001", Version: 1},
		"0 ep_000000001":      {ID: "ep_000000001"},
	} {
		got, err := redisq.ParseChange(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, bad := range []string{"", "7", "7 ", "x ep_000000001 acme", "-1 ep_000000001 acme"} {
		_, err := redisq.ParseChange(bad)
		require.Error(t, err, bad)
	}
}

func TestLimitsThatCantBeReadAreAnError(t *testing.T) {
	got, err := redisq.ParseLimits("3 64 50000 1 d")
	require.NoError(t, err)
	require.Equal(t, dispatcher.LaneLimits{
		Version: 3, MaxInFlight: 64, Interval: 50 * time.Millisecond, Ordered: true, Held: dispatcher.HeldDisabled,
	}, got)
	for _, bad := range []string{"3", "3 64 50000 1 y", "3 64 50000 1", "a 0 0 0 -"} {
		_, err := redisq.ParseLimits(bad)
		require.Error(t, err, bad)
	}
}

func TestAHintThatCantBeReadIsAnError(t *testing.T) {
	h, by, err := redisq.ParseHint("3 1790000000000123 1790000015000 4 host-01")
	require.NoError(t, err)
	require.Equal(t, "host-01", by)
	require.Equal(t, 3, h.Partition)
	require.Equal(t, 4, h.Weight)
	require.Equal(t, int64(1790000000000123), h.Now.UnixMicro())
	require.Equal(t, int64(1790000015000), h.Due.UnixMilli())
	_, _, err = redisq.ParseHint("nonsense")
	require.Error(t, err)
}
