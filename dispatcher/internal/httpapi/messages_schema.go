package httpapi

import (
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/api"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/ladder"
)

// Patterns of fields that only messages have.
const (
	aToken = "[!#$%&'*+.^_`|~0-9A-Za-z-]+"
	// mediaPattern is of a media type with parameters.
	mediaPattern  = `^ *` + aToken + `/` + aToken + ` *( *; *` + aToken + ` *= *(` + aToken + `|"([ !#-\[\]-~]|\\[ -~])*") *)*(; *)?$`
	base64Pattern = `^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$`
)

// messageSchema returns the schema of a message in requests.
func messageSchema(r huma.Registry) *huma.Schema {
	s := api.Input(r, wire.Message{})
	p := s.Properties
	p["topic"].Not = api.Matching(`^hookladder\.`)
	p["subject"].Pattern = api.PrintPattern
	p["url"].Pattern = api.URLPattern
	p["endpoint"].Pattern, p["endpoint"].Not = api.NameForm.Schema.Pattern, api.NameForm.Schema.Not
	p["queue"].Not = api.QueueSchema().Not
	p["content_type"].Pattern = mediaPattern
	p["raw_body_base64"].Pattern = base64Pattern
	p["headers"].AdditionalProperties = api.OrNull(api.HeaderValues())
	api.Extend(p["headers"], "propertyNames", api.HeaderNames())
	api.Between(p["timeout"], time.Second, time.Hour)
	api.Between(p["delay"], 0, ladder.MaxDuration)
	body := api.Holding("body", &huma.Schema{}) // null is a body
	api.Never(s,
		api.Given("url", "endpoint"), api.Given("url", "queue"), api.Given("endpoint", "queue"),
		api.Given("delay", "deliver_at"),
		api.Unlike(api.Either(body, api.Given("raw_body"), api.Given("raw_body_base64"))),
		api.Both(body, api.Given("raw_body")), api.Both(body, api.Given("raw_body_base64")), api.Given("raw_body", "raw_body_base64"),
		api.Both(api.Unlike(api.Given("queue")), api.Holding("timeout", &huma.Schema{Type: huma.TypeNumber, ExclusiveMinimum: api.Ref(60.0)})),
	)
	s.Description = "Exactly one of body, raw_body and raw_body_base64 is needed. At most one of url, endpoint and queue may be there, and one of delay and deliver_at. In a field that may be left out, null means the same, but in body."
	return api.RefTo[wire.Message](r)
}

// batchSchema returns the schema of a batch. publish has drawn its messages before.
func batchSchema(r huma.Registry) *huma.Schema {
	s := api.Input(r, wire.Batch{})
	s.Properties["messages"].Nullable = false
	return api.RefTo[wire.Batch](r)
}

// keySchema returns the schema of an Idempotency-Key, with or without quotes.
func keySchema() *huma.Schema {
	s := &huma.Schema{Type: huma.TypeString, MinLength: api.Ref(1), MaxLength: api.Ref(longestKey + 2), Pattern: api.PrintPattern}
	quoted := api.Matching(`^"[\s\S]*"$`)
	api.Never(s, api.Matching(`^""$`), api.Both(api.Unlike(quoted), &huma.Schema{MinLength: api.Ref(longestKey + 1)}))
	return s
}
