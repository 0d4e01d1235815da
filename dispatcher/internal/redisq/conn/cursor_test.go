package conn_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

var projects atomic.Int64

func newProject() string { return fmt.Sprintf("cursor%d", projects.Add(1)) }

// newStore opens a store of a project.
func newStore(t testing.TB, server redistest.Redis, project string) *redisq.Store {
	t.Helper()
	store, err := redisq.Open(t.Context(), redisq.Options{URL: redisqtest.PatientURL(server), Project: project, LaneMaxInFlight: 8, Permits: 8})
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// testPlace is where a page of the lists of these tests ended.
type testPlace struct {
	At   int64
	Name string
}

func sealPlace(t testing.TB, s *conn.Sealer, list string, p testPlace) string {
	t.Helper()
	text, err := s.Seal(t.Context(), list, p)
	require.NoError(t, err)
	return text
}

func TestACursorOpensAtEachInstanceOfItsProject(t *testing.T) {
	server, project, p := redistest.Start(t), newProject(), testPlace{At: 1790000000000, Name: "u_a:m_1"}
	one, two := newStore(t, server, project).Conn().Cursors(), newStore(t, server, project).Conn().Cursors()
	text := sealPlace(t, one, "things", p)
	require.NotEqual(t, text, sealPlace(t, one, "things", p), "two cursors of one place don't reveal that it is one")
	server.Restart()
	for _, s := range []*conn.Sealer{one, two, newStore(t, server, project).Conn().Cursors()} {
		var got testPlace
		require.NoError(t, s.Open(t.Context(), "things", text, &got))
		require.Equal(t, p, got)
	}
}

func TestACursorFitsItsOwnListOnly(t *testing.T) {
	server, project := redistest.Start(t), newProject()
	s := newStore(t, server, project).Conn().Cursors()
	text := sealPlace(t, s, "things", testPlace{At: 7, Name: "a"})
	refused := func(s *conn.Sealer, list, text, why string) {
		t.Helper()
		require.ErrorIs(t, s.Open(t.Context(), list, text, &testPlace{}), dispatcher.ErrCursor, why)
	}
	refused(s, "others", text, "of another list")
	refused(newStore(t, server, newProject()).Conn().Cursors(), "things", text, "of another project")
	raw, err := base64.RawURLEncoding.DecodeString(text)
	require.NoError(t, err)
	for i := range 8 * len(raw) {
		flipped := []byte(string(raw))
		flipped[i/8] ^= 1 << (i % 8)
		refused(s, "things", base64.RawURLEncoding.EncodeToString(flipped), fmt.Sprintf("bit %d", i))
	}
	for _, last := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_" {
		if changed := text[:len(text)-1] + string(last); changed != text {
			refused(s, "things", changed, "its last letter is "+string(last))
		}
	}
	for i := 1; i < len(text); i++ {
		refused(s, "things", text[:i], fmt.Sprintf("cut at %d", i))
	}
	first := testPlace{At: 7}
	require.NoError(t, s.Open(t.Context(), "things", "", &first))
	require.Equal(t, testPlace{At: 7}, first, "a page without a cursor is the first one")
	for _, wrong := range []string{" ", "0", "-1", "9223372036854775808", "0-0", "1-2-3-4", "job_7", "ep_000000001", "null", "{}", text + "A", text + "=", "%", strings.Repeat("A", 1<<20)} {
		refused(s, "things", wrong, wrong[:min(len(wrong), 20)])
	}
}

// Another instance that writes first makes another key.
func TestACursorOfDataThatWereLostIsRefused(t *testing.T) {
	server, project := redistest.Start(t), newProject()
	store := newStore(t, server, project)
	text := sealPlace(t, store.Conn().Cursors(), "things", testPlace{Name: "a"})
	require.NoError(t, store.Client().FlushAll(t.Context()).Err())
	s := newStore(t, server, project).Conn().Cursors()
	require.ErrorIs(t, s.Open(t.Context(), "things", text, &testPlace{}), dispatcher.ErrCursor)
	require.NoError(t, s.Open(t.Context(), "things", sealPlace(t, s, "things", testPlace{Name: "a"}), &testPlace{}))
}

func TestACursorRevealsNothingOfItsPlace(t *testing.T) {
	s := newStore(t, redistest.Start(t), newProject()).Conn().Cursors()
	long := testPlace{At: 1790000000000, Name: "u_ssaz-K_8te"}
	require.Len(t, sealPlace(t, s, "things", long), len(sealPlace(t, s, "things", testPlace{})), "not even how long a name is")
	raw, err := base64.RawURLEncoding.DecodeString(sealPlace(t, s, "things", long))
	require.NoError(t, err)
	require.NotContains(t, string(raw), long.Name)
}

// People look at lists most where a store is full.
func TestAFirstCursorIsMadeAlsoWhereMemoryIsFull(t *testing.T) {
	store := newStore(t, redistest.Start(t), newProject())
	require.NoError(t, store.Client().ConfigSet(t.Context(), "maxmemory", "1").Err())
	require.Error(t, store.Client().Set(t.Context(), "x", "y", 0).Err())
	sealPlace(t, store.Conn().Cursors(), "things", testPlace{Name: "a"})
}

// A page of a link is of another view than one of a key, though its filter is the same.
func TestACursorBelongsToTheViewOfItsCaller(t *testing.T) {
	s := newStore(t, redistest.Start(t), newProject()).Conn().Cursors()
	views := []dispatcher.View{{}, {Tenant: "m7"}, {Tenant: "m8"}, {Tenant: "m7", Endpoint: "ep_000000001"}, {Tenant: "m7", Endpoint: "ep_000000002"}}
	list := func(v dispatcher.View) string {
		return dispatcher.ListName("attempts", dispatcher.LogFilter{Tenants: []string{"m7"}, View: v})
	}
	for _, own := range views {
		text := sealPlace(t, s, list(own), testPlace{Name: "a"})
		for _, v := range views {
			err := s.Open(t.Context(), list(v), text, &testPlace{})
			if v == own {
				require.NoError(t, err)
				continue
			}
			require.ErrorIs(t, err, dispatcher.ErrCursor, "%+v at %+v", own, v)
		}
	}
}

// No text opens that was not sealed, and none fails in another way.
func FuzzOpen(f *testing.F) {
	s := newStore(f, redistest.Start(f), newProject()).Conn().Cursors()
	own := sealPlace(f, s, "things", testPlace{At: 7, Name: "a"})
	for _, text := range []string{"", own, own[:20], "0", "1-2-3-4", "e30", strings.ToUpper(own)} {
		f.Add("things", text)
	}
	f.Fuzz(func(t *testing.T, list, text string) {
		var got testPlace
		err := s.Open(t.Context(), list, text, &got)
		if text == "" {
			require.NoError(t, err)
			require.Zero(t, got)
			return
		}
		if list == "things" && text == own {
			require.NoError(t, err)
			require.Equal(t, testPlace{At: 7, Name: "a"}, got)
			return
		}
		require.ErrorIs(t, err, dispatcher.ErrCursor)
		require.Zero(t, got)
	})
}
