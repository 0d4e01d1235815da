package chaos_test

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// The complaints about the content of the archive.
const (
	unkept    = "not in the archive"
	altered   = "other in the archive"
	doubled   = "twice in the archive"
	unlogged  = "attempt not in the archive"
	invented  = "attempt that no receiver saw"
	disagrees = "ended otherwise in the archive"
	lingers   = "unfinished in the archive"
	uncounted = "missing beyond what was counted"
)

// ledger holds the archive against the records of callers and receivers.
type ledger struct {
	*judge
	a        *archived
	messages map[string][]archivedMessage
	events   map[string][]archivedEvent // by delivery key
	missing  int                        // lines that a cut of the backlog explains
}

// deliveryKey names a delivery by its place, which a receiver knows.
func deliveryKey(place, id string) string { return place + " " + id }

// archive judges the content of the archive, where there is one.
func (j *judge) archive() {
	if j.h.archived == nil {
		return
	}
	l := &ledger{judge: j, a: j.h.archived, messages: map[string][]archivedMessage{}, events: map[string][]archivedEvent{}}
	for _, m := range l.a.messages {
		l.messages[m.id] = append(l.messages[m.id], m)
	}
	for _, e := range l.a.events {
		key := deliveryKey(j.h.places[e.lane], e.id)
		l.events[key] = append(l.events[key], e)
	}
	for _, id := range slices.Sorted(maps.Keys(l.messages)) {
		if m := j.h.messages[id]; m == nil || m.acceptance() == refused {
			j.complain(unasked, id, "the archive has it")
		}
	}
	for _, id := range slices.Sorted(maps.Keys(j.h.messages)) {
		if m := j.h.messages[id]; m.acceptance() != refused {
			l.message(m)
		}
	}
	for _, o := range l.a.open {
		l.lingers(o)
	}
	if l.missing > j.h.dropped {
		j.complain(uncounted, "the archive", "%d lines are missing, and the program counted %d", l.missing, j.h.dropped)
	}
	j.found.archived, j.found.missing = len(l.a.events), l.missing
}

// message judges the rows of one message and of its deliveries.
func (l *ledger) message(m *message) {
	rows := l.messages[m.id]
	switch {
	case len(rows) > 1 && !l.acceptedAnew(m, rows):
		l.complain(doubled, m.id, "%d rows\n%s", len(rows), l.story(m, m.places[0]))
	case len(rows) > 0:
		l.equal(m, rows[0])
	case m.acceptance() != accepted && len(m.arrivals) == 0:
	case l.beyond(m) || l.lostAgain(m):
	case l.cut(m.tries[0].began, m.acceptedBy()):
		l.missing++
	default:
		l.complain(unkept, m.id, "%s", l.story(m, m.places[0]))
	}
	for _, place := range m.places {
		events := l.events[deliveryKey(place, m.id)]
		l.attempts(m, place, events)
		l.invented(m, place, events)
		l.ends(m, place, events)
	}
}

// acceptedAnew reports whether a message may be there twice: its id was let go, or forgotten, and it
// was accepted once more. Where its destinations are in several partitions, each of them may have
// accepted it by another of its calls.
func (l *ledger) acceptedAnew(m *message, rows []archivedMessage) bool {
	first, last := rows[0].created, rows[len(rows)-1].created
	if !l.h.whole && len(m.places) >= len(rows) && len(m.tries) >= len(rows) {
		return true
	}
	return l.lost(first, last) || l.letGo(m, first, last) && m.open(first)
}

// equal judges that a message is as it was published.
func (l *ledger) equal(m *message, row archivedMessage) {
	if row.content() == (archivedMessage{}).content() && l.cut(m.tries[0].began, m.acceptedBy()) {
		l.missing++ // its line was read, and given up with the message before the message itself was read
		return
	}
	if row.tenant != m.tenant || row.subject != m.subject || row.topic != m.topic {
		l.complain(altered, m.id, "published %q %q %q, archived %q %q %q", m.tenant, m.subject, m.topic, row.tenant, row.subject, row.topic)
	}
	if !bytes.Equal(row.sum, m.sum[:]) && m.forged.IsZero() {
		l.complain(altered, m.id, "its body is another (there: %t)\n%s", row.sum != nil, l.story(m, m.places[0]))
	}
}

// lingers judges what the archive has as unfinished.
func (l *ledger) lingers(o archivedOpen) {
	m, place := l.h.messages[o.id], l.h.places[o.lane]
	if m == nil {
		l.complain(lingers, o.id, "%s", o.detail)
		return
	}
	var events strings.Builder
	for _, e := range l.events[deliveryKey(place, o.id)] {
		fmt.Fprintf(&events, "    archived: %+v\n", e)
	}
	l.complain(lingers, o.id, "%s\n%s%s", o.detail, events.String(), l.story(m, place))
}

// attempts judges that each attempt that a receiver saw is an event.
func (l *ledger) attempts(m *message, place string, events []archivedEvent) {
	came := m.at(place)
	done := map[int]bool{}
	for _, a := range came {
		if done[a.attempt] || slices.ContainsFunc(events, func(e archivedEvent) bool { return e.made && e.n == a.attempt }) {
			continue
		}
		if l.excused(a) {
			continue // another attempt of the same number may have no excuse
		}
		done[a.attempt] = true
		if l.cut(a.began, a.over.Add(settleSlack)) {
			l.missing++
			continue
		}
		l.complain(unlogged, m.id, "attempt %d at %s\n%s", a.attempt, place, l.story(m, place))
	}
}

