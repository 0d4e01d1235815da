package read

import (
	"encoding/binary"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
)

// logLine is one line of an entry.
type logLine struct {
	id      dispatcher.DeliveryID
	verdict string // a letter of settle's, or the word of a note
	code    byte   // settle's code for the line; 0: of a note
	reason  string // of a death; of a late success that ended later, the ms of its line
	attempt dispatcher.Attempt
	wait    time.Duration // of a retry
	next    time.Time     // of a retry: its due time; zero: the log has only the wait
	job     int64         // the job that sent the delivery; 0: none, or unknown
}

// LogLine is one line of an entry, for archives.
type LogLine struct {
	ID      dispatcher.DeliveryID
	Verdict string // a letter of settle's, or the word of a note
	Code    byte   // settle's code for the line; 0: of a note
	Reason  string // of a death; of a note as in common.lua
	Attempt dispatcher.Attempt
	Wait    time.Duration // of a retry
	Next    time.Time     // of a retry: its due time; zero: the log has only the wait
}

// LogLines returns the lines of an entry, in their order.
func LogLines(values map[string]any) iter.Seq[LogLine] {
	return func(yield func(LogLine) bool) {
		for _, l := range linesOf(values) {
			if !yield(LogLine{ID: l.id, Verdict: l.verdict, Code: l.code, Reason: l.reason, Attempt: l.attempt, Wait: l.wait, Next: l.next}) {
				return
			}
		}
	}
}

// linesOf parses an entry. It leaves out unreadable lines. If some evidence
// can't be read, the remaining lines have none.
func linesOf(values map[string]any) []logLine {
	text, _ := values["l"].(string)
	codes, _ := values["c"].(string)
	evidence, _ := values["e"].(string)
	nexts, _ := values["n"].(string)
	jobs, _ := values["j"].(string)
	proofs := newProofs(evidence)
	texts := strings.Split(text, "\n")
	lines, sent := make([]logLine, 0, len(texts)), jobsOf(jobs, len(texts))
	for i, text := range texts {
		l, ok := parseLine(text)
		l.job = sent[i]
		if i < len(codes) {
			l.code = codes[i]
		}
		if l.verdict == "r" && l.code == '1' {
			var next string
			next, nexts, _ = strings.Cut(nexts, " ")
			if ms, err := strconv.ParseInt(next, 10, 64); err == nil {
				l.next = conn.FromMillis(ms)
			}
		}
		proofs.next(&l)
		if ok {
			lines = append(lines, l)
		}
	}
	return lines
}

// jobsOf returns the job that sent the delivery of each line of an entry.
// settle.lua writes runs: the number of lines before, the number of lines in
// the run, and the number of the job.
func jobsOf(text string, lines int) map[int]int64 {
	if text == "" {
		return nil
	}
	jobs := map[int]int64{}
	for words := strings.Fields(text); len(words) >= 3; words = words[3:] {
		first, err := strconv.Atoi(words[0])
		many, err2 := strconv.Atoi(words[1])
		job, err3 := strconv.ParseInt(words[2], 10, 64)
		if err != nil || err2 != nil || err3 != nil {
			break
		}
		for i := max(first, 0); i < lines && i-first < many; i++ {
			jobs[i] = job
		}
	}
	return jobs
}

func parseLine(text string) (l logLine, ok bool) {
	words := strings.Split(text, " ")
	if len(words) != 6 {
		return logLine{}, false
	}
	lane, message, found := strings.Cut(words[0], ":")
	var numbers [3]int
	for i := range numbers {
		n, err := strconv.Atoi(words[2+i])
		if err != nil {
			return logLine{}, false
		}
		numbers[i] = n
	}
	l = logLine{id: dispatcher.DeliveryID{Lane: dispatcher.Lane(lane), Message: message}, verdict: words[1]}
	l.attempt.Status, l.attempt.Number = numbers[0], numbers[2]
	l.attempt.Duration = time.Duration(numbers[1]) * time.Millisecond
	if words[5] != "-" {
		l.reason = words[5]
	}
	return l, found
}

// proofs reads the evidence of an entry, line by line.
type proofs struct {
	rest   []byte
	broken bool
	at     int64
	before map[dispatcher.Lane]*dispatcher.Attempt
}

func newProofs(evidence string) *proofs {
	p := &proofs{before: map[dispatcher.Lane]*dispatcher.Attempt{}}
	if evidence == "" || evidence[0] != evidenceVersion {
		p.broken = true
		return p
	}
	p.rest = []byte(evidence[1:])
	return p
}

// next adds the next evidence to a line.
func (p *proofs) next(l *logLine) {
	if p.broken || len(p.rest) == 0 {
		return
	}
	marks := p.rest[0]
	p.rest = p.rest[1:]
	if marks&unmade != 0 {
		return
	}
	a := l.attempt
	p.at += p.varint()
	a.At = conn.FromMillis(p.at)
	a.Duration = time.Duration(p.uvarint()) * time.Microsecond
	wait := time.Duration(p.uvarint()) * time.Millisecond
	a.Resend, a.ShortHello = marks&resend != 0, marks&shortHello != 0
	last := p.before[l.id.Lane]
	if last == nil {
		last = &dispatcher.Attempt{}
	}
	if marks&sameWhere != 0 {
		a.Address, a.URL = last.Address, last.URL
	} else {
		a.Address, a.URL = p.text(), p.text()
	}
	if marks&sameAnswer != 0 {
		a.Class, a.Error, a.Excerpt = last.Class, last.Error, last.Excerpt
	} else {
		a.Class, a.Error = dispatcher.Class(p.text()), p.text()
		if answer := p.text(); answer != "" {
			a.Excerpt = []byte(answer)
		}
	}
	if p.broken {
		return
	}
	l.attempt, l.wait, p.before[l.id.Lane] = a, wait, &a
}

func (p *proofs) varint() int64 {
	n, size := binary.Varint(p.rest)
	p.skip(size)
	return n
}

func (p *proofs) uvarint() uint64 {
	n, size := binary.Uvarint(p.rest)
	p.skip(size)
	return n
}

func (p *proofs) skip(size int) {
	if size <= 0 || size > len(p.rest) {
		p.broken, p.rest = true, nil
		return
	}
	p.rest = p.rest[size:]
}

func (p *proofs) text() string {
	n := p.uvarint()
	if p.broken || n > uint64(len(p.rest)) {
		p.broken, p.rest = true, nil
		return ""
	}
	text := string(p.rest[:n])
	p.rest = p.rest[n:]
	return text
}
