package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"unicode/utf16"
)

// sorted orders members by name, as writers that sort do.
func sorted(members object) object {
	members = slices.Clone(members)
	slices.SortStableFunc(members, func(a, b member) int { return cmp.Compare(a.name, b.name) })
	return members
}

// short are the escapes that JSON has letters for.
var short = map[rune]string{'"': `\"`, '\\': `\\`, '\b': `\b`, '\f': `\f`, '\n': `\n`, '\r': `\r`, '\t': `\t`}

// appendJSONString writes a string with the escapes that JSON asks for, and more.
func appendJSONString(to []byte, text string, e escapes) []byte {
	to = append(to, '"')
	for _, r := range text {
		switch {
		case short[r] != "":
			to = append(to, short[r]...)
		case r == '/' && e.slash:
			to = append(to, `\/`...)
		case r < ' ', e.ascii && (r > 0x7f || r == 0x7f && !e.slash), e.html && escapedInHTML(r):
			to = appendEscape(to, r)
		default:
			to = append(to, string(r)...)
		}
	}
	return append(to, '"')
}

// escapedInHTML reports whether Go's writer escapes a character, so that JSON can
// stand in a page.
func escapedInHTML(r rune) bool {
	return r == '<' || r == '>' || r == '&' || r == '\u2028' || r == '\u2029'
}

func appendEscape(to []byte, r rune) []byte {
	if r > 0xffff {
		high, low := utf16.EncodeRune(r)
		return fmt.Appendf(to, `\u%04x\u%04x`, high, low)
	}
	return fmt.Appendf(to, `\u%04x`, r)
}
