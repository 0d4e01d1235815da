package chaos_test

import (
	"crypto/sha256"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// book is an archive that was written by hand.
type book struct{ plot }

// row is the archive's row of a message as it was published.
func (b book) row(m *message) {
	b.archived.messages = append(b.archived.messages, archivedMessage{
		id: m.id, tenant: m.tenant, subject: m.subject, topic: m.topic, created: m.tries[0].began, sum: m.sum[:],
	})
}

// event is an event of a message at /d0.
func (b book) event(m *message, kind string, n, status int, seconds float64) *archivedEvent {
	b.archived.events = append(b.archived.events, archivedEvent{
		id: m.id, lane: "u_0", kind: kind, n: n, status: status, at: at(seconds), made: n > 0,
		tenant: m.tenant, subject: m.subject, topic: m.topic,
	})
	return &b.archived.events[len(b.archived.events)-1]
}

// usual is a message that failed once and was delivered then, with its rows.
func (b book) usual() *message {
	m := b.published()
	b.row(m)
	b.event(m, "r", 1, 500, 0.3)
	b.event(m, "d", 2, 200, 1.4)
	return m
}

// published is the same message, of which the archive has nothing.
func (b book) published() *message {
	m := b.message("m", yes(0, 0.1))
	m.topic, m.tenant, m.subject, m.sum = "order.paid", "acme", "order-7", sha256.Sum256([]byte("body"))
	m.arrivals = []*arrival{comes("a1", 1, 0.2, 500), comes("a1", 2, 1.3, 200)}
	return m
}

// bare takes the content from the archive's row of a message.
func (b book) bare(m *message) {
	b.archived.messages = []archivedMessage{{id: m.id, created: m.tries[0].began}}
}

// last is the newest event of the archive.
func (b book) last() *archivedEvent { return &b.archived.events[len(b.archived.events)-1] }

// pages has one for each way in which an archive can be wrong, and beside it one for what looks
// like it and may be.
var pages = []struct {
	name  string
	book  func(b book)
	finds string // the complaints
}{
	{"all is there", func(b book) { b.usual() }, ""},
	{"a message is missing", func(b book) {
		b.usual()
		b.archived.messages = nil
	}, unkept},
	{"a message is there twice", func(b book) { b.row(b.usual()) }, doubled},
	{"a message was accepted anew when a full store had let its id go", func(b book) {
		m := b.usual()
		m.tries = []try{silence(0, 62.5), yes(64.9, 65)}
		b.row(m)
		b.archived.messages[1].created = at(64.9)
		b.breaks(full, "", 61, 62)
	}, ""},
	{"two partitions accepted it by two calls", func(b book) {
		m := b.usual()
		m.tries = []try{silence(-1, -0.5), yes(0, 0.1)}
		m.places, b.whole = []string{"/d0", "/d1"}, false
		m.tries[1].acceptance = nothing
		b.row(m)
	}, ""},
	{"its body is another", func(b book) {
		b.usual()
		b.archived.messages[0].sum = []byte("x")
	}, altered},
	{"its body is not there", func(b book) {
		b.usual()
		b.archived.messages[0].sum = nil
	}, altered},
	{"its tenant is another", func(b book) {
		b.usual()
		b.archived.messages[0].tenant = ""
	}, altered},
	{"its end has another subject", func(b book) {
		b.usual()
		b.last().subject = ""
	}, altered},
	{"it has what was refused", func(b book) {
		m := b.message("m", no(0, 0.1))
		m.endings = nil
		b.row(m)
	}, unasked},
	{"it has what nobody published", func(b book) {
		b.usual()
		b.archived.messages = append(b.archived.messages, archivedMessage{id: "other"})
	}, unasked},
	{"a failed attempt is missing", func(b book) {
		b.usual()
		b.archived.events = b.archived.events[1:]
	}, unlogged},
	{"a failed attempt is missing, and its sender was killed at once", func(b book) {
		b.usual()
		b.archived.events = b.archived.events[1:]
		b.breaks(killed, "a1", 0.25, 0.25)
	}, ""},
	{"a failed attempt is missing, and its sender was killed much later", func(b book) {
		b.usual()
		b.archived.events = b.archived.events[1:]
		b.breaks(killed, "a1", 30, 30)
	}, unlogged},
	{"a failed attempt is missing, and the archive was away", func(b book) {
		b.usual()
		b.archived.events = b.archived.events[1:]
		b.breaks(archiveStopped, "", 0, 10)
	}, unlogged},
	{"a failed attempt is missing, and the backlog was cut", func(b book) {
		b.usual()
		b.archived.events = b.archived.events[1:]
		b.cuts, b.dropped = []span{{at(0), at(10)}}, 1
	}, ""},
	{"a failed attempt is missing, and the backlog was cut later", func(b book) {
		b.usual()
		b.archived.events = b.archived.events[1:]
		b.cuts, b.dropped = []span{{at(20), at(30)}}, 1
	}, unlogged},
	{"a message has no content, and the backlog was cut", func(b book) {
		b.bare(b.usual())
		b.cuts, b.dropped = []span{{at(0), at(10)}}, 1
	}, ""},
	{"a message has no content, and nothing was cut", func(b book) {
		b.bare(b.usual())
	}, altered + ", " + altered},
	{"a message has no content, and it is not counted", func(b book) {
		b.bare(b.usual())
		b.cuts = []span{{at(0), at(10)}}
	}, uncounted},
	{"more is missing than the program counted", func(b book) {
		b.usual()
		b.archived.events, b.archived.messages = b.archived.events[1:], nil
		b.cuts, b.dropped = []span{{at(0), at(10)}}, 1
	}, uncounted},
	{"it was delivered without an answer", func(b book) {
		b.usual()
		b.last().status, b.last().made = 0, false
	}, unlogged + ", " + altered},
	{"it was delivered by a success that came late", func(b book) {
		m := b.usual()
		b.last().kind = "l"
		b.event(m, "d", 2, 0, 1.5).made = false
	}, ""},
	{"it was delivered by a success that came late, whose line was cut", func(b book) {
		m := b.usual()
		b.archived.events = b.archived.events[:1]
		b.event(m, "d", 2, 0, 1.5).made = false
		b.cuts, b.dropped = []span{{at(0), at(10)}}, 1
	}, ""},
	{"an attempt that no receiver saw", func(b book) {
		b.event(b.usual(), "l", 3, 200, 5)
	}, invented},
	{"an attempt that no receiver saw, since no answer came", func(b book) {
		b.event(b.usual(), "l", 3, 0, 5)
	}, ""},
	{"an attempt with another answer", func(b book) {
		b.usual()
		b.archived.events[0].status = 503
	}, invented},
	{"it has no end", func(b book) {
		b.usual()
		b.archived.events = b.archived.events[:1]
	}, unlogged + ", " + unkept},
	{"it has two ends", func(b book) {
		b.event(b.usual(), "d", 2, 200, 3)
	}, doubled},
	{"it has two ends, and the store forgot the first", func(b book) {
		b.event(b.usual(), "d", 2, 200, 3)
		b.forgot = []span{{at(1), at(2)}}
	}, ""},
	{"it ended otherwise", func(b book) {
		b.usual()
		b.last().kind = "c"
	}, disagrees},
	{"it died of something else", func(b book) {
		b.usual().endings["/d0"] = ending{status: "dead", reason: "exhausted", attempts: 3}
		b.last().kind, b.last().reason, b.last().n, b.last().made = "x", "gone", 3, false
		b.event(b.messages["m"], "l", 2, 200, 3)
	}, disagrees},
	{"how it ended is lost", func(b book) {
		b.usual()
		b.last().kind = "?"
	}, disagrees},
	{"how it ended is lost, and the backlog was cut", func(b book) {
		b.usual()
		b.last().kind = "?"
		b.cuts = []span{{at(0), at(10)}}
	}, ""},
	{"it is unfinished as yet", func(b book) {
		b.usual()
		b.archived.open = []archivedOpen{{id: "m", lane: "u_0"}}
	}, lingers},
	{"what a caller never learnt the fate of may be nowhere", func(b book) {
		m := b.message("m", silence(0, 0.1))
		m.endings = nil
	}, ""},
	{"but not delivered and nowhere", func(b book) {
		b.published().tries = []try{silence(0, 0.1)}
	}, unkept + ", " + unlogged + ", " + unlogged + ", " + unkept},
}

func TestTheJudgeOfTheArchive(t *testing.T) {
	for _, page := range pages {
		t.Run(page.name, func(t *testing.T) {
			b := book{plot{newHistory()}.lanes()}
			b.archived = &archived{}
			page.book(b)
			found := judged(b.history, []time.Duration{time.Second, 2 * time.Second})
			var all []string
			for _, c := range found.complaints {
				all = append(all, c.what)
			}
			require.Equal(t, page.finds, strings.Join(all, ", "), "%v", found.complaints)
		})
	}
}
