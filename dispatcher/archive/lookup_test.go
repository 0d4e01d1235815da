package archive_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
)

// Between two pages, and in the middle of one, the store forgets, and others end. Each
// delivery that had ended before is listed once, in its place.
func TestAListOfBothHasAllOnceWhileTheStoreForgets(t *testing.T) {
	for seed := range uint64(150) {
		w, l := newLookupWorld(t, seed)
		w.between = func() {}
		w.grow(0, 60)
		for i := range 5 {
			id := dispatcher.DeliveryID{Lane: "ep_a", Message: fmt.Sprint("waits", i)}
			w.live[id] = dispatcher.Delivery{ID: id, Status: dispatcher.StatusReady}
		}
		w.forget(w.rnd.IntN(60))
		before := map[string]bool{}
		for id := range w.live {
			before[id.String()] = true
		}
		for id := range w.kept {
			before[id.String()] = true
		}
		// One that is sent again is listed where it waits, not where it had ended.
		again := dispatcher.DeliveryID{Lane: "ep_a", Message: "waits0"}
		w.kept[again] = archive.End{Event: archive.Event{ID: again, At: start.Add(time.Second), Kind: archive.Dead}}
		n := 1000
		w.between = func() {
			w.forget(w.rnd.IntN(4))
			if n < 1030 {
				w.grow(n, 1)
				n++
			}
		}
		f := dispatcher.Filter{Tenants: []string{"t"}, Limit: 1 + w.rnd.IntN(9)}
		var got []dispatcher.Delivery
		for {
			page, err := l.Deliveries(t.Context(), f)
			require.NoError(t, err)
			require.LessOrEqual(t, len(page.Deliveries), f.Limit)
			require.Equal(t, start, page.CompleteSince)
			got = append(got, page.Deliveries...)
			if f.Cursor = page.Next; f.Cursor == "" {
				break
			}
			w.between()
		}
		seen := map[string]bool{}
		for i, d := range got {
			require.False(t, seen[d.ID.String()], "seed %d: %s twice", seed, d.ID)
			seen[d.ID.String()] = true
			if i > 5 && got[i-1].Status.Ended() {
				require.Negative(t, placeOf(d).Compare(placeOf(got[i-1])), "seed %d: %s out of place", seed, d.ID)
			}
		}
		for name := range before {
			require.True(t, seen[name], "seed %d: %s is missing", seed, name)
		}
	}
}

// By acceptance a delivery has one place, whether it waits, has ended, or was forgotten.
func TestAListByAcceptanceHasAllOnceWhileTheyEndAndTheStoreForgets(t *testing.T) {
	for seed := range uint64(100) {
		w, l := newLookupWorld(t, seed)
		w.between = func() {}
		w.grow(0, 40)
		for i := range 20 {
			id := dispatcher.DeliveryID{Lane: "ep_a", Message: fmt.Sprint("waits", i)}
			w.live[id] = dispatcher.Delivery{ID: id, Status: dispatcher.StatusReady, Created: start.Add(time.Duration(w.rnd.Int64N(int64(w.now.Sub(start)))).Truncate(time.Second))}
		}
		w.forget(w.rnd.IntN(40))
		before := map[string]bool{}
		for id := range w.live {
			before[id.String()] = true
		}
		for id := range w.kept {
			before[id.String()] = true
		}
		w.between = func() {
			for id, d := range w.live { // one that waits ends, and may be forgotten at once
				if !d.Status.Ended() {
					w.now = w.now.Add(time.Millisecond)
					d.Status, d.Ended = dispatcher.StatusDelivered, w.now
					w.live[id] = d
					break
				}
			}
			w.forget(w.rnd.IntN(9))
		}
		f := dispatcher.Filter{Tenants: []string{"t"}, Order: dispatcher.OrderAccepted, Limit: 1 + w.rnd.IntN(9)}
		var got []dispatcher.Delivery
		for {
			page, err := l.Deliveries(t.Context(), f)
			require.NoError(t, err)
			require.LessOrEqual(t, len(page.Deliveries), f.Limit)
			got = append(got, page.Deliveries...)
			if f.Cursor = page.Next; f.Cursor == "" {
				break
			}
			w.between()
		}
		seen := map[string]bool{}
		for i, d := range got {
			require.False(t, seen[d.ID.String()], "seed %d: %s twice", seed, d.ID)
			seen[d.ID.String()] = true
			if i > 0 {
				require.Negative(t, acceptedPlace(d).Compare(acceptedPlace(got[i-1])), "seed %d: %s out of place", seed, d.ID)
			}
		}
		for name := range before {
			require.True(t, seen[name], "seed %d: %s is missing", seed, name)
		}
	}
}

