package inspect

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"io"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// mostBody is the size limit of a body that is made from another one.
const mostBody = 8 << 20

// A body is a text that the sender may have signed instead of the received one.
type body struct {
	deviation
	bytes []byte
}

// The cures of mistakes in bodies.
const (
	cureRaw    = "verify the bytes as they came, before any parser or framework touches them"
	cureLine   = "sign and verify the bytes as they are: take care that no editor, shell or template adds or drops an end of line"
	cureBytes  = "read the body as bytes, not as text in some encoding"
	cureQuoted = "sign and verify the text itself: it was put into JSON once more"
)

// bodies returns the received body, and then each different body that a mistake makes of it.
func bodies(came []byte) []body {
	all := []body{{bytes: came}}
	add := func(made []byte, says, cure string) {
		if made != nil && len(made) <= mostBody && !slices.ContainsFunc(all, func(b body) bool { return bytes.Equal(b.bytes, made) }) {
			all = append(all, body{deviation{OtherBody, "is of " + says, cure}, made})
		}
	}
	for _, f := range framings {
		if made, err := f.make(came); err == nil {
			add(made, f.says, f.cure)
		}
	}
	add([]byte{}, "an empty body", "read the body before it is verified, and only once: a stream that was read is empty the second time")
	if nestedDeeply(came) {
		return all
	}
	for _, l := range jsonLayouts {
		for _, e := range jsonEscapes {
			for _, n := range jsonNumbers {
				if made, ok := reformatted(came, l, e, n); ok {
					add(made, "the same JSON written anew: "+l.says+e.says+n.says, cureRaw)
				}
			}
		}
	}
	return all
}

// framings change bytes without a parse of the text. A function returns an error if its change
// does not apply.
var framings = []struct {
	says, cure string
	make       func([]byte) ([]byte, error)
}{
	{"the body without the end of line at its end", cureLine, always(func(b []byte) []byte { return bytes.TrimRight(b, "\r\n") })},
	{"the body with an end of line at its end", cureLine, always(func(b []byte) []byte { return append(slices.Clip(b), '\n') })},
	{"the body with CR LF at its end", cureLine, always(func(b []byte) []byte { return append(slices.Clip(b), "\r\n"...) })},
	{"the body without white space around it", cureLine, always(bytes.TrimSpace)},
	{"the body with LF in place of CR LF", cureLine, always(lineFeeds)},
	{"the body with CR LF in place of LF", cureLine, always(func(b []byte) []byte { return bytes.ReplaceAll(lineFeeds(b), []byte("\n"), []byte("\r\n")) })},
	{"the body without its byte order mark", cureBytes, always(func(b []byte) []byte { return bytes.TrimPrefix(b, []byte("\ufeff")) })},
	{"the body with a byte order mark", cureBytes, always(func(b []byte) []byte { return append([]byte("\ufeff"), b...) })},
	{"the body as UTF-8, which was read as Latin-1", cureBytes, always(fromLatin1)},
	{"the body read as Latin-1", cureBytes, always(asLatin1)},
	{"the text that the body has as a JSON string", cureQuoted, func(b []byte) ([]byte, error) { return jsontext.AppendUnquote(nil, bytes.TrimSpace(b)) }},
	{"the body put into a JSON string", cureQuoted, func(b []byte) ([]byte, error) { return jsontext.AppendQuote(nil, b) }},
	{"the body behind base64", "decode the base64 that a gateway or function platform puts around bodies", func(b []byte) ([]byte, error) {
		return base64.StdEncoding.DecodeString(string(b))
	}},
	{"the body in base64", "sign and verify the body itself, not its base64", always(func(b []byte) []byte { return base64.StdEncoding.AppendEncode(nil, b) })},
	{"the body behind a form's escapes", cureRaw, func(b []byte) ([]byte, error) {
		out, err := url.QueryUnescape(string(b))
		return []byte(out), err
	}},
	{"the body unpacked", "verify what was sent: unpack gzip first where the sender signs before it packs", func(b []byte) ([]byte, error) {
		z, err := gzip.NewReader(bytes.NewReader(b))
		if err != nil {
			return nil, err
		}
		return io.ReadAll(io.LimitReader(z, mostBody))
	}},
	{"the body without the sizes of its chunks", "save the body as the server reads it, not as it is on the wire", func(b []byte) ([]byte, error) {
		return io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(b)))
	}},
}

