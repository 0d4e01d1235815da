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
}

// Folded is what some parts make of the deliveries that have not finished.
type Folded struct {
	Open  []Open                  // new, or changed, in the order of their first change
	Ended []dispatcher.DeliveryID // that were known and have ended
}

// Touched names the deliveries that Fold needs to know: those that parts tell of, but
// for those that they tell the beginning of.
func Touched(parts []Part) []dispatcher.DeliveryID {
	begun := map[dispatcher.DeliveryID]bool{}
	var touched []dispatcher.DeliveryID
	for i := range parts {
		for k := range parts[i].Accepted {
			a := &parts[i].Accepted[k]
			for _, lane := range a.Lanes {
				id := dispatcher.DeliveryID{Lane: lane, Message: a.ID}
				if _, seen := begun[id]; !seen {
					begun[id] = !a.Again
					if a.Again {
						touched = append(touched, id)
					}
				}
			}
		}
	}
	for i := range parts {
		for k := range parts[i].Events {
			if id := parts[i].Events[k].ID; parts[i].Events[k].Kind != Late {
				if _, seen := begun[id]; !seen {
					begun[id] = false
					touched = append(touched, id)
				}
			}
		}
	}
	return touched
}

// Fold goes through parts in their order and answers what becomes of the deliveries
// that have not finished. known are those of Touched that the archive has. It fills in
// what events lack of their messages.
func Fold(parts []Part, known map[dispatcher.DeliveryID]Open) Folded {
	f := folder{open: make(map[dispatcher.DeliveryID]*Open, len(known)), known: known}
	for i := range parts {
		f.part(&parts[i])
	}
	var out Folded
	for _, id := range f.order {
		o := f.open[id]
		_, was := known[id]
		switch {
		case o != nil:
			o.New = !was
			out.Open = append(out.Open, *o)
		case was:
			out.Ended = append(out.Ended, id)
		}
	}
	return out
}

// folder is one Fold. open has an entry for each delivery in order; nil: it has ended.
type folder struct {
	open  map[dispatcher.DeliveryID]*Open
	order []dispatcher.DeliveryID
	known map[dispatcher.DeliveryID]Open
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

// get is a delivery as it is by now; nil: it is not open, as far as is known.
func (f *folder) get(id dispatcher.DeliveryID) *Open {
	if o, met := f.open[id]; met {
		return o
	}
	if o, ok := f.known[id]; ok {
		return &o
	}
	return nil
}

func (f *folder) set(id dispatcher.DeliveryID, o *Open) {
	if _, met := f.open[id]; !met {
		f.order = append(f.order, id)
	}
	f.open[id] = o
}

func (f *folder) accepted(p *Part, a *Accepted) {
	for _, lane := range a.Lanes {
		id := dispatcher.DeliveryID{Lane: lane, Message: a.ID}
		o := f.get(id)
		if o == nil {
			o = &Open{ID: id, Due: a.Due, Created: a.At}
		}
		o.Epoch, o.Pos, o.Head, o.Body = p.Epoch, a.Pos, a.Head, a.Body
		if m := a.Message; m != nil {
			o.Created, o.Topic, o.Tenant, o.Subject = m.CreatedAt, m.Topic, m.Tenant, m.Subject
		}
		f.set(id, o)
	}
}

func (f *folder) event(p *Part, e *Event) {
	o := f.get(e.ID)
	if o != nil {
		e.Topic, e.Tenant, e.Subject = o.Topic, o.Tenant, o.Subject
	}
	switch {
	case e.Kind == Late:
		return
	case e.Kind.Ends():
		f.set(e.ID, nil)
		return
	case o == nil:
		return // it ended before, or its beginning was never read
	}
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
		o.Asked = e.Due
		o.Due = e.At
		if e.Anew {
			o.Pos = e.Pos // it is the last of its key now
			o.Base, o.Beside, o.Asked = o.Attempts, 0, time.Time{}
		}
	}
	f.set(e.ID, o)
}
