package diagnose

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// The cures of mistakes in bodies.
const (
	cureRaw    = "verify the bytes as they came, before any parser or framework touches them"
	cureLine   = "sign and verify the bytes as they are: take care that no editor, shell or template adds or drops an end of line"
	cureQuoted = "sign and verify the text itself: it was put into JSON once more"
)

// contents returns the text that is signed before the body, and then the mistakes in it.
func (c *callback) contents() (all assumptions) {
	seconds := c.timestamp
	if !c.signedAt.IsZero() {
		seconds = strconv.FormatInt(c.signedAt.Unix(), 10)
	}
	all.right(c.head)
	for _, row := range []struct{ head, says string }{
		{strings.Replace(c.head, c.timestamp, seconds, 1), "the timestamp in whole seconds, which is not what its header has"},
		{"", "the body alone"},
		{seconds + ".", "timestamp.body, without the id"},
		{seconds + ",", "timestamp,body, with a comma between"},
		{c.id + "." + seconds + ".", "id.timestamp.body"},
		{c.id + ".", "id.body, without the timestamp"},
		{seconds + "." + c.id + ".", "timestamp.id.body, in another order"},
		{c.id + seconds, "the parts without dots between"},
		{seconds, "timestamp and body without a dot between"},
		{c.id + "." + seconds + "000.", "the timestamp in milliseconds"},
		{seconds + "000.", "the timestamp in milliseconds"},
	} {
		all.add(OtherContent, row.head, "is of "+row.says, "sign "+c.signs+", with the headers' own text")
	}
	return all
}

// bodies returns the received body, and then each different body that a mistake makes of it.
func bodies(came []byte) (all assumptions) {
	text := string(came)
	add := func(made, says, cure string) { all.add(OtherBody, made, "is of "+says, cure) }
	all.right(text)
	// A change that does not apply makes an empty body too.
	add("", "an empty body", "read the body before it is verified, and only once: a stream that was read is empty the second time")
	add(strings.TrimRight(text, "\r\n"), "the body without the end of line at its end", cureLine)
	add(text+"\n", "the body with an end of line at its end", cureLine)
	add(strings.TrimSpace(text), "the body without white space around it", cureLine)
	add(strings.ReplaceAll(text, "\r\n", "\n"), "the body with LF in place of CR LF", cureLine)
	add(valid(jsontext.AppendUnquote(nil, text)), "the text that the body has as a JSON string", cureQuoted)
	add(valid(jsontext.AppendQuote(nil, text)), "the body put into a JSON string", cureQuoted)
	add(valid(base64.StdEncoding.DecodeString(text)), "the body behind base64", "decode the base64 that a gateway or function platform puts around bodies")
	for _, style := range jsonStyles {
		made, err := jsontext.AppendFormat(nil, came, style.options...)
		if err != nil {
			return all
		}
		for _, e := range jsonEscapes {
			add(e.escape(string(made)), "the same JSON written anew: "+style.says+e.says, cureRaw)
		}
	}
	return all
}

// Programs that write JSON differ in white space, in the order of names, in numbers, and in the
// characters of strings that they escape.
var (
	spaced     = []jsontext.Options{jsontext.SpaceAfterComma(true), jsontext.SpaceAfterColon(true)}
	sorted     = []jsontext.Options{jsontext.ReorderRawObjects(true)}
	floats     = []jsontext.Options{jsontext.CanonicalizeRawInts(true), jsontext.CanonicalizeRawFloats(true)}
	jsonStyles = []struct {
		says    string
		options []jsontext.Options
	}{
		{"without white space", nil},
		{"with a space after each comma and colon", spaced},
		{"without white space, with sorted names", sorted},
		{"with a space after each comma and colon, with sorted names", slices.Concat(spaced, sorted)},
		{"without white space, with numbers as floating point", floats},
		{"without white space, with sorted names, with numbers as floating point", slices.Concat(sorted, floats)},
	}
	slashes     = strings.NewReplacer("/", `\/`)
	angles      = strings.NewReplacer("<", `\u003c`, ">", `\u003e`, "&", `\u0026`)
	jsonEscapes = []struct {
		says   string
		escape func(string) string
	}{
		{"", strings.Clone},
		{", with all but ASCII escaped", ascii},
		{", with all but ASCII and slashes escaped", func(text string) string { return slashes.Replace(ascii(text)) }},
		{", with slashes escaped", slashes.Replace},
		{", with <, > and & escaped", angles.Replace},
	}
)

// ascii escapes each character outside ASCII.
func ascii(text string) string {
	var out []byte
	for _, r := range text {
		if r < utf8.RuneSelf {
			out = append(out, byte(r))
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			out = fmt.Appendf(out, `\u%04x`, unit)
		}
	}
	return string(out)
}
