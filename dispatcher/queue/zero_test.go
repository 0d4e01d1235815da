package queue_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/queue"
)

func TestAQueueThatWasNotOpenedReturnsErrors(t *testing.T) {
	t.Parallel()
	for _, q := range []*queue.Queue{nil, {}} {
		_, err := q.Publish(t.Context(), queue.Task{})
		require.ErrorContains(t, err, "not made by queue.Open")
		require.ErrorContains(t, q.Cancel(t.Context(), "a"), "not made by queue.Open")
		require.ErrorContains(t, q.Run(t.Context()), "not made by queue.Open")
		require.ErrorContains(t, q.Close(), "not made by queue.Open")
	}
	_, err := queue.Open(t.Context(), "", queue.Options{})
	require.Error(t, err)
}
