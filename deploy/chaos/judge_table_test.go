package chaos_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// at is a time of a history, in seconds from its start.
func at(seconds float64) time.Time {
	return start.Add(time.Duration(seconds * float64(time.Second)))
}

// plot makes a history by hand.
type plot struct{ *history }

func (p plot) message(id string, tries ...try) *message {
	m := &message{id: id, places: []string{"/d0"}, tries: tries, endings: map[string]ending{"/d0": {status: "delivered", attempts: 1}}}
	p.publish(m)
	return m
}

func (p plot) lanes() plot {
	p.places["u_0"] = "/d0"
	p.whole = true
	return p
}

func (p plot) breaks(kind, who string, from, to float64) {
	p.faults = append(p.faults, &fault{kind: kind, who: who, span: span{at(from), at(to)}})
}

func (p plot) says(who, text string, seconds float64) {
	p.note(note{at: at(seconds), who: who, text: text})
}

func yes(from, to float64) try     { return try{began: at(from), ended: at(to), acceptance: accepted} }
func no(from, to float64) try      { return try{began: at(from), ended: at(to), acceptance: refused} }
func silence(from, to float64) try { return try{began: at(from), ended: at(to)} }

// comes is a callback that is answered 10 ms later.
func comes(who string, attempt int, seconds float64, status int) *arrival {
	l := &line{}
	l.name.Store(&who)
	a := &arrival{place: "/d0", attempt: attempt, began: at(seconds), over: at(seconds + 0.01), line: l, status: status}
	if status != 0 {
		a.answered = at(seconds + 0.01)
	}
	return a
}

// twice is a delivery that a1 made and b1 made again.
func twice(p plot, second float64) *message {
	m := p.message("m", yes(0, 0.1))
	m.arrivals = []*arrival{comes("a1", 1, 0.2, 200), comes("b1", 1, second, 200)}
	return m
}

// row is a history, and what the judge has to find in it.
type row struct {
	name  string
	plot  func(p plot)
	finds string // the complaint, or the cause of a duplicate; empty: neither
}

