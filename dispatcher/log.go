package dispatcher

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// ErrBehind reports that a reader of the log was too slow, so lines were cut before it read them.
var ErrBehind = errors.New("the reader is too slow")

// ErrStopping reports that this instance stops. Another one accepts the call.
var ErrStopping = errors.New("this instance stops")

// Happening is the kind of a line of the log.
type Happening string

// The kinds of lines: the outcome of an attempt, or the end of a delivery without an attempt.
const (
	HappenedDelivered Happening = "delivered"
	HappenedRetry     Happening = "retry" // the attempt failed, and its delivery lives
	HappenedDead      Happening = "dead"
	HappenedBack      Happening = "back" // no attempt was made
	HappenedCancelled Happening = "cancelled"
)

// Happenings lists all kinds of lines.
func Happenings() []Happening {
	return []Happening{HappenedDelivered, HappenedRetry, HappenedDead, HappenedBack, HappenedCancelled}
}

// Logged is a line of the log: an attempt, or an end without one.
type Logged struct {
	Place     LogPlace
	ID        DeliveryID
	Topic     string // as Tenant, Subject and URL, known only while the message is kept
	Tenant    string
	Subject   string
	Happening Happening
	Reason    DeadReason // of HappenedDead without an attempt
	Attempt   Attempt    // without an attempt: only its At, URL and the number of attempts before
	Job       int64      // the number of the job that sent the attempt; 0: none, or not known
}

// Log keeps the attempts and the ends of deliveries for a limited time.
type Log interface {
	// ReadLog returns a page of at most limit matching lines, newest first. A page may be short
	// even if Next is set.
	ReadLog(ctx context.Context, f LogFilter, limit int, cursor string) (LogPage, error)
}

// LogFilter selects lines of the log. Empty fields match everything, several
// values of one field any of them.
type LogFilter struct {
	Lanes      []Lane
	Tenants    []string
	Topics     []string // patterns, see MatchTopic
	Subjects   []string
	Messages   []string
	Happenings []Happening
	Statuses   []int     // HTTP statuses of answers
	Jobs       []int64   // numbers of the jobs that sent the attempts
	Since      time.Time `json:"-"` // inclusive; when the attempt began, or the delivery ended without one
	Until      time.Time `json:"-"` // exclusive
	View       View
}

// Matches reports whether the filter selects a line.
func (f *LogFilter) Matches(l *Logged) bool {
	return f.MayMatch(l) &&
		(len(f.Tenants) == 0 || slices.Contains(f.Tenants, l.Tenant)) &&
		(len(f.Subjects) == 0 || slices.Contains(f.Subjects, l.Subject)) &&
		(len(f.Topics) == 0 || slices.ContainsFunc(f.Topics, func(pattern string) bool { return MatchTopic(pattern, l.Topic) }))
}

// MayMatch reports whether a line may match. Its message was not read yet, so fields of the
// message are not compared.
func (f *LogFilter) MayMatch(l *Logged) bool {
	at := l.Attempt.At
	return (len(f.Lanes) == 0 || slices.Contains(f.Lanes, l.ID.Lane)) &&
		(len(f.Messages) == 0 || slices.Contains(f.Messages, l.ID.Message)) &&
		(len(f.Happenings) == 0 || slices.Contains(f.Happenings, l.Happening)) &&
		(len(f.Statuses) == 0 || slices.Contains(f.Statuses, l.Attempt.Status)) &&
		(len(f.Jobs) == 0 || slices.Contains(f.Jobs, l.Job)) &&
		(f.Since.IsZero() || !at.Before(f.Since)) && (f.Until.IsZero() || at.Before(f.Until))
}

// LogPage is a part of the log, newest first.
type LogPage struct {
	Lines         []Logged
	Next          string    // cursor of the next page; empty when this is the last
	LookedAt      int       // lines that were read for this page
	CompleteSince time.Time // the log is complete from then on; zero: nothing was ever cut from it
}

// LogPlace is the place of a line in the log. Partitions have their own clocks, so a comparison
// of their ms gives only an order.
type LogPlace struct {
	MS        int64 // when it was written
	Partition int
	Seq       uint64 // of the entry, within the ms
	Line      int    // of the entry, from 0
}

// Compare orders places by time.
func (p LogPlace) Compare(q LogPlace) int {
	return cmp.Or(cmp.Compare(p.MS, q.MS), cmp.Compare(p.Partition, q.Partition), cmp.Compare(p.Seq, q.Seq), cmp.Compare(p.Line, q.Line))
}

// LogSkew is the largest difference between the clocks of the store's nodes.
const LogSkew = 5 * time.Second

// mostLogMarks limits a position, because no store has more partitions.
const mostLogMarks = 1024

// LogMark is the position of a reader in the log of one partition.
type LogMark struct {
	MS     int64  // with Seq the last entry that was read; 0: none
	Seq    uint64 // of that ms
	Lines  int    // the number of lines of that entry that were read; 0: all
	Before int64  // ms by the partition's clock: all earlier lines were read; 0: not known
}

// read reports whether a line was read.
func (m LogMark) read(at LogPlace) bool {
	switch {
	case at.MS != m.MS:
		return at.MS < m.MS
	case at.Seq != m.Seq:
		return at.Seq < m.Seq
	}
	return m.Lines == 0 || at.Line < m.Lines
}

