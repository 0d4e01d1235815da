package redisq

import (
	"strconv"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
)

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
		w.err = conn.ErrReply
	}
	w.text = rest
	return word
}

func (w *wordList) time() time.Time {
	ms, err := strconv.ParseInt(w.next(), 10, 64)
	if err != nil {
		w.err = conn.ErrReply
	}
	return conn.FromMillis(ms)
}
