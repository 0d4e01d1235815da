package archive_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
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

func at(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }

// lived is a delivery with a life: one letter an event, a second each. An attempt has its
// number, a status and an address.
func lived(lane dispatcher.Lane, kinds string) archive.FoundDelivery {
	f := archive.FoundDelivery{ID: dispatcher.DeliveryID{Lane: lane, Message: "m"}}
	n := 0
	for i, kind := range kinds {
		e := archive.Event{ID: f.ID, At: at(i + 1), Kind: archive.Kind(kind), Attempt: dispatcher.Attempt{Number: n}}
		switch e.Kind {
		case archive.Retry, archive.Delivered, archive.Dead:
			n++
			e.Attempt = dispatcher.Attempt{Number: n, At: at(i), Status: 200, Address: "192.0.2.1:443", Excerpt: []byte("ok")}
			if e.Kind != archive.Delivered {
				e.Attempt.Status, e.Attempt.Error, e.Wait = 500, "status 500", time.Minute
			}
			if e.Kind == archive.Dead {
				e.Reason, e.Wait = dispatcher.ReasonExhausted, 0
			}
		case archive.Resent:
			e.Anew = true
		}
		f.Events = append(f.Events, e)
	}
	return f
}

func TestADeliveryIsWhatItsEventsSay(t *testing.T) {
	for _, c := range []struct {
		name, events string
		open         *archive.Open
		want         dispatcher.Delivery
		history      int
	}{
		{"delivered at once", "d", nil, dispatcher.Delivery{
			Status: dispatcher.StatusDelivered, Ended: at(1), Delivered: at(1), Attempts: 1, Climbed: 1, LadderFrom: 1, LastStatus: 200,
		}, 1},
		{"delivered after a failure", "rd", nil, dispatcher.Delivery{
			Status: dispatcher.StatusDelivered, Ended: at(2), Delivered: at(2), Attempts: 2, Climbed: 2, LadderFrom: 1, LastStatus: 200,
		}, 2},
		{"dead", "rx", nil, dispatcher.Delivery{
			Status: dispatcher.StatusDead, Ended: at(2), Attempts: 2, Climbed: 2, LadderFrom: 1, LastStatus: 500, LastError: "status 500", Reason: dispatcher.ReasonExhausted,
		}, 2},
		{"cancelled between two attempts", "rc", nil, dispatcher.Delivery{
			Status: dispatcher.StatusCancelled, Ended: at(2), Attempts: 1, Climbed: 1, LadderFrom: 1, LastStatus: 500, LastError: "status 500",
		}, 1},
		{"dead, and delivered after it was sent again", "xsd", nil, dispatcher.Delivery{
			Status: dispatcher.StatusDelivered, Ended: at(3), Delivered: at(3), Attempts: 2, Climbed: 1, LadderFrom: 2, LastStatus: 200,
		}, 2},
		{"delivered, and dead after it was sent again", "dsx", nil, dispatcher.Delivery{
			Status: dispatcher.StatusDead, Ended: at(3), Delivered: at(1), Attempts: 2, Climbed: 1, LadderFrom: 2, LastStatus: 500, LastError: "status 500",
			Reason: dispatcher.ReasonExhausted,
		}, 2},
		{"an attempt that came too late changes nothing", "dl", nil, dispatcher.Delivery{
			Status: dispatcher.StatusDelivered, Ended: at(1), Delivered: at(1), Attempts: 1, Climbed: 1, LadderFrom: 1, LastStatus: 200,
		}, 1},
		{"forgotten after its end", "xf", nil, dispatcher.Delivery{
			Status: dispatcher.StatusDead, Ended: at(1), Attempts: 1, Climbed: 1, LadderFrom: 1, LastStatus: 500, LastError: "status 500", Reason: dispatcher.ReasonExhausted,
		}, 1},
		{"forgotten before its end", "rf", nil, dispatcher.Delivery{
			Status: dispatcher.StatusCancelled, Ended: at(2), Attempts: 1, Climbed: 1, LadderFrom: 1, LastStatus: 500, LastError: "status 500",
		}, 1},
		{"its end was lost", "?", nil, dispatcher.Delivery{
			Status: dispatcher.StatusDead, Ended: at(1), LadderFrom: 1, LastError: "it ended, and the part of the log with its result was cut before it was archived",
		}, 0},
		{"delivered, and attempted again by a store that had lost that", "dr", nil, dispatcher.Delivery{
			Status: dispatcher.StatusDelivered, Ended: at(1), Delivered: at(1), Attempts: 2, Climbed: 2, LadderFrom: 1, LastStatus: 500, LastError: "status 500",
		}, 2},
		{"its acceptance and its end were cut", "r", nil, dispatcher.Delivery{
			Status: dispatcher.StatusDead, Ended: at(1), Attempts: 1, Climbed: 1, LadderFrom: 1, LastStatus: 500,
			LastError: "it is not known how it ended: part of its log was cut before it was archived, and the store has it no more",
		}, 1},
		{"on its ladder when the store was lost", "r", &archive.Open{Due: at(61), Attempts: 1}, dispatcher.Delivery{
			Status: dispatcher.StatusRetrying, Due: at(61), Attempts: 1, Climbed: 1, LadderFrom: 1, LastStatus: 500, LastError: "status 500",
		}, 1},
		{"sent again when the store was lost", "xs", &archive.Open{Due: at(2), Attempts: 1, Base: 1}, dispatcher.Delivery{
			Status: dispatcher.StatusScheduled, Due: at(2), Attempts: 1, LadderFrom: 2, LastStatus: 500, LastError: "status 500",
		}, 1},
		{"behind others when the store was lost", "", &archive.Open{}, dispatcher.Delivery{Status: dispatcher.StatusReady, LadderFrom: 1}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, l := newLookupWorld(t, 1)
			f := lived("u_a", c.events)
			f.Open = c.open
			w.found["m"] = &archive.Found{
				Message: dispatcher.Message{ID: "m", Topic: "a.b", Tenant: "t", Body: []byte("body")}, HasBody: true, Size: 4,
				Head: []byte("https://own.example/"), Deliveries: []archive.FoundDelivery{f},
			}
			v, err := l.Message(t.Context(), "m")
			require.NoError(t, err)
			require.Equal(t, "body", string(v.Message.Body))
			require.Nil(t, v.Message.Apart)
			require.Len(t, v.Deliveries, 1)
			got := v.Deliveries[0]
			require.Len(t, got.History, c.history)
			for _, a := range got.History {
				require.Equal(t, "https://own.example/", a.URL)
				require.NotZero(t, a.Verdict)
				require.Equal(t, a.Verdict == dispatcher.Retry, !a.Next.IsZero())
			}
			got.History = nil
			c.want.ID, c.want.Topic, c.want.Tenant, c.want.URL, c.want.Created = f.ID, "a.b", "t", "https://own.example/", start
			require.Equal(t, c.want, got)
		})
	}
}

