package home_test

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

func TestAPageIsShownToItsOwnerForAMinute(t *testing.T) {
	onBothForAccess(t, func(t *testing.T, r *accessRig) {
		page := []byte("<h1>whsec_SECRET</h1>")
		id, err := r.PutShown(t.Context(), "session:a", page)
		require.NoError(t, err)
		require.Len(t, id, 43, "32 bytes")
		require.NotContains(t, r.raw(), id)
		require.NotContains(t, r.raw(), "SECRET", "the id seals it")
		for range 2 {
			got, err := r.another().Shown(t.Context(), "session:a", id)
			require.NoError(t, err)
			require.Equal(t, page, got)
		}
		for owner, of := range map[string]string{"session:b": id, "link:a": id, "local": id, "": id, "session:a": strings.Repeat("A", 43)} {
			_, err := r.Shown(t.Context(), owner, of)
			require.ErrorIs(t, err, dispatcher.ErrNotShown, owner)
		}
		r.pass(dispatcher.ShownFor - time.Millisecond)
		_, err = r.Shown(t.Context(), "session:a", id)
		require.NoError(t, err)
		r.pass(time.Millisecond)
		_, err = r.Shown(t.Context(), "session:a", id)
		require.ErrorIs(t, err, dispatcher.ErrNotShown, "whatever the TTL is")
	})
}

// Somebody with write access to Redis could move the record to a session of their own.
func TestAPageThatWasMovedIsShownToNobody(t *testing.T) {
	onBothForAccess(t, func(t *testing.T, r *accessRig) {
		id, err := r.PutShown(t.Context(), "session:a", []byte("secret"))
		require.NoError(t, err)
		from, to := r.home+":shown:"+dispatcher.HashToken("session:a"), r.home+":shown:"+dispatcher.HashToken("session:b")
		require.NoError(t, r.client.Rename(t.Context(), from, to).Err())
		_, err = r.Shown(t.Context(), "session:b", id)
		require.ErrorIs(t, err, dispatcher.ErrNotShown)
		require.NoError(t, r.client.HSet(t.Context(), to, dispatcher.HashToken(id), "no record").Err())
		_, err = r.Shown(t.Context(), "session:b", id)
		require.ErrorIs(t, err, dispatcher.ErrNotShown)
	})
}

func TestPagesAreFewAndSmall(t *testing.T) {
	onBothForAccess(t, func(t *testing.T, r *accessRig) {
		var ids []string
		for i := range 10 {
			id, err := r.PutShown(t.Context(), "link:a", fmt.Append(nil, "page ", i))
			require.NoError(t, err)
			ids = append(ids, id)
			r.pass(time.Second)
		}
		shown := r.home + ":shown:" + dispatcher.HashToken("link:a")
		require.EqualValues(t, 8, r.client.HLen(t.Context(), shown).Val())
		for i, id := range ids {
			_, err := r.Shown(t.Context(), "link:a", id)
			require.Equal(t, i < 2, err != nil, "page %d", i)
		}
		require.Positive(t, r.client.PTTL(t.Context(), shown).Val(), "it goes by itself")
		r.pass(dispatcher.ShownFor - 2*time.Second)
		_, err := r.PutShown(t.Context(), "link:a", []byte("the last"))
		require.NoError(t, err)
		require.EqualValues(t, 2, r.client.HLen(t.Context(), shown).Val(), "those that ended are gone")

		noise := make([]byte, 65<<10)
		_, _ = rand.Read(noise)
		_, err = r.PutShown(t.Context(), "link:a", noise)
		require.ErrorContains(t, err, "compressed")
		_, err = r.PutShown(t.Context(), "link:a", bytes.Repeat([]byte("a"), 1<<20+1))
		require.ErrorContains(t, err, "compressed")
	})
}
