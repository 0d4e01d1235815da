package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/queue"
	"github.com/hookladder/hookladder/dispatcher/queue/queuetest"
)

// answers is a provider with the answers to come, the last of which stays.
type answers []string

func (a *answers) State(context.Context, string) (string, error) {
	now := (*a)[0]
	if len(*a) > 1 {
		*a = (*a)[1:]
	}
	if now == "down" {
		return "", errors.New("no route")
	}
	return now, nil
}

func placed(t *testing.T, states ...string) *Shop {
	s := NewShop(queuetest.Open(t, queue.Options{}), (*answers)(&states))
	queuetest.Run(t, s.queue)
	require.NoError(t, s.Place(t.Context(), "17"))
	require.NoError(t, s.Place(t.Context(), "17"), "a repeat")
	return s
}

func TestAnUnpaidOrderIsClosedAfterHalfAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := placed(t, "pending", "pending", "pending", "gone")
		queuetest.Advance(29 * time.Minute)
		require.Equal(t, "unpaid", s.State("17"))
		queuetest.Advance(time.Minute)
		require.Equal(t, "closed", s.State("17"))
		require.Len(t, queuetest.Dead(t, s.queue), 1)
	})
}

func TestAPaidOrderStaysOpenThoughTheProviderWasDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := placed(t, "down", "down", "pending", "paid")
		queuetest.Advance(24 * time.Hour)
		require.Equal(t, "paid", s.State("17"))
		r, err := s.queue.Get(t.Context(), "poll_17")
		require.NoError(t, err)
		require.Equal(t, 2, r.Attempts, "the snoozes do not count")
	})
}

func TestAfterTheLastPollAPersonDecides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := placed(t, "pending")
		require.NoError(t, s.Extend(t.Context(), "17", time.Now().Add(time.Hour)))
		queuetest.Advance(2 * time.Hour)
		require.Equal(t, "a person decides", s.State("17"))
	})
}

func TestTheLastPollNeedsNoQueue(t *testing.T) {
	s := &Shop{provider: &answers{"gone"}}
	err := s.poll(t.Context(), "17", queue.Delivery{Attempt: 4, MaxAttempts: 4})
	require.ErrorIs(t, err, queue.ErrSkipRetry)
}

func TestThePageAboutQueuesHasTheCoreOfThisProgram(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "queues.md"))
	require.NoError(t, err)
	_, block, ok := strings.Cut(string(page), "<!-- run by: deploy/docs/examples/go/closer/main_test.go -->\n```go\n")
	require.True(t, ok)
	block, _, _ = strings.Cut(block, "```")
	program, err := os.ReadFile("main.go")
	require.NoError(t, err)
	require.Contains(t, string(program), block)
}
