package archiver

import (
	"context"
	"time"

	"github.com/hookladder/hookladder/dispatcher/archive"
)

// walk compares what the archive has as unfinished with what the store has. It tells what
// the log can't: what the store held before it named what it accepts, and what was cut
// from the log. It is done once all of the log was read. What is found is written
// page by page: what ends meanwhile the log tells later, behind the page.
func (a *Archiver) walk(ctx context.Context, h *archive.Held, s *archive.State) error {
	if !unwalked(h, s) {
		return nil
	}
	if done, err := a.compareRecords(ctx, h, s); !done || err != nil {
		return err
	}
	began, until, name := time.Now(), h.Last, time.Now().UnixNano()
	seen := 0
	for cursor := ""; ; {
		page, next, err := a.source.Unfinished(ctx, h.Partition, cursor)
		if err != nil {
			return err
		}
		if len(page) > 0 {
			if page[0].Epoch != h.Epoch {
				return archive.ErrMoved // it was emptied meanwhile
			}
			if err := a.archive.See(ctx, a.o.Name, name, page); err != nil {
				return err
			}
		}
		seen += len(page)
		if time.Since(a.renewed) >= holdEvery {
			if err := a.stillHolds(ctx, h); err != nil {
				return err
			}
		}
		if cursor = next; cursor == "" {
			break
		}
	}
	if err := a.catchUp(ctx, h); err != nil {
		return err
	}
	lost, err := a.archive.Miss(ctx, a.o.Name, archive.Missed{
		Partition: h.Partition, Epoch: h.Epoch, Walk: name, Until: until, Last: h.Last, Gap: s.Gap,
	})
	if err != nil {
		return err
	}
	h.Began, h.Walked, h.Last = false, s.Gap, h.Last+int64(lost)
	a.mu.Lock()
	a.status.Lost += int64(lost)
	a.mu.Unlock()
	a.o.Log.Info("compared the archive with the store", "partition", h.Partition, "unfinished", seen, "lost", lost,
		"took_ms", time.Since(began).Milliseconds())
	return nil
}

// unwalked reports whether the log does not tell all of a partition.
func unwalked(h *archive.Held, s *archive.State) bool { return h.Began || s.Gap.After(h.Walked) }

// stillHolds renews what is held in the middle of a walk, which goes on only if its
// partition stays.
func (a *Archiver) stillHolds(ctx context.Context, h *archive.Held) error {
	at, last := h.At, h.Last
	if err := a.renew(ctx); err != nil {
		return err
	}
	now := a.held[h.Partition]
	if now == nil || now.Epoch != h.Epoch || now.At != at || now.Last != last {
		return archive.ErrMoved
	}
	*now = *h
	a.held[h.Partition] = h
	return nil
}

// catchUp archives what a partition logged during a walk. What the walk did not see and
// that log does not end has ended in the gap.
func (a *Archiver) catchUp(ctx context.Context, h *archive.Held) error {
	for {
		p, err := a.source.Read(ctx, h.Partition, h.At, mostLines, mostBytes)
		if err != nil {
			return err
		}
		if p.Epoch != h.Epoch {
			return archive.ErrMoved
		}
		if p.To.After(p.From) {
			if err := a.write(ctx, []archive.Part{p}); err != nil {
				return err
			}
		}
		if !p.More {
			return nil
		}
	}
}
