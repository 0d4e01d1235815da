package chaos_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// clockError is how much earlier than its time a callback may seem to come.
// Due times are in whole milliseconds of Redis' clock, which is the clock of
// this machine too; the system may correct it a little while we look.
const clockError = 10 * time.Millisecond

// The complaints a run may end with; each of them fails it.
const (
	lost        = "lost"                  // accepted, and neither delivered nor dead nor cancelled
	unseen      = "delivered to nobody"   // though no receiver ever said yes
	unexplained = "unexplained duplicate" // seen again after a yes, and nothing was broken between
	early       = "early"                 // before its time
	unsigned    = "not as published"      // its signature or its body
	unasked     = "never asked for"       // it was never published, or certainly refused
	disordered  = "out of order"          // before the one before it had ended
	halfway     = "halfway"               // of an unknown outcome, and in no final place
	afterwards  = "after its cancelling"  // first seen after a cancel was answered
)

// allComplaints is what the table lists.
var allComplaints = []string{
	lost, unexplained, unseen, early, unsigned, unasked, disordered, halfway, afterwards,
	unkept, altered, doubled, unlogged, invented, disagrees, lingers, uncounted,
	unreported, changedBack, whilePaused, misled, blamed,
}

// complaint is one thing that must not happen.
type complaint struct {
	what   string
	id     string
	detail string
}

func (c complaint) String() string { return c.what + ": " + c.id + ": " + c.detail }

// findings are what became of a run.
type findings struct {
	accepted, refused, unknown int // messages
	delivered, dead, cancelled int // deliveries, and those that the store has let go since
	forgotten                  int // accepted, and lost by a store that said it might
	arrivals, anonymous        int // callbacks; those whose sender can't be told
	deaths                     map[string]int
	duplicates                 map[string]int // by cause
	complaints                 []complaint
	takeover, hindered         time.Duration // longest, where nothing else was broken, and in all
	takeoverOf                 string        // the story of the first
	archived, missing          int           // events in the archive; lines that were cut before they got there
	silence                    time.Duration // longest without an acceptance while the store was up
}

// judge is a judge of one history.
type judge struct {
	h       *history
	rungs   []time.Duration
	found   findings
	notes   map[string][]note        // by instance, without attempts
	judged  map[string]map[bool]note // "instance place message attempt" → ok → the line
	mute    map[string]bool          // "place message attempt": an instance says that it got no answer
	lethal  map[string][]*fault      // by instance: what ends it
	trouble map[string][]*fault      // by instance: what keeps it from the store, or stops it
}

// judged says what became of a history. It changes nothing, and looks at no
// clock: the same history is always judged the same.
func judged(h *history, rungs []time.Duration) findings {
	j := newJudge(h, rungs)
	for _, text := range h.strange {
		j.complain(unasked, text, "it was never published")
	}
	for _, id := range slices.Sorted(maps.Keys(h.messages)) {
		j.message(h.messages[id])
	}
	j.archive()
	j.losses()
	j.owned()
	j.absent()
	j.blamed()
	j.longestTakeover()
	j.found.silence = j.longestSilence()
	return j.found
}

func newJudge(h *history, rungs []time.Duration) *judge {
	j := &judge{
		h: h, rungs: rungs,
		notes: map[string][]note{}, judged: map[string]map[bool]note{}, mute: map[string]bool{},
		lethal: map[string][]*fault{}, trouble: map[string][]*fault{},
	}
	j.found.deaths, j.found.duplicates = map[string]int{}, map[string]int{}
	for _, n := range h.notes {
		if n.text != finished {
			j.notes[n.who] = append(j.notes[n.who], n)
			continue
		}
		lane, id, _ := strings.Cut(n.id, ":")
		delivery := deliveryKey(h.places[lane], id)
		key := attemptKey(n.who, delivery, n.n)
		if j.judged[key] == nil {
			j.judged[key] = map[bool]note{}
		}
		j.judged[key][n.ok] = n
		if n.mute {
			j.mute[attemptKey("", delivery, n.n)] = true
		}
	}
	for _, f := range h.faults {
		switch {
		case f.kind == killed || f.kind == ended:
			j.lethal[f.who] = append(j.lethal[f.who], f)
		case !apart[f.kind]:
			j.trouble[f.who] = append(j.trouble[f.who], f)
		}
	}
	return j
}

func attemptKey(who, delivery string, n int) string { return fmt.Sprint(who, " ", delivery, " ", n) }

func (j *judge) complain(what, id, format string, a ...any) {
	j.found.complaints = append(j.found.complaints, complaint{what, id, fmt.Sprintf(format, a...)})
}