// The store has it no more, and its end was cut from the log. Until the archive was compared
// with the store, the archive's row says that it waits.
func TestAnEndThatWasCutIsNotClaimedToWait(t *testing.T) {
	w, l := newLookupWorld(t, 1)
	waits, ended := lived("ep_a", "r"), lived("ep_b", "d")
	waits.Open = &archive.Open{ID: waits.ID, Due: at(61), Attempts: 1}
	w.found["m"] = &archive.Found{Message: dispatcher.Message{ID: "m", URL: "https://own.example/"}, Deliveries: []archive.FoundDelivery{ended, waits}}
	w.found["e"] = &archive.Found{Message: dispatcher.Message{ID: "e"}, Deliveries: []archive.FoundDelivery{ended}}
	w.comparing = true
	_, err := l.Message(t.Context(), "m")
	require.ErrorIs(t, err, dispatcher.ErrComparing)
	_, err = l.Message(t.Context(), "e")
	require.NoError(t, err, "all of it ended")
	w.lost = true
	v, err := l.Message(t.Context(), "m")
	require.NoError(t, err, "the store lost it, and restore brings it back")
	require.Len(t, v.Deliveries, 2)
	w.lost, w.comparing = false, false
	v, err = l.Message(t.Context(), "m")
	require.NoError(t, err)
	require.Len(t, v.Deliveries, 2)
}

