package conn

import (
	"strconv"
	"strings"
	"time"
)

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
	ms, err := strconv.ParseInt(w.Next(), 10, 64)
	if err != nil {
		w.Err = ErrReply
	}
	return FromMillis(ms)
}