func (j *judge) message(m *message) {
	acceptance := m.acceptance()
	switch acceptance {
	case accepted:
		j.found.accepted++
	case refused:
		j.found.refused++
	default:
		j.found.unknown++
	}
	j.found.arrivals += len(m.arrivals)
	for _, a := range m.arrivals {
		if a.fault != "" && (a.fault != another || !j.forgery(m, a)) {
			j.complain(unsigned, m.id, "%s: %s\n%s", a.place, a.fault, j.story(m, a.place))
		}
		if a.line.who() == "" {
			j.found.anonymous++
		}
		if !slices.Contains(m.places, a.place) {
			j.complain(unasked, m.id, "at %s, where it was not to go", a.place)
		}
	}
	if acceptance == refused {
		if len(m.arrivals) > 0 {
			j.complain(unasked, m.id, "it was refused: %s", m.tries[len(m.tries)-1].words)
		}
		return
	}
	for _, place := range m.places {
		came := m.at(place)
		j.ending(m, acceptance, place, came)
		j.repeats(m, place, came)
		j.times(m, came)
	}
	j.order(m)
	if len(m.arrivals) > 0 && j.wasCancelled(m) {
		j.complain(afterwards, m.id, "%s", j.story(m, m.places[0]))
	}
}

// forgery reports whether an arrival may be of the publish call with another body: that is a message of
// its own if the store no longer knew the id.
func (j *judge) forgery(m *message, a *arrival) bool {
	if m.forged.IsZero() || !a.began.After(m.forged) {
		return false
	}
	from, to := m.tries[0].began, m.tries[0].ended
	for _, t := range m.tries {
		if t.began.Before(m.forged) {
			to = t.ended
		}
	}
	return j.letGo(m, from, a.began) || j.lostWith(m, from, to)
}

// wasCancelled reports whether a message may not come: a cancel was answered
// before its first attempt was due, and it can't have been published anew since.
// A call that is still under way does that when a full store let its id go.
func (j *judge) wasCancelled(m *message) bool {
	if m.cancelled.IsZero() || !m.cancelled.Before(m.tries[0].began.Add(m.delay)) || j.forgotten(m.cancelled, m.cancelled) || j.lostWith(m, m.cancelled, m.cancelled) {
		return false
	}
	return !m.open(m.cancelled) || !j.letGo(m, m.cancelled, m.arrivals[0].began)
}

// at are the callbacks at a place in the order they came.
func (m *message) at(place string) (came []*arrival) {
	for _, a := range m.arrivals {
		if a.place == place {
			came = append(came, a)
		}
	}
	slices.SortStableFunc(came, func(a, b *arrival) int { return a.began.Compare(b.began) })
	return came
}

// mayCount reports whether some answer may have been taken for a yes. It may have broken off behind
// its status. Its sender may have read it, and gone before its end was noted.
func mayCount(came []*arrival) bool {
	return slices.ContainsFunc(came, func(a *arrival) bool { return a.status/100 == 2 })
}

// ending judges where a delivery is when all is over. The store may let go of
// what has ended; then only the receiver knows.
func (j *judge) ending(m *message, acceptance acceptance, place string, came []*arrival) {
	e, kept := m.endings[place]
	switch {
	case kept && e.status == "delivered":
		j.found.delivered++
		if !mayCount(came) {
			j.complain(unseen, m.id, "%s", j.story(m, place))
		}
	case kept && e.status == "dead":
		j.found.dead++
		j.found.deaths[e.reason]++
		if e.reason == "exhausted" && e.attempts != len(j.rungs)+1 {
			j.complain(lost, m.id, "dead after %d attempts\n%s", e.attempts, j.story(m, place))
		}
	case kept && e.status == "cancelled":
		j.found.cancelled++
	case kept:
		what := lost
		if acceptance != accepted {
			what = halfway
		}
		j.complain(what, m.id, "it is %s\n%s", e.status, j.story(m, place))
	case mayCount(came):
		j.found.delivered++
	case m.cancels || j.deleted(place):
		j.found.cancelled++
	case acceptance == accepted && j.forgiven(m):
		j.found.forgotten++
	case j.unmatched(m, place):
	case acceptance == accepted:
		j.complain(lost, m.id, "the API does not know it\n%s", j.story(m, place))
	case len(m.endings) > 0 && j.h.whole && !j.lostWith(m, m.tries[0].began, m.tries[len(m.tries)-1].ended):
		j.complain(halfway, m.id, "it is kept for others, and not for %s", place)
	}
}

// forgiven reports whether each acceptance of a message fell into a time that
// the store lost and may lose. Its settings may say so, or a master came back
// with less in its file than its replica had.
func (j *judge) forgiven(m *message) bool {
	any := false
	for i, t := range m.tries {
		if t.acceptance != accepted {
			continue
		}
		any = true
		forgiven := func(s span) bool { return s.touches(t.began, t.ended) && j.forgivable(s) }
		if !slices.ContainsFunc(j.h.forgot, forgiven) && !j.lostWith(m, t.began, t.ended) && !j.cutEarlier(m, m.tries[:i], t.ended) {
			return false
		}
	}
	return any
}

func (j *judge) forgivable(s span) bool {
	return j.h.forgiving || slices.ContainsFunc(j.h.faults, func(f *fault) bool {
		return f.kind == backAtOnce && f.touches(s.from, s.to)
	})
}