func always(change func([]byte) []byte) func([]byte) ([]byte, error) {
	return func(b []byte) ([]byte, error) { return change(b), nil }
}

func lineFeeds(b []byte) []byte { return bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n")) }

// asLatin1 reads UTF-8 as Latin-1, and returns it as UTF-8 again.
func asLatin1(b []byte) []byte {
	out := make([]byte, 0, 2*len(b))
	for _, c := range b {
		out = utf8.AppendRune(out, rune(c))
	}
	return out
}

// fromLatin1 reverses asLatin1; it returns nil if that is not possible.
func fromLatin1(b []byte) []byte {
	out := make([]byte, 0, len(b))
	for _, r := range string(b) {
		if r > 0xff {
			return nil
		}
		out = append(out, byte(r))
	}
	return out
}

// A jsonStyle is one choice of a program that writes JSON.
type jsonStyle struct {
	says    string
	options []jsontext.Options
	escaped func(rune) bool // the characters to escape as \uXXXX; nil: none
	slashes bool            // escape each slash
}

// Programs that write JSON differ in white space, in escapes, and in names and numbers.
var (
	jsonLayouts = []jsonStyle{
		{says: "without white space"},
		{says: "with a space after each comma and colon", options: []jsontext.Options{jsontext.SpaceAfterComma(true), jsontext.SpaceAfterColon(true)}},
		{says: "indented by two spaces", options: []jsontext.Options{jsontext.WithIndent("  ")}},
		{says: "indented by four spaces", options: []jsontext.Options{jsontext.WithIndent("    ")}},
		{says: "indented by tabs", options: []jsontext.Options{jsontext.WithIndent("\t")}},
	}
	jsonEscapes = []jsonStyle{
		{},
		{says: ", with all but ASCII escaped", escaped: func(r rune) bool { return r >= 0x7f }},
		{says: ", with all but ASCII and slashes escaped", escaped: func(r rune) bool { return r > 0x7f }, slashes: true},
		{says: ", with slashes escaped", slashes: true},
		{says: ", with <, > and & escaped", escaped: func(r rune) bool { return strings.ContainsRune("<>&\u2028\u2029", r) }},
	}
	jsonNumbers = []jsonStyle{
		{},
		{says: ", with sorted names", options: []jsontext.Options{jsontext.ReorderRawObjects(true)}},
		{says: ", with numbers as floating point", options: floats},
		{says: ", with sorted names, with numbers as floating point", options: append([]jsontext.Options{jsontext.ReorderRawObjects(true)}, floats...)},
	}
	floats = []jsontext.Options{jsontext.CanonicalizeRawInts(true), jsontext.CanonicalizeRawFloats(true)}
)

// deepest is the nesting up to which a body is reformatted. With an indent the size of a
// body grows with the square of its nesting.
const deepest = 200

// nestedDeeply reports whether values of a body are nested deeper than deepest.
func nestedDeeply(body []byte) bool {
	d := jsontext.NewDecoder(bytes.NewReader(body), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for {
		if _, err := d.ReadToken(); err != nil {
			return false
		}
		if d.StackDepth() > deepest {
			return true
		}
	}
}

// reformatted returns a body in the styles, or false if it is no JSON.
func reformatted(came []byte, layout, escape, numbers jsonStyle) ([]byte, bool) {
	options := append(slices.Concat(layout.options, numbers.options), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	text, err := jsontext.AppendFormat(nil, came, options...)
	if err != nil {
		return nil, false
	}
	if escape.slashes { // slashes are only in strings, and so are the characters below
		text = bytes.ReplaceAll(text, []byte("/"), []byte(`\/`))
	}
	if escape.escaped == nil {
		return text, true
	}
	var out []byte
	for _, r := range string(text) {
		switch high, low := utf16.EncodeRune(r); {
		case !escape.escaped(r):
			out = utf8.AppendRune(out, r)
		case r > 0xffff:
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	return out, true
}
