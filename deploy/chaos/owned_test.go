package chaos_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"
)

// The complaints about endpoints that are changed all the time.
const (
	changedBack = "endpoint not as last set"
	whilePaused = "attempted while paused"
)

// pauseWithin is how long after its answer a pause may go unnoticed by an instance that nothing hinders.
// Attempts had begun before, and a hint may be lost until the next beat.
const pauseWithin = 8 * time.Second

// owned judges the endpoints that were changed all the time.
func (j *judge) owned() {
	for _, e := range j.h.owned {
		for _, change := range e.changed {
			if j.lost(change.from, change.to) {
				e.unsure = true // it may be undone
			}
		}
		j.pauses(e)
		if !e.unsure {
			j.final(e)
		}
	}
}

// lost reports whether the store lost anything of a time for good, or for a while.
func (j *judge) lost(from, to time.Time) bool {
	return j.forgotten(from, to) || slices.ContainsFunc(j.h.losses, func(l *loss) bool { return l.touches(from, to) || j.cutBefore(l, from, to) })
}

// pauses judges that nothing was attempted while an endpoint was paused.
func (j *judge) pauses(e *owned) {
	for _, p := range e.pauses {
		if p.to.IsZero() {
			p.to = p.from.Add(time.Hour)
		}
		if j.lost(p.from.Add(-givesUp), p.from) {
			continue
		}
		for _, m := range j.h.messages {
			for _, a := range m.at(e.place) {
				if a.began.After(p.from.Add(pauseWithin)) && a.began.Before(p.to) && !j.hinderedAny(a, p.from) {
					j.complain(whilePaused, m.id, "%s was paused at %s\n%s", e.uid, p.from.Format("15:04:05.000"), j.story(m, e.place))
				}
			}
		}
	}
}

// deleted reports whether a place is that of an endpoint that was deleted, which cancels what waits
// for it.
func (j *judge) deleted(place string) bool {
	return slices.ContainsFunc(j.h.owned, func(e *owned) bool { return e.place == place && !e.exists.to.IsZero() })
}

// hinderedAny reports whether the sender of an attempt, or any instance that may be its sender, was
// cut off or stopped since a time.
func (j *judge) hinderedAny(a *arrival, since time.Time) bool {
	return slices.ContainsFunc(j.candidates(a.line.who()), func(who string) bool { return j.troubled(who, since, a.began) })
}

// final judges what an endpoint is in the end: to the API, and in the archive.
func (j *judge) final(e *owned) {
	deleted := !e.exists.to.IsZero()
	switch {
	case deleted && e.seen != nil:
		j.complain(changedBack, e.uid, "it was deleted, and is there: %s\n%s", e.seen.State, j.chronicle(e))
		return
	case deleted:
	case e.seen == nil:
		j.complain(changedBack, e.uid, "it is not there\n%s", j.chronicle(e))
		return
	case e.seen.URL != e.url || e.seen.Rate != e.rate || (e.seen.State == "paused") != e.paused:
		j.complain(changedBack, e.uid, "it is %s %s %s, and was set to %s %s, paused: %t\n%s",
			e.seen.URL, e.seen.Rate, e.seen.State, e.url, e.rate, e.paused, j.chronicle(e))
	}
	if j.h.archived == nil {
		return
	}
	row, there := j.h.archived.endpoints[e.id]
	switch {
	case deleted && there && !row.deleted:
		j.complain(altered, e.uid, "the archive has it as if it was not deleted")
	case !deleted && (!there || row.deleted || row.version != e.version || !bytes.Equal(row.record, e.record)):
		j.complain(altered, e.uid, "in the archive: there %t, deleted %t, version %d of %d", there, row.deleted, row.version, e.version)
	}
}

// chronicle is what an owner did to its endpoint and what the store and the archive lost meanwhile.
func (j *judge) chronicle(e *owned) string {
	const layout = "15:04:05.000"
	var b strings.Builder
	for _, s := range e.changed {
		fmt.Fprintf(&b, "    %s-%s changed\n", s.from.Format(layout), s.to.Format(layout))
	}
	if !e.exists.to.IsZero() {
		fmt.Fprintf(&b, "    %s deleted\n", e.exists.to.Format(layout))
	}
	for _, l := range j.h.losses {
		fmt.Fprintf(&b, "    %s-%s lost, the log was cut until %s\n", l.from.Format(layout), l.to.Format(layout), l.gap.Format(layout))
	}
	for _, s := range j.h.forgot {
		fmt.Fprintf(&b, "    %s-%s forgotten by a master\n", s.from.Format(layout), s.to.Format(layout))
	}
	for _, s := range j.h.cuts {
		fmt.Fprintf(&b, "    %s-%s cut from the log\n", s.from.Format(layout), s.to.Format(layout))
	}
	return b.String()
}