// The comparison may end after the row was read, and before it is asked for.
func TestAnEndIsReadAgainWhereTheComparisonJustEnded(t *testing.T) {
	w, l := newLookupWorld(t, 1)
	waits := lived("ep_a", "r")
	waits.Open = &archive.Open{ID: waits.ID, Due: at(61), Attempts: 1}
	w.found["m"] = &archive.Found{Message: dispatcher.Message{ID: "m"}, Deliveries: []archive.FoundDelivery{waits}}
	w.read = func() {
		w.found["m"] = &archive.Found{Message: dispatcher.Message{ID: "m"}, Deliveries: []archive.FoundDelivery{lived("ep_a", "r?")}}
	}
	v, err := l.Message(t.Context(), "m")
	require.NoError(t, err)
	require.Equal(t, dispatcher.StatusDead, v.Deliveries[0].Status)
}

func TestOfABodyThatIsNotKeptThereIsTheSize(t *testing.T) {
	w, l := newLookupWorld(t, 1)
	w.found["m"] = &archive.Found{Message: dispatcher.Message{ID: "m", Topic: "a.b"}, Size: 17, Head: []byte("broken"), Deliveries: []archive.FoundDelivery{lived("q_a", "rd")}}
	v, err := l.Message(t.Context(), "m")
	require.NoError(t, err, "a head that can't be read hides nothing else")
	require.Equal(t, &dispatcher.Apart{Size: 17}, v.Message.Apart)
	require.Nil(t, v.Message.Body)
	require.Zero(t, v.Deliveries[0].LastStatus, "a queue's handler answers none")
	require.Zero(t, v.Deliveries[0].History[0].Status)
}

// The store has some deliveries of a fan-out, and no more proof of one.
func TestTheArchiveCompletesWhatTheStoreHas(t *testing.T) {
	w, l := newLookupWorld(t, 1)
	waits := lived("ep_c", "r")
	waits.Open = &archive.Open{ID: waits.ID, Attempts: 1}
	live := dispatcher.Delivery{ID: dispatcher.DeliveryID{Lane: "ep_a", Message: "m"}, Status: dispatcher.StatusReady, Attempts: 2}
	w.views["m"] = dispatcher.MessageView{Message: dispatcher.Message{ID: "m", Apart: &dispatcher.Apart{Size: 4}}, Deliveries: []dispatcher.Delivery{live}}
	w.found["m"] = &archive.Found{
		Message: dispatcher.Message{ID: "m", Body: []byte("body")}, HasBody: true, Size: 4,
		Deliveries: []archive.FoundDelivery{lived("ep_a", "rrd"), lived("ep_b", "d"), waits},
	}
	v, err := l.Message(t.Context(), "m")
	require.NoError(t, err)
	require.Equal(t, "body", string(v.Message.Body))
	require.Len(t, v.Deliveries, 2, "what the archive has as unfinished only, is not there")
	require.Equal(t, dispatcher.StatusReady, v.Deliveries[0].Status, "the store knows better")
	require.Len(t, v.Deliveries[0].History, 3)
	require.Equal(t, dispatcher.Lane("ep_b"), v.Deliveries[1].ID.Lane)
	require.Equal(t, "https://present.example/", v.Deliveries[1].URL)
	require.False(t, v.Incomplete)

	w.away = true
	v, err = l.Message(t.Context(), "m")
	require.NoError(t, err)
	require.Len(t, v.Deliveries, 1)
	require.True(t, v.Incomplete, "the archive may have more of it, and did not answer")
	w.away = false

	w.asked = 0
	whole := dispatcher.MessageView{Message: dispatcher.Message{ID: "w", URL: "https://own.example/"}, Deliveries: []dispatcher.Delivery{{Status: dispatcher.StatusReady}}}
	w.views["w"] = whole
	v, err = l.Message(t.Context(), "w")
	require.NoError(t, err)
	require.Equal(t, whole, v)
	require.Zero(t, w.asked)
}

