package chaos_test

import (
	"crypto/sha256"
	"slices"
	"sync"
	"time"
)

// history is all that was asked, told, seen and broken in one run, with times
// of one clock. What became of it is judged when nothing happens any more.
type history struct {
	whole     bool // a message is kept for all its destinations or for none: they share a partition
	forgiving bool // what the store forgot may be lost; else it explains duplicates only

	mu       sync.Mutex // guards what follows
	messages map[string]*message
	strange  []string // what came and can't belong to any message
	faults   []*fault
	notes    []note
	forgot   []span            // acknowledged in these times, and then forgotten by the store
	places   map[string]string // by lane: how deliveries to a place are named

	cuts     []span            // of what happened in these times the backlog for the archive was cut
	dropped  int               // how many lines of that the program counted
	losses   []*loss           // of an emptied store
	owned    []*owned          // endpoints that are changed all the time
	existed  map[string][]span // by place: when its endpoint existed for sure
	absences []absence         // answers that something is not there
	archived *archived         // the archive's content at the end; nil: there is no archive
}

// message is one id with all that a caller and the receivers know of it.
type message struct {
	id      string
	sum     [sha256.Size]byte // of the body as published
	topic   string
	tenant  string
	subject string
	delay   time.Duration
	places  []string // where it goes
	named   []string // of these, what an acceptance named
	after   *message // the one before it with the same ordering key; nil: none
	tries   []try

	forged    time.Time // when it was published with another body; zero: never
	cancels   bool      // somebody asked to cancel it
	cancelled time.Time // when that was answered; zero: it was not

	arrivals []*arrival
	endings  map[string]ending // by place, asked at the end
}

// acceptance is what a caller learnt from a try to publish.
type acceptance int

const (
	nothing  acceptance = iota // no answer, or one that leaves it open
	accepted                   // 202, or 200 for a repeat
	refused                    // certainly not kept
)

// try is one call to publish a message.
type try struct {
	began, ended time.Time
	acceptance   acceptance
	words        string // of the answer
}

// arrival is one callback.
type arrival struct {
	place    string
	attempt  int
	began    time.Time
	answered time.Time // from when on the sender may have had the answer
	over     time.Time // when the answer was out, or the sender was gone; zero: neither happened
	status   int       // 0: no answer was given
	after    time.Duration
	torn     bool // the answer broke off
	line     *line
	fault    string // what is wrong with it: its signature, its body
}

// ok reports whether the sender was told, as far as a receiver can know, that
// it need not come again.
func (a *arrival) ok() bool { return a.status/100 == 2 && !a.over.IsZero() && !a.torn }

// ending is what the API says of a delivery when all is over.
type ending struct {
	status   string
	reason   string
	attempts int
}

// span is a stretch of time.
type span struct{ from, to time.Time }

// touches reports whether a time from..to has anything in common with it.
func (s span) touches(from, to time.Time) bool { return !s.from.After(to) && !s.to.Before(from) }

// fault is something that was broken on purpose.
type fault struct {
	span
	kind string
	who  string // the instance; empty: all of them
}

// The kinds of faults that the judge tells apart. The rest only slow things
// down or cut them off.
const (
	killed  = "killed"
	stopped = "stopped"
	ended   = "ended" // asked to end
	full    = "memory full"
)

// another is the fault of a callback whose body is not the message's.
const another = "another body"

// note is a line of an instance's log that explains something.
type note struct {
	at     time.Time
	who    string
	text   string
	id     string // of a delivery, by its lane
	n      int    // its attempt, or how many
	ok     bool   // the attempt succeeded
	mute   bool   // the attempt got no answer
	blames bool   // the attempt counts against its receiver, whose name was not found
}

// The notes that are kept.
const (
	forgetful  = "the store went back in time" // of the canary
	finished   = "attempt finished"
	renamed    = "declared dead, going on under another name"
	takeover   = "takeover"
	unrecorded = "outcomes not recorded, their deliveries will be attempted again"
	handedBack = "unknown leases handed back"
	tailGone   = "the store lost its newest data"
	linesGone  = "log lines were dropped"
)

func newHistory() *history {
	return &history{messages: map[string]*message{}, places: map[string]string{}, existed: map[string][]span{}}
}

// publish remembers a message before anybody is told of it.
func (h *history) publish(m *message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.messages[m.id] = m
}

func (h *history) tried(m *message, t try) {
	h.mu.Lock()
	defer h.mu.Unlock()
	m.tries = append(m.tries, t)
}

// breaks begins a fault; the answered function ends it.
func (h *history) breaks(kind, who string) (mended func()) {
	f := &fault{kind: kind, who: who, span: span{from: time.Now()}}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.faults = append(h.faults, f)
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if f.to.IsZero() {
			f.to = time.Now()
		}
	}
}

// underWay reports whether something is broken, and not mended yet.
func (h *history) underWay(kinds ...string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.ContainsFunc(h.faults, func(f *fault) bool { return f.to.IsZero() && slices.Contains(kinds, f.kind) })
}

func (h *history) note(n note) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.notes = append(h.notes, n)
}

// came remembers a callback. An id that was never published is strange.
func (h *history) came(id string, a *arrival) {
	h.mu.Lock()
	defer h.mu.Unlock()
	m, known := h.messages[id]
	if !known {
		h.strange = append(h.strange, id+" at "+a.place)
		return
	}
	m.arrivals = append(m.arrivals, a)
}

// with runs f while nothing changes.
func (h *history) with(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
}

// acceptance is what its caller knows in the end: one acceptance decides, and only
// where every try was refused it is certain that nothing was kept.
func (m *message) acceptance() acceptance {
	all := refused
	for _, t := range m.tries {
		switch t.acceptance {
		case accepted:
			return accepted
		case nothing:
			all = nothing
		}
	}
	return all
}
