package queue

import (
	"fmt"
	"io"
	"log/slog"
)

// Key is a secret of the Options. It is redacted wherever it is printed, logged or encoded.
// The zero Key is none.
type Key struct {
	text *string // a pointer, because fmt calls no method of a Key in an unexported field
}

// NewKey returns the key with this text. An empty text is none.
func NewKey(text string) Key {
	if text == "" {
		return Key{}
	}
	return Key{&text}
}

func (k Key) reveal() string { return *k.text }

// String returns a redacted text.
func (k Key) String() string {
	if k.text == nil {
		return ""
	}
	return "[redacted]"
}

// Format writes a redacted text for every verb.
func (k Key) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, k.String()) }

// LogValue returns a redacted text.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.String()) }

// MarshalText returns a redacted text.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }
