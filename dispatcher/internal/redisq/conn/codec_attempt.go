package conn

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// attemptMeta is the format of an attempt in the history, without the excerpt.
type attemptMeta struct {
	Number  int                `json:"n"`
	At      int64              `json:"t"` // ms
	Took    int64              `json:"d"` // ms
	Status  int                `json:"s,omitempty"`
	Verdict dispatcher.Verdict `json:"v"`
	Class   dispatcher.Class   `json:"c,omitempty"`
	Error   string             `json:"e,omitempty"`
	URL     string             `json:"u,omitempty"`
	Address string             `json:"a,omitempty"`
	Resend  bool               `json:"r,omitempty"`
	Short   bool               `json:"h,omitempty"`
}

// AttemptEntry returns an element of :history. It has the excerpt only if excerpt is set.
func AttemptEntry(a *dispatcher.Attempt, excerpt bool) string {
	meta := EncodeAttempt(a)
	text := strconv.FormatInt(ToMillis(a.Next), 10) + " " + strconv.Itoa(len(meta)) + " " + meta
	if excerpt {
		text += string(a.Excerpt)
	}
	return text
}

// EncodeAttempt returns the middle part of such an element, for settle.lua.
func EncodeAttempt(a *dispatcher.Attempt) string {
	b, err := json.Marshal(attemptMeta{
		Number: a.Number, At: a.At.UnixMilli(), Took: a.Duration.Milliseconds(),
		Status: a.Status, Verdict: a.Verdict, Class: a.Class, Error: a.Error,
		URL: a.URL, Address: a.Address, Resend: a.Resend, Short: a.ShortHello,
	})
	if err != nil {
		panic(err) // it has only numbers and texts, so it can't fail
	}
	return string(b)
}

// ParseAttempt parses an element of :history:
//
//	ms of the next attempt | length of meta | meta | excerpt
func ParseAttempt(text string) (dispatcher.Attempt, error) {
	due, rest, _ := strings.Cut(text, " ")
	size, rest, _ := strings.Cut(rest, " ")
	next, err := strconv.ParseInt(due, 10, 64)
	n, err2 := strconv.Atoi(size)
	if err != nil || err2 != nil || n < 0 || n > len(rest) {
		return dispatcher.Attempt{}, fmt.Errorf("history: %w", ErrReply)
	}
	var m attemptMeta
	if err := json.Unmarshal([]byte(rest[:n]), &m); err != nil {
		return dispatcher.Attempt{}, fmt.Errorf("history: %w", err)
	}
	a := dispatcher.Attempt{
		Number: m.Number, At: FromMillis(m.At), Duration: time.Duration(m.Took) * time.Millisecond,
		Status: m.Status, Verdict: m.Verdict, Class: m.Class, Error: m.Error, Next: FromMillis(next),
		URL: m.URL, Address: m.Address, Resend: m.Resend, ShortHello: m.Short,
	}
	if rest = rest[n:]; rest != "" {
		a.Excerpt = []byte(rest)
	}
	return a, nil
}
