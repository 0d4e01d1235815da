// Package trace has the words of traces: the context that the header traceparent has, and the
// spans that the parts of the process record. It knows no technology; package observe has the
// adapter for OpenTelemetry.
package trace

import "encoding/hex"

// Header is the name of the header that has a Context, as http.Header writes it.
const Header = "Traceparent"

// Context identifies a span of a trace, as in the header traceparent of W3C. The zero Context
// identifies none.
type Context struct {
	TraceID [16]byte
	SpanID  [8]byte
	Flags   byte
}

// Sampled is the only flag with a meaning here: the span is recorded.
const Sampled = 1

// The lengths of the header in version 00, and of its parts. A later version may be longer.
const (
	headerSize = 55
	atTrace    = 3
	atSpan     = 36
	atFlags    = 53
)

// Parse parses the header traceparent. It accepts a later version as the standard says: its
// first 55 characters are read as in version 00. ok is false for any other text.
func Parse(text string) (c Context, ok bool) {
	if len(text) < headerSize || text[2] != '-' || text[atSpan-1] != '-' || text[atFlags-1] != '-' {
		return Context{}, false
	}
	var version [1]byte
	var flags [1]byte
	if !lowerHex(version[:], text[:2]) || !lowerHex(flags[:], text[atFlags:headerSize]) ||
		!lowerHex(c.TraceID[:], text[atTrace:atSpan-1]) || !lowerHex(c.SpanID[:], text[atSpan:atFlags-1]) {
		return Context{}, false
	}
	later := len(text) > headerSize
	if version[0] == 0xff || version[0] == 0 && later || later && text[headerSize] != '-' || !c.valid() {
		return Context{}, false
	}
	c.Flags = flags[0]
	if version[0] != 0 {
		c.Flags &= Sampled // the other flags of a later version are not known
	}
	return c, true
}

// lowerHex decodes text, which has two letters for each byte of to. Capital letters are invalid.
func lowerHex(to []byte, text string) bool {
	for i := range len(text) {
		if c := text[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	_, err := hex.Decode(to, []byte(text))
	return err == nil
}

// valid reports whether neither id is zero, as the standard demands.
func (c Context) valid() bool { return c.TraceID != [16]byte{} && c.SpanID != [8]byte{} }

// IsZero reports whether c identifies no span.
func (c Context) IsZero() bool { return c == Context{} }

// String returns the header in version 00.
func (c Context) String() string {
	var b [headerSize]byte
	copy(b[:], "00-")
	hex.Encode(b[atTrace:], c.TraceID[:])
	b[atSpan-1] = '-'
	hex.Encode(b[atSpan:], c.SpanID[:])
	b[atFlags-1] = '-'
	hex.Encode(b[atFlags:], []byte{c.Flags})
	return string(b[:])
}

// Size is the length of the bytes of a Context.
const Size = 25

// Bytes returns the ids and the flags, for a store.
func (c Context) Bytes() []byte {
	b := make([]byte, 0, Size)
	b = append(append(b, c.TraceID[:]...), c.SpanID[:]...)
	return append(b, c.Flags)
}

// FromBytes is the reverse of Bytes. It returns the zero Context for other bytes.
func FromBytes(b string) (c Context) {
	if len(b) != Size {
		return Context{}
	}
	copy(c.TraceID[:], b)
	copy(c.SpanID[:], b[16:])
	if !c.valid() {
		return Context{}
	}
	c.Flags = b[Size-1]
	return c
}
