package input

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// FieldError is the fault of one field, and its path.
type FieldError struct {
	Path   string // as in $.url
	Detail string // a sentence for people, without the value where that may be secret
}

// Error returns path and detail in one line.
func (e FieldError) Error() string { return e.Path + ": " + e.Detail }

// FieldAt returns an error of a part of the value at path. If the error has its own path, that path
// continues this one.
func FieldAt(path string, err error) FieldError {
	var part FieldError
	if errors.As(err, &part) {
		return FieldError{path + strings.TrimPrefix(part.Path, "$"), part.Detail}
	}
	return FieldError{path, err.Error()}
}

// maxName is the longest name that a path contains unquoted.
const maxName = 128

// Member is the step of a path to a member of an object.
func Member(name string) string {
	if len(name) <= maxName && IsWord(name) {
		return "." + name
	}
	return "[" + Clip(name) + "]"
}

// IsWord reports whether s is one or more of A-Za-z0-9_-.
func IsWord(s string) bool {
	for i := range len(s) {
		if !IsWordByte(s[i]) {
			return false
		}
	}
	return s != ""
}

// IsWordByte reports whether c is one of A-Za-z0-9_-.
func IsWordByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-'
}

// Clip quotes a text of the caller's for an error, and shortens a long one.
func Clip(s string) string {
	const most = 64 // enough to find it again
	if len(s) > most {
		return strconv.QuoteToASCII(s[:most]) + "…"
	}
	return strconv.QuoteToASCII(s)
}

// Printable escapes the characters of a text that are not shown, except the ones to keep, and
// cuts it to most bytes.
func Printable(text string, most int, keep string) string {
	var b strings.Builder
	for _, r := range text {
		piece := string(r)
		if r == utf8.RuneError || !unicode.IsGraphic(r) && !strings.ContainsRune(keep, r) {
			piece = fmt.Sprintf(`\u{%x}`, r)
		}
		if b.Len()+len(piece) > most {
			break
		}
		b.WriteString(piece)
	}
	return b.String()
}

// The numbers of entries on a page of every list.
const (
	UsualPage = 50  // if the caller does not say
	MaxPage   = 500 // but for the lists whose entries cost more
)

// PageSize returns the number of entries of a page: the usual one if none is requested, and
// at most most.
func PageSize(requested, most int) int { return min(cmp.Or(max(requested, 0), UsualPage), most) }
