package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/read"
)

// Feed is the source of an archive.
type Feed struct {
	store *redisq.Store
	conn  *conn.Client
}

var _ archive.Source = (*Feed)(nil)

// NewFeed returns a Feed of a store.
func NewFeed(s *redisq.Store) *Feed { return &Feed{store: s, conn: s.Conn()} }

// All returns the numbers of all partitions.
func (f *Feed) All() []int { return f.conn.All() }

// Begin makes all instances log the names of the messages that they accept. It makes partitions
// keep data until they are archived. Running instances learn this by their next beat at the latest.
func (f *Feed) Begin(ctx context.Context) error {
	if err := f.conn.BeginArchive(ctx); err != nil {
		return err
	}
	_, err := f.States(ctx, f.All())
	return err
}

// Ask makes all instances read the log now. It is needed if the writer of a line is not an
// instance, because the instances then get no notice.
func (f *Feed) Ask(ctx context.Context) error { return f.store.Stir(ctx) }

// States returns how far some partitions are archived. If a partition lost all its data, it begins
// anew after the loss is recorded.
func (f *Feed) States(ctx context.Context, in []int) ([]archive.State, error) {
	calls := make([]conn.Call, len(in))
	for i, n := range in {
		calls[i] = conn.Call{Partition: n, Args: []any{1}}
	}
	states, anew, err := f.read(ctx, calls)
	if slices.ContainsFunc(states, func(s archive.State) bool { return s.Epoch == "" }) {
		if err := f.conn.Verify(ctx); err != nil {
			return nil, err
		}
		states, anew, err = f.read(ctx, calls)
	}
	if anew {
		err = errors.Join(err, f.conn.BeginArchive(ctx))
	}
	return states, err
}

// ReadStates returns how far the first partitions are archived. It begins no partition anew.
func (f *Feed) ReadStates(ctx context.Context, partitions int) ([]archive.State, error) {
	calls := make([]conn.Call, partitions)
	for n := range calls {
		calls[n] = conn.Call{Partition: n, Args: []any{0}}
	}
	states, _, err := f.read(ctx, calls)
	return states, err
}

func (f *Feed) read(ctx context.Context, calls []conn.Call) (states []archive.State, anew bool, err error) {
	states = make([]archive.State, 0, len(calls))
	err = f.conn.SendEach(ctx, conn.Batch{Script: stateScript, Clock: true, Calls: calls}, func(_ int, r *conn.Call) error {
		s := archive.State{Partition: r.Partition, Now: r.Now}
		if r.Err == nil {
			anew = r.Number() == 1 || anew
			r.Err = readState(&r.Reply, &s)
		}
		if r.Err == nil {
			states = append(states, s)
		}
		return r.Err
	})
	return states, anew, err
}

// readState reads the reply of archive_state for one partition.
func readState(r *conn.Reply, s *archive.State) error {
	s.Epoch = r.Text()
	s.At = positionOf(r)
	s.Backlog, s.Dropped = number(r), number(r)
	s.Gap = positionOf(r)
	first := positionOf(r)
	s.Last = positionOf(r)
	s.First = conn.FromMillis(first.MS)
	return r.Err
}

// positionOf reads an id. It returns the zero Position for any other text.
func positionOf(r *conn.Reply) archive.Position {
	p, _ := archive.ParsePosition(r.Text())
	return p
}

// Lost records the data that the store lost, compared with an archive. The archive has the id of
// the project's data and the last archived epochs of the partitions. Lost returns the present id,
// or an empty id while data are missing.
func (f *Feed) Lost(ctx context.Context, id string, epochs map[int]string) (present string, err error) {
	if err := f.conn.NoteLost(ctx, id, epochs); err != nil {
		return "", err
	}
	if f.conn.Loss() != nil {
		return "", nil
	}
	return f.conn.ID(), nil
}

// number reads a count. It returns 0 for any other text.
func number(r *conn.Reply) int64 {
	n, _ := strconv.ParseInt(r.Text(), 10, 64)
	return max(n, 0)
}

// Archived reports to the partitions of some parts how far their log is archived.
func (f *Feed) Archived(ctx context.Context, parts []archive.Part) error {
	calls := make([]conn.Call, len(parts))
	for i := range parts {
		p := &parts[i]
		calls[i] = conn.Call{Partition: p.Partition, Args: []any{p.Epoch, p.To.String(), p.Bytes}}
	}
	return f.conn.SendEach(ctx, conn.Batch{Script: archivedScript, Calls: calls}, func(_ int, r *conn.Call) error { return r.Err })
}