// While the archive is away, a list by acceptance is the store's, and says what it lacks.
func TestAListByAcceptanceSaysWhatTheArchiveHas(t *testing.T) {
	w, l := newLookupWorld(t, 1)
	w.between = func() {}
	w.now, w.away = start.Add(time.Hour), true
	w.grow(0, 40)
	w.forget(10)
	f := dispatcher.Filter{Tenants: []string{"t"}, Order: dispatcher.OrderAccepted, Limit: 100}
	all := func() (n int, since time.Time) {
		for more := true; more; more = f.Cursor != "" {
			page, err := l.Deliveries(t.Context(), f)
			require.NoError(t, err)
			n, f.Cursor, since = n+len(page.Deliveries), page.Next, page.CompleteSince
		}
		return n, since
	}
	n, since := all()
	require.Equal(t, 30, n)
	require.Equal(t, w.forgotten.Since(nil), since)
	w.away = false
	n, since = all()
	require.Equal(t, 40, n)
	require.Equal(t, start, since)
	f.Statuses = []dispatcher.Status{dispatcher.StatusReady}
	w.asked = 0
	all()
	require.Zero(t, w.asked, "it has none of these")
}

// What a caller reads with the cursor of the page before skips nothing, however late it
// comes, and tells nothing twice.
func TestACursorOfEndsSkipsNothingThoughTheStoreForgetsIt(t *testing.T) {
	for seed := range uint64(150) {
		w, l := newLookupWorld(t, seed)
		w.between = func() {}
		f := dispatcher.EndedFilter{Limit: 1 + w.rnd.IntN(9)}
		var got []dispatcher.Delivery
		n, last := 0, false
		for !last {
			if last = n >= 150; !last {
				grown := w.rnd.IntN(12)
				w.grow(n, grown)
				n += grown
				w.forget(w.rnd.IntN(20))
			} else {
				w.now = w.now.Add(time.Millisecond)
			}
			w.between = func() { w.forget(w.rnd.IntN(2)) }
			for more := true; more; {
				page, err := l.Ended(t.Context(), "ep_a", f)
				require.NoError(t, err)
				require.LessOrEqual(t, len(page.Deliveries), f.Limit)
				got = append(got, page.Deliveries...)
				f.Cursor, more = page.Resume, page.More && (last || w.rnd.IntN(4) > 0)
			}
			w.between = func() {}
		}
		seen := map[string]bool{}
		for i, d := range got {
			require.False(t, seen[d.ID.String()], "seed %d: %s twice", seed, d.ID)
			seen[d.ID.String()] = true
			require.True(t, i == 0 || placeOf(d).Compare(placeOf(got[i-1])) > 0, "seed %d: %s out of place", seed, d.ID)
		}
		for id := range w.kept {
			require.True(t, id.Lane != "ep_a" || seen[id.String()], "seed %d: %s is missing", seed, id)
		}
		for id := range w.live {
			require.True(t, id.Lane != "ep_a" || seen[id.String()], "seed %d: %s is missing", seed, id)
		}
	}
}

