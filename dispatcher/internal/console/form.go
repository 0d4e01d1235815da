package console

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/signer"
)

// FieldKind is how the text of a field is parsed.
type FieldKind string

// The kinds.
const (
	Text   FieldKind = "text"   // unchanged
	Area   FieldKind = "area"   // unchanged, of several lines
	List   FieldKind = "list"   // texts separated by commas or spaces
	Number FieldKind = "number" // a whole number
	Pairs  FieldKind = "pairs"  // a line "name: value" for each pair
	Rule   FieldKind = "rule"   // a success rule: statuses, or JSON
	Switch FieldKind = "switch" // on, or empty
	Choice FieldKind = "choice" // one of several words
)

// FormField is one field of the form.
type FormField struct {
	Name, Label, Hint, Example string
	Kind                       FieldKind
	Options                    []string // of a Choice; the first is the default
	Basic                      bool     // a merchant may set it
	Once                       bool     // it can't be changed later
}

// Fields are the fields of an endpoint, in the order of the form.
var Fields = []FormField{
	{Name: "url", Label: "URL", Example: "https://shop.example/hooks", Basic: true, Kind: Text},
	{Name: "topics", Label: "Topics", Example: "payment.*, refund.created", Basic: true, Kind: List, Hint: "With commas between. * at the end of a topic, or alone, stands for anything. Empty: all."},
	{Name: "description", Label: "Description", Example: "Orders and refunds", Basic: true, Kind: Area, Hint: "For people, what it is for."},
	{Name: "tenant", Label: "Tenant", Once: true, Kind: Text, Hint: "Whose messages it gets. Empty: those without a tenant."},
	{Name: "uid", Label: "UID", Once: true, Kind: Text, Example: "shop-42", Hint: "A name of your own, usable wherever its id is."},
	{Name: "topics_allowed", Label: "Topics for links", Kind: List, Example: "payment.*", Hint: "What links may choose among. Empty: the topics that an operator set last."},
	{Name: "ladder", Label: "Ladder", Kind: List, Example: "15s, 3m, 30m, 1h", Hint: "The waits between attempts. Empty: the setting LADDER."},
	{Name: "timeout", Label: "Timeout", Kind: Text, Example: "15s", Hint: "Of one attempt, 1s to 60s."},
	{Name: "max_in_flight", Label: "Most in flight", Kind: Number, Example: "64", Hint: "Over all instances."},
	{Name: "rate", Label: "Rate", Kind: Text, Example: "100/s", Hint: "Most attempts in a second, minute (/m) or hour (/h)."},
	{Name: "disable_after", Label: "Disable after", Kind: Text, Example: "5d", Hint: "When no attempt succeeded for so long. 0s: never."},
	{Name: "success", Label: "Success", Kind: Rule, Example: "2xx", Hint: `Statuses with commas between, or a rule as JSON, such as {"body":{"path":"code","equals":"SUCCESS"}}.`},
	{Name: "headers", Label: "Headers", Kind: Pairs, Example: "x-shop: 42", Hint: "A line for each. *** keeps the value that there is."},
	{Name: "metadata", Label: "Metadata", Kind: Pairs, Example: "team: payments", Hint: "Notes of your own, a line for each."},
	{Name: "signature", Label: "Signature", Kind: Choice, Options: dispatcher.Texts(signer.Schemes())},
	{Name: "signature_header", Label: "Signature header", Kind: Text, Example: "x-signature", Hint: "Of hmac and hmac-hex only."},
	{Name: "signature_hash", Label: "Signature hash", Kind: Text, Example: "sha512", Hint: "Of hmac only: sha256, which is the default, or sha512."},
	{Name: "signature_encoding", Label: "Signature encoding", Kind: Text, Example: "base64", Hint: "Of hmac only: hex, which is the default, or base64."},
	{Name: "signature_prefix", Label: "Signature prefix", Kind: Text, Example: "v0=", Hint: "Of hmac only: the text before the signature."},
	{Name: "signature_content", Label: "Signed content", Kind: Text, Example: "t-comma-body", Hint: "Of hmac only: body, which is the default, t.body or t-comma-body."},
	{Name: "ordered", Label: "One at a time, in order", Kind: Switch, Hint: "One that fails holds the rest."},
	{Name: "trace", Label: "Send traceparent", Kind: Switch, Hint: "Its receiver can join the trace of the publish."},
	{Name: "secret", Label: "Secret", Once: true, Kind: Text, Hint: "Empty: one is made, and shown once."},
}

