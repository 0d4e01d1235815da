package httpapi

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/fields"
	"github.com/hookladder/hookladder/ladder"
)

// Entries in a page of a list, as the contract says.
const (
	defaultLimit = 50
	maxLimit     = 500
)

// maxValues bounds the values of one parameter: each entry of a list is compared
// with all of them.
const maxValues = 100

// param is a parameter of the query. The document describes it, every request is
// checked by it, and a handler reads it with the functions at the end of this file.
type param struct {
	name, doc string
	schema    *huma.Schema
	many      bool                            // it may be repeated
	refuse    func(value string) (why string) // empty: the value is taken; nil: all are
}

// ofText is a parameter whose value is a text.
func ofText(name, doc string, refuse func(value string) string) *param {
	return &param{name: name, doc: doc, schema: textSchema, refuse: refuse}
}

// repeated is a parameter that may be given several times. Any of its values matches.
func repeated(p *param) *param {
	p.many = true
	p.schema = &huma.Schema{Type: huma.TypeArray, Items: p.schema}
	return p
}

// ofWord is a parameter whose value is one of these words.
func ofWord[T ~string](name, doc string, words []T) *param {
	p := &param{name: name, doc: doc, schema: &huma.Schema{Type: huma.TypeString}}
	known := make([]string, len(words))
	for i, w := range words {
		known[i] = string(w)
		p.schema.Enum = append(p.schema.Enum, known[i])
	}
	p.refuse = func(v string) string {
		return unless(slices.Contains(known, v), "must be one of "+strings.Join(known, ", "))
	}
	return p
}

// ofFlag is a parameter that is true or false, and false where it is left out.
func ofFlag(name, doc string) *param {
	p := ofWord(name, doc, []string{"true", "false"})
	p.refuse = func(v string) string { return unless(v == "true" || v == "false", "must be true or false") }
	return p
}

// ofTime is a parameter whose value is a time.
func ofTime(name, doc string) *param {
	return &param{name: name, doc: doc, schema: &huma.Schema{Type: huma.TypeString, Format: "date-time"}, refuse: func(v string) string {
		_, err := time.Parse(time.RFC3339, v) // a + that was not encoded arrives as a space
		return unless(err == nil, "must be a time as in 2026-01-31T12:00:00Z (a + of its offset is written %2B)")
	}}
}

// ofTicks is a parameter whose value is how long a tick may last.
func ofTicks(name, doc string) *param {
	return &param{
		name: name, doc: doc, schema: &huma.Schema{Type: huma.TypeString, Default: ladder.FormatDuration(tickUsual)},
		refuse: func(v string) string {
			d, err := ladder.ParseDuration(v)
			return unless(err == nil && d >= tickLeast && d <= tickMost, "must be 1s to 1m, as in 25s")
		},
	}
}

// ofStatusCode is a parameter whose value is a status of HTTP.
func ofStatusCode(name, doc string) *param {
	least, most := 100.0, 599.0
	return &param{
		name: name, doc: doc, schema: &huma.Schema{Type: huma.TypeInteger, Minimum: &least, Maximum: &most},
		refuse: func(v string) string {
			n, err := strconv.Atoi(v)
			return unless(err == nil && n >= 100 && n <= 599, "must be 100 to 599")
		},
	}
}

// ofPage are the parameters of a list, whose pages have at most so many entries.
func ofPage(limit int) []*param {
	one, most := 1.0, float64(limit)
	return []*param{
		{
			name: "limit", doc: "How many at most; a page may be shorter.",
			schema: &huma.Schema{Type: huma.TypeInteger, Minimum: &one, Maximum: &most, Default: defaultLimit},
			refuse: func(v string) string {
				n, err := strconv.Atoi(v)
				return unless(err == nil && n >= 1 && n <= limit, "must be 1 to "+strconv.Itoa(limit))
			},
		},
		ofText("cursor", "next_cursor of the page before.", nil),
	}
}

// What is wrong with a value; empty: nothing.
func refuseTenant(v string) string { return unless(dispatcher.ValidTenant(v), "must be a tenant") }
func refusePattern(v string) string {
	return unless(dispatcher.ValidPattern(v), "must be a topic, one whose last word is *, or * alone")
}
func refuseSubject(v string) string {
	return unless(dispatcher.ValidSubject(v), "must be 1 to 128 characters, none of them a control one")
}