// about is the state of a partition's log.
type about struct {
	epoch string
	gap   archive.Position
}

// readAt reads from a partition, and after that reads its epoch and its newest gap. The data are of
// that epoch, or of data that were lost since.
func (f *Feed) readAt(ctx context.Context, doing string, partition int, fill func(redis.Pipeliner)) (a about, err error) {
	var gap, epoch *redis.StringCmd
	err = f.conn.At(ctx, doing, partition, func(p redis.Pipeliner) {
		fill(p)
		gap = p.HGet(ctx, f.conn.Tag(partition)+keys.Archive, "gap")
		epoch = p.HGet(ctx, f.conn.Tag(partition)+keys.Limits, keys.Epoch)
	})
	a.epoch = conn.Value(epoch)
	a.gap, _ = archive.ParsePosition(conn.Value(gap)) // any other text returns the zero Position
	return a, err
}

// inPartition adds the partition to the error of a value that can't be read.
func inPartition(n int, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("partition %d: %w", n, err)
}

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

// Limits of the reads of messages. A record has at most 16 KiB, so that a command returns 1 MiB.
// Bodies stored apart have up to 4 MiB.
const (
	recordsAtOnce  = 64
	commandsAtOnce = 8
	bodiesAtOnce   = 2
)

// records reads the messages that the part names.
func (r *passage) records(ctx context.Context) error {
	tag, apart := r.f.conn.Tag(r.part.Partition), []*apartBody(nil)
	for some := range slices.Chunk(r.part.Accepted, recordsAtOnce*commandsAtOnce) {
		commands := make([]*redis.SliceCmd, 0, commandsAtOnce)
		about, err := r.f.readAt(ctx, "read messages", r.part.Partition, func(p redis.Pipeliner) {
			commands = commands[:0]
			for few := range slices.Chunk(some, recordsAtOnce) {
				ids := make([]string, len(few))
				for i, a := range few {
					ids[i] = a.ID
				}
				commands = append(commands, p.HMGet(ctx, tag+keys.Messages, ids...))
			}
		})
		if err != nil {
			return err
		}
		r.part.Epoch = about.epoch
		for i := range some {
			record, _ := commands[i/recordsAtOnce].Val()[i%recordsAtOnce].(string)
			if a := &some[i]; r.take(a, record) && a.Message.Apart != nil {
				apart = append(apart, &apartBody{id: a.ID, digest: a.Message.Apart.Digest, to: &a.Body})
			}
		}
	}
	return r.f.readApart(ctx, r.part.Partition, apart, &r.part.Epoch)
}

// take adds the record of a message, and reports whether the record can be read.
func (r *passage) take(a *archive.Accepted, record string) bool {
	head, body, err := conn.SplitRecord(a.ID, record)
	if err == nil {
		a.Head = head
		if a.Message, err = conn.DecodeRecord(a.ID, record); err == nil && a.Message.Apart == nil {
			a.Body, a.Message.Body = body, nil
		}
	}
	if err != nil {
		r.part.Missing++
	}
	return err == nil
}

// apartBody is a body to be read that is stored apart from its record.
type apartBody struct {
	id     string
	digest dispatcher.Digest
	to     *[]byte // stays nil if the body is gone
}

// readApart reads bodies of one partition. If there are any, it then reads the epoch of the
// partition.
func (f *Feed) readApart(ctx context.Context, partition int, list []*apartBody, epoch *string) error {
	key := f.conn.Tag(partition) + keys.Bodies
	for some := range slices.Chunk(list, bodiesAtOnce) {
		bodies := make([]*redis.StringCmd, len(some))
		about, err := f.readAt(ctx, "read bodies", partition, func(p redis.Pipeliner) {
			for i, b := range some {
				bodies[i] = p.HGet(ctx, key, conn.BodyField(b.id, b.digest))
			}
		})
		if err != nil {
			return err
		}
		*epoch = about.epoch
		for i, b := range some {
			if bodies[i].Err() == nil {
				*b.to = []byte(conn.Value(bodies[i]))
			}
		}
	}
	return nil
}
