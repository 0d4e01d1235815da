// Package content shows the body of a message to people: in an order that can be read,
// and as it is sent. Neither changes a number, an order or a letter of it, and both are
// bounded.
package content

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

const (
	// mostShown bounds each way to show a body: with both, and all signs escaped, a page
	// stays far below its 300 KiB.
	mostShown = 24 << 10
	// mostDumped bounds a body of bytes that are no text. A dump is five times as long.
	mostDumped = 2 << 10
	// mostDeep bounds how far a line is indented.
	mostDeep = 64
)

// Body is a body for a page.
type Body struct {
	Kind   string // what it is, in a word
	Type   string // its content type
	Bytes  int
	SHA256 string // in place of it, where it is not shown
	Pretty string // in order; empty: there is no other order than as sent
	Fields []Field
	Sent   string // as sent
	Cut    bool   // only its beginning is shown
	Dumped bool   // Sent is a dump of bytes
}

// Field is one of a form.
type Field struct{ Name, Value string }

// Of is the body of a message.
func Of(m *wire.MessageView) Body {
	raw := Bytes(m)
	b := Body{Type: m.ContentType, Bytes: len(raw), SHA256: m.BodySHA256}
	if m.BodySHA256 != "" {
		b.Bytes = m.BodyBytes
		return b
	}
	media, _, _ := strings.Cut(strings.ToLower(m.ContentType), ";")
	media = strings.TrimSpace(media)
	switch {
	case !utf8.Valid(raw):
		return b.dumped(raw)
	case json.Valid(raw) && (m.Body != nil || strings.HasSuffix(media, "json")):
		b.Kind, b.Pretty = "JSON", indentJSON(raw)
	case media == "application/x-www-form-urlencoded":
		b.Kind, b.Fields = "form", fields(string(raw))
	case strings.HasSuffix(media, "xml"):
		b.Kind, b.Pretty = "XML", indentXML(raw)
	default:
		b.Kind = "text"
	}
	b.Sent, b.Cut = cut(string(raw))
	var less bool
	b.Pretty, less = cut(b.Pretty)
	b.Cut = b.Cut || less
	return b
}

// Bytes is the body of a message as it is sent.
func Bytes(m *wire.MessageView) []byte {
	switch {
	case m.RawBody != nil:
		return []byte(*m.RawBody)
	case m.RawBodyBase64 != nil:
		return m.RawBodyBase64
	}
	return m.Body
}

func (b Body) dumped(raw []byte) Body {
	b.Kind, b.Dumped = "bytes", true
	if len(raw) > mostDumped {
		raw, b.Cut = raw[:mostDumped], true
	}
	b.Sent = hex.Dump(raw)
	return b
}

// cut is the beginning of a text, at a letter's end.
func cut(text string) (string, bool) {
	if len(text) <= mostShown {
		return text, false
	}
	end := mostShown
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end], true
}

// indentJSON puts each value on a line, as far as it is shown. It changes nothing but
// space between values. Empty: that changes nothing.
func indentJSON(raw []byte) string {
	var out bytes.Buffer
	depth, quoted := 0, false
	line := func() {
		out.WriteByte('\n')
		out.WriteString(strings.Repeat("  ", min(depth, mostDeep)))
	}
	for i := 0; i < len(raw) && out.Len() <= mostShown; i++ {
		c := raw[i]
		switch {
		case quoted && c == '\\':
			out.Write(raw[i : i+2])
			i++
		case quoted || c == '"':
			out.WriteByte(c)
			quoted = quoted != (c == '"')
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
		case (c == '{' || c == '[') && closes(raw[i+1:]):
			out.WriteByte(c)
			i += bytes.IndexAny(raw[i+1:], "}]")
		case c == '{' || c == '[':
			out.WriteByte(c)
			depth++
			line()
		case c == '}' || c == ']':
			if !closed(raw[:i]) {
				depth--
				line()
			}
			out.WriteByte(c)
		case c == ',':
			out.WriteByte(c)
			line()
		case c == ':':
			out.WriteString(": ")
		default:
			out.WriteByte(c)
		}
	}
	if out.String() == string(raw) {
		return ""
	}
	return out.String()
}

// closes reports whether the next sign ends what has just begun, and closed the same of
// the last one.
func closes(rest []byte) bool {
	rest = bytes.TrimLeft(rest, " \t\r\n")
	return len(rest) > 0 && (rest[0] == '}' || rest[0] == ']')
}

func closed(before []byte) bool {
	before = bytes.TrimRight(before, " \t\r\n")
	return len(before) > 0 && (before[len(before)-1] == '{' || before[len(before)-1] == '[')
}

// fields are those of a form, in its order. One that can't be read is shown as it is.
func fields(text string) (list []Field) {
	for pair := range strings.SplitSeq(text, "&") {
		if len(list) >= 200 {
			return list
		}
		name, value, _ := strings.Cut(pair, "=")
		list = append(list, Field{Name: unescaped(name), Value: unescaped(value)})
	}
	return list
}

func unescaped(text string) string {
	plain, err := url.QueryUnescape(text)
	if err != nil || !utf8.ValidString(plain) {
		plain = text
	}
	plain, _ = cut(plain)
	return plain
}

// indentXML puts each element on a line, but those that hold text alone. It changes
// nothing but space between elements. Empty: it can't be read.
func indentXML(raw []byte) string {
	d := xml.NewDecoder(bytes.NewReader(raw))
	d.Strict = false
	d.CharsetReader = func(_ string, in io.Reader) (io.Reader, error) { return in, nil }
	var out strings.Builder
	depth, text := 0, false // text: the line goes on
	line := func() {
		if out.Len() > 0 && !text {
			out.WriteByte('\n')
			out.WriteString(strings.Repeat("  ", min(depth, mostDeep)))
		}
	}
	opened := false // the line is a start alone, so its end may follow
	for {
		from := d.InputOffset()
		token, err := d.RawToken()
		if errors.Is(err, io.EOF) {
			return out.String()
		}
		if err != nil {
			return ""
		}
		part := raw[from:d.InputOffset()]
		switch token.(type) {
		case xml.StartElement:
			line()
			depth, opened, text = depth+1, true, false
		case xml.EndElement:
			if depth = max(depth-1, 0); len(part) == 0 { // of an element that closes itself
				opened = false
				continue
			}
			if !opened {
				line()
			}
			opened, text = false, false
		case xml.CharData:
			if len(bytes.TrimSpace(part)) == 0 {
				continue
			}
			text = true
		default:
			line()
			opened = false
		}
		out.Write(part)
		if out.Len() > 2*mostShown {
			return out.String()
		}
	}
}