// rows has one for each thing that must not happen, and beside it one for what
// looks like it and may.
var rows = []row{
	{"what was accepted and arrived is well", func(p plot) {
		p.message("m", yes(0, 0.1)).arrivals = []*arrival{comes("a1", 1, 0.2, 200)}
	}, ""},
	{"what was accepted and is still waiting is lost", func(p plot) {
		p.message("m", yes(0, 0.1)).endings["/d0"] = ending{status: "ready"}
	}, lost},
	{"what was accepted and nobody knows is lost", func(p plot) {
		p.message("m", yes(0, 0.1)).endings = nil
	}, lost},
	{"what is accepted only by a repeat is accepted", func(p plot) {
		p.message("m", silence(0, 3), yes(3, 3.1)).endings = nil
	}, lost},
	{"what arrived may be let go", func(p plot) {
		m := p.message("m", yes(0, 0.1))
		m.endings, m.arrivals = nil, []*arrival{comes("a1", 1, 0.2, 200)}
	}, ""},
	{"what arrived and was answered with an error may not", func(p plot) {
		m := p.message("m", yes(0, 0.1))
		m.endings, m.arrivals = nil, []*arrival{comes("a1", 1, 0.2, 500)}
	}, lost},
	{"a store that forgot a stretch of time is forgiven what it accepted in it", func(p plot) {
		p.message("m", yes(5, 5.1)).endings = nil
		p.forgot, p.forgiving = []span{{at(4), at(6)}}, true
	}, ""},
	{"and nothing else", func(p plot) {
		p.message("m", yes(5, 5.1), yes(7, 7.1)).endings = nil
		p.forgot, p.forgiving = []span{{at(4), at(6)}}, true
	}, lost},
	{"nor where it was not to forget", func(p plot) {
		p.message("m", yes(5, 5.1)).endings = nil
		p.forgot = []span{{at(4), at(6)}}
	}, lost},
	{"unless its master came back without what its file had not got", func(p plot) {
		p.message("m", yes(5, 5.1)).endings = nil
		p.forgot = []span{{at(4), at(6)}}
		p.breaks(backAtOnce, "", 5.5, 7)
	}, ""},
	{"delivered without a receiver who said yes", func(p plot) {
		p.message("m", yes(0, 0.1)).arrivals = []*arrival{comes("a1", 1, 0.2, 500)}
	}, unseen},
	{"delivered by an answer whose sender had read it and gone", func(p plot) {
		p.message("m", yes(0, 0.1)).arrivals = []*arrival{{place: "/d0", attempt: 1, began: at(0.2), answered: at(0.3), line: &line{}, status: 200}}
	}, ""},
	{"dead before its ladder was climbed is lost", func(p plot) {
		p.message("m", yes(0, 0.1)).endings["/d0"] = ending{status: "dead", reason: "exhausted", attempts: 2}
	}, lost},
	{"dead at its top is not", func(p plot) {
		p.message("m", yes(0, 0.1)).endings["/d0"] = ending{status: "dead", reason: "exhausted", attempts: 3}
	}, ""},
	{"an unknown outcome may be nothing", func(p plot) {
		p.message("m", silence(0, 3)).endings = nil
	}, ""},
	{"or all", func(p plot) {
		p.message("m", silence(0, 3)).arrivals = []*arrival{comes("a1", 1, 0.2, 200)}
	}, ""},
	{"but nothing between", func(p plot) {
		p.message("m", silence(0, 3)).endings["/d0"] = ending{status: "retrying"}
	}, halfway},
	{"nor for one destination of two", func(p plot) {
		m := p.message("m", silence(0, 3))
		m.places = []string{"/d0", "/d1"}
		m.arrivals = []*arrival{comes("a1", 1, 0.2, 200)}
	}, halfway},
	{"unless they are in partitions of their own", func(p plot) {
		p.whole = false
		m := p.message("m", silence(0, 3))
		m.places = []string{"/d0", "/d1"}
		m.arrivals = []*arrival{comes("a1", 1, 0.2, 200)}
	}, ""},
	{"what was refused comes", func(p plot) {
		p.message("m", no(0, 0.1)).arrivals = []*arrival{comes("a1", 1, 0.2, 200)}
	}, unasked},
	{"what may have been kept before it was refused may come", func(p plot) {
		p.message("m", silence(0, 3), no(3, 3.1)).arrivals = []*arrival{comes("a1", 1, 0.2, 200)}
	}, ""},
	{"what nobody published comes", func(p plot) {
		p.came("other", comes("a1", 1, 0.2, 200))
	}, unasked},
	{"it comes where it was not to go", func(p plot) {
		p.message("m", yes(0, 0.1)).arrivals = []*arrival{comes("a1", 1, 0.2, 200), {place: "/d1"}}
	}, unasked},
	{"it comes with another body", func(p plot) {
		a := comes("a1", 1, 0.2, 200)
		a.fault = another
		m := p.message("m", yes(0, 0.1))
		m.forged, m.arrivals = at(0.15), []*arrival{a}
	}, unsigned},
	{"unless a full store let its id go before another took it", func(p plot) {
		a := comes("a1", 1, 62, 200)
		a.fault = another
		m := p.message("m", yes(0, 0.1))
		m.forged, m.arrivals = at(61), []*arrival{a}
		p.breaks(full, "", 60.5, 60.7)
	}, ""},
	{"but it lets nothing go of the last 15 s", func(p plot) {
		a := comes("a1", 1, 62, 200)
		a.fault = another
		m := p.message("m", yes(0, 0.1))
		m.forged, m.arrivals = at(61), []*arrival{a}
		p.breaks(full, "", 0.5, 14.9)
	}, unsigned},

	{"it comes before its delay is over", func(p plot) {
		m := p.message("m", yes(0, 0.1))
		m.delay, m.arrivals = 3*time.Second, []*arrival{comes("a1", 1, 2.9, 200)}
	}, early},
	{"it comes when its delay is over", func(p plot) {
		m := p.message("m", yes(0, 0.1))
		m.delay, m.arrivals = 3*time.Second, []*arrival{comes("a1", 1, 3, 200)}
	}, ""},
	{"an attempt comes before its rung", func(p plot) {
		p.message("m", yes(0, 0.1)).arrivals = []*arrival{comes("a1", 1, 0.2, 500), comes("a1", 2, 1.1, 200)}
	}, early},
	{"an attempt comes at its rung", func(p plot) {
		p.message("m", yes(0, 0.1)).arrivals = []*arrival{comes("a1", 1, 0.2, 500), comes("a1", 2, 1.21, 200)}
	}, ""},
	{"an attempt comes at its rung after one that was answered too late", func(p plot) {
		first := comes("a1", 1, 0.2, 500)
		first.answered = at(2.4)
		p.message("m", yes(0, 0.1)).arrivals = []*arrival{first, comes("a1", 2, 3.21, 200)}
	}, ""},
	{"an attempt comes at its rung after one that was given up before it was read", func(p plot) {
		p.note(note{at: at(0.1), who: "a1", text: finished, id: "u_0:m", n: 1, mute: true})
		p.message("m", yes(0, 0.1)).arrivals = []*arrival{comes("a1", 1, 2, 500), comes("a1", 2, 2.1, 200)}
	}, ""},
	{"an attempt comes before its receiver wants it", func(p plot) {
		first := comes("a1", 1, 0.2, 503)
		first.after = 4 * time.Second
		p.message("m", yes(0, 0.1)).arrivals = []*arrival{first, comes("a1", 2, 2, 200)}
	}, early},
	{"an attempt whose holder died comes again at once", func(p plot) {
		p.message("m", yes(0, 0.1)).arrivals = []*arrival{comes("a1", 1, 0.2, 0), comes("b1", 1, 0.3, 200)}
	}, ""},

	{"one comes before the one before it", func(p plot) {
		first, second := p.message("m1", yes(0, 0.1)), p.message("m2", yes(0.2, 0.3))
		second.after = first
		first.arrivals, second.arrivals = []*arrival{comes("a1", 1, 2, 200)}, []*arrival{comes("a1", 1, 1, 200)}
	}, disordered},
	{"one comes after the one before it", func(p plot) {
		first, second := p.message("m1", yes(0, 0.1)), p.message("m2", yes(0.2, 0.3))
		second.after = first
		first.arrivals, second.arrivals = []*arrival{comes("a1", 1, 1, 200)}, []*arrival{comes("a1", 1, 2, 200)}
	}, ""},
	{"it comes though it was cancelled", func(p plot) {
		m := p.message("m", yes(0, 0.1))
		m.delay, m.cancelled, m.arrivals = 3*time.Second, at(1), []*arrival{comes("a1", 1, 3.1, 200)}
	}, afterwards},
	{"it comes though it was cancelled, whatever the store let go", func(p plot) {
		m := p.message("m", yes(0, 0.1))
		m.delay, m.cancelled, m.arrivals = 3*time.Second, at(1), []*arrival{comes("a1", 1, 3.1, 200)}
		p.breaks(full, "", 1.5, 2)
	}, afterwards},
	{"it comes though it was cancelled, and a call was under way still", func(p plot) {
		m := p.message("m", silence(0, 0.5), yes(0.5, 0.6))
		m.delay, m.cancelled, m.arrivals = 3*time.Second, at(1), []*arrival{comes("a1", 1, 3.1, 200)}
	}, afterwards},
	{"unless that published it anew, since a full store had let its id go", func(p plot) {
		m := p.message("m", silence(0, 0.5), yes(0.5, 0.6))
		m.delay, m.cancelled, m.arrivals = 63*time.Second, at(1), []*arrival{comes("a1", 1, 63.1, 200)}
		p.breaks(full, "", 61.5, 62)
	}, ""},

	{"twice for no reason", func(p plot) { twice(p, 5) }, unexplained},
	{"twice, and its holder was killed before", func(p plot) {
		twice(p, 5)
		p.breaks(killed, "a1", -120, -100)
	}, unexplained},
	{"twice, and its holder was killed at once", func(p plot) {
		twice(p, 7)
		p.breaks(killed, "a1", 0.25, 0.25)
	}, byKill},
	{"twice, and its holder was killed much later", func(p plot) {
		twice(p, 60)
		p.breaks(killed, "a1", 50, 50)
	}, unexplained},
	{"twice, and its holder was killed much later, cut off in between", func(p plot) {
		twice(p, 60)
		p.breaks("cut off", "a", 0.1, 45)
		p.breaks(killed, "a1", 50, 50)
	}, byKill},
	{"twice, and another was killed", func(p plot) {
		twice(p, 5)
		p.breaks(killed, "c1", 0.25, 0.25)
	}, unexplained},
	{"twice, and its holder was stopped and taken over", func(p plot) {
		twice(p, 8)
		p.breaks(stopped, "a1", 0.1, 9)
		p.says("a1", renamed, 9.1)
	}, byStop},
	{"twice, and its holder was stopped, but never taken over", func(p plot) {
		twice(p, 3)
		p.breaks(stopped, "a1", 0.1, 2)
	}, unexplained},
	{"twice, and its holder was taken over while it was cut off", func(p plot) {
		twice(p, 8)
		p.breaks("half open", "a", 0.1, 9)
		p.says("a1", renamed, 12)
	}, byCut},
	{"twice, and its holder was taken over for no reason", func(p plot) {
		twice(p, 8)
		p.says("a1", renamed, 12)
	}, unexplained},
	{"twice, and who sent it last had it since before a takeover", func(p plot) {
		twice(p, 8)
		p.breaks(stopped, "b1", 0.1, 7.9)
		p.says("b1", renamed, 8.1)
	}, byLateness},
	{"twice, and a right was missing", func(p plot) {
		twice(p, 8)
		p.breaks(rightTaken, "", 0.1, 2)
	}, byRight},
	{"twice, and a right was missing long before", func(p plot) {
		twice(p, 8)
		p.breaks(rightTaken, "", -2, 0)
	}, unexplained},
	{"twice, and its holder gave up before the receiver read the request", func(p plot) {
		twice(p, 5)
		p.note(note{at: at(-0.1), who: "a1", text: finished, id: "u_0:m", n: 1})
	}, byLoss},
	{"twice, and the answer never reached its holder", func(p plot) {
		twice(p, 5)
		p.note(note{at: at(0.3), who: "a1", text: finished, id: "u_0:m", n: 1})
	}, byLoss},
	{"twice, and the answer reached its holder", func(p plot) {
		twice(p, 5)
		p.note(note{at: at(0.3), who: "a1", text: finished, id: "u_0:m", n: 1, ok: true})
	}, unexplained},
	{"twice, and the store forgot the first", func(p plot) {
		twice(p, 5)
		p.forgot = []span{{at(0), at(1)}}
	}, byForget},
	{"twice, and its holder ended without the store", func(p plot) {
		twice(p, 5)
		p.breaks(ended, "a1", 1, 1)
		p.says("a1", unrecorded, 4)
	}, byEnd},
	{"twice, and its holder just ended", func(p plot) {
		twice(p, 5)
		p.breaks(ended, "a1", 1, 1)
	}, unexplained},
	{"twice, since its id was let go between two calls", func(p plot) {
		twice(p, 65).tries = []try{silence(0, 62.5), yes(64.9, 65)}
		p.breaks(full, "", 61, 62)
	}, byRoom},
	{"twice, and its id was too young to be let go", func(p plot) {
		twice(p, 5).tries = []try{silence(0, 2.5), yes(4.9, 5)}
		p.breaks(full, "", 1, 2)
	}, unexplained},
	{"twice after a single call, whatever was let go", func(p plot) {
		twice(p, 5)
		p.breaks(full, "", 1, 2)
	}, unexplained},
	{"twice, and who held it first is unknown", func(p plot) {
		twice(p, 8).arrivals[0].line = nil
		p.breaks(killed, "a1", 0.25, 0.25)
	}, byKill},
}

