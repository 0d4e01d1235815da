package api

import (
	"github.com/danielgtaylor/huma/v2"

	"github.com/hookladder/hookladder/dispatcher"
)

// Form is a form of texts: its schema in the document, and its check in the server.
type Form struct {
	Schema *huma.Schema
	Refuse func(value string) (why string) // empty: the value is accepted; nil: all are
}

// Patterns of texts in requests.
const (
	WordPattern   = `^[A-Za-z0-9_-]+$`
	TenantPattern = `^[!-~]+$`
	aTopic        = `[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*`
	// PrintPattern is of texts without control characters.
	PrintPattern = `^[^\x00-\x1f\x7f-\x9f]*$`
	// URLPattern is of URLs that every client, proxy and log reads in the same way.
	URLPattern = `^[hH][tT][tT][pP][sS]?://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*)(:[1-9][0-9]{0,4})?` +
		`(/([!"$&->@-\[\]-~]|%[0-9A-Fa-f]{2})*)?(\?[!-"$-\[\]-~]*)?$`
	// RatePattern is of a number in a second, a minute or an hour.
	RatePattern = `^0*([1-9][0-9]{0,4}|100000)/[smh]$`
	uidPattern  = `^[A-Za-z0-9_.:@-]+$`
	lanePrefix  = `^(ep_|u_|q_)`
	laneOrSteps = `^(ep_|u_|q_|\.\.?$)`
)

func ofPattern(most int, pattern string) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, MinLength: Ref(1), MaxLength: Ref(most), Pattern: pattern}
}

// The forms of texts.
var (
	AnyText    = Form{Schema: TextSchema}
	AnyFilled  = Form{Schema: &huma.Schema{Type: huma.TypeString, MinLength: Ref(1)}}
	TenantForm = Form{ofPattern(128, TenantPattern), func(v string) string {
		return Unless(dispatcher.ValidTenant(v), "must be 1 to 128 printable ASCII characters without spaces")
	}}
	// TenantOrNone may be empty, for the endpoints without a tenant.
	TenantOrNone = Form{
		&huma.Schema{Type: huma.TypeString, MaxLength: Ref(128), Pattern: `^[!-~]*$`},
		func(v string) string {
			return Unless(v == "" || dispatcher.ValidTenant(v), "must be 1 to 128 printable ASCII characters without spaces, or empty for the endpoints without one")
		},
	}
	TopicsForm = Form{ofPattern(128, `^(\*|`+aTopic+`(\.\*)?)$`), func(v string) string {
		return Unless(dispatcher.ValidPattern(v), "must be a topic, one whose last word is *, or * alone")
	}}
	SubjectForm = Form{ofPattern(128, PrintPattern), func(v string) string {
		return Unless(dispatcher.ValidSubject(v), "must be 1 to 128 characters, none of them a control one")
	}}
	DigitsForm = Form{ofPattern(128, `^[0-9]{4,}$`), func(v string) string {
		return Unless(dispatcher.IsLastDigits(v) && len(v) <= 128, "must be four or more digits")
	}}
	MessageForm = Form{ofPattern(128, WordPattern), func(v string) string {
		return Unless(dispatcher.ValidID(v), "must be the id of a message")
	}}
	JobForm = Form{ofPattern(20, `^job_[1-9][0-9]*$`), func(v string) string {
		return Unless(dispatcher.ValidJobID(v), "must be the id of a job")
	}}
	// NameForm is of the id or the uid of an endpoint.
	NameForm = Form{nameSchema(), func(v string) string {
		return Unless(dispatcher.ValidName(v), "must be the id or the uid of an endpoint")
	}}
	DestinationForm = Form{destinationSchema(""), refuseDestination}
	// LaneForm is of a destination, or * for all lanes.
	LaneForm = Form{Schema: destinationSchema(`\*|`)}
)

// UIDSchema returns the schema of a uid.
func UIDSchema() *huma.Schema {
	s := ofPattern(128, uidPattern)
	s.Not = Matching(laneOrSteps)
	return s
}

func nameSchema() *huma.Schema {
	s := ofPattern(128, uidPattern)
	Never(s, Matching(`^(u_|q_|\.\.?$)`), Both(Matching(`^ep_`), Unlike(Matching(`^[A-Za-z0-9_-]{1,16}$`))))
	return s
}

// QueueSchema returns the schema of the name of a queue.
func QueueSchema() *huma.Schema {
	s := ofPattern(64, `^[A-Za-z0-9_.-]+$`)
	s.Not = Matching(lanePrefix)
	return s
}

// TakenSchema returns the schema of the name of a queue, or the id of an endpoint.
func TakenSchema() *huma.Schema {
	s := ofPattern(64, `^[A-Za-z0-9_.-]+$`)
	Never(s, Matching(`^(u_|q_)`), Both(Matching(`^ep_`), Unlike(Matching(`^[A-Za-z0-9_-]{1,16}$`))))
	return s
}

// destinationSchema returns the schema of a URL, a lane, the name of an endpoint, or q_ and the
// name of a queue. Of the last three, more is a further alternative.
func destinationSchema(more string) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeString, MinLength: Ref(1), MaxLength: Ref(2048)}
	name := ofPattern(128, `^(`+more+`[A-Za-z0-9_.:@-]+|q_[A-Za-z0-9_.~-]{0,14})$`)
	queue := Both(Matching(`^q_[A-Za-z0-9_.-]{1,64}$`), Unlike(Matching(`^q_(ep_|u_|q_)`)))
	Never(name, Matching(`^\.\.?$`),
		Both(Matching(`^(ep_|u_)`), Unlike(Matching(`^[A-Za-z0-9_-]{1,16}$`))),
		Both(Matching(`^q_`), Unlike(Either(Matching(`^q_[A-Za-z0-9_.~-]{0,14}$`), queue))))
	Extend(s, "if", Matching(`://`))
	Extend(s, "then", Matching(URLPattern))
	return Extend(s, "else", name)
}

// HeaderNames returns the schema of the names of headers that callers may set. The prefix of
// HEADER_PREFIX reserves more of them.
func HeaderNames() *huma.Schema {
	s := ofPattern(8192, "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")
	s.Not = Matching(reservedPattern())
	return s
}

// HeaderValues returns the schema of their values.
func HeaderValues() *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Pattern: `^([^\x00-\x20\x7f]([^\x00-\x1f\x7f]*[^\x00-\x20\x7f])?)?$`}
}

// reservedPattern matches the names that no caller may set, as receivers read them: in upper or
// lower case, and with any other character as a dash.
func reservedPattern() string {
	var b []byte
	for i, name := range dispatcher.ReservedHeaders() {
		if b = append(b, '|'); i == 0 {
			b = []byte("^(")
		}
		for _, c := range []byte(name) {
			switch {
			case c == '*':
				b = append(b, ".*"...)
			case 'a' <= c && c <= 'z':
				b = append(b, '[', c-'a'+'A', c, ']')
			case c == '-':
				b = append(b, "[^A-Za-z0-9]"...)
			default:
				b = append(b, c)
			}
		}
	}
	return string(append(b, ")$"...))
}

// refuseDestination returns the reason why a text can't name a destination, or nothing.
func refuseDestination(text string) string {
	if IsURL(text) {
		if _, err := dispatcher.ParseURL(text); err != nil {
			return err.Error()
		}
		return ""
	}
	_, queue := dispatcher.QueueNamed(text)
	return Unless(queue || dispatcher.ValidLane(text) || dispatcher.ValidUID(text), "must be a lane, an endpoint's id or uid, a URL, or q_ and the name of a queue")
}