func TestWhatOnlyTheArchiveHasCanNotBeChanged(t *testing.T) {
	w, l := newLookupWorld(t, 1)
	w.found["m"] = &archive.Found{Message: dispatcher.Message{ID: "m", Tenant: "t"}, Deliveries: []archive.FoundDelivery{lived("ep_a", "d")}}
	_, err := l.Retry(t.Context(), "m", "", true)
	require.ErrorIs(t, err, dispatcher.ErrArchived)
	_, err = l.Cancel(t.Context(), "m", "")
	require.ErrorIs(t, err, dispatcher.ErrArchived)
	_, err = l.Retry(t.Context(), "m", "ep_a", true)
	require.ErrorIs(t, err, dispatcher.ErrArchived)
	_, err = l.Retry(t.Context(), "m", "ep_b", true)
	require.ErrorIs(t, err, dispatcher.ErrNoDelivery)
	_, err = l.Retry(t.Context(), "never", "", true)
	require.ErrorIs(t, err, dispatcher.ErrNotFound)
	lane, err := l.MessageLane(t.Context(), "m", "https://a.example/")
	require.NoError(t, err)
	require.Equal(t, dispatcher.Lane("https://a.example/ t"), lane)

	w.views["m"] = dispatcher.MessageView{Message: dispatcher.Message{ID: "m", Tenant: "live"}, Deliveries: []dispatcher.Delivery{{ID: dispatcher.DeliveryID{Lane: "ep_b", Message: "m"}}}}
	_, err = l.Retry(t.Context(), "m", "ep_a", true)
	require.ErrorIs(t, err, dispatcher.ErrArchived, "that delivery is gone from the store, others are not")
	w.away = true
	_, err = l.Retry(t.Context(), "m", "ep_a", true)
	require.ErrorIs(t, err, dispatcher.ErrArchiveAway, "it may have that delivery")
	tenant, err := l.MessageTenant(t.Context(), "m")
	require.NoError(t, err)
	require.Equal(t, "live", tenant)
}

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// lookupWorld is a store and an archive of it, in memory. What the store forgets was archived.
type lookupWorld struct {
	testing.TB
	mu        sync.Mutex // guards the rest: a list asks store and archive at a time
	rnd       *rand.Rand
	now       time.Time
	live      map[dispatcher.DeliveryID]dispatcher.Delivery // what the store has
	kept      map[dispatcher.DeliveryID]archive.End         // the newest ends that are archived
	views     map[string]dispatcher.MessageView
	found     map[string]*archive.Found
	forgotten dispatcher.Forgotten
	lost      bool   // the store lost its messages
	read      func() // runs after a message was read in the archive
	away      bool
	comparing bool // the archive was not compared with the store since a gap
	asked     int  // look-ups in the archive
	between   func()
}

func newLookupWorld(t testing.TB, seed uint64) (*lookupWorld, *archive.Lookup) {
	w := &lookupWorld{
		TB: t, rnd: rand.New(rand.NewPCG(seed, 1)), now: start,
		live: map[dispatcher.DeliveryID]dispatcher.Delivery{}, kept: map[dispatcher.DeliveryID]archive.End{},
		views: map[string]dispatcher.MessageView{}, found: map[string]*archive.Found{},
	}
	return w, archive.NewLookup(archive.LookupOptions{
		Live: w, Lanes: w, Store: w, Cursors: w, Archive: finder{w}, Log: slog.New(slog.DiscardHandler),
		Comparing: func(context.Context) (bool, error) {
			if w.away {
				return false, archive.ErrUnavailable
			}
			return w.comparing, nil
		},
		Decode: func(id string, head []byte) (*dispatcher.Message, error) {
			if string(head) == "broken" {
				return nil, fmt.Errorf("broken")
			}
			return &dispatcher.Message{ID: id, URL: string(head), Topic: "a.b", CreatedAt: start}, nil
		},
	})
}