// LogPosition is the position of a reader in the log of a store.
type LogPosition struct {
	Store uint32    // identifies the store
	Marks []LogMark // of each partition
}

// Clone returns an independent copy.
func (p LogPosition) Clone() LogPosition {
	p.Marks = append([]LogMark(nil), p.Marks...)
	return p
}

// Read reports whether a line was read.
func (p LogPosition) Read(at LogPlace) bool {
	return at.Partition < len(p.Marks) && p.Marks[at.Partition].read(at)
}

// Pass records that a line was read.
func (p LogPosition) Pass(at LogPlace) {
	if at.Partition < len(p.Marks) {
		m := &p.Marks[at.Partition]
		m.MS, m.Seq, m.Lines = at.MS, at.Seq, at.Line+1
	}
}

// end returns the first place after a mark.
func (m LogMark) end() LogPlace {
	if m.Lines == 0 {
		return LogPlace{MS: m.MS, Seq: m.Seq, Line: math.MaxInt}
	}
	return LogPlace{MS: m.MS, Seq: m.Seq, Line: m.Lines}
}

// Reach records that all lines of q were read.
func (p LogPosition) Reach(q LogPosition) {
	for n := range min(len(p.Marks), len(q.Marks)) {
		m, other := &p.Marks[n], q.Marks[n]
		other.Before = max(m.Before, other.Before)
		if m.end().Compare(other.end()) <= 0 {
			*m = other
		}
		m.Before = other.Before
	}
}

// newest returns the latest ms of a position.
func (p LogPosition) newest() (ms int64) {
	for _, m := range p.Marks {
		ms = max(ms, m.MS, m.Before)
	}
	return ms
}

// Divided returns the position after the store changed its number of partitions. Its log started
// again then.
func (p LogPosition) Divided(partitions int) LogPosition {
	return LogPositionAt(p.Store, partitions, p.newest())
}

// LogPositionAt returns a position before all lines that were written at ms or later, by any
// partition's clock.
func LogPositionAt(store uint32, partitions int, ms int64) LogPosition {
	p := LogPosition{Store: store, Marks: make([]LogMark, partitions)}
	for n := range p.Marks {
		p.Marks[n] = quietMark(ms)
	}
	return p
}

// quietMark returns the mark of a partition whose log was idle for LogSkew.
func quietMark(newest int64) LogMark {
	from := max(newest-LogSkew.Milliseconds(), 0)
	return LogMark{MS: from, Before: from}
}

// logPositionVersion is the first byte of a position's text.
const logPositionVersion = 1

// String returns the position as in an event's id. It names only partitions with recent lines, or
// with lines that are not read yet.
func (p LogPosition) String() string {
	newest := p.newest()
	quiet := quietMark(newest)
	b := append(make([]byte, 0, 16+4*len(p.Marks)), logPositionVersion)
	b = binary.BigEndian.AppendUint32(b, p.Store)
	b = binary.AppendUvarint(b, uint64(len(p.Marks)))
	b = binary.AppendUvarint(b, uint64(newest))
	next := 0
	for n, m := range p.Marks {
		if m.Before >= quiet.MS && m.end().Compare(quiet.end()) <= 0 {
			continue
		}
		b = binary.AppendUvarint(b, uint64(n-next))
		b = binary.AppendUvarint(b, uint64(newest-m.MS))
		b = binary.AppendUvarint(b, m.Seq)
		b = binary.AppendUvarint(b, uint64(m.Lines))
		next = n + 1
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// ParseLogPosition parses the text of String, or returns ErrCursor.
func ParseLogPosition(text string) (p LogPosition, err error) {
	wrong := fmt.Errorf("%w: no position in the log", ErrCursor)
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) < 5 || b[0] != logPositionVersion || strings.ContainsAny(text, "\r\n") { // base64 ignores these
		return LogPosition{}, wrong
	}
	store := binary.BigEndian.Uint32(b[1:])
	b = b[5:]
	ok := true
	number := func(most uint64) uint64 {
		v, size := binary.Uvarint(b)
		if size <= 0 || v > most {
			ok, b = false, nil
			return 0
		}
		b = b[size:]
		return v
	}
	partitions := int(number(mostLogMarks))
	newest := number(1 << 53) // the range of LogPlace's numbers
	if !ok || partitions == 0 {
		return LogPosition{}, wrong
	}
	p = LogPositionAt(store, partitions, int64(newest))
	for n := 0; len(b) > 0; n++ {
		n += int(number(mostLogMarks))
		m := LogMark{MS: int64(newest - number(newest)), Seq: number(1 << 53), Lines: int(number(math.MaxInt32))}
		if !ok || n >= partitions {
			return LogPosition{}, wrong
		}
		p.Marks[n] = m
	}
	return p, nil
}

// LogStep is a page of the log for a reader that follows it.
type LogStep struct {
	Lines []Logged  // in the order of each partition
	Gap   time.Time // lines were cut from the log before they were read: it is complete from then on; zero: none
	More  bool      // there is more
}

// LogEvent is an event for a follower of the log.
type LogEvent struct {
	Line *Logged   // nil: none
	Gap  time.Time // lines before it are missing: the log is complete from then on; zero: none
	At   string    // the position after it, at which Follow continues
}