func TestTheJudge(t *testing.T) {
	for _, row := range slices.Concat(rows, ownedRows) {
		t.Run(row.name, func(t *testing.T) {
			p := plot{newHistory()}.lanes()
			row.plot(p)
			found := judged(p.history, []time.Duration{time.Second, 2 * time.Second})
			var all []string
			for _, c := range found.complaints {
				all = append(all, c.what)
			}
			for cause := range found.duplicates {
				all = append(all, cause)
			}
			require.Equal(t, row.finds, strings.Join(all, ", "), "%v", found.complaints)
		})
	}
}

func TestTheJudgeMeasuresTheLongest(t *testing.T) {
	p := plot{newHistory()}.lanes()
	m := p.message("m", yes(0, 0.1))
	held := comes("a1", 1, 0.2, 0)
	held.over = at(0.3)
	m.arrivals = []*arrival{held, comes("b1", 1, 9.3, 200)}
	p.breaks(killed, "a1", 0.3, 0.3)
	p.breaks("redis killed", "", 1, 3)
	p.breaks("redis stopped", "", 2, 4)
	p.message("n", yes(10, 10.1)).arrivals = []*arrival{comes("b1", 1, 10.2, 200)}
	found := judged(p.history, nil)
	require.Empty(t, found.complaints)
	require.Zero(t, found.takeover)
	require.Equal(t, 9*time.Second, found.hindered)
	require.Equal(t, 7*time.Second, found.silence, "10 s, 3 of them without the store")
}