func refuseTenantOrNone(v string) string {
	return unless(v == "" || dispatcher.ValidTenant(v), "must be a tenant, or empty for the endpoints without one")
}

func refuseName(v string) string {
	return unless(dispatcher.ValidName(v), "must be the id or the uid of an endpoint")
}

func unless(ok bool, why string) string {
	if ok {
		return ""
	}
	return why
}

var textSchema = &huma.Schema{Type: huma.TypeString}

// document describes the parameter.
func (p *param) document() *huma.Param {
	explode := true // status=dead&status=cancelled
	return &huma.Param{Name: p.name, In: "query", Description: p.doc, Schema: p.schema, Explode: &explode}
}

// check says why the values of a parameter are refused, or nothing.
func (p *param) check(values []string) string {
	switch {
	case len(values) == 0:
		return ""
	case p.many && len(values) > maxValues:
		return "is given more than 100 times"
	case !p.many && len(values) > 1:
		return "may be given once"
	case !p.many && values[0] == "":
		return "is empty"
	case p.refuse == nil:
		return ""
	}
	for _, v := range values {
		if why := p.refuse(v); why != "" {
			return why
		}
	}
	return ""
}

// parseQuery reads the parameters of a request. The operation must know each.
func (q *request) parseQuery() (err error) {
	if q.r.URL.RawQuery == "" || q.of.anyQuery {
		return nil
	}
	if q.query, err = url.ParseQuery(q.r.URL.RawQuery); err != nil {
		return &problem{kind: malformed, detail: "the query is not properly encoded"}
	}
	if err := q.refuseUnknown(); err != nil {
		return err
	}
	var wrong []dispatcher.FieldError
	for _, p := range q.of.query {
		if why := p.check(q.query[p.name]); why != "" {
			wrong = append(wrong, dispatcher.FieldError{Path: "query." + p.name, Detail: why})
		}
	}
	return wrongFields(wrong)
}

// refuseUnknown names all parameters that the operation does not know.
func (q *request) refuseUnknown() error {
	known := make([]string, len(q.of.query))
	for i, p := range q.of.query {
		known[i] = p.name
	}
	var wrong []dispatcher.FieldError
	for name := range q.query {
		if !slices.Contains(known, name) {
			wrong = append(wrong, dispatcher.FieldError{
				Path: "query" + fields.Member(name), Detail: "is unknown; known are " + cmp.Or(strings.Join(known, ", "), "none"),
			})
		}
	}
	slices.SortFunc(wrong, func(a, b dispatcher.FieldError) int { return strings.Compare(a.Path, b.Path) })
	return wrongFields(wrong)
}

// all are the values of a parameter that may be repeated.
func (q *request) all(name string) []string { return q.query[name] }

// one is the value of a parameter; empty: it was left out.
func (q *request) one(name string) string { return q.query.Get(name) }

// flag reports whether a parameter is true.
func (q *request) flag(name string) bool { return q.one(name) == "true" }

// time is the value of a parameter; zero: it was left out.
func (q *request) time(name string) time.Time {
	t, _ := time.Parse(time.RFC3339, q.one(name)) // ofTime has checked it
	return t
}

// duration is the value of a parameter, or usual where it was left out.
func (q *request) duration(name string, usual time.Duration) time.Duration {
	if d, err := ladder.ParseDuration(q.one(name)); err == nil { // it was checked
		return d
	}
	return usual
}

// limit is how many entries the page of a list may have.
func (q *request) limit() int {
	if n, err := strconv.Atoi(q.one("limit")); err == nil { // ofPage has checked it
		return n
	}
	return defaultLimit
}

// cursor is where the page of a list begins; empty: at the first entry.
func (q *request) cursor() string { return q.one("cursor") }

// nextCursor is the cursor of the next page as lists answer it.
func nextCursor(next string) *string {
	if next == "" {
		return nil
	}
	return &next
}

// numbers are the values of a parameter that may be repeated; ofStatusCode has checked them.
func (q *request) numbers(name string) (all []int) {
	for _, text := range q.all(name) {
		n, _ := strconv.Atoi(text)
		all = append(all, n)
	}
	return all
}

// asWords gives texts the type of words, whose values were checked.
func asWords[T ~string](texts []string) (words []T) {
	for _, t := range texts {
		words = append(words, T(t))
	}
	return words
}
