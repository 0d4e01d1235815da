package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

// The systems whose saved answers an import reads.
const (
	fromSvix    = "svix"
	fromConvoy  = "convoy"
	fromOutpost = "outpost"
)

// importSources lists these systems.
var importSources = []string{fromSvix, fromConvoy, fromOutpost}

// savedAnswer is one JSON document of a file: an answer with the path of its request, or the
// answer alone.
type savedAnswer struct {
	Path   string          `json:"path"`
	Answer json.RawMessage `json:"answer"`
}

// foreignSystem collects the answers of one system. convert is called after the last one.
type foreignSystem interface {
	take(path string, body json.RawMessage) error
	convert(c *conversion) error
}

func newSystem(name string) foreignSystem {
	switch name {
	case fromSvix:
		return &svixAnswers{listed: map[string]bool{}, secrets: map[string]string{}, headers: map[string]svixHeaders{}}
	case fromConvoy:
		return &convoyAnswers{projects: map[string]convoyProject{}, topics: map[string][]string{}}
	default:
		return &outpostAnswers{listed: map[string]bool{}}
	}
}

// errAnswer means that a document is none of the answers that an import reads.
var errAnswer = errors.New("is not an answer that the import knows")

// The bounds of a file with answers. A page of 250 endpoints with all their fields has less than
// 25 MiB. An application has some pages, and each of its endpoints has two more answers.
var usualImportBounds = importBounds{document: 32 << 20, documents: 1_000_000}

// importBounds are the most bytes of a document, and the most documents of a file.
type importBounds struct{ document, documents int }

var errDocument = errors.New("is too long")

// boundedReader returns an error after left bytes.
type boundedReader struct {
	in         io.Reader
	read, left int64
}

func (b *boundedReader) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errDocument
	}
	n, err := b.in.Read(p[:min(int64(len(p)), b.left)])
	b.read, b.left = b.read+int64(n), b.left-int64(n)
	return n, err
}

// foreignEntries reads all answers of a file. Its endpoints come after it, because their parts may
// be in any order. lost counts the parts that do not carry over.
func foreignEntries(in io.Reader, name string, most importBounds) (next func() (fileLine, error), lost map[string]int, err error) {
	system, pages := newSystem(name), pageEnds{}
	bounded := &boundedReader{in: in}
	dec := json.NewDecoder(bounded)
	for n := 1; ; n++ {
		var text json.RawMessage
		bounded.left = dec.InputOffset() + int64(most.document) - bounded.read
		switch err := dec.Decode(&text); {
		case errors.Is(err, io.EOF) && n == 1:
			return nil, nil, errors.New("the file is empty")
		case errors.Is(err, io.EOF):
			return convertedEntries(system, pages)
		case errors.Is(err, errDocument):
			return nil, nil, fmt.Errorf("document %d has more than %d bytes: save smaller pages", n, most.document)
		case err != nil:
			return nil, nil, fmt.Errorf("document %d is not JSON: %w", n, err)
		case n > most.documents:
			return nil, nil, fmt.Errorf("the file has more than %d documents: import it in parts, by tenant", most.documents)
		}
		var saved savedAnswer
		if json.Unmarshal(text, &saved) != nil || saved.Answer == nil {
			saved = savedAnswer{Answer: text}
		}
		path, _, _ := strings.Cut(saved.Path, "?")
		if err := system.take(path, saved.Answer); err != nil {
			return nil, nil, fmt.Errorf("document %d %s: %w", n, saved.Path, err)
		}
		pages.note(path, saved.Answer)
	}
}

// convertedEntries returns the endpoints of all answers.
func convertedEntries(system foreignSystem, pages pageEnds) (next func() (fileLine, error), lost map[string]int, err error) {
	if err := pages.check(); err != nil {
		return nil, nil, err
	}
	c := &conversion{lost: map[string]int{}, uids: map[string]*wire.Endpoint{}}
	if err := system.convert(c); err != nil {
		return nil, nil, err
	}
	return c.next, c.lost, nil
}

// pageEnds has whether the last page of each list is in the file. A list without its end
// would make a prune delete the rest.
type pageEnds map[string]bool

