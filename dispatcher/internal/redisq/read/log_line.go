package read

import (
	"context"
	"encoding/binary"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
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

// LogSuccess is a successful delivery. Its end time is the index of its proof,
// because the same script wrote both.
type LogSuccess struct {
	ID        dispatcher.DeliveryID
	Partition int
	Ended     time.Time
}

// Limits on a search. The first entry is nearly always the right one. If the
// second try finds nothing, the evidence counts as missing.
const (
	firstTry, secondTry = 2, 16   // entries
	triedBytes          = 1 << 20 // of one round trip
	before              = time.Millisecond
	behind              = time.Second
)

// search searches the lines of one ms of a partition.
type search struct {
	partition int
	ms        int64
	wanted    []int // positions in the list of requested deliveries
}

// Proofs returns the last attempts of successful deliveries, in their order. An
// attempt is nil if there is no evidence.
func (r *LogReader) Proofs(ctx context.Context, asked []LogSuccess) ([]*dispatcher.Attempt, error) {
	found := make([]*dispatcher.Attempt, len(asked))
	noted := make([]int64, len(asked)) // ms of a late success, whose delivery ended later
	take := func(at int, l *logLine) bool {
		switch {
		case l.verdict == "d" && l.code != '2' && found[at] == nil:
			a := l.attempt
			a.Verdict = dispatcher.Delivered
			found[at] = &a
		case l.verdict == "delivered":
			noted[at], _ = strconv.ParseInt(l.reason, 10, 64)
		default:
			return false
		}
		return true
	}
	ends := make([]int64, len(asked))
	for i := range asked {
		ends[i] = asked[i].Ended.UnixMilli()
	}
	err := r.seek(ctx, asked, ends, take)
	if err == nil && slices.Max(append(noted, 0)) > 0 {
		err = r.seek(ctx, asked, noted, take)
	}
	return found, err
}

// seek reads the log at the expected place of each delivery's line. The place
// is the ms of each delivery, and 0 skips it. take reports whether a line is
// the right one.
func (r *LogReader) seek(ctx context.Context, asked []LogSuccess, at []int64, take func(at int, l *logLine) bool) error {
	for _, entries := range []int{firstTry, secondTry} {
		var searches []search
		for i, ms := range at {
			k := slices.IndexFunc(searches, func(s search) bool { return s.ms == ms && s.partition == asked[i].Partition })
			switch {
			case ms == 0:
			case k < 0:
				searches = append(searches, search{asked[i].Partition, ms, []int{i}})
			default:
				searches[k].wanted = append(searches[k].wanted, i)
			}
		}
		at = slices.Clone(at)
		for some := range slices.Chunk(searches, triedBytes/(entries*entryBytes)) {
			if err := r.try(ctx, some, entries, func(s search, l *logLine) {
				for _, i := range s.wanted {
					if asked[i].ID == l.id && take(i, l) {
						at[i] = 0
					}
				}
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

// try makes one round trip of searches.
func (r *LogReader) try(ctx context.Context, searches []search, entries int, visit func(s search, l *logLine)) error {
	in, answers := make([]int, len(searches)), make([]*redis.XMessageSliceCmd, len(searches))
	for i, s := range searches {
		in[i] = s.partition
	}
	err := r.conn.EachPartition(ctx, "read proofs", in, func(p redis.Pipeliner, i int) {
		from := strconv.FormatInt(max(searches[i].ms-before.Milliseconds(), 0), 10)
		to := strconv.FormatInt(searches[i].ms+behind.Milliseconds(), 10)
		answers[i] = p.XRangeN(ctx, r.conn.Tag(in[i])+keys.Attempts, from, to, int64(entries))
	})
	if err != nil {
		return err
	}
	for i, s := range searches {
		for _, e := range conn.Value(answers[i]) {
			lines := linesOf(e.Values)
			for k := range lines {
				visit(s, &lines[k])
			}
		}
	}
	return nil
}
