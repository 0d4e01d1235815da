package egress

import (
	"bytes"
	"net/http"
	"strconv"
)

// head counts the lines of a response's header while they are read. net/http has no such
// limit and would build a map of all of them.
type head struct {
	lines       int
	status      int            // of the status line; 0: that is not whole, or not valid
	over        bool           // the last line was read: the body follows
	hasLength   bool           // there is a Content-Length
	hasEncoding bool           // there is a Transfer-Encoding
	name        [nameMost]byte // the first bytes of the current line
	begun       int            // bytes of the current line
	going       bool           // the status line was read
}

// The names of the lines that head looks for, in lower case. Some programs read a
// response with both as two responses.
const (
	nameLength   = "content-length:"
	nameEncoding = "transfer-encoding:"
	nameMost     = len(nameEncoding)
)

// scan reads the next bytes, and reports whether the number of lines is within the limit.
func (h *head) scan(b []byte) bool {
	for len(b) > 0 && !h.over {
		line, rest, ended := bytes.Cut(b, newline)
		if h.begun < nameMost {
			copy(h.name[h.begun:], line)
		}
		h.begun += len(line)
		if ended {
			h.line()
		}
		b = rest
	}
	return h.lines <= maxLines
}

var (
	newline   = []byte{'\n'}
	keepAlive = []byte("keep-alive")
)

// line processes a complete line.
func (h *head) line() {
	switch name := h.name[:min(h.begun, nameMost)]; {
	case h.begun == 0, h.begun == 1 && name[0] == '\r':
		h.over = true
	default:
		if !h.going {
			h.status, h.going = statusOf(name, h.begun), true
		}
		h.lines++
		h.hasLength = h.hasLength || begins(name, nameLength)
		h.hasEncoding = h.hasEncoding || begins(name, nameEncoding)
	}
	h.begun = 0
}

// statusOf returns the status of a status line that has n bytes and these first ones, or 0 if
// it is not one of HTTP/1. net/http takes each line that it takes.
func statusOf(first []byte, n int) int {
	const version, end = len("HTTP/1.1 "), len("HTTP/1.1 200")
	if n < end || string(first[:version]) != "HTTP/1.1 " && string(first[:version]) != "HTTP/1.0 " {
		return 0
	}
	if n > end && first[end] != ' ' && (first[end] != '\r' || n > end+1) {
		return 0
	}
	status, ok := plainLength(first[version:end], -1) // digits only
	if !ok {
		return 0
	}
	return status
}

func begins(line []byte, name string) bool {
	return len(line) >= len(name) && bytes.EqualFold(line[:len(name)], []byte(name))
}

// next prepares for the header after an informational response. It keeps the count of
// lines, and scans the bytes of the next header that are buffered already.
func (h *head) next(ahead []byte) bool {
	*h = head{lines: h.lines}
	return h.scan(ahead)
}

// plainResponse parses a whole response in the usual form, and reports whether it has that
// form. It accepts HTTP/1.1 with a status of 2xx, 4xx or 5xx and one Content-Length. The body
// is complete, and nothing follows it. No other header may change the result. net/http accepts
// more forms and parses all other responses. Both return the same for a response that
// plainResponse accepts.
func plainResponse(b []byte) (status int, body []byte, ok bool) {
	status, b, ok = plainStatus(b)
	length := -1
	for ok {
		var line []byte
		if line, b, ok = plainLine(b); !ok {
			break
		}
		if len(line) == 0 {
			if status == http.StatusNoContent {
				return status, nil, length <= 0 && len(b) == 0
			}
			return status, b, length == len(b)
		}
		length, ok = plainField(line, length)
	}
	return 0, nil, false
}

// plainStatus parses the first line.
func plainStatus(b []byte) (status int, rest []byte, ok bool) {
	const version = "HTTP/1.1 "
	line, rest, ok := plainLine(b)
	if !ok || len(line) < len(version)+3 || string(line[:len(version)]) != version {
		return 0, nil, false
	}
	line = line[len(version):]
	status, err := strconv.Atoi(string(line[:3]))
	if err != nil || len(line) > 3 && line[3] != ' ' {
		return 0, nil, false
	}
	switch status / 100 {
	case 2, 4, 5:
		return status, rest, true
	default: // 1xx and 3xx mean more
		return 0, nil, false
	}
}

// plainLine cuts a line that ends with CRLF and has no control character.
func plainLine(b []byte) (line, rest []byte, ok bool) {
	line, rest, ok = bytes.Cut(b, newline)
	end := len(line) - 1
	if !ok || end < 0 || line[end] != '\r' {
		return nil, nil, false
	}
	line = line[:end]
	for _, c := range line {
		if c < ' ' && c != '\t' || c == 0x7f {
			return nil, nil, false
		}
	}
	return line, rest, true
}

// plainField parses a header. length is the Content-Length, or -1 if there was none yet.
func plainField(line []byte, length int) (int, bool) {
	colon := bytes.IndexByte(line, ':')
	if colon <= 0 {
		return 0, false
	}
	name, value := line[:colon], bytes.Trim(line[colon+1:], " \t")
	for _, c := range name {
		if !tokens[c] {
			return 0, false
		}
	}
	switch {
	case begins(line, nameLength):
		return plainLength(value, length)
	case begins(line, "connection:"):
		return length, bytes.EqualFold(value, keepAlive)
	default:
		return length, !begins(line, nameEncoding) && !begins(line, "retry-after:") && !begins(line, "content-encoding:") && !begins(line, "webhook-delivery:")
	}
}

// plainLength parses a Content-Length of digits only. A second one is not plain.
func plainLength(value []byte, before int) (int, bool) {
	if before >= 0 || len(value) == 0 || len(value) > 5 {
		return 0, false
	}
	n := 0
	for _, c := range value {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int(c-'0')
	}
	return n, true
}