func TestTheJudgeMeasuresATakeoverThatNothingElseHinders(t *testing.T) {
	p := plot{newHistory()}.lanes()
	p.breaks("redis killed", "", 1, 3)
	p.breaks(stopped, "a1", 10, 30)
	m := p.message("m", yes(9, 9.1))
	held := comes("a1", 1, 9.5, 0)
	held.over = at(30)
	m.arrivals = []*arrival{held, comes("b1", 1, 17.5, 200)}
	found := judged(p.history, nil)
	require.Equal(t, 7500*time.Millisecond, found.takeover)
	require.Contains(t, found.takeoverOf, "a1")
	require.Equal(t, found.takeover, found.hindered)
}

func TestTheCanaryTellsWhatTheStoreForgot(t *testing.T) {
	h := newHistory()
	s := &store{h: h}
	for n := range 10 {
		s.counted(int64(n+1), at(float64(n)))
	}
	s.counted(12, at(11)) // the answer to 11 was lost
	require.Empty(t, h.forgot)
	s.counted(8, at(20)) // 8 to 12 are gone, what came before 7 is certain
	require.Equal(t, []span{{at(6), at(20)}}, h.forgot)
	s.counted(9, at(21))
	require.Len(t, h.forgot, 1)
	s.counted(1, at(30)) // everything
	require.Equal(t, span{time.Time{}, at(30)}, h.forgot[1])
}

func TestAnsweringIsDecidedByTheSeed(t *testing.T) {
	a, b := &receiver{seed: 1}, &receiver{seed: 2}
	same, kinds := 0, map[string]int{}
	for n := range 1000 {
		id := fmt.Sprint("m", n)
		require.Equal(t, a.reaction("/d0", id, 1), a.reaction("/d0", id, 1))
		if a.reaction("/d0", id, 1) == b.reaction("/d0", id, 1) {
			same++
		}
		kinds[fmt.Sprint(a.reaction("/d0", id, 1).status)]++
	}
	require.Less(t, same, 990)
	require.Greater(t, kinds["200"], 800)
	require.Positive(t, kinds["500"])
	require.Positive(t, kinds["503"])
	require.Positive(t, kinds["0"])
}
