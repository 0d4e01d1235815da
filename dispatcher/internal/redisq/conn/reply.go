package conn

import (
	"strconv"
	"time"
)

// Reply is what one call of a script answered. Its values are read in order. The
// first that is of another kind than asked for ends it: Err says so, and all
// values after it are zero.
type Reply struct {
	Values []any // that were not read yet
	Err    error
	Weak   error // it was carried out, but is not as durable as asked
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

// List reads a list. miniredis answers an empty one as nil.
func (r *Reply) List() []any {
	v := r.next()
	list, ok := v.([]any)
	if !ok && v != nil {
		r.Err = ErrReply
	}
	return list
}

// Time reads ms since 1970. It is zero for what is no time, since a person wrote it.
func (r *Reply) Time() time.Time {
	text := r.Text()
	ms, err := strconv.ParseFloat(text, 64)
	if err != nil || !(ms >= 0 && ms <= LatestMillis) {
		return time.Time{}
	}
	return FromMillis(int64(ms))
}

// LatestMillis is the end of the year 9999: no time that we write is later.
const LatestMillis = 253402300799999

// FromMillis is the time of ms since 1970 in UTC. It is zero for 0, and for what
// is no time.
func FromMillis(ms int64) time.Time {
	if ms <= 0 || ms > LatestMillis {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// ToMillis is what FromMillis reads.
func ToMillis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}