// The store.

func (w *lookupWorld) Deliveries(_ context.Context, f dispatcher.Filter) (page dispatcher.Page, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if f.Order == dispatcher.OrderAccepted {
		return w.accepted(f)
	}
	var list []dispatcher.Delivery
	for _, d := range w.live {
		if f.Part != dispatcher.PartAll && d.Status.Ended() != (f.Part == dispatcher.PartEnded) || len(f.Statuses) > 0 && !slices.Contains(f.Statuses, d.Status) {
			continue
		}
		if f.From == nil || placeOf(d).Compare(*f.From) < 0 {
			list = append(list, d)
		}
	}
	slices.SortFunc(list, func(a, b dispatcher.Delivery) int { return placeOf(b).Compare(placeOf(a)) })
	if f.Part != dispatcher.PartEnded {
		from := 0
		if strings.Contains(f.Cursor, "\n") {
			return page, dispatcher.ErrCursor
		}
		if f.Cursor != "" {
			_, err = fmt.Sscan(f.Cursor, &from)
			require.NoError(w, err)
		}
		list = list[from:]
		if len(list) > f.Limit {
			list, page.Next = list[:f.Limit], fmt.Sprint(from+f.Limit)
		}
		page.Deliveries = list
		return page, nil
	}
	limit := f.Limit
	if len(list) > 1 && w.rnd.IntN(3) == 0 { // it looked at enough
		limit = min(limit, 1+w.rnd.IntN(len(list)))
	}
	if len(list) > limit {
		list = list[:limit]
		page.Reached, page.Next = new(placeOf(list[limit-1])), "store"
	}
	page.Deliveries = list
	defer w.between() // the store changes while the archive is asked
	return page, nil
}

// accepted is a page of the store's deliveries, the newest accepted first.
func (w *lookupWorld) accepted(f dispatcher.Filter) (page dispatcher.Page, err error) {
	f.From, _ = w.ListPlace(w.Context(), f)
	w.between()
	for _, d := range w.live {
		if f.From == nil || acceptedPlace(d).Compare(*f.From) < 0 {
			page.Deliveries = append(page.Deliveries, d)
		}
	}
	slices.SortFunc(page.Deliveries, func(a, b dispatcher.Delivery) int { return acceptedPlace(b).Compare(acceptedPlace(a)) })
	limit := f.Limit
	if n := len(page.Deliveries); n > 1 && w.rnd.IntN(3) == 0 { // it looked at enough
		limit = min(limit, 1+w.rnd.IntN(n))
	}
	if len(page.Deliveries) > limit {
		page.Deliveries = page.Deliveries[:limit]
		page.Reached, page.Next = new(acceptedPlace(page.Deliveries[limit-1])), ""
		page.Next, _ = w.ListCursor(w.Context(), f, *page.Reached)
	}
	defer w.between()
	return page, nil
}

func acceptedPlace(d dispatcher.Delivery) dispatcher.EndPlace {
	return dispatcher.EndPlace{At: d.Created, ID: d.ID.String()}
}

func (w *lookupWorld) SealCursor(_ context.Context, list string, place any) (string, error) {
	text, err := json.Marshal(place)
	return list + "\n" + string(text), err
}

func (w *lookupWorld) OpenCursor(_ context.Context, list, cursor string, place any) error {
	of, text, _ := strings.Cut(cursor, "\n")
	if of != list {
		return dispatcher.ErrCursor
	}
	return json.Unmarshal([]byte(text), place)
}

func (w *lookupWorld) ListPlace(_ context.Context, f dispatcher.Filter) (*dispatcher.EndPlace, error) {
	if f.Cursor == "" {
		return f.From, nil
	}
	return new(parsed(w, f.Cursor)), nil
}

func (w *lookupWorld) ListCursor(_ context.Context, _ dispatcher.Filter, at dispatcher.EndPlace) (string, error) {
	return w.EndedCursor(w.Context(), dispatcher.EndedFilter{}, at)
}

