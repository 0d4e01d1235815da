package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/queue"
	"github.com/hookladder/hookladder/dispatcher/queue/queuetest"
)

func TestAUserGetsOneWelcomeAndEverybodyADigestADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent []string
		m := New(queuetest.Open(t, queue.Options{}), func(_ context.Context, to, text string) error {
			sent = append(sent, to+": "+text)
			return nil
		})
		queuetest.Run(t, m.queue)
		for range 2 {
			require.NoError(t, m.Joined(t.Context(), 17))
		}
		queuetest.Advance(2 * time.Minute)
		require.Equal(t, []string{"user 17: welcome"}, sent)
		first := tomorrow(time.Now())
		queuetest.Advance(48 * time.Hour)
		require.Equal(t, []string{
			"user 17: welcome", "all: digest of " + first.Format(time.DateOnly), "all: digest of " + first.AddDate(0, 0, 1).Format(time.DateOnly),
		}, sent)
	})
}

func TestAWrongAddressIsNotTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls, failure := 0, ErrNoAddress
		m := New(queuetest.Open(t, queue.Options{}), func(context.Context, string, string) error {
			calls++
			return failure
		})
		queuetest.Run(t, m.queue)
		require.NoError(t, m.Joined(t.Context(), 17))
		queuetest.Advance(2 * time.Minute)
		require.Equal(t, 1, calls)
		require.Equal(t, dispatcher.ReasonRejected, queuetest.Dead(t, m.queue)[0].Reason)

		failure = errors.New("busy")
		require.NoError(t, m.Joined(t.Context(), 18))
		queuetest.Advance(2 * time.Hour)
		require.Len(t, queuetest.Dead(t, m.queue), 2)
		failure = nil
		n, err := m.queue.Replay(t.Context(), queue.Filter{Queue: "mail", Topics: []string{"mail.welcome"}})
		require.NoError(t, err)
		require.Equal(t, 2, n)
		queuetest.Advance(time.Second)
		require.Empty(t, queuetest.Dead(t, m.queue))
	})
}
