package archive

import (
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// Open is a delivery that has not finished, as the archive knows it. It is what a lost
// store is made of again.
type Open struct {
	ID      dispatcher.DeliveryID
	Epoch   string // of the partition in which it was last seen
	Pos     int64  // its place among those of its partition and key
	Created time.Time
	Due     time.Time // of the next attempt; zero: at once, or behind others of its key

	Attempts int       // made so far
	Base     int       // of them, those before its ladder began
	Beside   int       // of them, those of this ladder that somebody asked for while it waited
	Asked    time.Time // an attempt was asked for, which interrupted the wait until then; zero: none was

	Topic, Tenant, Subject string

	Head []byte // only where a message that is just kept for it has to be written too
	Body []byte
	New  bool // it was not known before

	History []Event // its newest attempts, newest first; only where Vault.History was asked for it
}

// Folded is what some parts make of the deliveries that have not finished.
type Folded struct {
	Open    []Open                  // new, or changed, in the order of their first change
	Ended   []dispatcher.DeliveryID // that were known and have ended
	Unnamed []*Event                // ends whose message these parts do not have, and which was not open
}

// Touched names the deliveries that Fold needs to know: those that parts tell of, but
// for those that they tell the beginning of.
func Touched(parts []Part) []dispatcher.DeliveryID {
	met := make(map[dispatcher.DeliveryID]struct{}, deliveries(parts))
	var touched []dispatcher.DeliveryID
	meet := func(id dispatcher.DeliveryID, begins bool) {
		before := len(met)
		if met[id] = struct{}{}; len(met) > before && !begins {
			touched = append(touched, id)
		}
	}
	for i := range parts {
		for k := range parts[i].Accepted {
			a := &parts[i].Accepted[k]
			for _, lane := range a.Lanes {
				meet(dispatcher.DeliveryID{Lane: lane, Message: a.ID}, !a.Again)
			}
		}
	}
	for i := range parts {
		for k := range parts[i].Events {
			if e := &parts[i].Events[k]; e.Kind != Late {
				meet(e.ID, false)
			}
		}
	}
	return touched
}

// deliveries is about how many deliveries parts tell of.
func deliveries(parts []Part) (n int) {
	for i := range parts {
		n += max(len(parts[i].Accepted), len(parts[i].Events))
	}
	return n
}

// Fold goes through parts in their order and answers what becomes of the deliveries
// that have not finished. known are those of Touched that the archive has. It fills in
// what events lack of their messages.
func Fold(parts []Part, known map[dispatcher.DeliveryID]Open) Folded {
	n := deliveries(parts)
	f := folder{parts: parts, at: make(map[dispatcher.DeliveryID]int, n), told: make([]tale, 0, n), known: known}
	for i := range parts {
		f.part(&parts[i])
	}
	out := Folded{Unnamed: f.unnamed}
	for i := range f.told {
		t := &f.told[i]
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

// folder is one Fold.
type folder struct {
	parts    []Part
	at       map[dispatcher.DeliveryID]int // in told
	told     []tale
	known    map[dispatcher.DeliveryID]Open
	messages map[string]*dispatcher.Message // that parts accept; nil: not needed so far
	unnamed  []*Event
}

// tale is a delivery of which parts tell.
type tale struct {
	Open    Open // its ID alone, where it is not open
	open    bool // by now, as far as is known
	known   bool // it was open before
	changed bool
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

// get is a delivery as it is by now. It is good until the next call.
func (f *folder) get(id dispatcher.DeliveryID) *tale {
	if i, met := f.at[id]; met {
		return &f.told[i]
	}
	f.at[id] = len(f.told)
	f.told = append(f.told, tale{})
	t := &f.told[len(f.told)-1]
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

// message is what the parts accept under an id; nil: nothing. A delivery may end as its
// message is accepted, and is never open then.
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
	if t.open {
		e.Topic, e.Tenant, e.Subject, e.Accepted = o.Topic, o.Tenant, o.Subject, o.Created
	} else if m := f.message(e.ID.Message); m != nil {
		e.Topic, e.Tenant, e.Subject, e.Accepted = m.Topic, m.Tenant, m.Subject, m.CreatedAt
	} else if e.Kind.Ends() && !e.Repeats {
		f.unnamed = append(f.unnamed, e)
	}
	switch {
	case e.Kind == Late:
		return
	case e.Repeats && !t.open:
		e.Kind = 0 // its end is archived already
	case e.Kind.Ends():
		t.open, t.changed = false, true
		return
	case !t.open:
		return // it ended before, or its beginning was never read
	}
	t.changed = true
	o.Epoch = p.Epoch
	switch e.Kind {
	case Retry:
		o.Attempts = max(o.Attempts, e.Attempt.Number)
		o.Due = e.At.Add(e.Wait)
		if o.Asked.After(e.At) { // else the rung's wait begins again
			o.Due = o.Asked
		}
		if !o.Asked.IsZero() && e.Attempt.Number > 0 { // 0: no attempt was made, so it is still asked for
			o.Beside++
			o.Asked = time.Time{}
		}
	case Resent:
		o.Attempts = max(o.Attempts, e.Attempt.Number)
		switch {
		case e.Anew:
			o.Pos = e.Pos // it is the last of its key now
			o.Base, o.Beside, o.Asked, o.Due = o.Attempts, 0, time.Time{}, e.At
		case !e.Due.IsZero():
			o.Asked, o.Due = e.Due, e.At
		} // else only its cancelling was called off
	}
}
