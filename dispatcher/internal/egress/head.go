package egress

import "bytes"

// head watches the lines of an answer's header as they are read, before
// net/http makes a map of them: it counts no lines.
type head struct {
	lines int
	over  bool // its last line was read: what follows is the body
	sized bool // a line says how long the body is
	coded bool // a line says how the body is framed
	name  [nameMost]byte
	begun int // bytes of the line that is read, name has the first of them
}

// The names of the lines that head looks for, in lower case. An answer with both
// can be read as two answers by some programs.
const (
	nameSized = "content-length:"
	nameCoded = "transfer-encoding:"
	nameMost  = len(nameCoded)
)

// scan takes the next bytes, and reports whether the lines are not too many.
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

// line judges a line that is complete.
func (h *head) line() {
	switch name := h.name[:min(h.begun, nameMost)]; {
	case h.begun == 0, h.begun == 1 && name[0] == '\r':
		h.over = true
	default:
		h.lines++
		h.sized = h.sized || begins(name, nameSized)
		h.coded = h.coded || begins(name, nameCoded)
	}
	h.begun = 0
}

func begins(line []byte, name string) bool {
	return len(line) >= len(name) && bytes.EqualFold(line[:len(name)], []byte(name))
}

// next makes ready for the header after an announcement. Its lines are counted
// on, and what of it was read ahead is looked at now.
func (h *head) next(ahead []byte) bool {
	*h = head{lines: h.lines}
	return h.scan(ahead)
}
