package success

import (
	"bytes"
	"unicode"
)

// mark is the byte order mark of UTF-8. Some editors and frameworks write it before a text.
var mark = []byte("\ufeff")

// checked returns the part of a body that is checked, without a byte order mark. cut reports
// that the body may be longer.
func checked(b []byte) (text []byte, cut bool) {
	cut = len(b) >= AnswerLimit
	return bytes.TrimPrefix(b[:min(len(b), AnswerLimit)], mark), cut
}

// unseen returns the reason why a body fails its rule if a person can't see it in the body, as
// the end of a sentence. It is empty if there is none.
func (p *parts) unseen(b []byte) string {
	text, cut := checked(b)
	switch {
	case len(bytes.TrimSpace(text)) == 0:
		return ""
	case bytes.HasPrefix(text, []byte("\x1f\x8b")):
		return ": it is gzip"
	case utf16(text):
		return ": it is UTF-16"
	case bytes.HasPrefix(text, mark):
		return ": it begins with more than one byte order mark"
	default:
		return p.body.unseen(text, cut)
	}
}

// utf16 reports whether a text begins with the byte order mark of UTF-16, or like letters of
// ASCII in UTF-16: each second byte is 0.
func utf16(b []byte) bool {
	if bytes.HasPrefix(b, []byte("\xff\xfe")) || bytes.HasPrefix(b, []byte("\xfe\xff")) {
		return true
	}
	b = b[:min(len(b), 16)]
	if len(b) < 4 {
		return false
	}
	for i := range len(b) / 2 {
		first, second := b[2*i] == 0, b[2*i+1] == 0
		if first == second || first != (b[0] == 0) {
			return false
		}
	}
	return true
}

// visible returns the characters of a text that have a glyph, and spaces.
func visible(b []byte) []byte {
	return bytes.Map(func(r rune) rune {
		if unicode.IsGraphic(r) || unicode.IsSpace(r) {
			return r
		}
		return -1
	}, b)
}
