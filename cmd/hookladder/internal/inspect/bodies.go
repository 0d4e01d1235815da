package inspect

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http/httputil"
	"net/url"
	"slices"
	"unicode/utf8"
)

// mostBody is the most of a body that is made of another one, in bytes.
const mostBody = 8 << 20

// A body is what may have been signed in place of the one at hand.
type body struct {
	bytes []byte
	says  string // how it differs; empty: it does not
	cure  string
}

// The cures of what happens to bodies.
const (
	cureRaw   = "verify the bytes as they came, before any parser or framework touches them"
	cureLine  = "sign and verify the bytes as they are: take care that no editor, shell or template adds or drops an end of line"
	cureBytes = "read the body as bytes, not as text in some encoding"
)

// bodies are the one that came, first, and those that are made of it by what usually
// goes wrong. None comes twice.
func bodies(came []byte) []body {
	all := []body{{bytes: came}}
	add := func(made []byte, says, cure string) {
		if made == nil || len(made) > mostBody || slices.ContainsFunc(all, func(b body) bool { return bytes.Equal(b.bytes, made) }) {
			return
		}
		all = append(all, body{made, says, cure})
	}
	for _, f := range framings {
		add(f.make(came), f.says, f.cure)
	}
	add([]byte{}, "an empty body", "read the body before it is verified, and only once: a stream that was read is empty the second time")
	for _, w := range rewritings(came) {
		add(w.bytes, w.says, cureRaw)
	}
	return all
}

// framings change bytes and know nothing of JSON. Each is nil where it does not apply.
var framings = []struct {
	says, cure string
	make       func([]byte) []byte
}{
	{"the body without the end of line at its end", cureLine, func(b []byte) []byte { return bytes.TrimRight(b, "\r\n") }},
	{"the body with an end of line at its end", cureLine, func(b []byte) []byte { return append(slices.Clip(b), '\n') }},
	{"the body with CR LF at its end", cureLine, func(b []byte) []byte { return append(slices.Clip(b), "\r\n"...) }},
	{"the body without white space around it", cureLine, bytes.TrimSpace},
	{"the body with LF in place of CR LF", cureLine, func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n")) }},
	{"the body with CR LF in place of LF", cureLine, func(b []byte) []byte {
		return bytes.ReplaceAll(bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n")), []byte("\n"), []byte("\r\n"))
	}},
	{"the body without its byte order mark", cureBytes, func(b []byte) []byte { return bytes.TrimPrefix(b, []byte("\ufeff")) }},
	{"the body with a byte order mark", cureBytes, func(b []byte) []byte { return append([]byte("\ufeff"), b...) }},
	{"the body as UTF-8, which was read as Latin-1", cureBytes, fromLatin1},
	{"the body read as Latin-1", cureBytes, asLatin1},
	{"the text that the body has as a JSON string", "sign and verify the text itself: it was put into JSON once more", unquoted},
	{"the body put into a JSON string", "sign and verify the text itself: it was put into JSON once more", quoted},
	{"the body behind base64", "decode the base64 that a gateway or function platform puts around bodies", func(b []byte) []byte {
		out, err := base64.StdEncoding.DecodeString(string(b))
		if err != nil {
			return nil
		}
		return out
	}},
	{"the body in base64", "sign and verify the body itself, not its base64", func(b []byte) []byte {
		return base64.StdEncoding.AppendEncode(nil, b)
	}},
	{"the body behind a form's escapes", cureRaw, func(b []byte) []byte {
		out, err := url.QueryUnescape(string(b))
		if err != nil {
			return nil
		}
		return []byte(out)
	}},
	{"the body unpacked", "verify what was sent: unpack gzip first where the sender signs before it packs", func(b []byte) []byte {
		z, err := gzip.NewReader(bytes.NewReader(b))
		if err != nil {
			return nil
		}
		out, err := io.ReadAll(io.LimitReader(z, mostBody))
		if err != nil {
			return nil
		}
		return out
	}},
	{"the body without the sizes of its chunks", "save the body as the server reads it, not as it is on the wire", func(b []byte) []byte {
		out, err := io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(b)))
		if err != nil {
			return nil
		}
		return out
	}},
}

// asLatin1 is what a reader of Latin-1 makes of UTF-8, written as UTF-8 again.
func asLatin1(b []byte) []byte {
	out := make([]byte, 0, 2*len(b))
	for _, c := range b {
		out = utf8.AppendRune(out, rune(c))
	}
	return out
}

// fromLatin1 undoes asLatin1.
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

func unquoted(b []byte) []byte {
	var text string
	if json.Unmarshal(b, &text) != nil {
		return nil
	}
	return []byte(text)
}

func quoted(b []byte) []byte {
	if !utf8.Valid(b) {
		return nil
	}
	return appendJSONString(nil, string(b), escapes{})
}
