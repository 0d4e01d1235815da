package engine_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	d "github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/signer"
)

// publicly signs with a secret that has a public key.
func publicly(e *d.Endpoint) {
	e.Signature = signer.StandardEd25519
	e.Secrets = []d.EndpointSecret{{Secret: e.Signature.NewSecret()}}
}

// keys reads a page of public keys, which must work.
func (r *endpointRig) keys(t testing.TB, f d.PublicKeyFilter) d.PublicKeyPage {
	t.Helper()
	page, err := r.PublicKeys(t.Context(), f)
	require.NoError(t, err)
	return page
}

func TestStrangersWhoAskForPublicKeysCostTheStoreOneReadingAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, nil)
		first := r.create(t, publicly, uid("u1"))
		before := r.store.total()
		ask := func() {
			for range 100 {
				for _, f := range []d.PublicKeyFilter{
					{}, {Limit: 1}, {Name: "u1"}, {Name: "nobody"}, {Name: first.ID}, {Name: "ep_none"},
				} {
					_, err := r.PublicKeys(t.Context(), f)
					require.NoError(t, err)
				}
			}
		}
		require.Equal(t, time.Minute, r.keys(t, d.PublicKeyFilter{}).Fresh)
		ask()
		pass(59 * time.Second)
		ask()
		require.Equal(t, before+1, r.store.total(), "one page was read")
		require.Empty(t, r.queue.seen("lane states"))
		require.Equal(t, time.Second, r.keys(t, d.PublicKeyFilter{}).Fresh)

		second := r.create(t, publicly, uid("u2"))
		pass(time.Second)
		require.Equal(t, second.PublicKeys(), r.keys(t, d.PublicKeyFilter{Name: "u2"}).Keys, "a new one is known within a minute")
		r.change(t, second.ID, publicly)
		pass(time.Minute)
		require.Equal(t, r.store.stored(second.ID).PublicKeys(), r.keys(t, d.PublicKeyFilter{Name: second.ID}).Keys)
	})
}

func TestManyStrangersAtOnceCauseOneReading(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, nil)
		view := r.create(t, publicly)
		answer := make(chan struct{})
		r.store.set(func() {
			r.store.hook = func(string) error { <-answer; return nil }
		})
		impatient, leave := context.WithCancel(t.Context())
		var all sync.WaitGroup
		pages, errs := make([]d.PublicKeyPage, 50), make([]error, 50)
		for n := range pages {
			all.Go(func() {
				ctx := t.Context()
				if n == 0 {
					ctx = impatient
				}
				pages[n], errs[n] = r.PublicKeys(ctx, d.PublicKeyFilter{})
			})
			synctest.Wait() // the first reads, all others wait for it
		}
		leave()
		synctest.Wait()
		close(answer)
		all.Wait()
		require.Equal(t, 1, r.store.count("list endpoints"))
		for n := range pages {
			require.NoError(t, errs[n], "also of the one who left, whose reading serves all")
			require.Equal(t, view.PublicKeys(), pages[n].Keys)
		}
	})
}

func TestAStoreThatDoesNotAnswerIsNotAskedAgainByEachStranger(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, nil)
		view := r.create(t, publicly)
		r.store.set(func() { r.store.hook = failing("list endpoints", d.ErrUnavailable) })
		for range 100 {
			_, err := r.PublicKeys(t.Context(), d.PublicKeyFilter{})
			require.ErrorIs(t, err, d.ErrUnavailable)
		}
		require.Equal(t, 1, r.store.count("list endpoints"))
		r.store.set(func() { r.store.hook = nil })
		pass(time.Second)
		require.Equal(t, view.PublicKeys(), r.keys(t, d.PublicKeyFilter{}).Keys)
	})
}

func TestPagesOfPublicKeysHoldNothingOfEndpointsWithoutOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, nil)
		var secretIDs, want []string
		for n := range 300 {
			if n%3 == 0 {
				want = append(want, r.create(t, publicly, uid(fmt.Sprintf("p%d", n))).ID)
			} else {
				secretIDs = append(secretIDs, r.create(t, uid(fmt.Sprintf("s%d", n))).ID)
			}
		}
		slices.Sort(want)
		for _, limit := range []int{1, 7, 50, 99, 100, 101} {
			var got []string
			for f := (d.PublicKeyFilter{Limit: limit}); ; {
				page := r.keys(t, f)
				for _, key := range page.Keys {
					got = append(got, key.Endpoint)
				}
				require.LessOrEqual(t, len(page.Keys), limit)
				if page.Next == "" {
					break
				}
				f.Cursor = page.Next
			}
			require.Equal(t, want, got)
		}
		require.Equal(t, 1, r.store.count("list endpoints"), "the others are not read either")
		for _, name := range []string{"s1", secretIDs[0], "nobody", "ep_none"} {
			require.Empty(t, r.keys(t, d.PublicKeyFilter{Name: name}).Keys)
		}
		for _, cursor := range []string{"c1", want[0]} {
			_, err := r.PublicKeys(t.Context(), d.PublicKeyFilter{Cursor: cursor})
			require.ErrorIs(t, err, d.ErrCursor)
		}
	})
}

func TestAPublicKeyIsToldWhileItsSecretSigns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, nil)
		view := r.create(t, publicly)
		old := view.PublicKeys()[0]
		_, err := r.RotateSecret(t.Context(), view.ID, signer.Secret{}, 30*time.Second)
		require.NoError(t, err)
		page := r.keys(t, d.PublicKeyFilter{Name: view.ID})
		require.Len(t, page.Keys, 2)
		require.Equal(t, old.Key, page.Keys[1].Key)
		pass(31 * time.Second)
		require.Equal(t, page.Keys[:1], r.keys(t, d.PublicKeyFilter{}).Keys)
	})
}
