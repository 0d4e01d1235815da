package archive

import (
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// Open is an unfinished delivery, as the archive knows it. A restore makes the store's
// delivery from it.
type Open struct {
	ID      dispatcher.DeliveryID
	Epoch   string // of the partition in which it was last seen
	Pos     int64  // its order within its partition and key
	Created time.Time
	Due     time.Time // of the next attempt; zero if it is due at once, or waits for others of its key

	Attempts int       // attempts so far
	Base     int       // attempts before its present ladder began
	Beside   int       // attempts of this ladder that were requested during a wait
	Asked    time.Time // until when the ladder was to wait when an attempt was requested; zero if none was

	Topic, Tenant, Subject string

	Head []byte // only if its message has to be written too
	Body []byte
	New  bool // it was not known before

	History []Event // newest attempts, newest first; filled in by Vault.History
}

// Folded is the effect of some parts on the unfinished deliveries.
type Folded struct {
	Open          []Open                  // new or changed, in the order of their first change
	Ended         []dispatcher.DeliveryID // known before, and ended
	Unnamed       []*Event                // ends whose message is neither in these parts nor open
	MaybeArchived []*Event                // attempts that changed nothing, or ended what was not open: the archive may have them already
}

// Touched returns the deliveries that Fold needs to know: all deliveries in the parts,
// except those that begin there.
func Touched(parts []Part) []dispatcher.DeliveryID {
	seen := make(map[dispatcher.DeliveryID]struct{}, deliveries(parts))
	var touched []dispatcher.DeliveryID
	add := func(id dispatcher.DeliveryID, begins bool) {
		before := len(seen)
		if seen[id] = struct{}{}; len(seen) > before && !begins {
			touched = append(touched, id)
		}
	}
	for i := range parts {
		for k := range parts[i].Accepted {
			a := &parts[i].Accepted[k]
			for _, lane := range a.Lanes {
				add(dispatcher.DeliveryID{Lane: lane, Message: a.ID}, !a.Again)
			}
		}
	}
	for i := range parts {
		for k := range parts[i].Events {
			if e := &parts[i].Events[k]; e.Kind != Late {
				add(e.ID, false)
			}
		}
	}
	return touched
}

// deliveries estimates the number of deliveries in some parts.
func deliveries(parts []Part) (n int) {
	for i := range parts {
		n += max(len(parts[i].Accepted), len(parts[i].Events))
	}
	return n
}

// Fold applies parts in their order to the unfinished deliveries. known has the deliveries
// of Touched that the archive has. Fold also sets the message's fields of events.
func Fold(parts []Part, known map[dispatcher.DeliveryID]Open) Folded {
	n := deliveries(parts)
	f := folder{parts: parts, at: make(map[dispatcher.DeliveryID]int, n), deliveries: make([]foldedDelivery, 0, n), known: known}
	for i := range parts {
		f.part(&parts[i])
	}
	out := Folded{Unnamed: f.unnamed, MaybeArchived: f.maybeArchived}
	for i := range f.deliveries {
		t := &f.deliveries[i]
		switch {
		case !t.changed:
		case t.open:
			t.Open.New = !t.known
			out.Open = append(out.Open, t.Open)
		case t.known:
			out.Ended = append(out.Ended, t.Open.ID)
		}
	}
	return out
}

// folder is the state of one Fold.
type folder struct {
	parts      []Part
	at         map[dispatcher.DeliveryID]int // index in deliveries
	deliveries []foldedDelivery
	known      map[dispatcher.DeliveryID]Open
	messages   map[string]*dispatcher.Message // messages that parts accept, read on demand

	unnamed, maybeArchived []*Event
}

// foldedDelivery is a delivery in the parts.
type foldedDelivery struct {
	Open    Open // only its ID if it is not open
	open    bool // unfinished now, as far as known
	known   bool // it was unfinished before
	changed bool
	last    *dispatcher.Attempt // the last attempt in the parts; nil: there is none
	end     Kind                // the last end in the parts; 0: it did not end there
}

func (f *folder) part(p *Part) {
	a, e := p.Accepted, p.Events
	for len(a)+len(e) > 0 {
		if len(e) == 0 || len(a) > 0 && a[0].Pos < e[0].Pos {
			f.accepted(p, &a[0])
			a = a[1:]
			continue
		}
		f.event(p, &e[0])
		e = e[1:]
	}
}

// get returns the state of a delivery. The pointer is valid until the next call.
func (f *folder) get(id dispatcher.DeliveryID) *foldedDelivery {
	if i, seen := f.at[id]; seen {
		return &f.deliveries[i]
	}
	f.at[id] = len(f.deliveries)
	f.deliveries = append(f.deliveries, foldedDelivery{})
	t := &f.deliveries[len(f.deliveries)-1]
	if len(f.known) > 0 {
		t.Open, t.known = f.known[id]
		t.open = t.known
	}
	t.Open.ID = id
	return t
}

func (f *folder) accepted(p *Part, a *Accepted) {
	for _, lane := range a.Lanes {
		t := f.get(dispatcher.DeliveryID{Lane: lane, Message: a.ID})
		o := &t.Open
		if !t.open {
			*o = Open{ID: o.ID, Due: a.Due, Created: a.At}
		}
		t.open, t.changed = true, true
		o.Epoch, o.Pos, o.Head, o.Body = p.Epoch, a.Pos, a.Head, a.Body
		if m := a.Message; m != nil {
			o.Created, o.Topic, o.Tenant, o.Subject = m.CreatedAt, m.Topic, m.Tenant, m.Subject
		}
	}
}

// message returns the message that the parts accept under an id, or nil. It is needed for a
// delivery that ends when it is accepted, because that delivery is never open.
func (f *folder) message(id string) *dispatcher.Message {
	if f.messages == nil {
		f.messages = map[string]*dispatcher.Message{}
		for i := range f.parts {
			for k := range f.parts[i].Accepted {
				if a := &f.parts[i].Accepted[k]; a.Message != nil {
					f.messages[a.ID] = a.Message
				}
			}
		}
	}
	return f.messages[id]
}

func (f *folder) event(p *Part, e *Event) {
	t := f.get(e.ID)
	o := &t.Open
	if (verdicts[e.Kind] != 0 || e.Kind == Late) && !e.Attempt.At.IsZero() && !e.Repeats {
		a := &e.Attempt
		same := t.last != nil && a.Number == t.last.Number && a.Status == t.last.Status && a.At.Equal(t.last.At)
		if e.MarkRepeated(same, !t.open && e.Kind == t.end); e.Kind == 0 {
			return
		}
		if e.Kind == Late || e.Kind.Ends() && !t.open {
			f.maybeArchived = append(f.maybeArchived, e)
		}
		t.last = a
	}
	if e.Kind.Ends() {
		t.end = e.Kind
	}
	if t.open {
		e.Topic, e.Tenant, e.Subject, e.Accepted = o.Topic, o.Tenant, o.Subject, o.Created
	} else if m := f.message(e.ID.Message); m != nil {
		e.Topic, e.Tenant, e.Subject, e.Accepted = m.Topic, m.Tenant, m.Subject, m.CreatedAt
	} else if e.Kind.Ends() && !e.Repeats {
		f.unnamed = append(f.unnamed, e)
	}
	snoozed := e.Kind == Snoozed
	if snoozed {
		e.Kind = 0
	}
	switch {
	case e.Kind == Late:
		return
	case e.Repeats && !t.open:
		e.Kind = 0 // its end is already archived
	case e.Kind.Ends():
		t.open, t.changed = false, true
		return
	case !t.open:
		return // it ended before, or its start was never read
	}
	t.changed = true
	o.Epoch = p.Epoch
	if snoozed {
		o.Asked = time.Time{} // when it is due now, the log does not have
	}
	switch e.Kind {
	case Retry:
		o.Attempts = max(o.Attempts, e.Attempt.Number)
		o.Due = e.At.Add(e.Wait)
		if o.Asked.After(e.At) { // otherwise the wait of the rung starts again
			o.Due = o.Asked
		}
		if !o.Asked.IsZero() && e.Attempt.Number > 0 { // with number 0 no attempt was made, so it is still requested
			o.Beside++
			o.Asked = time.Time{}
		}
	case Resent:
		o.Attempts = max(o.Attempts, e.Attempt.Number)
		switch {
		case e.Anew:
			o.Pos = e.Pos // it is now the last of its key
			o.Base, o.Beside, o.Asked, o.Due = o.Attempts, 0, time.Time{}, e.At
		case !e.Due.IsZero():
			o.Asked, o.Due = e.Due, e.At
		} // else only its cancellation was revoked
	}
}
