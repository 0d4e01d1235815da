package inspect

import (
	"bytes"
	"fmt"
	"net/http"
	"regexp"
	"strings"
)

// ParseRequest reads a callback that was saved: perhaps a request line, then headers,
// an empty line, and the body as it came. Lines of curl -v, which begin with > or <,
// and lines that hookladder listen prints, with a bar before those of the body, are
// read too.
func ParseRequest(text []byte) (http.Header, []byte, error) {
	h := http.Header{}
	for n := 1; ; n++ {
		line, rest, more := bytes.Cut(text, []byte("\n"))
		head := trimmed(string(line))
		switch {
		case head == "" && (len(h) > 0 || !more):
			return h, listened(rest), nil
		case strings.HasPrefix(head, "| ") && len(h) > 0: // listen's, whose empty line was lost
			return h, listened(text), nil
		case head != "":
			if err := header(h, head, n); err != nil {
				return nil, nil, err
			}
		}
		if !more {
			return h, nil, nil
		}
		text = rest
	}
}

// trimmed is a line without what prints of requests have around it.
func trimmed(line string) string {
	line = strings.TrimSpace(line)
	if line == ">" || line == "<" {
		return ""
	}
	return strings.TrimPrefix(strings.TrimPrefix(line, "> "), "< ")
}

// requestLine is the first line of a request, or what hookladder listen prints in its
// place: a time, the method, and the path.
var requestLine = regexp.MustCompile(`^([0-9:.]+ )?[A-Z]+ /\S*( HTTP/[0-9.]+)?$`)

// header reads one line before the body.
func header(h http.Header, line string, n int) error {
	name, value, ok := strings.Cut(line, ":")
	switch {
	case ok && name != "" && !strings.ContainsAny(name, " \t\"{}"):
		h.Add(name, strings.TrimSpace(value))
		return nil
	case len(h) == 0 && requestLine.MatchString(line):
		return nil
	default:
		return fmt.Errorf("line %d is no header: want name: value, then an empty line before the body", n)
	}
}

// listened takes the bars away that hookladder listen puts before each line of a body,
// with the verdict behind it.
func listened(body []byte) []byte {
	if !bytes.HasPrefix(body, []byte("  | ")) {
		return body
	}
	var lines []string
	for line := range strings.Lines(string(body)) {
		text, ok := strings.CutPrefix(line, "  | ")
		if !ok {
			break
		}
		lines = append(lines, text)
	}
	return []byte(strings.TrimSuffix(strings.Join(lines, ""), "\n"))
}
