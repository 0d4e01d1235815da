package dispatcher

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

// ErrBehind says that a reader of the log was too slow: the log went on without it.
var ErrBehind = errors.New("the reader is too slow")

// ErrStopping says that this instance stops. Another one answers.
var ErrStopping = errors.New("this instance stops")

// LogSkew is how much the clocks of the store's nodes may differ.
const LogSkew = 5 * time.Second

// mostLogMarks bounds a position: no store has more partitions.
const mostLogMarks = 1024

// LogMark is how far the log of one partition was read.
type LogMark struct {
	MS     int64  // with Seq the last entry that was read; 0: none
	Seq    uint64 // of that ms
	Lines  int    // the number of lines of that entry that were read; 0: all
	Before int64  // ms by the partition's clock: all that was written earlier was read; 0: that is not known
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

// LogPosition is how far the log of a store was read.
type LogPosition struct {
	Store uint32    // identifies the store
	Marks []LogMark // of each partition
}

// Clone is a position that moves on by itself.
func (p LogPosition) Clone() LogPosition {
	p.Marks = append([]LogMark(nil), p.Marks...)
	return p
}

// Read reports whether a line was read.
func (p LogPosition) Read(at LogPlace) bool {
	return at.Partition < len(p.Marks) && p.Marks[at.Partition].read(at)
}

// Pass notes that a line was read.
func (p LogPosition) Pass(at LogPlace) {
	if at.Partition < len(p.Marks) {
		m := &p.Marks[at.Partition]
		m.MS, m.Seq, m.Lines = at.MS, at.Seq, at.Line+1
	}
}

// end is the first line behind a mark.
func (m LogMark) end() LogPlace {
	if m.Lines == 0 {
		return LogPlace{MS: m.MS, Seq: m.Seq, Line: math.MaxInt}
	}
	return LogPlace{MS: m.MS, Seq: m.Seq, Line: m.Lines}
}

// Reach notes that all was read that q has.
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

// newest is the latest ms that a position knows of.
func (p LogPosition) newest() (ms int64) {
	for _, m := range p.Marks {
		ms = max(ms, m.MS, m.Before)
	}
	return ms
}

// Divided is a position in a store that has another number of partitions since. Its
// log began anew then.
func (p LogPosition) Divided(partitions int) LogPosition {
	return LogPositionAt(p.Store, partitions, p.newest())
}

// LogPositionAt is the position from which on nothing is missing that was written at
// some ms or later, whichever partition's clock it was.
func LogPositionAt(store uint32, partitions int, ms int64) LogPosition {
	p := LogPosition{Store: store, Marks: make([]LogMark, partitions)}
	for n := range p.Marks {
		p.Marks[n] = quietMark(ms)
	}
	return p
}

// quietMark is the mark of a partition where nothing happened for LogSkew.
func quietMark(newest int64) LogMark {
	from := max(newest-LogSkew.Milliseconds(), 0)
	return LogMark{MS: from, Before: from}
}

// logPositionVersion is the first byte of a position's text.
const logPositionVersion = 1

// String is the position as an event's id has it. It names the partitions where
// something happened in the last moments, or that are not read so far.
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

// ParseLogPosition reads what String wrote, or answers ErrCursor.
func ParseLogPosition(text string) (p LogPosition, err error) {
	wrong := fmt.Errorf("%w: no position in the log", ErrCursor)
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) < 5 || b[0] != logPositionVersion || strings.ContainsAny(text, "\r\n") { // which base64 passes over
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
	newest := number(1 << 53) // as LogPlace has its numbers
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

// LogStep is a page of the log that a reader follows.
type LogStep struct {
	Lines []Logged  // in the order of each partition
	Gap   time.Time // lines were cut from the log before they were read: it is whole from then on; zero: none were
	More  bool      // there is more
}

// LogEvent is an event for a follower of the log.
type LogEvent struct {
	Line *Logged   // nil: none
	Gap  time.Time // lines are missing before: the log is whole from then on; zero: none are
	At   string    // the position behind it, from which Follow goes on
}
