package api

import (
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/ladder"
)

// The functions of this file draw the schemas of requests. A schema of a request is closed, and
// accepts what the server accepts. Its patterns are valid in Go and in JavaScript. A rule about
// several fields is in "not", because generators of clients ignore that word and validators
// do not.

// Input returns the schema of a request body of v's type. It is closed. Each field that may be
// left out may be null. Durations, ladders and times have the forms that the server reads.
func Input(r huma.Registry, v any) *huma.Schema {
	t := reflect.TypeOf(v)
	r.Schema(t, true, "")
	s := r.Map()[t.Name()]
	s.AdditionalProperties = false
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		p := s.Properties[name]
		for _, word := range dispatcher.WordLists()[f.Tag.Get("words")] {
			p.Enum = append(p.Enum, word)
		}
		switch f.Type {
		case reflect.TypeFor[wire.Duration](), reflect.TypeFor[*wire.Duration]():
			s.Properties[name] = withDoc(durationInput(), p)
		case reflect.TypeFor[*ladder.Ladder]():
			s.Properties[name] = withDoc(ladderInput(), p)
		case reflect.TypeFor[wire.Time]():
			p.Pattern = timePattern
		case reflect.TypeFor[map[string]string]():
			p.AdditionalProperties = OrNull(&huma.Schema{Type: huma.TypeString})
		case reflect.TypeFor[*wire.Success]():
			s.Properties[name] = withDoc(successInput(), p)
		case reflect.TypeFor[string]():
			if p.Enum == nil {
				p.MinLength = Ref(1)
			}
		}
		if !slices.Contains(s.Required, name) {
			s.Properties[name] = OrNull(s.Properties[name])
		}
	}
	return s
}

// withDoc gives a schema the description of another one.
func withDoc(s, from *huma.Schema) *huma.Schema {
	s.Description = from.Description
	return s
}

// OrNull returns a schema that accepts null too.
func OrNull(s *huma.Schema) *huma.Schema {
	null := &huma.Schema{Type: "null"}
	switch {
	case s.Type != "":
		s.Nullable = true
		if s.Enum != nil {
			s.Enum = append(s.Enum, nil)
		}
	case s.AnyOf != nil:
		s.AnyOf = append(s.AnyOf, null)
	case s.Ref != "":
		return Either(s, null)
	}
	return s // without a type it accepts null
}

// Ref returns a pointer to a limit.
func Ref[T any](v T) *T { return &v }

// Extend sets a word that huma does not know.
func Extend(s *huma.Schema, word string, value any) *huma.Schema {
	if s.Extensions == nil {
		s.Extensions = map[string]any{}
	}
	s.Extensions[word] = value
	return s
}

// Between limits a duration that is a number of seconds. A text has the same limits, which the
// description names.
func Between(s *huma.Schema, least, most time.Duration) {
	number := *s.AnyOf[1]
	number.Minimum, number.Maximum = Ref(least.Seconds()), Ref(most.Seconds())
	s.AnyOf[1] = &number
}

// Never makes a schema refuse what one of the others accepts.
func Never(s *huma.Schema, others ...*huma.Schema) {
	s.Not = Either(others...)
}

// Given accepts objects that have all of these fields, and not as null. Linters assume that a part
// of a rule is closed, unless it says otherwise.
func Given(names ...string) *huma.Schema {
	s := &huma.Schema{Required: names, Properties: map[string]*huma.Schema{}, AdditionalProperties: true}
	for _, name := range names {
		s.Properties[name] = &huma.Schema{Not: &huma.Schema{Type: "null"}}
	}
	return s
}

// Holding accepts objects that have a field with a value that the schema accepts.
func Holding(name string, value *huma.Schema) *huma.Schema {
	return &huma.Schema{Required: []string{name}, Properties: map[string]*huma.Schema{name: value}, AdditionalProperties: true}
}

// Both accepts what all of these accept.
func Both(these ...*huma.Schema) *huma.Schema { return &huma.Schema{AllOf: these} }

// Either accepts what one of these accepts.
func Either(these ...*huma.Schema) *huma.Schema {
	if len(these) == 1 {
		return these[0]
	}
	return &huma.Schema{AnyOf: these}
}

