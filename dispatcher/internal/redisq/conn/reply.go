package conn

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// Reply is the response of one call of a script. Its values are read in order. The first
// value of a wrong kind sets Err, and all later values are zero.
type Reply struct {
	Values []any // not read yet
	Err    error
}

func (r *Reply) next() any {
	if len(r.Values) == 0 {
		r.Err = ErrReply
		return nil
	}
	v := r.Values[0]
	r.Values = r.Values[1:]
	return v
}

// More reports whether there is another value.
func (r *Reply) More() bool { return r.Err == nil && len(r.Values) > 0 }

// Text reads a text.
func (r *Reply) Text() string {
	switch v := r.next().(type) {
	case string:
		return v
	case int64:
		return strconv.FormatInt(v, 10)
	}
	r.Err = ErrReply
	return ""
}

// TextIfAny reads a text that may be missing. A missing one costs less than an empty one.
func (r *Reply) TextIfAny() string {
	if len(r.Values) > 0 && r.Values[0] == nil {
		r.Values = r.Values[1:]
		return ""
	}
	return r.Text()
}

// Number reads a whole number.
func (r *Reply) Number() int64 {
	switch v := r.next().(type) {
	case int64:
		return v
	case string:
		if n, err := strconv.ParseInt(v, 10, 64); err == nil {
			return n
		}
	}
	r.Err = ErrReply
	return 0
}

// List reads a list. miniredis returns nil for an empty one.
func (r *Reply) List() []any {
	v := r.next()
	list, ok := v.([]any)
	if !ok && v != nil {
		r.Err = ErrReply
	}
	return list
}

// Time reads ms since 1970. It returns zero for an invalid time, which a person may have
// written.
func (r *Reply) Time() time.Time {
	ms, err := strconv.ParseFloat(r.Text(), 64)
	if err != nil {
		return time.Time{}
	}
	return FromScore(ms)
}

// LatestMillis is the end of the year 9999. We never write a later time.
const LatestMillis = 253402300799999

// FromMillis returns the time of ms since 1970 in UTC. It returns zero for 0, and for an
// invalid time.
func FromMillis(ms int64) time.Time {
	if ms <= 0 || ms > LatestMillis {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// FromScore returns the time of a score in ms. It keeps the µs, because the order of ends has
// them. It returns zero for an invalid time.
func FromScore(ms float64) time.Time {
	if !(ms >= 1 && ms <= LatestMillis) {
		return time.Time{}
	}
	return time.UnixMicro(int64(math.Round(ms * 1000))).UTC()
}

// ToScore returns the score that FromScore reads.
func ToScore(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMicro()) / 1000
}

// ToMillis returns the ms that FromMillis reads.
func ToMillis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// Hint reads now (microseconds), due (ms) and weight, which are the first values of every
// script in a partition. If deliveries died the weight is a text with a line for each. ok
// is false if the call failed.
func (e *Call) Hint() (h Hint, ok bool) {
	h.Partition, h.Sent = e.Partition, e.Sent
	if e.Err != nil {
		return h, false
	}
	h.Now = time.UnixMicro(e.Number()).UTC()
	h.Due = e.Time()
	weight, died, any := strings.Cut(e.Text(), "\n")
	n, err := strconv.Atoi(weight)
	if err != nil {
		e.Err = ErrReply
	}
	h.Weight = n
	if any {
		h.Dead = e.deaths(died)
	}
	return h, e.Err == nil
}

// deaths parses a line for each dead delivery: attempts, reason, delivery. It skips an
// invalid name, which a person may have written.
func (r *Reply) deaths(text string) (died []dispatcher.Death) {
	for line := range strings.SplitSeq(text, "\n") {
		words := strings.SplitN(line, " ", 3)
		if len(words) != 3 {
			continue
		}
		attempts, err := strconv.Atoi(words[0])
		if err != nil {
			r.Err = ErrReply
			return nil
		}
		if id, ok := dispatcher.ParseDeliveryID(words[2]); ok {
			died = append(died, dispatcher.Death{ID: id, Reason: dispatcher.DeadReason(words[1]), Attempts: attempts})
		}
	}
	return died
}

// ScoreText is a score as Redis reads it.
func ScoreText(score float64) string {
	switch {
	case math.IsInf(score, 1):
		return "+inf"
	case math.IsInf(score, -1):
		return "-inf"
	}
	return strconv.FormatFloat(score, 'f', -1, 64)
}

// MillisUp rounds a wait up to whole ms, so that no attempt is early.
func MillisUp(d time.Duration) int64 {
	return int64((max(d, 0) + time.Millisecond - 1) / time.Millisecond)
}

// Words reads a reply that is one text of words, because a value for each word would cost
// Redis and the reader more. It ends with the first error, like a Reply.
type Words struct {
	Text string
	Err  error
}

// Next reads a word.
func (w *Words) Next() string {
	word, rest, _ := strings.Cut(w.Text, " ")
	if word == "" {
		w.Err = ErrReply
	}
	w.Text = rest
	return word
}

// Time reads a time in ms.
func (w *Words) Time() time.Time {
	ms, err := strconv.ParseFloat(w.Next(), 64)
	if err != nil {
		w.Err = ErrReply
	}
	return FromScore(ms)
}
