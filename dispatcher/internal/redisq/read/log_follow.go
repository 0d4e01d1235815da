package read

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// Limits on following the log. An entry has some 16 KiB at most, so a round
// trip has a MiB.
const (
	followEntries = 64 // of one round trip
	streamsAtOnce = 64 // whose newest entries are read together
)

// store returns the number that marks this project's store in the ids of
// events.
func (r *LogReader) store() uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(r.conn.ID()))
	return h.Sum32()
}

// LogEnd returns the position after the whole log. If a partition can't be read
// now, it is read later from the present time of the others.
func (r *LogReader) LogEnd(ctx context.Context) (dispatcher.LogPosition, error) {
	all := r.conn.All()
	p := dispatcher.LogPosition{Store: r.store(), Marks: make([]dispatcher.LogMark, len(all))}
	var errs []error
	var lost []int
	newest := int64(0)
	for some := range slices.Chunk(all, streamsAtOnce) {
		last, b := make([]*redis.XMessageSliceCmd, len(some)), conn.Batch{Doing: "find the end of the log", Clock: true}
		for i, n := range some {
			b.Calls = append(b.Calls, conn.Call{Partition: n, Fill: func(p redis.Pipeliner) {
				last[i] = p.XRevRangeN(ctx, r.conn.Tag(n)+keys.Attempts, "+", "-", 1)
			}})
		}
		for i, e := range r.conn.Send(ctx, b) {
			if e.Err != nil {
				errs, lost = append(errs, r.conn.InPartition(e.Partition, e.Err)), append(lost, e.Partition)
				continue
			}
			m := &p.Marks[e.Partition]
			m.Before = e.Now.UnixMilli()
			newest = max(newest, m.Before)
			for _, entry := range conn.Value(last[i]) {
				m.MS, m.Seq = entryID(entry.ID)
			}
		}
	}
	if len(lost) == len(all) {
		return p, conn.JoinErrors(errs...)
	}
	for _, n := range lost {
		p.Marks[n] = dispatcher.LogPositionAt(p.Store, 1, newest).Marks[0]
	}
	return p, nil
}

// LogSince returns a position in the log for a time. All events that ended at
// that time or later come after it.
func (r *LogReader) LogSince(at time.Time) dispatcher.LogPosition {
	return dispatcher.LogPositionAt(r.store(), r.conn.Partitions(), max(at.UnixMilli(), 0))
}

// LogAt parses the id of an event. It returns dispatcher.ErrCursor for an id of
// another store.
func (r *LogReader) LogAt(text string) (dispatcher.LogPosition, error) {
	p, err := dispatcher.ParseLogPosition(text)
	if err == nil && p.Store != r.store() {
		err = fmt.Errorf("%w: it is of another store", dispatcher.ErrCursor)
	}
	return p, err
}

// FollowLog returns the log lines after a position and advances the position.
// It returns only wanted lines, by the data in the line itself; nil means all.
// If some partitions can't be read, it returns the lines of the others with the
// error.
func (r *LogReader) FollowLog(ctx context.Context, at *dispatcher.LogPosition, wanted func(*dispatcher.Logged) bool) (dispatcher.LogStep, error) {
	var step dispatcher.LogStep
	next, newest := at.Clone(), int64(0)
	if len(at.Marks) != r.conn.Partitions() {
		next = at.Divided(r.conn.Partitions())
		step.Gap = conn.FromMillis(max(next.Marks[0].Before, 1))
	}
	reads, errs := r.readFrom(ctx, next)
	for _, s := range reads {
		if s.cut > newest && s.lost {
			newest = s.cut
		}
		step.More = step.More || s.more
		next.Marks[s.partition] = s.mark
		for i := range s.lines {
			if l, ok := s.lines[i].logged(); ok && (wanted == nil || wanted(&l)) {
				step.Lines = append(step.Lines, l)
			}
		}
	}
	if newest > 0 {
		step.Gap = conn.FromMillis(newest)
	}
	slices.SortStableFunc(step.Lines, func(a, b dispatcher.Logged) int { return a.Place.Compare(b.Place) })
	if err := r.fill(ctx, step.Lines); err != nil {
		return dispatcher.LogStep{}, err
	}
	*at = next
	return step, errs
}

// followed is the result of reading one partition.
type followed struct {
	partition int
	lines     []placed // only lines that were not read before
	mark      dispatcher.LogMark
	more      bool
	cut       int64 // ms, before which entries may have been cut
	lost      bool  // some lines were not read
}

// readFrom reads the next entries of each partition.
func (r *LogReader) readFrom(ctx context.Context, at dispatcher.LogPosition) (reads []followed, err error) {
	most := min(max(followEntries/len(at.Marks), 1), chunkEntries)
	var errs []error
	for some := range slices.Chunk(r.conn.All(), max(followEntries/most, 1)) {
		entries, cuts := make([]*redis.XMessageSliceCmd, len(some)), make([]*redis.StringCmd, len(some))
		b := conn.Batch{Doing: "follow the log", Clock: true}
		for i, n := range some {
			b.Calls = append(b.Calls, conn.Call{Partition: n, Fill: func(p redis.Pipeliner) {
				entries[i] = p.XRangeN(ctx, r.conn.Tag(n)+keys.Attempts, fromMark(at.Marks[n]), "+", int64(most))
				cuts[i] = p.HGet(ctx, r.conn.Tag(n)+keys.Archive, fieldCut)
			}})
		}
		for i, e := range r.conn.Send(ctx, b) {
			if e.Err != nil {
				errs = append(errs, r.conn.InPartition(e.Partition, e.Err))
				continue
			}
			reads = append(reads, follow(e, at.Marks[e.Partition], conn.Value(entries[i]), conn.Value(cuts[i]), most))
		}
	}
	return reads, conn.JoinErrors(errs...)
}

// fromMark returns the start of the next XRANGE. If some lines of an entry were
// read, the entry is read again.
func fromMark(m dispatcher.LogMark) string {
	id := strconv.FormatInt(m.MS, 10) + "-" + strconv.FormatUint(m.Seq, 10)
	if m.Lines > 0 {
		return id
	}
	return "(" + id
}

// follow adds the next entries of a partition after a mark.
func follow(e conn.Call, mark dispatcher.LogMark, entries []redis.XMessage, cut string, most int) followed {
	f := followed{partition: e.Partition, mark: mark, more: len(entries) == most}
	if ms, seq := entryID(cut); ms > mark.Before && cmp.Or(cmp.Compare(ms, mark.MS), cmp.Compare(seq, mark.Seq)) > 0 {
		f.cut, f.lost, f.mark.Before = ms, true, ms
	}
	for _, entry := range entries {
		for _, l := range placedOf(e.Partition, entry) {
			if l.place.MS != mark.MS || l.place.Seq != mark.Seq || l.place.Line >= mark.Lines {
				f.lines = append(f.lines, l)
			}
		}
		f.mark.MS, f.mark.Seq = entryID(entry.ID)
		f.mark.Lines = 0
	}
	if !f.more {
		f.mark.Lines = 0
		f.mark.Before = max(f.mark.Before, e.Now.UnixMilli())
	}
	return f
}

// entryID parses the id of an entry. It returns 0-0 if the text is not an id.
func entryID(text string) (ms int64, seq uint64) {
	first, second, _ := strings.Cut(text, "-")
	at, err := strconv.ParseUint(first, 10, 64)
	n, err2 := strconv.ParseUint(second, 10, 64)
	if err != nil || err2 != nil || at > math.MaxInt64 {
		return 0, 0
	}
	return int64(at), n
}
