package redisq_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// Redis keeps a small hash as a list, which each look-up walks. With some
// hundred lanes that costs a script more than all its other work for a lane.
func TestTheStatesOfLanesAreFoundAtOnce(t *testing.T) {
	server := redistest.Start(t, "enable-debug-command yes")
	f := newTestStores(server)(t, redisqtest.Setup{Partitions: 1, LaneMaxInFlight: 128, Permits: 1024})
	r := &trap{TB: t, fixture: f, store: f.Queue}
	r.setClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	client := r.store.Client()
	encodings := func() (all []string) {
		for _, key := range rawKeys(t, client, "test*") {
			if strings.HasSuffix(key, ":in") || strings.HasSuffix(key, ":lane") {
				encoding, err := client.ObjectEncoding(t.Context(), key).Result()
				require.NoError(t, err)
				all = append(all, encoding)
			}
		}
		return all
	}
	r.schedule(r.entry("a", "m1", 0), r.entry("b", "m2", 0))
	require.Equal(t, []string{"hashtable", "hashtable"}, encodings(), "as soon as there is one")

	require.NoError(t, client.Do(t.Context(), "debug", "reload").Err())
	require.Equal(t, []string{"listpack", "listpack"}, encodings(), "as Redis reads them from its disk")
	r.setClock(r.now.Add(2 * time.Hour))
	_, err := r.store.Trim(t.Context(), "one", []int{0}, dispatcher.Keep{Finished: time.Hour, Dead: time.Hour}, false)
	require.NoError(t, err)
	require.Equal(t, []string{"hashtable", "hashtable"}, encodings(), "after a while")
	r.mustBeSound()
}

// Redis keeps a small sorted set as a list too, with as many leases as one lane
// may have. Each lease is looked up at its claim and twice when it is settled.
func TestLeasesAreFoundAtOnce(t *testing.T) {
	r := newTrap(t)
	var batch []dispatcher.Entry
	for _, lane := range []dispatcher.Lane{"a", "b", "c", "d", "e", "f"} {
		for _, id := range []string{"1", "2"} { // the first window
			batch = append(batch, r.entry(lane, string(lane)+id, 0))
		}
	}
	leases := func() []string {
		return slices.DeleteFunc(rawKeys(t, r.store.Client(), "test*"), func(key string) bool {
			return !strings.HasSuffix(key, ":leases:one")
		})
	}
	encoding := func() string {
		require.Len(t, leases(), 1)
		encoding, err := r.store.Client().ObjectEncoding(t.Context(), leases()[0]).Result()
		require.NoError(t, err)
		return encoding
	}
	r.schedule(batch...)
	claimed := r.claim("one", 3)
	require.NotEqual(t, "skiplist", encoding(), "a few are not worth it")
	claimed = append(claimed, r.claim("one", 9)...)
	require.Len(t, claimed, len(batch))
	require.Equal(t, "skiplist", encoding())
	r.mustBeSound()
	for _, c := range claimed {
		require.Equal(t, []dispatcher.SettleResult{dispatcher.SettledOK}, r.settle("one", ended(c, dispatcher.Delivered)))
	}
	r.mustBeSound()
	require.Empty(t, leases())
}
