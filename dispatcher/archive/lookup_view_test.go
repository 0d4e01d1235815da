package archive_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
)

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
