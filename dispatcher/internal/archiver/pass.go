package archiver

import (
	"context"
	"errors"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
)

// work archives all there is.
func (a *Archiver) work(ctx context.Context) error {
	for more := true; more && ctx.Err() == nil; {
		if time.Since(a.renewed) >= holdEvery || len(a.held) == 0 {
			if err := a.renew(ctx); err != nil {
				return err
			}
		}
		if len(a.held) == 0 {
			return nil
		}
		var comparing bool
		var err error
		if more, comparing, err = a.pass(ctx); err == nil && !more && !a.stops {
			more, err = a.care(ctx)
		}
		if err != nil {
			return err
		}
		more = more || comparing
	}
	if a.waits && !a.stops {
		a.Stirred()
	}
	return nil
}

// pass archives what one transaction takes, and compares a page. It reports whether there
// may be more in the log, and to compare. A partition that can't be read holds up none of
// the others.
func (a *Archiver) pass(ctx context.Context) (more, comparing bool, err error) {
	if err := a.say(ctx); err != nil {
		return false, false, err
	}
	a.waits = false
	in := a.partitions()
	states, err := a.source.States(ctx, in)
	if err != nil {
		return false, false, err
	}
	var parts []archive.Part
	var errs []error
	lines, bytes := mostLines, mostBytes
	for i := range states {
		s := &states[i]
		h := a.held[s.Partition]
		if !a.same(h, s) {
			return true, false, nil // it is held anew
		}
		a.tellDropped(h, s)
		switch {
		case h.At.After(s.At): // it was not told, or lost that it was
			a.unsaid = append(a.unsaid, archive.Part{Partition: s.Partition, Epoch: h.Epoch, From: h.At, To: h.At})
			more = true
			continue
		case !s.Last.After(h.At):
			continue
		case lines <= 0 || bytes <= 0:
			more = true
			continue
		}
		p, err := a.source.Read(ctx, s.Partition, h.At, lines, bytes)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if p.Epoch != h.Epoch { // it was emptied since its state was read
			return true, false, nil
		}
		p.Gap, p.Dropped = newest(p.Gap, gapOf(h, s)), s.Dropped
		a.waits, more = a.waits || p.Waits, more || p.More
		lines, bytes = lines-len(p.Accepted)-len(p.Events)-len(p.Endpoints)-len(p.Holds), bytes-size(&p)
		if p.To.After(p.From) {
			parts = append(parts, p)
		}
	}
	if err := a.write(ctx, parts); err != nil {
		return false, false, err
	}
	if !a.stops {
		comparing, err = a.compare(ctx, states)
	}
	return more, comparing, errors.Join(append(errs, err)...)
}

// size is how many bytes of messages and endpoints a part has.
func size(p *archive.Part) (n int) {
	for i := range p.Accepted {
		n += len(p.Accepted[i].Head) + len(p.Accepted[i].Body)
	}
	for i := range p.Endpoints {
		n += len(p.Endpoints[i].Record)
	}
	return n
}

// same reports whether a partition still has the data of which this instance knows how
// far they are archived. Else it forgets the partition, which is held anew.
func (a *Archiver) same(h *archive.Held, s *archive.State) bool {
	if s.Epoch != "" && s.Epoch == h.Epoch {
		return true
	}
	a.o.Log.Warn("a part of the store holds other data than before: it was emptied, or its node gave way to one without them", "partition", s.Partition)
	a.wants = nil
	clear(a.held)
	delete(a.dropped, h.Epoch)
	return false
}

// write keeps parts, and tells the store.
func (a *Archiver) write(ctx context.Context, parts []archive.Part) error {
	if len(parts) == 0 {
		return nil
	}
	last := make([]int64, len(parts))
	for i := range parts {
		last[i] = parts[i].Number(a.held[parts[i].Partition].Last)
	}
	written, err := a.archive.Write(ctx, a.o.Name, parts)
	if err != nil {
		return err
	}
	a.accepts()
	missing := int64(0)
	for i := range parts {
		h := a.held[parts[i].Partition]
		h.At, h.Last, h.Gap = parts[i].To, last[i], newest(h.Gap, parts[i].Gap)
		missing += int64(parts[i].Missing)
		if parts[i].TailLost {
			a.tellLost(parts[i].Partition)
		}
		parts[i].Accepted, parts[i].Events, parts[i].Endpoints, parts[i].Holds = nil, nil, nil, nil
	}
	a.mu.Lock()
	s := &a.status
	s.Messages, s.Events = s.Messages+int64(written.Messages), s.Events+int64(written.Events)
	s.Changed, s.Passed, s.Lost = s.Changed+int64(written.Changed), s.Passed+int64(written.Passed), s.Lost+missing
	a.mu.Unlock()
	a.unsaid = append(a.unsaid, parts...)
	return a.say(ctx)
}

// say tells the store what is safe. What it could not be told is said again.
func (a *Archiver) say(ctx context.Context) error {
	if len(a.unsaid) == 0 {
		return nil
	}
	if err := a.source.Archived(ctx, a.unsaid); err != nil {
		return err
	}
	a.unsaid = nil
	return nil
}

// tellLost tells that the store went back in time. What the archive has of the time that
// is lost, a person puts back: another store may attempt it as yet.
func (a *Archiver) tellLost(partition int) {
	const detail = "the store lost what it took last: hookladder restore --into-running puts back what the archive has of that"
	a.o.Log.Warn(detail, "partition", partition)
	a.tell(reasonTail, 0, detail)
}

// tell tells of a fault that is over when it is met.
func (a *Archiver) tell(reason string, count int, detail string) {
	if a.o.Tell == nil {
		return
	}
	at := a.o.Now().Truncate(time.Millisecond)
	a.o.Tell(dispatcher.News{Notice: dispatcher.NoticeUnhealthy, At: at, Since: at, Reason: reason, Count: count, Detail: detail})
}

// The reasons of news: something is lost to the archive, or to the store.
const (
	reasonBacklog = "archive_backlog"
	reasonTail    = "tail_lost"
)

// tellDropped reports that the store cut lines that were not archived. The archive knows
// how many of them were reported before this instance began.
func (a *Archiver) tellDropped(h *archive.Held, s *archive.State) {
	before := max(a.dropped[s.Epoch], h.Dropped)
	a.dropped[s.Epoch] = s.Dropped
	if s.Dropped <= before {
		return
	}
	n := int(s.Dropped - before)
	a.o.Log.Warn("the store cut what was not archived: ARCHIVE_BACKLOG was reached", "partition", s.Partition, "lines", n)
	a.tell(reasonBacklog, n, "what happened in the store was cut before it was archived, since ARCHIVE_BACKLOG was reached")
}