// forgotten reports whether the store forgot anything of a time.
func (j *judge) forgotten(from, to time.Time) bool {
	return slices.ContainsFunc(j.h.forgot, func(s span) bool { return s.touches(from, to) })
}

// times judges that nothing comes before its time.
func (j *judge) times(m *message, came []*arrival) {
	if len(m.tries) == 0 {
		return
	}
	for _, a := range came {
		from, why := m.tries[0].began.Add(m.delay), fmt.Sprintf("its delay of %s", m.delay)
		if a.attempt > 1 {
			var known bool
			if from, known = j.rung(came, a.attempt-1); !known || j.mute[attemptKey("", deliveryKey(a.place, m.id), a.attempt-1)] {
				continue // the one before never reached the receiver, or was given up when only its sender knows
			}
			why = fmt.Sprintf("rung %d", a.attempt-1)
		}
		if a.began.Before(from.Add(-clockError)) {
			j.complain(early, m.id, "attempt %d came %s before %s was over\n%s",
				a.attempt, from.Sub(a.began), why, j.story(m, a.place))
		}
	}
}

// rung is the earliest time at which the attempt after the n-th may come. An
// attempt whose holder died is made again under its number, so several
// callbacks may have it.
func (j *judge) rung(came []*arrival, n int) (from time.Time, known bool) {
	if n > len(j.rungs) {
		return from, false
	}
	for _, a := range came {
		if a.attempt != n {
			continue
		}
		at := a.began // where no answer came in time, the sender may have given up at any time
		if a.status != 0 && a.answered.Sub(a.began) < attemptTimeout/2 {
			at = a.answered
		}
		at = at.Add(max(j.rungs[n-1], a.after))
		if !known || at.Before(from) {
			from, known = at, true
		}
	}
	return from, known
}

// order judges that a message came after the one before it had ended.
func (j *judge) order(m *message) {
	if m.after == nil || len(m.arrivals) == 0 || m.acceptance() != accepted || m.after.acceptance() != accepted || j.forgiven(m.after) {
		return
	}
	for _, place := range m.places {
		came, before := m.at(place), m.after.at(place)
		if len(came) == 0 {
			continue
		}
		if e, kept := m.after.endings[place]; kept && e.status != "delivered" {
			continue // how it ended is known, when is not
		}
		ended := func(a *arrival) bool { return mayCount([]*arrival{a}) && a.answered.Before(came[0].began) }
		if !slices.ContainsFunc(before, ended) {
			j.complain(disordered, m.id, "before %s\n%s\n%s", m.after.id, j.story(m.after, place), j.story(m, place))
		}
	}
}

// story tells of a delivery in the order things happened, with what was broken
// then. It explains a complaint.
func (j *judge) story(m *message, place string) string {
	type event struct {
		at   time.Time
		text string
	}
	var all []event
	add := func(at time.Time, format string, a ...any) { all = append(all, event{at, fmt.Sprintf(format, a...)}) }
	for _, t := range m.tries {
		add(t.began, "published")
		add(t.ended, "told: %s", t.words)
	}
	if !m.cancelled.IsZero() {
		add(m.cancelled, "told: cancelled")
	}
	for _, a := range m.at(place) {
		add(a.began, "attempt %d from %s", a.attempt, a.line.who())
		switch {
		case a.status != 0:
			add(a.answered, "answered %d (torn: %t, out: %t)", a.status, a.torn, !a.over.IsZero())
		case !a.over.IsZero():
			add(a.over, "its sender was gone")
		}
	}
	if len(all) == 0 {
		return "nothing is known of it"
	}
	slices.SortStableFunc(all, func(a, b event) int { return a.at.Compare(b.at) })
	from, to := all[0].at.Add(-10*time.Second), all[len(all)-1].at.Add(10*time.Second)
	for _, f := range j.h.faults {
		if f.touches(from, to) {
			add(f.from, "** %s %s", f.kind, f.who)
			add(f.to, "** mended: %s %s", f.kind, f.who)
		}
	}
	for _, n := range j.h.notes {
		switch {
		case n.text == finished && strings.HasSuffix(n.id, ":"+m.id):
			add(n.at, "%s says: attempt %d of %s finished, ok: %t", n.who, n.n, n.id, n.ok)
		case n.text != finished && span{from, to}.touches(n.at, n.at):
			add(n.at, "%s says: %s (%d)", n.who, n.text, n.n)
		}
	}
	slices.SortStableFunc(all, func(a, b event) int { return a.at.Compare(b.at) })
	var b strings.Builder
	fmt.Fprintf(&b, "  %s to %s, delay %s, in the end %+v\n", m.id, place, m.delay, m.endings[place])
	for _, e := range all {
		fmt.Fprintf(&b, "    %s %s\n", e.at.Format("15:04:05.000"), e.text)
	}
	return b.String()
}
