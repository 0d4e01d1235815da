package read

import (
	"encoding/binary"
	"strconv"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// Limits on an entry that settle writes. Readers read whole entries. A text of
// the evidence is cut, so that an entry of one line stays small too.
const (
	entryLines = 64
	entryBytes = 16 << 10
	mostAnswer = dispatcher.ProofBytes
	mostError  = 256
)

// Marks of a line in the evidence.
const (
	sameWhere  = 1 << iota // address and URL are the same as in the lane's line before
	sameAnswer             // class, error and response are the same as in the lane's line before
	resend                 // a person asked for the attempt
	unmade                 // no attempt was made, and nothing follows
	shortHello             // its TLS handshake began with a short ClientHello
)

// evidenceVersion is the first byte of an entry's evidence.
const evidenceVersion = 1

// LogEntry collects the lines of one call of settle, divided into entries.
type LogEntry struct {
	args []any // of the complete entries: number of lines, lines, evidence

	count    int
	lines    []byte
	evidence []byte
	at       int64                                      // ms of the last attempt in it
	before   map[dispatcher.Lane]*dispatcher.Settlement // the lane's last line in it
}

// Add adds the line of an outcome: delivery, verdict, status, duration, number,
// reason.
func (l *LogEntry) Add(o *dispatcher.Settlement, verdict, reason string) {
	if l.count == entryLines || l.count > 0 && len(l.lines)+len(l.evidence) > entryBytes {
		l.close()
	}
	if l.count == 0 {
		l.before, l.at = make(map[dispatcher.Lane]*dispatcher.Settlement, 1), 0
		l.lines, l.evidence = make([]byte, 0, 4<<10), append(make([]byte, 0, 2<<10), evidenceVersion)
	} else {
		l.lines = append(l.lines, '\n')
	}
	l.count++
	l.line(o, verdict, reason)
	l.prove(o)
}

// Args returns the first arguments of settle: the number of entries, and the
// entries.
func (l *LogEntry) Args(more int) []any {
	if l.count > 0 {
		l.close()
	}
	args := make([]any, 0, 1+len(l.args)+more)
	return append(append(args, len(l.args)/3), l.args...)
}

func (l *LogEntry) close() {
	l.args = append(l.args, l.count, l.lines, l.evidence)
	l.count, l.lines, l.evidence = 0, nil, nil
}

func (l *LogEntry) line(o *dispatcher.Settlement, verdict, reason string) {
	b := append(l.lines, o.ID.Lane...)
	b = append(b, ':')
	b = append(b, o.ID.Message...)
	b = append(b, ' ')
	b = append(b, verdict...)
	b = append(b, ' ')
	b = strconv.AppendInt(b, int64(o.Attempt.Status), 10)
	b = append(b, ' ')
	b = strconv.AppendInt(b, int64((o.Attempt.Duration+time.Millisecond/2)/time.Millisecond), 10)
	b = append(b, ' ')
	b = strconv.AppendInt(b, int64(o.Attempt.Number), 10)
	b = append(b, ' ')
	l.lines = append(b, reason...)
}

// prove adds the evidence of an outcome. Most receivers always return the same
// response from the same address. Such evidence is written once for all log
// lines of a lane.
func (l *LogEntry) prove(o *dispatcher.Settlement) {
	a, last := &o.Attempt, l.before[o.ID.Lane]
	if a.At.IsZero() {
		l.evidence = append(l.evidence, unmade)
		return
	}
	l.before[o.ID.Lane] = o
	var marks byte
	if last != nil && last.Attempt.Address == a.Address && last.Attempt.URL == a.URL {
		marks |= sameWhere
	}
	if last != nil && last.Attempt.Class == a.Class && last.Attempt.Error == a.Error && string(answer(last)) == string(answer(o)) {
		marks |= sameAnswer
	}
	if a.Resend {
		marks |= resend
	}
	if a.ShortHello {
		marks |= shortHello
	}
	at := a.At.UnixMilli()
	b := append(l.evidence, marks)
	b = binary.AppendVarint(b, at-l.at)
	b = binary.AppendUvarint(b, uint64(max(a.Duration, 0)/time.Microsecond))
	b = binary.AppendUvarint(b, uint64(max(o.Wait, 0)/time.Millisecond))
	if marks&sameWhere == 0 {
		b = appendText(b, a.Address)
		b = appendText(b, a.URL)
	}
	if marks&sameAnswer == 0 {
		b = appendText(b, string(a.Class))
		b = appendText(b, a.Error[:min(len(a.Error), mostError)])
		b = appendText(b, answer(o))
	}
	l.at, l.evidence = at, b
}

// answer returns the part of a response that the log keeps. The history keeps
// more of a failed attempt's response.
func answer(o *dispatcher.Settlement) []byte {
	return o.Attempt.Excerpt[:min(len(o.Attempt.Excerpt), mostAnswer)]
}

func appendText[T string | []byte](b []byte, text T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}
