package admin_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/archive"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// The log lost its end with the last second, or another master numbers it by a clock
// that is behind.
func TestNothingIsWrittenBeforeWhatIsArchived(t *testing.T) {
	onRedis(t, func(a *archived) {
		a.accept(1, 100)
		p := a.read()
		p.To = archive.Position{MS: max(a.Now.UnixMilli(), time.Now().UnixMilli()) + 3_600_000, Seq: 7} // Redis has its own clock
		a.archive(p)
		require.Equal(a.T, p.To, a.state().At)
		a.accept(1, 100)
		got := a.read()
		require.Len(a.T, got.Accepted, 1)
		require.True(a.T, got.To.After(p.To))
	})
}

// Another master took over that has neither the last entries nor how far they are archived.
func TestAStoreThatLostItsTailSaysSo(t *testing.T) {
	onRedis(t, func(a *archived) {
		a.accept(1, 100)
		before := a.read()
		a.archive(before)
		require.False(a.T, a.read().TailLost)
		a.Pass(time.Second)
		a.accept(1, 100)
		p := a.read()
		a.archive(p)
		client, tag := a.store.Client(), keys.Tag(a.Options.Project, 0)
		require.NoError(a.T, client.XDel(a.T.Context(), tag+keys.Attempts, p.To.String()).Err())
		require.NoError(a.T, client.HSet(a.T.Context(), tag+keys.Archive, "p", before.To.String()).Err())
		require.Equal(a.T, before.To, a.state().At)
		a.Pass(time.Second)
		a.accept(1, 100)

		a.archive(p)
		got := a.read()
		require.True(a.T, got.TailLost)
		require.Len(a.T, got.Accepted, 1)
		a.archive(got)
		a.accept(1, 100)
		got = a.read()
		require.False(a.T, got.TailLost, "once")
		a.archive(got)
		require.False(a.T, a.read().TailLost)
	})
}

func TestWhatWasCutIsNoTailThatWasLost(t *testing.T) {
	onRedis(t, func(a *archived) {
		a.accept(1, 1000)
		a.deliver()
		early := a.read()
		for range 20 {
			a.Pass(2 * time.Second)
			a.accept(1, 1000)
			a.deliver()
		}
		a.trim(2_000, false)
		require.True(a.T, a.state().Gap.After(early.To))
		a.archive(early)
		require.Equal(a.T, early.To, a.state().At)
		require.False(a.T, a.read().TailLost)
	})
}

// A comparison waits for no entry that was cut.
func TestALogThatWasCutToItsEndHasNoNewestEntry(t *testing.T) {
	onRedis(t, func(a *archived) {
		a.accept(3, 1000)
		before := a.state()
		require.True(a.T, before.Last.After(before.At))
		a.trim(1, false)
		cut := a.state()
		require.Zero(a.T, cut.Last)
		require.True(a.T, cut.Gap.After(before.Last))
		require.Equal(a.T, before.At, cut.At)
		p := a.read()
		require.Equal(a.T, p.From, p.To)
		require.False(a.T, p.More)
	})
}