func (w *lookupWorld) Ended(_ context.Context, name string, f dispatcher.EndedFilter) (page dispatcher.EndedPage, err error) {
	page.Lane, page.Now, page.CompleteSince = dispatcher.Lane(name), w.now, w.forgotten.Since(f.Statuses)
	if f.Cursor != "" {
		page.From = parsed(w, f.Cursor)
	}
	page.Place = page.From
	var list []dispatcher.Delivery
	for _, d := range w.live {
		if string(d.ID.Lane) == name && d.Status.Ended() && d.Ended.Before(w.now) && !d.Ended.Before(f.Since) && placeOf(d).Compare(page.From) > 0 {
			list = append(list, d)
		}
	}
	slices.SortFunc(list, func(a, b dispatcher.Delivery) int { return placeOf(a).Compare(placeOf(b)) })
	if len(list) > f.Limit {
		list, page.More = list[:f.Limit], true
	}
	if n := len(list); n > 0 {
		page.Place = placeOf(list[n-1])
	}
	page.Deliveries, page.Resume = list, endedCursor(page.Place)
	defer w.between()
	return page, nil
}

func (w *lookupWorld) EndedCursor(_ context.Context, _ dispatcher.EndedFilter, at dispatcher.EndPlace) (string, error) {
	return endedCursor(at), nil
}

func endedCursor(at dispatcher.EndPlace) string {
	return fmt.Sprintf("%d %s", at.At.UnixMilli(), at.ID)
}

func parsed(t testing.TB, cursor string) (at dispatcher.EndPlace) {
	ms := int64(0)
	text, id, _ := strings.Cut(cursor, " ")
	_, err := fmt.Sscan(text, &ms)
	require.NoError(t, err)
	return dispatcher.EndPlace{At: time.UnixMilli(ms).UTC(), ID: id}
}

func (w *lookupWorld) Message(_ context.Context, id string) (dispatcher.MessageView, error) {
	v, ok := w.views[id]
	if w.lost {
		return v, &dispatcher.Emptied{Home: true}
	}
	if !ok {
		return v, dispatcher.ErrNotFound
	}
	return v, nil
}

func (w *lookupWorld) Cancel(_ context.Context, id string, _ dispatcher.Lane) ([]dispatcher.Delivery, error) {
	_, err := w.Message(context.Background(), id)
	return nil, err
}

func (w *lookupWorld) Retry(_ context.Context, id string, lane dispatcher.Lane, _ bool) ([]dispatcher.Retried, error) {
	v, err := w.Message(context.Background(), id)
	if err == nil && lane != "" && !slices.ContainsFunc(v.Deliveries, func(d dispatcher.Delivery) bool { return d.ID.Lane == lane }) {
		err = dispatcher.ErrNoDelivery
	}
	return nil, err
}

func (w *lookupWorld) Address(_ context.Context, list []dispatcher.Delivery) error {
	for i := range list {
		if list[i].ID.Lane.IsEndpoint() {
			list[i].URL = "https://present.example/"
		}
	}
	return nil
}

func (w *lookupWorld) Lane(_ context.Context, destination, tenant string) (dispatcher.Lane, error) {
	return dispatcher.Lane(destination + " " + tenant), nil
}

func (w *lookupWorld) MessageTenant(_ context.Context, id string) (string, error) {
	v, err := w.Message(context.Background(), id)
	return v.Message.Tenant, err
}

func (w *lookupWorld) Forgotten(context.Context) (dispatcher.Forgotten, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.forgotten, nil
}

func (w *lookupWorld) Has(_ context.Context, ids []dispatcher.DeliveryID) (has []bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range ids {
		_, ok := w.live[id]
		has = append(has, ok)
	}
	return has, nil
}

// The archive.
type finder struct{ w *lookupWorld }

func (f finder) Find(_ context.Context, id string) (*archive.Found, error) {
	f.w.asked++
	if f.w.away {
		return nil, archive.ErrUnavailable
	}
	if found := f.w.found[id]; found != nil {
		if f.w.read != nil {
			f.w.read()
		}
		return found, nil
	}
	return nil, dispatcher.ErrNotFound
}

