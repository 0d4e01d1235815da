package archive

import (
	"context"
	"errors"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// work archives until the log has no more.
func (a *Archiver) work(ctx context.Context) error {
	for more := true; more && ctx.Err() == nil; {
		if time.Since(a.renewed) >= holdEvery || len(a.leases) == 0 {
			if err := a.renew(ctx); err != nil {
				return err
			}
		}
		if len(a.leases) == 0 {
			return nil
		}
		var comparing bool
		var err error
		if more, comparing, err = a.pass(ctx); err == nil && !more && !a.stopping {
			more, err = a.maintain(ctx)
		}
		if err != nil {
			return err
		}
		more = more || comparing
	}
	if a.waiting && !a.stopping {
		a.Wake()
	}
	return nil
}

// pass archives one transaction and compares one page. It reports whether the log may have
// more, and whether a comparison may. A partition that can't be read does not block the
// others.
func (a *Archiver) pass(ctx context.Context) (more, comparing bool, err error) {
	if err := a.reportArchived(ctx); err != nil {
		return false, false, err
	}
	a.waiting = false
	in := a.partitions()
	states, err := a.source.States(ctx, in)
	if err != nil {
		return false, false, err
	}
	var parts []Part
	var errs []error
	lines, bytes := mostLines, mostBytes
	for i := range states {
		s := &states[i]
		h := a.leases[s.Partition]
		if !a.sameEpoch(h, s) {
			return true, false, nil // it has to be leased again
		}
		a.notifyDropped(h, s)
		switch {
		case h.At.After(s.At): // the store missed the report, or lost it
			a.unreported = append(a.unreported, Part{Partition: s.Partition, Epoch: h.Epoch, From: h.At, To: h.At})
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
		if p.Epoch != h.Epoch { // it was emptied after its state was read
			return true, false, nil
		}
		p.Gap, p.Dropped = newest(p.Gap, gapOf(h, s)), s.Dropped
		a.waiting, more = a.waiting || p.Waits, more || p.More
		lines, bytes = lines-len(p.Accepted)-len(p.Events)-len(p.Endpoints)-len(p.PausedLanes), bytes-size(&p)
		if p.To.After(p.From) {
			parts = append(parts, p)
		}
	}
	if err := a.write(ctx, parts); err != nil {
		return false, false, err
	}
	if !a.stopping {
		comparing, err = a.compare(ctx, states)
	}
	return more, comparing, errors.Join(append(errs, err)...)
}

// size returns the bytes of messages and endpoints in a part.
func size(p *Part) (n int) {
	for i := range p.Accepted {
		n += len(p.Accepted[i].Head) + len(p.Accepted[i].Body)
	}
	for i := range p.Endpoints {
		n += len(p.Endpoints[i].Record)
	}
	return n
}

// sameEpoch reports whether a partition still has the leased epoch. If not, all leases are
// forgotten and taken again.
func (a *Archiver) sameEpoch(h *PartitionLease, s *State) bool {
	if s.Epoch != "" && s.Epoch == h.Epoch {
		return true
	}
	a.o.Log.Warn("a partition of the store has other data than before: it was emptied, or its node failed over to one without them", "partition", s.Partition)
	a.wants = nil
	clear(a.leases)
	delete(a.dropped, h.Epoch)
	return false
}

// write writes parts to the archive and reports them to the store.
func (a *Archiver) write(ctx context.Context, parts []Part) error {
	if len(parts) == 0 {
		return nil
	}
	last := make([]int64, len(parts))
	for i := range parts {
		last[i] = parts[i].Number(a.leases[parts[i].Partition].Last)
	}
	written, err := a.archive.Write(ctx, a.o.Name, parts)
	if err != nil {
		return err
	}
	a.reportWritten()
	missing := int64(0)
	for i := range parts {
		h := a.leases[parts[i].Partition]
		h.At, h.Last, h.Gap = parts[i].To, last[i], newest(h.Gap, parts[i].Gap)
		missing += int64(parts[i].Missing)
		if parts[i].TailLost {
			a.notifyTailLost(parts[i].Partition)
		}
		parts[i].Accepted, parts[i].Events, parts[i].Endpoints, parts[i].PausedLanes = nil, nil, nil, nil
	}
	a.mu.Lock()
	s := &a.status
	s.Messages, s.Events = s.Messages+int64(written.Messages), s.Events+int64(written.Events)
	s.Changed, s.Passed, s.Lost = s.Changed+int64(written.Changed), s.Passed+int64(written.Passed), s.Lost+missing
	a.mu.Unlock()
	a.unreported = append(a.unreported, parts...)
	return a.reportArchived(ctx)
}

// reportArchived reports to the store which parts are archived. If that fails, the next pass repeats
// it.
func (a *Archiver) reportArchived(ctx context.Context) error {
	if len(a.unreported) == 0 {
		return nil
	}
	if err := a.source.Archived(ctx, a.unreported); err != nil {
		return err
	}
	a.unreported = nil
	return nil
}

// notifyTailLost reports that the store lost its newest data. Restoring it is left to the
// operator, because another store may still have these deliveries and attempt them.
func (a *Archiver) notifyTailLost(partition int) {
	const detail = "the store lost its newest data: hookladder restore --into-running restores it from the archive"
	a.o.Log.Warn(detail, "partition", partition)
	a.notify(reasonTail, 0, detail)
}

// notify reports a problem that is over when it is found.
func (a *Archiver) notify(reason string, count int, detail string) {
	if a.o.Notify == nil {
		return
	}
	at := a.o.Now().Truncate(time.Millisecond)
	a.o.Notify(dispatcher.News{Notice: dispatcher.NoticeUnhealthy, At: at, Since: at, Reason: reason, Count: count, Detail: detail})
}

// The reasons in the reports: the archive or the store lost data.
const (
	reasonBacklog = "archive_backlog"
	reasonTail    = "tail_lost"
)

// notifyDropped reports log lines that the store cut before they were archived. The archive
// has the number that was reported before this instance started.
func (a *Archiver) notifyDropped(h *PartitionLease, s *State) {
	before := max(a.dropped[s.Epoch], h.Dropped)
	a.dropped[s.Epoch] = s.Dropped
	if s.Dropped <= before {
		return
	}
	n := int(s.Dropped - before)
	a.o.Log.Warn("the store cut log lines that were not archived: ARCHIVE_BACKLOG was reached", "partition", s.Partition, "lines", n)
	a.notify(reasonBacklog, n, "log lines were cut before they were archived, because ARCHIVE_BACKLOG was reached")
}