// ShownFields returns the fields of the form of a new or an existing endpoint: all of them, or
// the basic ones.
func ShownFields(there, all bool) []FormField {
	return slices.DeleteFunc(slices.Clone(Fields), func(f FormField) bool { return f.Once && there || !f.Basic && !all })
}

// WithoutFields removes fields by their names.
func WithoutFields(shown []FormField, names ...string) []FormField {
	return slices.DeleteFunc(shown, func(f FormField) bool { return slices.Contains(names, f.Name) })
}

// EndpointName returns an endpoint's name for people: its UID, else its description, else its
// host.
func EndpointName(e wire.EndpointView) string {
	first, _, _ := strings.Cut(e.Description, "\n")
	host := ""
	if u, err := url.Parse(e.URL); err == nil {
		host = u.Host
	}
	return cmp.Or(e.UID, strings.TrimSpace(first), host, e.ID)
}

// SignatureForm returns the form of an endpoint's signature.
func SignatureForm(e wire.EndpointView) signer.Form {
	return signer.Form{
		Header: e.SignatureHeader, Hash: signer.Hash(e.SignatureHash), Encoding: signer.Encoding(e.SignatureEncoding),
		Prefix: e.SignaturePrefix, Content: signer.Content(e.SignatureContent),
	}
}

// RotatesSecret reports whether the endpoint's callbacks have a signature by each secret.
func RotatesSecret(e wire.EndpointView) bool {
	return signer.Scheme(e.Signature).RotatesIn(SignatureForm(e))
}

// FormTexts returns the fields of an endpoint as texts.
func FormTexts(e wire.EndpointView) map[string]string {
	var values map[string]json.RawMessage
	plain, err := json.Marshal(e)
	if err != nil || json.Unmarshal(plain, &values) != nil {
		return map[string]string{}
	}
	texts := map[string]string{}
	for _, f := range Fields {
		texts[f.Name] = f.text(values[f.Name])
	}
	return texts
}

// text formats a value of the API as a person would type it.
func (f FormField) text(v json.RawMessage) string {
	var s string
	var list []string
	var pairs map[string]string
	var rule wire.Success
	switch {
	case len(v) == 0:
		return ""
	case f.Kind == List && json.Unmarshal(v, &list) == nil:
		return strings.Join(list, ", ")
	case f.Kind == Pairs && json.Unmarshal(v, &pairs) == nil:
		var b strings.Builder
		for _, name := range slices.Sorted(maps.Keys(pairs)) {
			b.WriteString(name + ": " + pairs[name] + "\n")
		}
		return strings.TrimSuffix(b.String(), "\n")
	case f.Kind == Rule && json.Unmarshal(v, &rule) == nil && rule.Body == nil:
		return strings.Join(rule.Status, ", ")
	case f.Kind == Switch && string(v) == "true":
		return "on"
	case f.Kind == Switch:
		return ""
	case json.Unmarshal(v, &s) == nil:
		return s
	}
	return string(v)
}

// CreatedEndpoint parses a form into a new endpoint, and returns the errors of fields that can't be
// parsed.
func CreatedEndpoint(typed map[string]string, all bool) (e wire.Endpoint, wrong map[string]string) {
	wrong = map[string]string{}
	for _, f := range ShownFields(false, all) {
		v := f.value(typed[f.Name], "")
		if parts, ok := v.(map[string]any); ok {
			maps.DeleteFunc(parts, func(_ string, part any) bool { return part == nil })
		}
		if v == nil {
			continue
		}
		one, err := json.Marshal(map[string]any{f.Name: v})
		if err == nil {
			err = json.Unmarshal(one, &e)
		}
		switch {
		case err != nil && f.Kind == Number:
			wrong[f.Name] = "must be a whole number"
		case err != nil:
			wrong[f.Name] = strings.TrimPrefix(err.Error(), f.Name+": ")
		}
	}
	return e, wrong
}