func (f finder) Since(context.Context) (time.Time, error) {
	if f.w.away {
		return time.Time{}, archive.ErrUnavailable
	}
	return start, nil
}

func (f finder) Ends(ctx context.Context, q archive.Filter) (page archive.EndPage, err error) {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	if ctx.Err() != nil {
		return page, ctx.Err()
	}
	f.w.asked++
	if f.w.away {
		return page, archive.ErrUnavailable
	}
	place := (*archive.End).Place
	if q.Accepted {
		place = func(e *archive.End) dispatcher.EndPlace { return dispatcher.EndPlace{At: e.Created, ID: e.ID.String()} }
	}
	var list []archive.End
	for _, e := range f.w.kept {
		order := 0
		if q.After != nil {
			if order = place(&e).Compare(*q.After); !q.Oldest {
				order = -order
			}
		}
		if (q.After == nil || order > 0) && (len(q.Lanes) == 0 || slices.Contains(q.Lanes, e.ID.Lane)) {
			list = append(list, e)
		}
	}
	slices.SortFunc(list, func(a, b archive.End) int {
		if q.Oldest {
			return place(&a).Compare(place(&b))
		}
		return place(&b).Compare(place(&a))
	})
	limit := q.Limit
	if len(list) > 1 && f.w.rnd.IntN(3) == 0 {
		limit = min(limit, 1+f.w.rnd.IntN(len(list)))
	}
	if len(list) > limit {
		list = list[:limit]
		page.Reached = new(place(&list[limit-1]))
	}
	page.Ends = list
	return page, nil
}

func placeOf(d dispatcher.Delivery) dispatcher.EndPlace {
	return dispatcher.EndPlace{At: d.Ended, ID: d.ID.String()}
}

// end has a delivery end now. It is archived at once, or when it is forgotten.
func (w *lookupWorld) end(id dispatcher.DeliveryID) {
	d := dispatcher.Delivery{ID: id, Status: dispatcher.EndStatuses()[w.rnd.IntN(2)], Ended: w.now, Topic: "a.b", Created: w.now.Add(-time.Duration(w.rnd.IntN(20)) * time.Second)}
	w.live[id] = d
	if w.rnd.IntN(2) == 0 {
		w.archive(d)
	}
}

func (w *lookupWorld) archive(d dispatcher.Delivery) {
	kind := archive.Delivered
	if d.Status == dispatcher.StatusDead {
		kind = archive.Dead
	}
	w.kept[d.ID] = archive.End{Event: archive.Event{ID: d.ID, At: d.Ended, Kind: kind, Topic: "a.b"}, Created: d.Created, Head: []byte("https://own.example/")}
}

// forget has the store forget its oldest ends: of those that died fewer.
func (w *lookupWorld) forget(n int) {
	ends := slices.SortedFunc(maps.Values(w.live), func(a, b dispatcher.Delivery) int { return placeOf(a).Compare(placeOf(b)) })
	spare := w.rnd.IntN(4) > 0 // those that died
	for _, d := range ends {
		if !d.Status.Ended() || n == 0 {
			continue
		}
		newest := &w.forgotten.Finished
		if d.Status == dispatcher.StatusDead {
			if spare {
				continue
			}
			newest = &w.forgotten.Dead
		}
		if d.Ended.After(*newest) {
			*newest = d.Ended
		}
		w.archive(d)
		delete(w.live, d.ID)
		n--
	}
}

// grow has some deliveries end, a few of them in one ms.
func (w *lookupWorld) grow(from, n int) {
	for i := range n {
		if w.rnd.IntN(3) > 0 {
			w.now = w.now.Add(time.Duration(1+w.rnd.IntN(3000)) * time.Millisecond)
		}
		w.end(dispatcher.DeliveryID{Lane: dispatcher.Lane([]string{"ep_a", "u_b"}[w.rnd.IntN(2)]), Message: fmt.Sprint("m", from+i)})
	}
}