// Unlike accepts what the other one does not.
func Unlike(s *huma.Schema) *huma.Schema { return &huma.Schema{Not: s} }

// OneOf accepts these texts.
func OneOf(words ...any) *huma.Schema { return &huma.Schema{Enum: words} }

// Matching accepts texts that match a pattern.
func Matching(pattern string) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Pattern: pattern}
}

// Parts of patterns.
const (
	aNumber   = `([0-9]+(\.[0-9]*)?|\.[0-9]+)`
	aDuration = `(` + aNumber + `|(` + aNumber + `(d|h|m|s|ms|us|µs|μs|ns))+)`
	aRungMark = `(\s*[,/]\s*|\s+)`
	// A ladder has at most 100 rungs.
	aLadder = `\s*(` + aDuration + `(` + aRungMark + aDuration + `){0,99}\s*)?`
)

// timePattern is the pattern of RFC 3339 without lower case and leap seconds.
const timePattern = `^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-5][0-9](\.[0-9]+)?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`

// durationInput is the schema of a text such as 15s, or a number of seconds.
func durationInput() *huma.Schema {
	s := Either(&huma.Schema{Type: huma.TypeString, Pattern: `^` + aDuration + `$`}, &huma.Schema{Type: huma.TypeNumber})
	s.Examples = []any{"15s", 30}
	Between(s, 0, ladder.MaxDuration)
	return s
}

// ladderInput is the schema of a list of durations, or a text.
func ladderInput() *huma.Schema {
	s := Either(
		&huma.Schema{Type: huma.TypeString, Pattern: `^` + aLadder + `$`},
		&huma.Schema{Type: huma.TypeArray, Items: durationInput(), MaxItems: Ref(ladder.MaxRungs)},
	)
	s.Examples = []any{"15s/3m/10m", []any{"15s", 180}}
	return s
}

// successInput is the schema of a rule of success.
func successInput() *huma.Schema {
	word := func(pattern string) *huma.Schema {
		return &huma.Schema{Type: huma.TypeString, MinLength: Ref(1), MaxLength: Ref(256), Pattern: pattern}
	}
	path := word(`^(\$(\.[^.\[]+|\[(0|[1-9][0-9]{0,4})\])+|([^$.]|\$[^.\[])[^.]*(\.[^.]+)*)$`)
	equals := Either(&huma.Schema{Type: huma.TypeString, MaxLength: Ref(256)}, &huma.Schema{Type: huma.TypeNumber}, &huma.Schema{Type: huma.TypeBoolean})
	rule := &huma.Schema{
		Type: huma.TypeObject, AdditionalProperties: false,
		Properties: map[string]*huma.Schema{"path": OrNull(path), "equals": OrNull(equals), "matches": OrNull(word(""))},
	}
	Never(rule, Unlike(Either(Given("path", "equals"), Given("matches"))), Given("path", "matches"), Given("equals", "matches"))
	body := Either(word(`^\S([\s\S]*\S)?$`), rule)
	body.Description = `A word that equals the trimmed answer, {"path":"code","equals":"SUCCESS"} on a JSON answer, or {"matches":"<RE2>"}.`
	return &huma.Schema{
		Type: huma.TypeObject, AdditionalProperties: false,
		Properties: map[string]*huma.Schema{
			"status": {
				Type: huma.TypeArray, Nullable: true, MinItems: Ref(1), MaxItems: Ref(16), Description: "Statuses that count: 200, 2xx, *.",
				Items: &huma.Schema{Type: huma.TypeString, Pattern: `^\s*(\*|[2-9]([xX][xX]|[0-9]{2}))\s*$`},
			},
			"body": OrNull(body),
		},
	}
}

// DurationText is the schema of a duration in a query.
func DurationText(usual string) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Pattern: `^` + aDuration + `$`, Default: usual}
}

// RefTo returns a reference to the schema of a type.
func RefTo[T any](r huma.Registry) *huma.Schema { return r.Schema(reflect.TypeFor[T](), true, "") }
