package api

import (
	"cmp"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/input"
	"github.com/hookladder/hookladder/ladder"
)

// MaxValues limits the values of one parameter, because each entry of a list is compared with
// all of them.
const MaxValues = 100

// Param is a parameter of the query. The document describes it, and every request is checked
// with it. A handler reads it with the functions at the end of this file.
type Param struct {
	Name, Doc string
	Schema    *huma.Schema
	Many      bool                            // it may be repeated
	Refuse    func(value string) (why string) // empty: the value is taken; nil: all are
}

// OfText returns a parameter whose value is a text.
func OfText(name, doc string, form Form) *Param {
	return &Param{Name: name, Doc: doc, Schema: form.Schema, Refuse: form.Refuse}
}

// Repeated returns a parameter that may be given several times. An entry matches if any value
// does.
func Repeated(p *Param) *Param {
	p.Many = true
	p.Schema = &huma.Schema{Type: huma.TypeArray, Items: p.Schema, MaxItems: Ref(MaxValues)}
	return p
}

// OfWord returns a parameter whose value is one of these words.
func OfWord[T ~string](name, doc string, words []T) *Param {
	p := &Param{Name: name, Doc: doc, Schema: &huma.Schema{Type: huma.TypeString}}
	known := make([]string, len(words))
	for i, w := range words {
		known[i] = string(w)
		p.Schema.Enum = append(p.Schema.Enum, known[i])
	}
	p.Refuse = func(v string) string {
		return Unless(slices.Contains(known, v), "must be one of "+strings.Join(known, ", "))
	}
	return p
}

// OfFlag returns a parameter that is true or false. The default is false.
func OfFlag(name, doc string) *Param {
	p := OfWord(name, doc, []string{"true", "false"})
	p.Refuse = func(v string) string { return Unless(v == "true" || v == "false", "must be true or false") }
	return p
}

// OfTime returns a parameter whose value is a time.
func OfTime(name, doc string) *Param {
	return &Param{Name: name, Doc: doc, Schema: timeSchema, Refuse: func(v string) string {
		_, err := parseTime(v) // a + that was not encoded arrives as a space
		return Unless(err == nil, "must be a time as in 2026-01-31T12:00:00Z (a + of its offset is written %2B)")
	}}
}

// OfStatusCode returns a parameter whose value is an HTTP status.
func OfStatusCode(name, doc string) *Param {
	least, most := 100.0, 599.0
	return &Param{
		Name: name, Doc: doc, Schema: &huma.Schema{Type: huma.TypeInteger, Minimum: &least, Maximum: &most},
		Refuse: func(v string) string {
			n, err := strconv.Atoi(v)
			return Unless(err == nil && n >= 100 && n <= 599, "must be 100 to 599")
		},
	}
}

// forms are the forms of the texts in filters, by the tag form of the filter's field, or by
// the name of the parameter.
var forms = map[string]Form{
	"by": AnyText, "destination": DestinationForm, "job": JobForm, "like": AnyFilled, "message": MessageForm, "subject": SubjectForm, "subject_like": SubjectForm, "subject_ends": DigitsForm,
	"target": AnyText, "tenant": TenantForm, "tenant-or-none": TenantOrNone, "topic": TopicsForm,
}

// OfFilter returns the parameters of a list, from the tags of its filter in the client.
func OfFilter(filter any) (all []*Param) {
	t := reflect.TypeOf(filter)
	for i := range t.NumField() {
		f := t.Field(i)
		name, doc, words := f.Tag.Get("query"), f.Tag.Get("doc"), dispatcher.WordLists()[f.Tag.Get("words")]
		if name == "limit" || name == "cursor" {
			continue
		}
		var p *Param
		switch form, known := forms[cmp.Or(f.Tag.Get("form"), name)]; {
		case f.Type == reflect.TypeFor[bool]():
			p = OfFlag(name, "true: "+strings.ToLower(doc[:1])+doc[1:])
		case f.Type == reflect.TypeFor[time.Time]():
			p = OfTime(name, doc)
		case f.Type == reflect.TypeFor[[]int]():
			p = OfStatusCode(name, doc)
		case words != nil:
			p = OfWord(name, doc, words)
		case !known:
			panic("no form of the texts in " + name)
		default:
			p = OfText(name, doc, form)
		}
		if f.Type.Kind() == reflect.Slice {
			p = Repeated(p)
			p.Doc += " May be repeated: any of them matches."
		}
		all = append(all, p)
	}
	return append(all, OfPage(input.MaxPage)...)
}

// OfPage returns the parameters of a list with at most limit entries on a page.
func OfPage(limit int) []*Param {
	one, most := 1.0, float64(limit)
	return []*Param{
		{
			Name: "limit", Doc: "How many at most; a page may be shorter.",
			Schema: &huma.Schema{Type: huma.TypeInteger, Minimum: &one, Maximum: &most, Default: input.UsualPage},
			Refuse: func(v string) string {
				n, err := strconv.Atoi(v)
				return Unless(err == nil && n >= 1 && n <= limit, "must be 1 to "+strconv.Itoa(limit))
			},
		},
		OfText("cursor", "next_cursor of the page before.", AnyFilled),
	}
}

