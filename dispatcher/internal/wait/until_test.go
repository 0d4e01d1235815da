package wait_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/internal/wait"
)

func TestUntilEndsAtItsTime(t *testing.T) {
	for _, waited := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			u := wait.NewUntil(t.Context(), time.Now().Add(time.Minute))
			defer u.Stop()
			end, ok := u.Deadline()
			require.True(t, ok)
			require.Equal(t, time.Minute, time.Until(end))
			if waited {
				select {
				case <-u.Done():
					t.Fatal("it ended at once")
				default:
				}
			}
			time.Sleep(time.Minute - 1)
			require.NoError(t, u.Err())
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			require.ErrorIs(t, u.Err(), context.DeadlineExceeded)
			require.ErrorIs(t, context.Cause(u), context.DeadlineExceeded)
			<-u.Done()
			require.ErrorIs(t, u.Err(), context.DeadlineExceeded)
		})
	}
}

func TestUntilEndsWithItsParent(t *testing.T) {
	why := errors.New("the process stops")
	for _, waited := range []bool{false, true} {
		parent, stop := context.WithCancelCause(t.Context())
		u := wait.NewUntil(parent, time.Now().Add(time.Hour))
		defer u.Stop()
		require.Equal(t, parent, u.Parent())
		if waited {
			u.Done()
		}
		require.NoError(t, u.Err())
		stop(why)
		<-u.Done()
		require.ErrorIs(t, u.Err(), context.Canceled)
		require.ErrorIs(t, context.Cause(u), why)
	}
}

func TestUntilIsNeverLaterThanItsParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		u := wait.NewUntil(parent, time.Now().Add(time.Hour))
		defer u.Stop()
		end, _ := u.Deadline()
		require.Equal(t, time.Second, time.Until(end))
	})
}

func TestUntilEndsWhenItIsStopped(t *testing.T) {
	for _, waited := range []bool{false, true} {
		u := wait.NewUntil(t.Context(), time.Now().Add(time.Hour))
		if waited {
			u.Done()
		}
		u.Stop()
		require.ErrorIs(t, u.Err(), context.Canceled)
		<-u.Done()
		u.Stop()
	}
}

// TestContextsMadeFromUntilNeedNoGoroutine: net and crypto/tls make some in each dial.
func TestContextsMadeFromUntilNeedNoGoroutine(t *testing.T) {
	type name struct{}
	parent, stop := context.WithCancel(context.WithValue(t.Context(), name{}, "value"))
	defer stop()
	u := wait.NewUntil(parent, time.Now().Add(time.Hour))
	defer u.Stop()
	require.Equal(t, "value", u.Value(name{}))
	child, leave := context.WithCancel(u)
	defer leave()
	ended := make(chan struct{})
	context.AfterFunc(u, func() { close(ended) })
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	require.NotContains(t, string(stacks), "propagateCancel", "context waits for Until in a goroutine")
	require.Equal(t, "value", child.Value(name{}))
	stop()
	<-child.Done()
	<-ended
}