// excused reports whether the sender of an attempt may not have recorded it: it was
// killed, taken over, or ended without the store; or the store lost the record.
func (l *ledger) excused(a *arrival) bool {
	over := cmp.Or(a.over, a.began)
	later := &arrival{began: over.Add(noticing)}
	first := *a
	first.over = over
	for _, who := range l.candidates(a.line.who()) {
		if l.died(who, &first, later) || l.taken(who, &first, later) != "" || l.endedBadly(who, &first, later) {
			return true
		}
	}
	return l.lost(a.began, over.Add(settleSlack))
}

// invented judges that each answer in the archive was given by a receiver.
func (l *ledger) invented(m *message, place string, events []archivedEvent) {
	for _, e := range events {
		if !e.made || e.status == 0 {
			continue
		}
		seen := func(a *arrival) bool { return a.place == place && a.attempt == e.n && a.status == e.status }
		if !slices.ContainsFunc(m.arrivals, seen) {
			l.complain(invented, m.id, "attempt %d at %s was answered %d\n%s", e.n, place, e.status, l.story(m, place))
		}
	}
}

// statusOf is the status of a delivery by the kind of its last event.
var statusOf = map[string]string{"d": "delivered", "x": "dead", "c": "cancelled", "?": "dead", "f": ""}

// ends judges that a delivery ended once, as the API says.
func (l *ledger) ends(m *message, place string, events []archivedEvent) {
	var ends []archivedEvent
	for _, e := range events {
		if _, ended := statusOf[e.kind]; ended {
			ends = append(ends, e)
		}
	}
	api, kept := m.endings[place]
	if len(ends) == 0 {
		l.noEnd(m, place, kept)
		return
	}
	last := ends[len(ends)-1]
	text := func() string {
		var kinds []string
		for _, e := range events {
			kinds = append(kinds, e.kind)
		}
		return strings.Join(kinds, " ")
	}
	lost := last.kind == "?" // how it ended is not known, since that was cut
	switch {
	case len(ends) > 1 && !l.lost(ends[0].at.Add(-settleSlack), last.at) && !l.cut(ends[0].at, last.at):
		l.complain(doubled, m.id, "its ends at %s are %s\n%s", place, text(), l.story(m, place))
	case lost && l.cut(m.tries[0].began, last.at):
	case lost || !kept || api.status != statusOf[last.kind] || api.status == "dead" && api.reason != last.reason:
		l.complain(disagrees, m.id, "the API says %+v (known: %t), the archive %s %s\n%s", api, kept, text(), last.reason, l.story(m, place))
	}
	success := func(e archivedEvent) bool { return e.status/100 == 2 } // one that came late ends it later, by itself
	known := last.status != 0 || !slices.ContainsFunc(events, success) && !l.cut(m.tries[0].began, last.at)
	if last.kind == "d" && !success(last) && known {
		l.complain(altered, m.id, "it was delivered with %d at %s: %s\n%s", last.status, place, text(), l.story(m, place))
	}
	if (last.topic != m.topic || last.tenant != m.tenant || last.subject != m.subject) && !l.cut(m.tries[0].began, m.acceptedBy()) {
		l.complain(altered, m.id, "its end at %s has %q %q %q", place, last.tenant, last.subject, last.topic)
	}
}

// noEnd judges a delivery without an end in the archive.
func (l *ledger) noEnd(m *message, place string, kept bool) {
	came := m.at(place)
	switch {
	case !kept && !mayCount(came):
	case l.beyond(m) || l.lostAgain(m):
	case len(came) > 0 && l.cut(came[0].began, came[len(came)-1].over.Add(settleSlack)), l.cut(m.tries[0].began, m.acceptedBy()):
		l.missing++
	case len(came) > 0 && l.lost(came[0].began, came[len(came)-1].over.Add(settleSlack)):
	default:
		l.complain(unkept, m.id, "it has no end at %s\n%s", place, l.story(m, place))
	}
}

// beyond reports whether a message was accepted only in times that the store lost before the archive
// had them.
func (l *ledger) beyond(m *message) bool {
	return m.acceptance() != accepted && l.lost(m.tries[0].began, m.tries[len(m.tries)-1].ended) || l.forgiven(m)
}

// lostAgain reports whether the store itself forgot all of a message, which is judged elsewhere.
func (l *ledger) lostAgain(m *message) bool {
	return len(m.endings) == 0 && len(m.arrivals) == 0
}

// acceptedBy is when the last call to publish a message was over. If no caller got an answer, the call may
// have been carried out until the message first came.
func (m *message) acceptedBy() time.Time {
	by := m.tries[len(m.tries)-1].ended
	if m.acceptance() != nothing {
		return by
	}
	for _, a := range m.arrivals {
		if a.began.After(by) {
			by = a.began
		}
	}
	return by
}

// cut reports whether the program cut its backlog while something of a time was not
// archived.
func (j *judge) cut(from, to time.Time) bool {
	return slices.ContainsFunc(j.h.cuts, func(s span) bool { return s.touches(from, to) })
}