// Unless returns why, or nothing if ok.
func Unless(ok bool, why string) string {
	if ok {
		return ""
	}
	return why
}

// timeSchema is the schema of a time in requests.
var timeSchema = &huma.Schema{Type: huma.TypeString, Format: "date-time", Pattern: timePattern}

var timeForm = regexp.MustCompile(timePattern)

// parseTime parses a time of RFC 3339. time.Parse accepts other forms too.
func parseTime(text string) (time.Time, error) {
	if !timeForm.MatchString(text) {
		return time.Time{}, errMoment
	}
	return time.Parse(time.RFC3339, text)
}

// TextSchema is the schema of a text.
var TextSchema = &huma.Schema{Type: huma.TypeString}

// Document describes the parameter.
func (p *Param) Document() *huma.Param {
	explode := true // status=dead&status=cancelled
	return &huma.Param{Name: p.Name, In: "query", Description: p.Doc, Schema: p.Schema, Explode: &explode}
}

// Check returns the reason why the values of a parameter are refused, or nothing.
func (p *Param) Check(values []string) string {
	switch {
	case len(values) == 0:
		return ""
	case p.Many && len(values) > MaxValues:
		return "is given more than 100 times"
	case !p.Many && len(values) > 1:
		return "may be given once"
	case !p.Many && values[0] == "":
		return "is empty"
	case p.Refuse == nil:
		return ""
	}
	for _, v := range values {
		if why := p.Refuse(v); why != "" {
			return why
		}
	}
	return ""
}

// parseQuery reads the parameters of a request. The operation must know each.
func (q *Request) parseQuery() (err error) {
	if q.HTTP.URL.RawQuery == "" || q.Operation.AnyQuery {
		return nil
	}
	if q.Query, err = url.ParseQuery(q.HTTP.URL.RawQuery); err != nil {
		return &Problem{Kind: Malformed, Detail: "the query is not properly encoded"}
	}
	if err := q.refuseUnknown(); err != nil {
		return err
	}
	var wrong []dispatcher.FieldError
	for _, p := range q.Operation.Query {
		if why := p.Check(q.Query[p.Name]); why != "" {
			wrong = append(wrong, dispatcher.FieldError{Path: "query." + p.Name, Detail: why})
		}
	}
	return WrongFields(wrong)
}

// refuseUnknown reports all parameters that the operation does not know.
func (q *Request) refuseUnknown() error {
	known := make([]string, len(q.Operation.Query))
	for i, p := range q.Operation.Query {
		known[i] = p.Name
	}
	detail := "is unknown; known are " + strings.Join(known, ", ")
	if len(known) == 0 {
		detail = "is unknown: this call has no parameters"
	}
	var wrong []dispatcher.FieldError
	for name := range q.Query {
		if !slices.Contains(known, name) {
			wrong = append(wrong, dispatcher.FieldError{Path: "query" + input.Member(name), Detail: detail})
		}
	}
	slices.SortFunc(wrong, func(a, b dispatcher.FieldError) int { return strings.Compare(a.Path, b.Path) })
	return WrongFields(wrong)
}

// All returns the values of a parameter that may be repeated.
func (q *Request) All(name string) []string { return q.Query[name] }

// One returns the value of a parameter, or an empty text if it is missing.
func (q *Request) One(name string) string { return q.Query.Get(name) }

// Flag reports whether a parameter is true.
func (q *Request) Flag(name string) bool { return q.One(name) == "true" }

// Time returns the value of a parameter, or zero if it is missing.
func (q *Request) Time(name string) time.Time {
	t, _ := parseTime(q.One(name)) // ofTime has checked it
	return t
}

// Duration returns the value of a parameter, or usual if it is missing.
func (q *Request) Duration(name string, usual time.Duration) time.Duration {
	if d, err := ladder.ParseDuration(q.One(name)); err == nil { // it was checked
		return d
	}
	return usual
}

// Limit returns the maximum number of entries on the page of a list.
func (q *Request) Limit() int {
	if n, err := strconv.Atoi(q.One("limit")); err == nil { // ofPage has checked it
		return n
	}
	return input.UsualPage
}

// Cursor returns the start of the page of a list; empty: at the first entry.
func (q *Request) Cursor() string { return q.One("cursor") }

// NextCursor returns the cursor of the next page in the form of a response.
func NextCursor(next string) *string {
	if next == "" {
		return nil
	}
	return &next
}

// Numbers returns the values of a parameter that may be repeated. ofStatusCode has checked
// them.
func (q *Request) Numbers(name string) (all []int) {
	for _, text := range q.All(name) {
		n, _ := strconv.Atoi(text)
		all = append(all, n)
	}
	return all
}

// AsWords converts texts with checked values to the type of words.
func AsWords[T ~string](texts []string) (words []T) {
	for _, t := range texts {
		words = append(words, T(t))
	}
	return words
}

// QueryDestination is the path of the parameter destination in errors.
const QueryDestination = "query.destination"

// IsURL reports whether a destination is a URL.
func IsURL(destination string) bool { return strings.Contains(destination, "://") }