// The archive is not asked for what the store has.
func TestRecentPagesAreTheStoresAlone(t *testing.T) {
	w, l := newLookupWorld(t, 1)
	w.between = func() {}
	w.now = start.Add(time.Hour)
	w.grow(0, 40)
	w.forget(10)
	w.asked = 0
	page, err := l.Deliveries(t.Context(), dispatcher.Filter{Tenants: []string{"t"}, Limit: 3})
	require.NoError(t, err)
	require.Len(t, page.Deliveries, 3)
	_, err = l.Deliveries(t.Context(), dispatcher.Filter{Tenants: []string{"t"}, Limit: 100, Since: w.now.Add(-2 * time.Second)})
	require.NoError(t, err)
	_, err = l.Deliveries(t.Context(), dispatcher.Filter{Topics: []string{"a.b"}, Limit: 100})
	require.NoError(t, err)
	_, err = l.Deliveries(t.Context(), dispatcher.Filter{Tenants: []string{"t"}, Statuses: []dispatcher.Status{dispatcher.StatusReady}, Limit: 100})
	require.NoError(t, err)
	_, err = l.Ended(t.Context(), "ep_a", dispatcher.EndedFilter{Limit: 10, Since: w.now.Add(-2 * time.Second)})
	require.NoError(t, err)
	require.Zero(t, w.asked)
}

// While the archive is away, the store answers alone, and says how far back it is whole.
func TestWhileTheArchiveIsAwayTheStoreAnswers(t *testing.T) {
	w, l := newLookupWorld(t, 1)
	w.between = func() {}
	w.now, w.away = start.Add(time.Hour), true
	w.grow(0, 40)
	w.forget(10)
	whole := w.forgotten.Since(nil)
	f, n := dispatcher.Filter{Tenants: []string{"t"}, Limit: 100}, 0
	for more := true; more; {
		page, err := l.Deliveries(t.Context(), f)
		require.NoError(t, err)
		require.Equal(t, whole, page.CompleteSince)
		n += len(page.Deliveries)
		f.Cursor, more = page.Next, page.Next != ""
	}
	require.Len(t, w.live, n)
	ended, err := l.Ended(t.Context(), "ep_a", dispatcher.EndedFilter{Limit: 100})
	require.NoError(t, err)
	require.Equal(t, whole, ended.CompleteSince)
	ready, err := l.Deliveries(t.Context(), dispatcher.Filter{Statuses: []dispatcher.Status{dispatcher.StatusReady}, Limit: 100})
	require.NoError(t, err)
	require.Zero(t, ready.CompleteSince, "what has not ended is never forgotten")
	all, err := l.Deliveries(t.Context(), dispatcher.Filter{Limit: 100})
	require.NoError(t, err)
	require.Equal(t, whole, all.CompleteSince)
	_, err = l.Message(t.Context(), "m")
	require.ErrorIs(t, err, dispatcher.ErrArchiveAway)
	_, err = l.Retry(t.Context(), "m", "", false)
	require.ErrorIs(t, err, dispatcher.ErrArchiveAway)
	w.views["m"] = dispatcher.MessageView{Message: dispatcher.Message{ID: "m"}}
	_, err = l.Message(t.Context(), "m")
	require.NoError(t, err)
}

func TestACursorOfAnotherFilterIsRefused(t *testing.T) {
	w, l := newLookupWorld(t, 1)
	w.between = func() {}
	w.grow(0, 10)
	page, err := l.Deliveries(t.Context(), dispatcher.Filter{Tenants: []string{"t"}, Limit: 3})
	require.NoError(t, err)
	require.NotEmpty(t, page.Next)
	_, err = l.Deliveries(t.Context(), dispatcher.Filter{Tenants: []string{"t"}, Limit: 4, Cursor: page.Next})
	require.NoError(t, err)
	_, err = l.Deliveries(t.Context(), dispatcher.Filter{Tenants: []string{"u"}, Limit: 3, Cursor: page.Next})
	require.ErrorIs(t, err, dispatcher.ErrCursor)
}
