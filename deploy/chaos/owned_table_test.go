package chaos_test

import (
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// endpoint is one that its owner made, and set to a rate.
func (p plot) endpoint() *owned {
	e := &owned{uid: "m0-1", place: "/m1", id: "ep_1", exists: span{from: at(1)}, url: "http://a", rate: "5/s", changed: []span{{at(0), at(1)}, {at(20), at(21)}}}
	e.seen = &wire.EndpointView{State: "active", Endpoint: wire.Endpoint{URL: "http://a", Rate: "5/s"}}
	e.version, e.record = 7, []byte("record")
	p.history.owned = append(p.history.owned, e)
	p.places["ep_1"] = "/m1"
	p.archived = &archived{endpoints: map[string]archivedEndpoint{"ep_1": {version: 7, record: []byte("record")}}}
	return e
}

// gone is an answer that the endpoint is not there.
func (p plot) gone(from, to float64) {
	p.absences = append(p.absences, absence{span: span{at(from), at(to)}, what: "endpoint", place: "/m1"})
}

// attempted is a message to the endpoint that came at a time.
func (p plot) attempted(seconds float64) {
	m := p.message("m", yes(seconds-1, seconds-0.9))
	a := comes("a1", 1, seconds, 200)
	a.place, m.places, m.arrivals = "/m1", []string{"/m1"}, []*arrival{a}
	m.endings = map[string]ending{"/m1": {status: "delivered", attempts: 1}}
	p.archived = nil
}

// fanOut is a message that was accepted in the sixth second and came to one endpoint of two. The other
// was lost in the second second, and registered again at a time.
func (p plot) fanOut(again float64) *message {
	p.places["ep_0"], p.places["ep_1"] = "/e0", "/e1"
	p.existed["/e0"] = []span{{from: at(1)}}
	p.existed["/e1"] = []span{{at(1), at(2)}, {from: at(again)}}
	m := p.message("m", yes(5, 5.1))
	a := comes("a1", 1, 5.2, 200)
	a.place, m.arrivals = "/e0", []*arrival{a}
	m.places = []string{"/e0", "/e1"}
	m.endings = map[string]ending{"/e0": {status: "delivered", attempts: 1}}
	return m
}

// cutAndLost is a message of which the log from the third second on was cut, before the store was emptied. Restore
// reports that until a time.
func (p plot) cutAndLost(gap time.Time, tries ...try) {
	p.message("m", tries...).endings = nil
	p.cuts = []span{{at(2), at(4)}}
	p.history.losses = []*loss{{span: span{at(9), at(10)}, reported: true, gap: gap}}
}

// cancelledAt is a message with a delay that came though a cancel was answered before.
func (p plot) cancelledAt(seconds float64) {
	m := p.message("m", yes(0, 0.1))
	m.delay, m.cancels, m.cancelled = 4*time.Second, true, at(seconds)
	m.arrivals = []*arrival{comes("a1", 1, 5, 200)}
}

// ownedRows has one row for each wrong state of an endpoint, and for each wrong answer that something
// is not there.
var ownedRows = []row{
	{"it is as last set", func(p plot) { p.endpoint() }, ""},
	{"it is not there", func(p plot) { p.endpoint().seen = nil }, changedBack},
	{"it was deleted and is there", func(p plot) { p.endpoint().exists.to = at(30) }, changedBack},
	{"its rate is an older one", func(p plot) { p.endpoint().rate = "6/s" }, changedBack},
	{"it is paused, and was resumed", func(p plot) { p.endpoint().seen.State = "paused" }, changedBack},
	{"a change had no answer", func(p plot) {
		e := p.endpoint()
		e.seen.State, e.unsure = "paused", true
	}, ""},
	{"a change was lost with an emptied store", func(p plot) {
		p.endpoint().seen.State = "paused"
		p.history.losses = []*loss{{span: span{at(20.5), at(22)}, reported: true}}
	}, ""},
	{"a change was archived before the store was emptied", func(p plot) {
		p.endpoint().seen.State = "paused"
		p.history.losses = []*loss{{span: span{at(21.5), at(22)}, reported: true}}
	}, changedBack},
	{"the archive lacks it", func(p plot) {
		p.endpoint()
		p.archived.endpoints = nil
	}, altered},
	{"the archive has an older version", func(p plot) { p.endpoint().version = 8 }, altered},
	{"the archive has another record", func(p plot) { p.endpoint().record = []byte("other") }, altered},
	{"the archive has it, and it was deleted", func(p plot) {
		e := p.endpoint()
		e.exists.to, e.seen = at(30), nil
	}, altered},

	{"it is not there before it was made", func(p plot) {
		p.endpoint()
		p.gone(0.5, 0.9)
	}, ""},
	{"it is not there while it exists", func(p plot) {
		p.endpoint()
		p.gone(5, 5.1)
	}, misled},
	{"it is not there while it is deleted", func(p plot) {
		e := p.endpoint()
		e.exists.to, e.unsure = at(5.05), true
		p.gone(5, 5.1)
	}, ""},
	{"it is not there, since its making was lost", func(p plot) {
		p.endpoint()
		p.history.losses = []*loss{{span: span{at(0.5), at(3)}, reported: true}}
		p.gone(5, 5.1)
	}, ""},
	{"it is not there, and the store was emptied long after", func(p plot) {
		p.endpoint()
		p.history.losses = []*loss{{span: span{at(3), at(4)}, reported: true}}
		p.gone(5, 5.1)
	}, misled},
	{"a message is not there that was accepted", func(p plot) {
		p.attempted(20)
		p.absences = []absence{{span: span{at(25), at(26)}, id: "m"}}
	}, misled},
	{"a message is not there before it was accepted", func(p plot) {
		p.attempted(20)
		p.absences = []absence{{span: span{at(15), at(16)}, id: "m"}}
	}, ""},
	{"a message is not there, and a full store let it go", func(p plot) {
		p.attempted(20)
		p.absences = []absence{{span: span{at(100), at(101)}, id: "m"}}
		p.breaks(full, "", 90, 95)
	}, ""},

	{"it is attempted while it is paused", func(p plot) {
		p.endpoint().pauses = []span{{at(10), at(30)}}
		p.attempted(20)
	}, whilePaused},
	{"it is attempted right after it was paused", func(p plot) {
		p.endpoint().pauses = []span{{at(10), at(30)}}
		p.attempted(12)
	}, ""},
	{"it is attempted after it was resumed", func(p plot) {
		p.endpoint().pauses = []span{{at(10), at(19)}}
		p.attempted(20)
	}, ""},
	{"it is attempted by an instance that was stopped before", func(p plot) {
		p.endpoint().pauses = []span{{at(10), at(30)}}
		p.breaks(stopped, "a1", 9, 19.5)
		p.attempted(20)
	}, ""},
	{"it is attempted while it is paused by another than was stopped", func(p plot) {
		p.endpoint().pauses = []span{{at(10), at(30)}}
		p.breaks(stopped, "b1", 9, 19.5)
		p.attempted(20)
	}, whilePaused},

	{"a receiver is blamed while the resolver is away", func(p plot) {
		p.breaks(resolverAway, "", 10, 20)
		p.note(note{at: at(15), who: "a1", text: finished, id: "u_0:m", n: 1, blames: true})
	}, blamed},
	{"a receiver is blamed when the resolver is back", func(p plot) {
		p.breaks(resolverAway, "", 10, 20)
		p.note(note{at: at(21), who: "a1", text: finished, id: "u_0:m", n: 1, blames: true})
	}, ""},
	{"a receiver is blamed by an instance that stood still", func(p plot) {
		p.breaks(resolverAway, "", 10, 20)
		p.breaks(stopped, "a1", 9, 14.5)
		p.note(note{at: at(15), who: "a1", text: finished, id: "u_0:m", n: 1, blames: true})
	}, ""},
	{"a receiver is blamed by an instance while another one stood still", func(p plot) {
		p.breaks(resolverAway, "", 10, 20)
		p.breaks(stopped, "b1", 9, 14.5)
		p.note(note{at: at(15), who: "a1", text: finished, id: "u_0:m", n: 1, blames: true})
	}, blamed},
	{"an emptied store that nobody reports", func(p plot) {
		p.history.losses = []*loss{{span: span{at(0), at(4)}}}
	}, unreported},
	{"an accepted message is lost with an emptied store", func(p plot) {
		p.message("m", yes(5, 5.1)).endings = nil
		p.history.losses = []*loss{{span: span{at(4), at(6)}, reported: true}}
	}, ""},
	{"an accepted message is lost that the archive had", func(p plot) {
		p.message("m", yes(3, 3.1)).endings = nil
		p.history.losses = []*loss{{span: span{at(4), at(6)}, reported: true}}
	}, lost},
	{"of an unknown outcome a part is kept, since the rest was lost with the store", func(p plot) {
		m := p.message("m", silence(2.5, 3))
		m.places, m.arrivals = []string{"/d0", "/d1"}, []*arrival{comes("a1", 1, 2.7, 200)}
		p.history.losses = []*loss{{span: span{at(2), at(4)}, reported: true}}
	}, ""},
	{"an id is accepted with another body once it was lost with the store", func(p plot) {
		a := comes("a1", 1, 8, 200)
		a.fault = another
		m := p.message("m", yes(2.5, 2.6))
		m.forged, m.arrivals = at(7), []*arrival{a}
		p.history.losses = []*loss{{span: span{at(2), at(4)}, reported: true}}
	}, ""},
	{"a restore brings back the ids that were archived", func(p plot) {
		a := comes("a1", 1, 8, 200)
		a.fault = another
		m := p.message("m", yes(0, 0.1))
		m.forged, m.arrivals = at(7), []*arrival{a}
		p.history.losses = []*loss{{span: span{at(2), at(4)}, reported: true}}
	}, unsigned},
	{"an accepted message is lost that was in another part of the store", func(p plot) {
		p.message("m", yes(5, 5.1)).endings = nil
		p.history.losses = []*loss{{span: span{at(4), at(6)}, reported: true, kept: map[string]bool{"m": true}}}
	}, lost},
	{"a fan-out misses an endpoint that was not registered again yet", func(p plot) { p.fanOut(6) }, ""},
	{"a fan-out misses an endpoint that was registered again by then", func(p plot) { p.fanOut(4) }, lost},
	{"a fan-out misses an endpoint that the answer to it named", func(p plot) { p.fanOut(6).named = []string{"/e1"} }, lost},
	{"an accepted message is lost that was cut, and never compared", func(p plot) { p.cutAndLost(at(3), yes(2.5, 2.6)) }, ""},
	{"an accepted message is lost that was cut, and restore did not say so", func(p plot) { p.cutAndLost(time.Time{}, yes(2.5, 2.6)) }, lost},
	{"an accepted message is lost behind what was cut", func(p plot) { p.cutAndLost(at(1), yes(2.5, 2.6)) }, lost},
	{"unless an earlier call without an answer may have accepted it", func(p plot) { p.cutAndLost(at(1), silence(1.5, 2.5), yes(2.5, 2.6)) }, ""},
	{"but not where that was refused", func(p plot) { p.cutAndLost(at(1), no(1.5, 2.5), yes(2.5, 2.6)) }, lost},
	{"nor where it was accepted anew after the loss", func(p plot) { p.cutAndLost(at(3), silence(2.5, 2.6), yes(11, 11.1)) }, lost},
	{"a cancelled message comes, and its cancelling was lost", func(p plot) {
		p.cancelledAt(1)
		p.history.losses = []*loss{{span: span{at(0.5), at(4)}, reported: true}}
	}, ""},
	{"a cancelled message comes, and its cancelling was archived", func(p plot) {
		p.cancelledAt(1)
		p.history.losses = []*loss{{span: span{at(2), at(4)}, reported: true}}
	}, afterwards},
	{"it came twice, since its success was not archived", func(p plot) {
		twice(p, 20)
		p.history.losses = []*loss{{span: span{at(0.1), at(10)}, reported: true}}
	}, byEmptying},
	{"it came twice, and its success was archived", func(p plot) {
		twice(p, 60)
		p.history.losses = []*loss{{span: span{at(30), at(40)}, reported: true}}
	}, unexplained},
}

// A call whose answer was lost may have made the change that the next call finds done.
func TestAChangeBeganWithItsFirstCall(t *testing.T) {
	var calls []time.Time
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls = append(calls, time.Now())
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(map[bool]int{true: http.StatusServiceUnavailable, false: http.StatusNotFound}[len(calls) < 3])
		_, _ = w.Write([]byte(`{"type":"/problems/x"}`))
	}))
	defer s.Close()
	f := &fleet{slots: []*slot{{now: &process{Instance: &kit.Instance{URL: s.URL}}}}}
	w := &owner{owners: &owners{h: newHistory(), fleet: f}, random: rand.New(rand.NewPCG(1, 1)), http: s.Client()}
	e := &owned{uid: "m0-1"}
	_, err := w.ask(t.Context(), e, func(api *client.Client) error {
		_, err := api.DeleteEndpoint(t.Context(), e.uid)
		return err
	})
	require.True(t, notFound(err), "%v", err)
	require.Len(t, calls, 3)
	require.Len(t, e.changed, 1)
	require.False(t, e.changed[0].from.After(calls[0]))
}
