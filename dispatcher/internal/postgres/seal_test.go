package postgres_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/pgtest"
	"github.com/hookladder/hookladder/dispatcher/archive"
	"github.com/hookladder/hookladder/dispatcher/internal/postgres"
)

// What a restore puts back is sealed anew, wherever its head is, and nothing else is touched.
func TestHeadsThatARestorePutsBackAreSealedAnew(t *testing.T) {
	for _, bodies := range []string{"all", "none"} {
		t.Run(bodies, func(t *testing.T) {
			t.Parallel()
			url := pgtest.New(t)
			a := mustOpen(t, postgres.Options{URL: url, Bodies: bodies})
			l := newLine()
			l.hold(t, a)
			list := append(accepted("open", "done", "dead", "locked"), acceptedAt(now.AddDate(-9, 0, 0), "old"))
			l.write(t, a, list, event(archive.Delivered, "done", 1), event(archive.Dead, "dead", 1))
			v := mustOpenVault(t, postgres.Options{URL: url})
			seal := func(id string, head []byte) ([]byte, error) {
				if id == "locked" {
					return nil, errors.New("no key opens it")
				}
				return []byte(strings.ReplaceAll(string(head), "head of", "sealed head of")), nil
			}
			once := func(id string, head []byte) ([]byte, error) {
				if strings.HasPrefix(string(head), "sealed") {
					return head, nil
				}
				return seal(id, head)
			}
			got, err := v.SealHeads(t.Context(), now.AddDate(0, 0, -1), 100, once)
			require.NoError(t, err)
			require.Equal(t, postgres.Resealed{Sealed: 3, Left: 1}, got)
			heads := map[string]string{}
			for _, o := range mustRead(t, v.Open(t.Context(), nil)) {
				heads[o.ID.Message] = string(o.Head)
			}
			for _, d := range mustRead(t, v.Dead(t.Context(), now.AddDate(0, 0, -1), 100)) {
				heads[d.ID.Message] = string(d.Head)
			}
			require.Equal(t, map[string]string{"open": "sealed head of open", "old": "sealed head of old", "dead": "sealed head of dead", "locked": "head of locked"}, heads)
			require.Equal(t, []string{"head of done"}, read(t, url, "select convert_from(head, 'UTF8') from hookladder.message where id = 'done'"), "nobody sends it again")
			got, err = v.SealHeads(t.Context(), now.AddDate(0, 0, -1), 100, once)
			require.NoError(t, err)
			require.Equal(t, postgres.Resealed{Left: 1}, got, "once")
		})
	}
}

func TestManyHeadsAreSealedInPages(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	a, l := newTestArchive(t, url), newLine()
	l.hold(t, a)
	var ids []string
	for i := range 600 {
		ids = append(ids, "m"+strings.Repeat("x", i))
	}
	l.write(t, a, accepted(ids...))
	v := mustOpenVault(t, postgres.Options{URL: url})
	got, err := v.SealHeads(t.Context(), now, 100, func(_ string, head []byte) ([]byte, error) { return append([]byte("new "), head...), nil })
	require.NoError(t, err)
	require.Equal(t, postgres.Resealed{Sealed: 600}, got)
}
