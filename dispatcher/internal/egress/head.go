package egress

import "bytes"

// head counts the lines of a response's header while they are read. net/http has no such
// limit and would build a map of all of them.
type head struct {
	lines       int
	over        bool           // the last line was read: the body follows
	hasLength   bool           // there is a Content-Length
	hasEncoding bool           // there is a Transfer-Encoding
	name        [nameMost]byte // the first bytes of the current line
	begun       int            // bytes of the current line
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

var newline = []byte{'\n'}

// line processes a complete line.
func (h *head) line() {
	switch name := h.name[:min(h.begun, nameMost)]; {
	case h.begun == 0, h.begun == 1 && name[0] == '\r':
		h.over = true
	default:
		h.lines++
		h.hasLength = h.hasLength || begins(name, nameLength)
		h.hasEncoding = h.hasEncoding || begins(name, nameEncoding)
	}
	h.begun = 0
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
