package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// followed is a caller that follows attempts.
type followed struct {
	t    testing.TB
	news chan client.Event
	last string   // id of the last event
	seen []string // messages
	end  string   // why the server ended it
}

// follow follows attempts at an instance, behind what was seen before.
func (f *followed) follow(i *instance) {
	f.t.Helper()
	ctx, stop := context.WithCancel(f.t.Context())
	news, done := make(chan client.Event), make(chan struct{})
	go func() {
		defer close(done)
		defer close(news)
		_ = i.Client.Follow(ctx, client.AttemptFilter{}, f.last, func(e client.Event) error {
			select {
			case news <- e:
			case <-ctx.Done():
			}
			return nil
		})
	}()
	f.t.Cleanup(func() {
		stop()
		<-done
	})
	f.news, f.end = news, ""
	f.next() // the first has its place only
}

// next takes the next event. It is false where the stream has ended.
func (f *followed) next() bool {
	f.t.Helper()
	e, ok := <-f.news
	if !ok {
		return false
	}
	require.Nil(f.t, e.Gap)
	f.last = e.ID
	if e.Attempt != nil {
		f.seen = append(f.seen, e.Attempt.MessageID)
	}
	if e.End != nil {
		f.end = e.End.Reason
	}
	return true
}

// until takes events until it has seen so many attempts.
func (f *followed) until(attempts int) {
	f.t.Helper()
	for len(f.seen) < attempts {
		require.True(f.t, f.next(), "the stream ended: %s %v", f.end, f.seen)
	}
}

func TestAttemptsAreFollowedFromOneInstanceToTheNext(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	held := make(chan struct{})
	w.receiver.answers(func(_ http.ResponseWriter, _ *http.Request, id string, _ int) {
		if id == "held" {
			<-held
		}
	})
	first := w.serve("SHUTDOWN_GRACE=60s", "PARTITIONS=3")
	first.send("held")
	w.receiver.wait("held", 1)
	f := &followed{t: t}
	f.follow(first)
	second := w.serve()
	for n, id := range named("a", 20) {
		[]*instance{first, second}[n%2].publish(wire.Message{ID: id, URL: w.receiver.URL(n % 4)})
	}
	f.until(20)

	require.NoError(t, first.Signal(syscall.SIGTERM))
	for f.next() {
	}
	require.Equal(t, "stopping", f.end)
	require.False(t, first.Gone(), "it still waits for an attempt")
	for n, id := range named("b", 20) {
		second.publish(wire.Message{ID: id, URL: w.receiver.URL(n % 4)})
	}
	second.untilAll("delivered", named("b", 20)...)
	close(held)
	second.until("held", "delivered")
	eventually(t, "the first ends", first.Gone) // a second signal would end it at once
	require.Zero(t, first.ExitCode())
	f.follow(second)
	f.until(41)
	want := slices.Concat([]string{"held"}, named("a", 20), named("b", 20))
	require.ElementsMatch(t, want, f.seen, "each once")
	second.send("c")
	f.until(42)
	require.Equal(t, "c", f.seen[41])

	p, err := kit.Start(kit.Command{
		Name: "hookladder tail", Path: mustBinary(t), Args: []string{"tail", "--since", "1h", "--outcome", "delivered"},
		Env: []string{kit.NoExitSleep, "HOOKLADDER_URL=" + second.URL},
	})
	require.NoError(t, err)
	t.Cleanup(p.Kill)
	_, err = p.Line(t.Context(), "  held  #1")
	require.NoError(t, err)
	second.send("d")
	line, err := p.Line(t.Context(), "  d  #1")
	require.NoError(t, err)
	require.Regexp(t, fmt.Sprintf(`^\S+ \S+ \S+  delivered  200  +\S+s  u_\S+ %s  d  #1$`, w.receiver.URL(0)), line)
	require.NoError(t, p.Interrupt())
	require.Zero(t, p.ExitCode())
}
