package chaos_test

import (
	"slices"
	"strings"
	"time"
)

// The causes a duplicate may have. Each is something that was broken on
// purpose, met an instance that had the delivery in hand, and kept a success
// from being recorded before another attempt was begun.
const (
	byKill     = "its holder was killed"
	byStop     = "its holder was stopped, and taken over"
	byCut      = "its holder was cut off from the store, and taken over"
	byLateness = "an attempt from before a takeover"
	byLoss     = "its holder did not get the answer"
	byEnd      = "its holder ended without the store"
	byForget   = "the store forgot its success"
	byEmptying = "the store was emptied before its success was archived"
	byRight    = "a right was missing when its success was to be recorded"
	byRoom     = "published again after a full store let its id go"
)

const (
	// settleSlack is how long after its answer a success may not be recorded
	// yet though nothing is broken: milliseconds, and seconds on a machine that
	// has too much to do.
	settleSlack = 5 * time.Second
	// aftermath is how long after its mending a fault may still be felt: the
	// longest pause of a loop that backs off, and a call that had begun before.
	aftermath = 10 * time.Second
	// lingering is how long after its sender's death a request may wait to be
	// read, on a machine that has too much to do: its process never comes back.
	lingering = time.Minute
	// noticing is how long an instance may take to learn that it was declared
	// dead, once it may know: it meets that at a beat.
	noticing = time.Minute
)

// repeats judges what came again after a receiver had said yes.
func (j *judge) repeats(m *message, place string, came []*arrival) {
	for i, again := range came {
		cause := ""
		for _, first := range came[:i] {
			if !first.ok() {
				continue
			}
			if cause = j.cause(m, first, again); cause == "" {
				j.complain(unexplained, m.id, "\n%s", j.story(m, place))
				break
			}
		}
		if cause != "" {
			j.found.duplicates[cause]++
		}
	}
}

// cause is why something came again after it had succeeded; empty: nothing
// explains it.
func (j *judge) cause(m *message, first, again *arrival) string {
	holder, sender := first.line.who(), again.line.who()
	for _, who := range j.candidates(holder) {
		if j.missed(who, m, first) {
			return byLoss
		}
		if j.died(who, first, again) {
			return byKill
		}
		if cause := j.taken(who, first, again); cause != "" {
			return cause
		}
		if j.endedBadly(who, first, again) {
			return byEnd
		}
	}
	if sender == "" || sender != holder {
		// What another had in hand since before is sent though it was taken over.
		for _, who := range j.candidates(sender) {
			if j.taken(who, first, again) != "" || j.died(who, first, again) {
				return byLateness
			}
		}
	}
	if j.forgotten(first.began, again.began) {
		return byForget
	}
	if j.lostSuccess(m, first) {
		return byEmptying
	}
	if j.unrecordable(first) {
		return byRight
	}
	if j.letGo(m, first.began, again.began) && m.open(first.began) {
		return byRoom
	}
	return ""
}

// lostSuccess reports whether the record of a success was lost with an emptied store.
func (j *judge) lostSuccess(m *message, first *arrival) bool {
	return j.lostWith(m, first.began, first.over.Add(settleSlack+aftermath))
}

// unrecordable reports whether a right was missing when a success was to be recorded. Redis may end that script in its
// middle, and who repairs the partition then can't know of the success.
func (j *judge) unrecordable(first *arrival) bool {
	return slices.ContainsFunc(j.h.faults, func(f *fault) bool {
		return f.kind == rightTaken && f.touches(first.began, first.over.Add(settleSlack))
	})
}

// roomLeaves is how long ago a message was published before a full store makes
// room of it.
const roomLeaves = 15 * time.Second

// letGo reports whether the store was full meanwhile, while a message was old
// enough: finished work makes room then, and with it what is known of its id.
func (j *judge) letGo(m *message, from, to time.Time) bool {
	if old := m.tries[0].began.Add(roomLeaves - clockError); old.After(from) {
		from = old
	}
	return !from.After(to) && slices.ContainsFunc(j.h.faults, func(f *fault) bool { return f.kind == full && f.touches(from, to) })
}

// open reports whether a call to publish a message may still have been under
// way at a time: where its caller got no answer, it may be carried out later.
func (m *message) open(at time.Time) bool {
	return !m.forged.IsZero() || slices.ContainsFunc(m.tries, func(t try) bool { return t.acceptance == nothing || t.ended.After(at) })
}

// candidates are the instances that one may be: all, where it is not known.
func (j *judge) candidates(who string) []string {
	if who != "" {
		return []string{who}
	}
	var all []string
	for _, f := range j.h.faults {
		if f.who != "" && !slices.Contains(all, f.who) {
			all = append(all, f.who)
		}
	}
	return all
}

// missed reports whether an instance itself says that it did not get the
// receiver's answer. It may have given up before the receiver read the request.
func (j *judge) missed(who string, m *message, first *arrival) bool {
	lines := j.judged[attemptKey(who, deliveryKey(first.place, m.id), first.attempt)]
	_, yes := lines[true]
	no, failed := lines[false]
	return failed && !yes && !no.at.Add(lingering).Before(first.began)
}

// died reports whether an instance was killed while a success may not have been
// recorded: at once after it, or as long as something kept it from the store.
func (j *judge) died(who string, first, again *arrival) bool {
	for _, f := range j.lethal[who] {
		if f.kind != killed || f.to.Add(lingering).Before(first.began) || f.from.After(again.began) {
			continue
		}
		if f.from.Before(first.over.Add(settleSlack)) || j.troubled(who, first.over.Add(settleSlack), f.from) {
			return true
		}
	}
	return false
}

// taken says why an instance that lives was taken over meanwhile. It must say
// so itself, or have died before it could.
func (j *judge) taken(who string, first, again *arrival) string {
	said := slices.ContainsFunc(j.notes[who], func(n note) bool {
		return n.text == renamed && n.at.After(first.began) && n.at.Before(again.began.Add(noticing))
	})
	silent := slices.ContainsFunc(j.lethal[who], func(f *fault) bool {
		return f.from.After(first.began) && f.from.Before(again.began.Add(noticing))
	})
	if !said && !silent {
		return ""
	}
	window := span{first.began.Add(-aftermath), again.began}
	for _, f := range j.trouble[who] {
		if f.kind == stopped && f.touches(window.from, window.to) {
			return byStop
		}
	}
	if j.troubled(who, first.began, again.began) {
		return byCut
	}
	return ""
}

// endedBadly reports whether an instance ended on request and could not record
// what it held.
func (j *judge) endedBadly(who string, first, again *arrival) bool {
	return slices.ContainsFunc(j.notes[who], func(n note) bool {
		return n.text == unrecorded && n.at.After(first.began)
	}) && slices.ContainsFunc(j.lethal[who], func(f *fault) bool {
		return f.kind == ended && f.from.Before(again.began)
	})
}

// troubled reports whether something kept an instance from the store, or froze
// it, from then on without a pause longer than the aftermath, until to.
func (j *judge) troubled(who string, from, to time.Time) bool {
	for _, list := range [][]*fault{j.trouble[who], j.trouble[slotOf(who)], j.trouble[""]} {
		for _, f := range list {
			if !f.from.After(to) && !f.to.Add(aftermath).Before(from) {
				return true
			}
		}
	}
	return false
}

// slotOf is the slot that an instance is in: a3 is the third of a.
func slotOf(who string) string { return strings.TrimRight(who, "0123456789") }
