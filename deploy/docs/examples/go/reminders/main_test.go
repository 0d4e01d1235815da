package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/queue"
	"github.com/hookladder/hookladder/dispatcher/queue/queuetest"
)

// newReminders returns reminders and the times at which customers are reminded. A bubble begins at
// midnight, so it waits for an hour of the day.
func newReminders(t *testing.T, hour int) (*Reminders, *[]time.Time) {
	time.Sleep(time.Duration(hour) * time.Hour)
	var at []time.Time
	r := New(queuetest.Open(t, queue.Options{}), func(context.Context, int) error {
		at = append(at, time.Now().Round(time.Minute))
		if len(at) == 1 {
			return errors.New("busy")
		}
		return nil
	})
	queuetest.Run(t, r.queue)
	return r, &at
}

func TestAReminderComesTwoHoursAfterTheLastChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, at := newReminders(t, 12)
		basket := Basket{17, "first"}
		for range 3 {
			require.NoError(t, r.Changed(t.Context(), basket))
			queuetest.Advance(time.Hour)
		}
		last := time.Now().Add(-time.Hour).Round(time.Minute)
		queuetest.Advance(30 * time.Minute)
		require.Empty(t, *at)
		queuetest.Advance(time.Hour)
		require.Equal(t, []time.Time{last.Add(after), last.Add(after)}, *at, "the second is the retry after 15 s")
		require.NoError(t, r.Changed(t.Context(), basket), "too late, which is fine")
		queuetest.Advance(24 * time.Hour)
		require.Len(t, *at, 2)
		require.NoError(t, r.Changed(t.Context(), Basket{17, "second"}))
		require.NoError(t, r.Bought(t.Context(), Basket{17, "second"}))
		require.NoError(t, r.Bought(t.Context(), Basket{17, "third"}))
		queuetest.Advance(24 * time.Hour)
		require.Len(t, *at, 2)
	})
}

func TestNobodyIsRemindedAtNight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, at := newReminders(t, 1)
		require.NoError(t, r.Changed(t.Context(), Basket{17, "first"}))
		queuetest.Advance(3 * time.Hour)
		require.Empty(t, *at)
		queuetest.Advance(24 * time.Hour)
		require.Equal(t, 8, (*at)[0].UTC().Hour())
	})
}
