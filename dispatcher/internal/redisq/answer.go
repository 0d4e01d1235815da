package redisq

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// answer reads the values of a script's answer in order. The first value of
// another kind than asked for ends it: err says so, and everything after is zero.
type answer struct {
	values []any
	at     int
	err    error
}

func (a *answer) next() any {
	if a.at >= len(a.values) {
		a.err = errAnswer
		return nil
	}
	v := a.values[a.at]
	a.at++
	return v
}

func (a *answer) more() bool { return a.err == nil && a.at < len(a.values) }

func (a *answer) text() string {
	switch v := a.next().(type) {
	case string:
		return v
	case int64:
		return strconv.FormatInt(v, 10)
	}
	a.err = errAnswer
	return ""
}

func (a *answer) number() int64 {
	switch v := a.next().(type) {
	case int64:
		return v
	case string:
		if n, err := strconv.ParseInt(v, 10, 64); err == nil {
			return n
		}
	}
	a.err = errAnswer
	return 0
}

// list reads a list; miniredis answers an empty one as nil.
func (a *answer) list() []any {
	v := a.next()
	list, ok := v.([]any)
	if !ok && v != nil {
		a.err = errAnswer
	}
	return list
}

// time reads ms since 1970. What is no time, since a hand wrote it, is none.
func (a *answer) time() time.Time {
	text := a.text()
	ms, err := strconv.ParseFloat(text, 64)
	if err != nil || !(ms >= 0 && ms <= latestMillis) {
		return time.Time{}
	}
	return fromMillis(int64(ms))
}

// wordList reads an answer that is one text of words: a value of its own for
// each would cost Redis, and the reader, more than what they say. The
// first word that is none ends it, as in an answer.
type wordList struct {
	text string
	err  error
}

func (w *wordList) next() string {
	word, rest, _ := strings.Cut(w.text, " ")
	if word == "" {
		w.err = errAnswer
	}
	w.text = rest
	return word
}

func (w *wordList) time() time.Time {
	ms, err := strconv.ParseInt(w.next(), 10, 64)
	if err != nil {
		w.err = errAnswer
	}
	return fromMillis(ms)
}

// hint reads now (microseconds), due (ms) and weight, with which every answer
// begins. Where deliveries died the weight is a text, which a line follows for
// each.
func (a *answer) hint(partition int) dispatcher.Hint {
	h := dispatcher.Hint{Partition: partition}
	h.Now = time.UnixMicro(a.number()).UTC()
	h.Due = a.time()
	weight, died, any := strings.Cut(a.text(), "\n")
	n, err := strconv.Atoi(weight)
	if err != nil {
		a.err = errAnswer
	}
	h.Weight = n
	if any {
		h.Dead = a.deaths(died)
	}
	return h
}

// deaths reads a line for each delivery that died: attempts, reason, delivery.
// A name that a hand wrote, and that is none, is passed over.
func (a *answer) deaths(text string) (died []dispatcher.Death) {
	for line := range strings.SplitSeq(text, "\n") {
		words := strings.SplitN(line, " ", 3)
		if len(words) != 3 {
			continue
		}
		attempts, err := strconv.Atoi(words[0])
		if err != nil {
			a.err = errAnswer
			return nil
		}
		if id, ok := dispatcher.ParseDeliveryID(words[2]); ok {
			died = append(died, dispatcher.Death{ID: id, Reason: dispatcher.DeadReason(words[1]), Attempts: attempts})
		}
	}
	return died
}

// versions reads which limits the lanes of endpoints keep: a lane, its version.
func (a *answer) versions() map[dispatcher.Lane]int64 {
	list := answer{values: a.list()}
	if len(list.values) == 0 {
		return nil
	}
	versions := make(map[dispatcher.Lane]int64, len(list.values)/2)
	for a.err == nil && list.more() {
		lane := dispatcher.Lane(list.text())
		versions[lane] = list.number()
		a.err = list.err
	}
	return versions
}

// progress is what :progress holds of a delivery.
type progress struct {
	attempts, base, deaths, status int
	asked                          int64 // 0, 1 for the first of a new ladder, or in ms the due time that it interrupted
	reason                         dispatcher.DeadReason
	beside                         int
	delivered                      time.Time // when it was, before it was sent again; zero: it was not
	answered                       int       // the status of that answer
	number                         int       // of that attempt
}

// climbed is how many attempts of its ladder a delivery had, those beside it apart.
func (p progress) climbed() int { return p.attempts - p.base - p.beside }

// waitsOn is until when a delivery waits if the attempt that a person asked for
// fails; zero where that interrupted nothing.
func (p progress) waitsOn() time.Time {
	if p.asked <= 1 {
		return time.Time{}
	}
	return fromMillis(p.asked)
}

// What has more, in bytes or times, was not written by us; lua/state.lua has the
// same rule.
const (
	progressMost = 256
	attemptsMost = 1<<31 - 1
)

var errProgress = fmt.Errorf("progress: %w", errAnswer)

// parseProgress reads an entry of :progress. What can't be read is none, for the
// scripts too: the error is only to be told.
func parseProgress(text string) (p progress, err error) {
	if text == "" {
		return p, nil
	}
	words := strings.SplitN(text, " ", 12)
	if len(words) < 8 || len(text) > progressMost || words[5] == "" {
		return p, errProgress
	}
	var numbers [5]uint64
	for i := range numbers {
		if numbers[i], err = strconv.ParseUint(words[i], 10, 53); err != nil || i < 4 && numbers[i] > attemptsMost {
			return p, errProgress
		}
	}
	beside, err := strconv.ParseUint(words[6], 10, 53)
	if err != nil || words[7] == "" || strings.Trim(words[7], "0123456789") != "" {
		return p, errProgress
	}
	if numbers[1]+beside > numbers[0] {
		return p, errProgress
	}
	p = progress{
		attempts: int(numbers[0]), base: int(numbers[1]), deaths: int(numbers[2]), status: int(numbers[3]),
		asked: int64(numbers[4]), beside: int(beside),
	}
	if words[5] != "-" {
		p.reason = dispatcher.DeadReason(words[5])
	}
	if len(words) >= 11 {
		at, _ := strconv.ParseInt(words[8], 10, 64) // what can't be read is not told
		p.delivered = fromMillis(at)
		p.answered, _ = strconv.Atoi(words[9])
		p.number, _ = strconv.Atoi(words[10])
	}
	return p, nil
}
