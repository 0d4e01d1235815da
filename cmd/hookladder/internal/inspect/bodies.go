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

	"github.com/go-json-experiment/json/jsontext"
)

// mostBody is the size limit of a body that is made from another one.
const mostBody = 8 << 20

// The cures of mistakes in bodies.
const (
	cureRaw    = "verify the bytes as they came, before any parser or framework touches them"
	cureLine   = "sign and verify the bytes as they are: take care that no editor, shell or template adds or drops an end of line"
	cureBytes  = "read the body as bytes, not as text in some encoding"
	cureQuoted = "sign and verify the text itself: it was put into JSON once more"
)

// bodies returns the received body, and then each different body that a mistake makes of it.
func bodies(came []byte) assumptions[string] {
	all := assumptions[string]{{value: string(came)}}
	add := func(made, says, cure string) {
		if len(made) <= mostBody {
			all.add(OtherBody, made, cure, "is of "+says)
		}
	}
	for _, f := range framings {
		add(f.change(string(came)), f.says, f.cure)
	}
	if nestedDeeply(came) {
		return all
	}
	for _, layout := range jsonLayouts {
		for _, content := range jsonContents {
			text, err := jsontext.AppendFormat(nil, came, slices.Concat(lenient, layout.options, content.options)...)
			if err != nil {
				return all
			}
			for _, e := range jsonEscapes {
				add(escape(string(text), e.escaped), "the same JSON written anew: "+layout.says+e.says+content.says, cureRaw)
			}
		}
	}
	return all
}

// framings change bytes without a parse of the text. A change that does not apply makes an empty
// body, which is the first row.
var framings = []struct {
	says, cure string
	change     func(string) string
}{
	{"an empty body", "read the body before it is verified, and only once: a stream that was read is empty the second time", func(string) string { return "" }},
	{"the body without the end of line at its end", cureLine, func(s string) string { return strings.TrimRight(s, "\r\n") }},
	{"the body with an end of line at its end", cureLine, func(s string) string { return s + "\n" }},
	{"the body with CR LF at its end", cureLine, func(s string) string { return s + "\r\n" }},
	{"the body without white space around it", cureLine, strings.TrimSpace},
	{"the body with LF in place of CR LF", cureLine, lineFeeds},
	{"the body with CR LF in place of LF", cureLine, func(s string) string { return strings.ReplaceAll(lineFeeds(s), "\n", "\r\n") }},
	{"the body without its byte order mark", cureBytes, func(s string) string { return strings.TrimPrefix(s, "\ufeff") }},
	{"the body with a byte order mark", cureBytes, func(s string) string { return "\ufeff" + s }},
	{"the body as UTF-8, which was read as Latin-1", cureBytes, fromLatin1},
	{"the body read as Latin-1", cureBytes, asLatin1},
	{"the text that the body has as a JSON string", cureQuoted, func(s string) string { return valid(jsontext.AppendUnquote(nil, strings.TrimSpace(s))) }},
	{"the body put into a JSON string", cureQuoted, func(s string) string { return valid(jsontext.AppendQuote(nil, s)) }},
	{"the body behind base64", "decode the base64 that a gateway or function platform puts around bodies", func(s string) string { return valid(base64.StdEncoding.DecodeString(s)) }},
	{"the body in base64", "sign and verify the body itself, not its base64", func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }},
	{"the body behind a form's escapes", cureRaw, func(s string) string { return valid(url.QueryUnescape(s)) }},
	{"the body unpacked", "unpack gzip before you verify, because the sender signs before it packs", unpacked},
	{"the body without the sizes of its chunks", "save the body as the server reads it, not as it is on the wire", func(s string) string {
		return valid(io.ReadAll(httputil.NewChunkedReader(strings.NewReader(s))))
	}},
}

// valid returns a value as text, or an empty text instead of an error.
func valid[T string | []byte](value T, err error) string {
	if err != nil {
		return ""
	}
	return string(value)
}

func unpacked(s string) string {
	z, err := gzip.NewReader(strings.NewReader(s))
	if err != nil {
		return ""
	}
	return valid(io.ReadAll(io.LimitReader(z, mostBody)))
}

func lineFeeds(s string) string { return strings.ReplaceAll(s, "\r\n", "\n") }

// asLatin1 reads UTF-8 as Latin-1, and returns it as UTF-8 again.
func asLatin1(s string) string {
	out := make([]rune, len(s))
	for i := range len(s) {
		out[i] = rune(s[i])
	}
	return string(out)
}

// fromLatin1 reverses asLatin1.
func fromLatin1(s string) string {
	out := make([]byte, 0, len(s))
	for _, r := range s {
		if r > 0xff {
			return ""
		}
		out = append(out, byte(r))
	}
	return string(out)
}

// A jsonStyle is one choice of a program that writes JSON.
type jsonStyle struct {
	says    string
	options []jsontext.Options
}

// Programs that write JSON differ in white space, in names and numbers, and in escapes.
var (
	jsonLayouts = []jsonStyle{
		{"without white space", nil},
		{"with a space after each comma and colon", []jsontext.Options{jsontext.SpaceAfterComma(true), jsontext.SpaceAfterColon(true)}},
		{"indented by two spaces", []jsontext.Options{jsontext.WithIndent("  ")}},
		{"indented by four spaces", []jsontext.Options{jsontext.WithIndent("    ")}},
		{"indented by tabs", []jsontext.Options{jsontext.WithIndent("\t")}},
	}
	jsonContents = []jsonStyle{
		{"", nil},
		{", with sorted names", []jsontext.Options{sorted}},
		{", with numbers as floating point", floats},
		{", with sorted names, with numbers as floating point", append([]jsontext.Options{sorted}, floats...)},
	}
	lenient = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}
	sorted  = jsontext.ReorderRawObjects(true)
	floats  = []jsontext.Options{jsontext.CanonicalizeRawInts(true), jsontext.CanonicalizeRawFloats(true)}
)

// jsonEscapes are the characters that programs write as escapes.
var jsonEscapes = []struct {
	says    string
	escaped func(rune) bool
}{
	{"", nil},
	{", with all but ASCII escaped", func(r rune) bool { return r >= 0x7f }},
	{", with all but ASCII and slashes escaped", func(r rune) bool { return r > 0x7f || r == '/' }},
	{", with slashes escaped", func(r rune) bool { return r == '/' }},
	{", with <, > and & escaped", func(r rune) bool { return strings.ContainsRune("<>&\u2028\u2029", r) }},
}

// deepest is the nesting up to which a body is reformatted. With an indent the size of a
// body grows with the square of its nesting.
const deepest = 200

// nestedDeeply reports whether values of a body are nested deeper than deepest.
func nestedDeeply(body []byte) bool {
	d := jsontext.NewDecoder(bytes.NewReader(body), lenient...)
	for d.StackDepth() <= deepest {
		if _, err := d.ReadToken(); err != nil {
			return false
		}
	}
	return true
}

// escape writes characters of JSON strings as escapes. The characters are only in strings.
func escape(text string, escaped func(rune) bool) string {
	if escaped == nil {
		return text
	}
	var out []byte
	for _, r := range text {
		switch {
		case !escaped(r):
			out = append(out, string(r)...)
		case r == '/':
			out = append(out, `\/`...)
		default:
			for _, unit := range utf16.AppendRune(nil, r) {
				out = fmt.Appendf(out, `\u%04x`, unit)
			}
		}
	}
	return string(out)
}
