package console

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
	// mostShown limits each text of a body. With both, and all characters escaped, a page
	// is far below its 300 KiB.
	mostShown = 24 << 10
	// mostDumped limits a binary body, because a dump is five times as long.
	mostDumped = 2 << 10
	// mostDeep limits the indentation of a line.
	mostDeep = 64
)

// Body is a body for a page.
type Body struct {
	Kind   string // its kind in a word
	Type   string // its content type
	Bytes  int
	SHA256 string // shown instead of a body that is not shown
	Pretty string // indented; empty: the same as Sent
	Fields []BodyField
	Sent   string // as sent
	Cut    bool   // only its beginning is shown
	Dumped bool   // Sent is a dump of bytes
}

// BodyField is a field of a form.
type BodyField struct{ Name, Value string }

// BodyOf returns the body of a message for a page.
func BodyOf(m *wire.MessageView) Body {
	raw := BodyBytes(m)
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

// BodyBytes returns the body of a message as sent.
func BodyBytes(m *wire.MessageView) []byte {
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

// cut returns the beginning of a text, cut between two characters.
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

// indentJSON puts each value on its own line, up to the limit. It changes only space
// between values. It returns an empty text if the body already has this form.
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

// closes reports whether the next character closes the object or array that was just
// opened. closed reports the same of the last one.
func closes(rest []byte) bool {
	rest = bytes.TrimLeft(rest, " \t\r\n")
	return len(rest) > 0 && (rest[0] == '}' || rest[0] == ']')
}

func closed(before []byte) bool {
	before = bytes.TrimRight(before, " \t\r\n")
	return len(before) > 0 && (before[len(before)-1] == '{' || before[len(before)-1] == '[')
}

// fields returns the fields of a form, in its order. A field that can't be decoded is shown
// as sent.
func fields(text string) (list []BodyField) {
	for pair := range strings.SplitSeq(text, "&") {
		if len(list) >= 200 {
			return list
		}
		name, value, _ := strings.Cut(pair, "=")
		list = append(list, BodyField{Name: unescaped(name), Value: unescaped(value)})
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

// indentXML puts each element on its own line, except elements with text only. It changes
// only space between elements. It returns an empty text if the body can't be parsed.
func indentXML(raw []byte) string {
	d := xml.NewDecoder(bytes.NewReader(raw))
	d.Strict = false
	d.CharsetReader = func(_ string, in io.Reader) (io.Reader, error) { return in, nil }
	var out strings.Builder
	depth, text := 0, false // text: the line continues
	line := func() {
		if out.Len() > 0 && !text {
			out.WriteByte('\n')
			out.WriteString(strings.Repeat("  ", min(depth, mostDeep)))
		}
	}
	opened := false // the line is a start tag only, so its end tag may follow
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
			if depth = max(depth-1, 0); len(part) == 0 { // of an empty-element tag
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
