package admin

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/read"
)

// feedEntriesAtOnce is the number of entries in one round trip: 1 MiB, because most entries have up to
// 16 KiB.
const feedEntriesAtOnce = 64

// passage is the part of the log that a call of Read reads.
type passage struct {
	f    *Feed
	part archive.Part
	pos  int64 // the last provisional Pos
	size int64 // bytes of the accepted messages

	lines   int
	changes []changeLine
}

// Read returns the events of the log after a position. It reads whole entries, at least one. The
// returned epoch is the epoch at the end. If it equals the caller's epoch, the whole part is of
// that epoch.
func (f *Feed) Read(ctx context.Context, partition int, from archive.Position, lines, bytes int) (archive.Part, error) {
	r := &passage{f: f, part: archive.Part{Partition: partition, From: from, To: from}}
	for full := false; !full; {
		entries, err := r.next(ctx)
		if err != nil {
			return archive.Part{}, inPartition(partition, err)
		}
		full = len(entries) < feedEntriesAtOnce
		for i := range entries {
			size, _ := strconv.ParseInt(text(&entries[i], "b"), 10, 64)
			if r.lines > 0 && (r.lines >= lines || r.size+size > int64(bytes)) || len(r.changes) == mostChanges {
				r.part.More, full = true, true
				break
			}
			r.entry(&entries[i])
			r.size += size
		}
	}
	if err := r.changesNow(ctx); err != nil {
		return archive.Part{}, inPartition(partition, err)
	}
	r.part.Bytes = r.size
	if err := r.records(ctx); err != nil {
		return archive.Part{}, inPartition(partition, err)
	}
	return r.part, nil
}

// next reads the next entries.
func (r *passage) next(ctx context.Context) ([]redis.XMessage, error) {
	key := r.f.conn.Tag(r.part.Partition) + keys.Attempts
	var entries *redis.XMessageSliceCmd
	a, err := r.f.readAt(ctx, "read the log", r.part.Partition, func(p redis.Pipeliner) {
		entries = p.XRangeN(ctx, key, "("+r.part.To.String(), "+", feedEntriesAtOnce)
	})
	r.part.Epoch, r.part.Gap = a.epoch, a.gap
	return conn.Value(entries), err
}

func text(e *redis.XMessage, field string) string {
	value, _ := e.Values[field].(string)
	return value
}

// entry adds the events of one entry to the part.
func (r *passage) entry(e *redis.XMessage) {
	id, err := archive.ParsePosition(e.ID)
	if err != nil {
		return // no server has such an id
	}
	p := &r.part
	before := logPlace{to: p.To, accepted: len(p.Accepted), events: len(p.Events), size: r.size, tailLost: p.TailLost}
	p.To = id
	r.part.TailLost = r.part.TailLost || text(e, "z") != ""
	at := conn.FromMillis(id.MS)
	if line := text(e, "k"); line != "" {
		r.lines++
		r.changed(line, at, before)
		return
	}
	if names := text(e, "a"); names != "" {
		r.names(names, text(e, "w"), at)
		return
	}
	r.part.Events = slices.Grow(r.part.Events, strings.Count(text(e, "l"), "\n")+1)
	for l := range read.LogLines(e.Values) {
		r.lines++
		event, ok := eventOf(&l)
		if !ok {
			continue
		}
		event.At = at
		if event.Kind == archive.Retry && !l.Next.IsZero() {
			event.Wait = l.Next.Sub(at) // the entry may be written a little after settle read the clock
		}
		if event.Anew { // the archive may have it as finished, or not have it
			r.accept(archive.Accepted{ID: l.ID.Message, At: at, Due: at, Again: true, Lanes: []dispatcher.Lane{l.ID.Lane}})
		}
		r.pos++
		event.Pos = r.pos
		r.part.Events = append(r.part.Events, event)
	}
}

func (r *passage) accept(a archive.Accepted) {
	r.pos++
	a.Pos = r.pos
	r.part.Accepted = append(r.part.Accepted, a)
}

// waitingKinds has the letters of schedule for deliveries that did not end at once: due, ready, leased, or
// behind others.
const waitingKinds = "drlb"

// names adds the messages that one call of schedule accepted. The parameter names has the messages,
// and words has the reply for each.
func (r *passage) names(names, words string, at time.Time) {
	w := words
	word := func() (next string) {
		next, w, _ = strings.Cut(w, " ")
		return next
	}
	for line := range strings.SplitSeq(names, "\n") {
		r.lines++
		code, due := word(), word()
		if code == "" {
			return
		}
		if code[0] == '2' {
			word() // the time when it was first accepted
		}
		if code[0] != '1' && strings.Trim(code[1:], "sf") == "" {
			continue // no delivery was created
		}
		id, rest, _ := strings.Cut(line, " ")
		a := archive.Accepted{ID: id, At: at, Again: code[0] == '2'}
		if ms, err := strconv.ParseInt(due, 10, 64); err == nil && strings.ContainsAny(code[1:], "drl") {
			a.Due = conn.FromMillis(ms)
		}
		for _, letter := range code[1:] {
			var lane string
			if lane, rest, _ = strings.Cut(rest, " "); strings.ContainsRune(waitingKinds, letter) {
				a.Lanes = append(a.Lanes, dispatcher.Lane(lane))
			}
		}
		r.accept(a)
	}
}

// eventOf returns the event of a line. It returns false if the line has no event, or if another
// line has it too.
func eventOf(l *read.LogLine) (e archive.Event, ok bool) {
	e = archive.Event{ID: l.ID, Attempt: l.Attempt, Kind: archive.Late}
	switch l.Verdict {
	case "d":
		e.Attempt.Verdict = dispatcher.Delivered
		if l.Code == '1' || l.Code == '3' {
			e.Kind = archive.Delivered
		}
	case "r":
		e.Attempt.Verdict = dispatcher.Retry
		if l.Code == '1' {
			e.Kind, e.Wait = archive.Retry, l.Wait
		}
	case "z":
		e.Kind = archive.Snoozed
		return e, l.Code == '1'
	case "x":
		e.Attempt.Verdict = dispatcher.Dead
		if l.Code == '1' {
			e.Kind, e.Reason = archive.Dead, dispatcher.DeadReason(l.Reason)
		}
		return e, l.Code != '5'
	case "dead":
		e.Kind, e.Reason = archive.Dead, dispatcher.DeadReason(l.Reason)
	case "cancelled":
		e.Kind = archive.Cancelled
	case "delivered": // logged if a late success could not end the delivery at once
		e.Kind, e.Repeats = archive.Delivered, true
	case "forgotten":
		e.Kind = archive.Forgotten
	case "restored":
		e.Kind = archive.Restored
	case "resent":
		e.Kind = archive.Resent
		reason, by, _ := strings.Cut(l.Reason, ",")
		e.By, e.Anew = by, reason == "anew"
		if ms, err := strconv.ParseInt(reason, 10, 64); err == nil {
			e.Due = conn.FromMillis(ms)
		}
	default:
		return e, false
	}
	return e, true
}