func (p pageEnds) note(path string, body json.RawMessage) {
	var page struct {
		Done       *bool
		Pagination *struct{ Next *string }
		Data       json.RawMessage
	}
	_ = json.Unmarshal(body, &page) // another answer has no pages
	var data struct {
		Pagination *struct {
			HasNextPage bool `json:"has_next_page"`
		}
	}
	_ = json.Unmarshal(page.Data, &data)
	switch {
	case page.Done != nil:
		p[path] = p[path] || *page.Done
	case page.Pagination != nil:
		p[path] = p[path] || page.Pagination.Next == nil || *page.Pagination.Next == ""
	case data.Pagination != nil:
		p[path] = p[path] || !data.Pagination.HasNextPage
	}
}

func (p pageEnds) check() error {
	for _, path := range slices.Sorted(maps.Keys(p)) {
		if !p[path] {
			return fmt.Errorf("the last page of %s is not in the file: save it again", path)
		}
	}
	return nil
}

// errMissingAnswer reports an answer without which the file is not complete. A script that was
// interrupted leaves such a file.
func errMissingAnswer(path ...string) error {
	return fmt.Errorf("the answer of %s is not in the file: save it again", strings.Join(path, "/"))
}

// conversion has the endpoints of a file, and counts the parts that do not carry over.
type conversion struct {
	lines []fileLine
	lost  map[string]int
	uids  map[string]*wire.Endpoint
}

// lose counts a part that does not carry over.
func (c *conversion) lose(kind string, has bool) {
	if has {
		c.lost[kind]++
	}
}

// add appends an endpoint. err is the reason why it is not valid. A list that changes while
// its pages are saved may have an endpoint twice.
func (c *conversion) add(e *wire.Endpoint, err error) {
	other := c.uids[e.UID]
	if reflect.DeepEqual(e, other) {
		return
	}
	c.uids[e.UID] = e
	line := fileLine{line: len(c.lines) + 1, endpoint: *e, err: err}
	if line.err == nil {
		line.given, line.err = fieldsOf(e)
	}
	for _, topic := range e.Topics {
		if strings.Contains(strings.TrimSuffix(strings.TrimSuffix(topic, "*"), "."), "*") {
			line.err = errors.Join(line.err, fmt.Errorf("$.topics: %s has * before its last word", topic))
		}
	}
	if other != nil {
		line.err = errors.Join(line.err, errors.New("$.uid: another endpoint of the file has it too"))
	}
	c.lines = append(c.lines, line)
}

// next returns the next endpoint, and io.EOF after the last one.
func (c *conversion) next() (fileLine, error) {
	if len(c.lines) == 0 {
		return fileLine{}, io.EOF
	}
	e := c.lines[0]
	c.lines = c.lines[1:]
	return e, nil
}

// importedUID returns the uid of an endpoint. Some ids begin as Hookladder's own, which no uid may.
func importedUID(system, id string) string {
	for _, own := range []string{"ep_", "u_", "q_"} {
		if strings.HasPrefix(id, own) {
			return system + "-" + id
		}
	}
	return id
}

// pathSegments returns the segments of a path behind the one that is named. ok is false if no
// segment has the name.
func pathSegments(path, name string) (all []string, ok bool) {
	all = strings.Split(strings.Trim(path, "/"), "/")
	at := slices.Index(all, name)
	all = all[at+1:]
	for i, one := range all {
		if text, err := url.PathUnescape(one); err == nil {
			all[i] = text
		}
	}
	return all, at >= 0
}

// isFilled reports whether a value is neither null nor empty, also with its parts.
func isFilled(raw json.RawMessage) bool {
	var value any
	return json.Unmarshal(bytes.TrimSpace(raw), &value) == nil && filledValue(value)
}

func filledValue(value any) bool {
	switch v := value.(type) {
	case nil:
		return false
	case string:
		return v != ""
	case bool:
		return v
	case []any:
		return slices.ContainsFunc(v, filledValue)
	case map[string]any:
		return slices.ContainsFunc(slices.Collect(maps.Values(v)), filledValue)
	}
	return true
}