// ChangedFields returns the fields that differ from the original form, as a JSON Merge Patch. So
// a concurrent change of another field is kept.
func ChangedFields(shown []FormField, typed, was map[string]string) map[string]any {
	patch := map[string]any{}
	for _, f := range shown {
		if now := clean(typed[f.Name]); now != clean(was[f.Name]) {
			patch[f.Name] = f.value(now, was[f.Name])
		}
	}
	return patch
}

// clean undoes the changes that browsers make to a text.
func clean(s string) string { return strings.TrimSpace(strings.ReplaceAll(s, "\r\n", "\n")) }

// value parses a text into a value of the API; nil is the default. A text that can't be
// parsed stays a text, and the API reports the error.
func (f FormField) value(text, was string) any {
	text = clean(text)
	switch {
	case f.Kind == Switch:
		return text != ""
	case f.Kind == Pairs:
		return pairsOf(text, was)
	case text == "":
		return nil
	case f.Kind == List:
		return listOf(text)
	case f.Kind == Number:
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n
		}
	case f.Kind == Rule && strings.HasPrefix(text, "{") && json.Valid([]byte(text)):
		return wholeRule(json.RawMessage(text))
	case f.Kind == Rule && !strings.HasPrefix(text, "{"):
		return map[string]any{"status": listOf(text), "body": nil}
	}
	return text
}

// wholeRule completes a success rule with null for the missing parts, because a patch would
// keep the old values of these.
func wholeRule(rule json.RawMessage) any {
	var parts map[string]any
	if json.Unmarshal(rule, &parts) != nil {
		return rule
	}
	for _, name := range []string{"status", "body"} {
		if _, ok := parts[name]; !ok {
			parts[name] = nil
		}
	}
	return parts
}

func listOf(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(", \t\n;", r) })
}

// pairsOf parses lines "name: value". Removed names become null, which removes them. It
// returns nil if there are none.
func pairsOf(text, was string) any {
	pairs := map[string]any{}
	for _, name := range namesOf(was) {
		pairs[name] = nil
	}
	some := false
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name = strings.TrimSpace(name); name != "" {
			pairs[name], some = strings.TrimSpace(value), true
		}
	}
	if !some {
		return nil
	}
	return pairs
}

func namesOf(text string) (names []string) {
	for line := range strings.Lines(clean(text)) {
		if name, _, _ := strings.Cut(line, ":"); strings.TrimSpace(name) != "" {
			names = append(names, strings.TrimSpace(name))
		}
	}
	return names
}

// WrongFields returns the API's errors by field. Errors of no field in the form are under the
// empty name.
func WrongFields(p *client.Problem, shown []FormField) map[string]string {
	wrong := map[string]string{}
	for _, e := range p.Errors {
		name, below := strings.TrimPrefix(e.Path, "$."), ""
		if i := strings.IndexAny(name, ".["); i >= 0 {
			name, below = name[:i], strings.TrimPrefix(name[i:], ".")+": "
		}
		text := below + e.Detail
		if !slices.ContainsFunc(shown, func(f FormField) bool { return f.Name == name }) {
			name, text = "", e.Path+": "+e.Detail
		}
		if wrong[name] != "" {
			text = wrong[name] + "; " + text
		}
		wrong[name] = text
	}
	if len(p.Errors) == 0 {
		wrong[""] = p.Problem.Error()
	}
	return wrong
}

// RotationOf parses the form of a rotation and returns the errors of its fields.
func RotationOf(typed map[string]string) (r wire.Rotation, wrong map[string]string) {
	wrong = map[string]string{}
	for name, text := range typed {
		if text = clean(text); text == "" {
			continue
		}
		one, err := json.Marshal(map[string]string{name: text})
		if err == nil {
			err = json.Unmarshal(one, &r)
		}
		if err != nil {
			wrong[name] = err.Error()
		}
	}
	return r, wrong
}
