package egress

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"io"
	"net/http"
	"strings"

	"github.com/hookladder/hookladder/dispatcher"
)

// The codings of a body. Each request asks for none, but some receivers compress all the same.
const (
	codingGzip    = "gzip"
	codingDeflate = "deflate"
	codingOther   = "other"
)

// contentCoding returns the coding of a body, or nothing if it has none.
func contentCoding(h http.Header) (coding string) {
	for _, line := range h["Content-Encoding"] {
		for name := range strings.SplitSeq(line, ",") {
			switch name = strings.ToLower(strings.Trim(name, " \t")); {
			case name == "" || name == "identity" || name == "none":
			case coding != "":
				return codingOther // several, one in the other
			case name == codingGzip || name == "x-gzip":
				coding = codingGzip
			case name == codingDeflate:
				coding = codingDeflate
			default:
				coding = codingOther
			}
		}
	}
	return coding
}

// decode replaces a compressed body by its text, because the text is what the receiver says. Both
// have at most dispatcher.AnswerLimit bytes. A body that is not compressed as its header says
// stays as it is.
func decode(a *dispatcher.Answer, coding string) {
	if coding == codingOther {
		a.Unread = "the body has a Content-Encoding that is not supported"
		return
	}
	text, err := decompress(a.Body, coding)
	switch {
	case err != nil && len(text) == 0:
		a.Unread = "the body can't be decoded as " + coding
		return
	case err != nil && !a.Cut:
		a.Unread = "the " + coding + " of the body is damaged"
	}
	a.Cut = a.Cut || err != nil || len(text) > dispatcher.AnswerLimit
	a.Body = text[:min(len(text), dispatcher.AnswerLimit)]
}

// decompress returns the text of a compressed body, or its beginning with an error. It stops after
// one byte more than the limit, so a small body can't become a large one.
func decompress(packed []byte, coding string) ([]byte, error) {
	in := bytes.NewReader(packed)
	var r io.Reader
	var err error
	headless := false
	switch {
	case coding == codingGzip:
		r, err = gzip.NewReader(in)
	case zlibbed(packed):
		r, err = zlib.NewReader(in)
	default: // some servers leave out the header of zlib
		r, headless = flate.NewReader(in), true
	}
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(r, dispatcher.AnswerLimit+1))
	if headless && err != nil {
		return nil, err // any text may begin like deflate
	}
	return text, err
}

// zlibbed reports whether a body begins with a header of zlib: RFC 1950, section 2.2.
func zlibbed(b []byte) bool {
	return len(b) >= 2 && b[0]&0x0f == 8 && (int(b[0])<<8|int(b[1]))%31 == 0
}
