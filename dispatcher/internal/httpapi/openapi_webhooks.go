package httpapi

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/api"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// noticeDocs say what each notice reports, and the words of its state.
var noticeDocs = map[dispatcher.Notice]struct {
	doc    string
	states []any
}{
	dispatcher.NoticeFailing:    {"A destination failed for FAILING_AFTER. It is repeated once an hour.", []any{"failing"}},
	dispatcher.NoticeRecovered:  {"A destination that was reported as failing recovered. reason: changed (another url), resumed, or none (an attempt succeeded).", nil},
	dispatcher.NoticeDisabled:   {"An endpoint was disabled. reason: operator, gone or failing. For a bare URL, count waiting deliveries ended.", nil},
	dispatcher.NoticeOpened:     {"The breaker of a destination opened. It is repeated once an hour.", []any{"open"}},
	dispatcher.NoticeClosed:     {"The breaker of a destination closed.", nil},
	dispatcher.NoticeLost:       {"An instance died, and count deliveries were taken over.", []any{"lost"}},
	dispatcher.NoticeUnhealthy:  {"The store can't be used as it should be. It is repeated once an hour.", []any{"unhealthy"}},
	dispatcher.NoticeHealthy:    {"The store can be used again.", []any{"healthy"}},
	dispatcher.NoticeEgressDown: {"Our own network failed. reason: resolver, route or proxy.", []any{"unhealthy"}},
	dispatcher.NoticeEgressUp:   {"Our own network recovered.", []any{"healthy"}},
	dispatcher.NoticeJob:        {"A job ended.", []any{"done", "stopped", "failed"}},
	dispatcher.NoticeDead:       {"count deliveries of a destination died. It goes only to endpoints that name this topic itself, at most once a minute.", nil},
}

// addWebhooks adds the requests that receivers get: each message, and each notice.
func addWebhooks(doc *huma.OpenAPI) error {
	notice := doc.Components.Schemas.Schema(reflect.TypeFor[wire.Notice](), true, "")
	doc.Webhooks = map[string]*huma.PathItem{
		"callback": {Post: callback("callback", "Receive a message", "The body is sent exactly as it was published. A message may arrive twice: store the webhook-id of each that was processed.", map[string]*huma.MediaType{
			api.MediaJSON: {Schema: &huma.Schema{Description: "Any JSON."}, Example: exampleCallbackBody},
			"*/*":         {Schema: &huma.Schema{Description: "Any other body, with the content_type of its message."}, Example: "order=4711"},
		})},
	}
	for _, topic := range dispatcher.Notices() {
		about, ok := noticeDocs[topic]
		if !ok {
			return fmt.Errorf("write openapi document: %s has no description", topic)
		}
		own := &huma.Schema{Type: huma.TypeObject, Required: []string{"type"}, Properties: map[string]*huma.Schema{
			"type": {Type: huma.TypeString, Enum: []any{string(topic)}},
		}}
		if about.states != nil {
			own.Required = append(own.Required, "state")
			own.Properties["state"] = &huma.Schema{Type: huma.TypeString, Enum: about.states}
		}
		example, err := plain(exampleNotice(string(topic)))
		if err != nil {
			return err
		}
		doc.Webhooks[string(topic)] = &huma.PathItem{Post: callback(strings.ReplaceAll(string(topic), ".", "-"), "Receive the notice "+string(topic), about.doc, map[string]*huma.MediaType{
			api.MediaJSON: {Schema: &huma.Schema{AllOf: []*huma.Schema{notice, own}}, Example: example},
		})}
	}
	return nil
}

// callback describes one request to a receiver.
func callback(id, summary, doc string, content map[string]*huma.MediaType) *huma.Operation {
	return &huma.Operation{
		OperationID: id, Summary: summary, Description: doc, Tags: []string{tagWebhooks}, Security: []map[string][]string{},
		Parameters:  callbackHeaders(),
		RequestBody: &huma.RequestBody{Required: true, Content: content},
		Responses: map[string]*huma.Response{
			"2XX":     {Description: "It is delivered, unless success of its message or endpoint says otherwise. Then that rule decides."},
			"410":     {Description: "The delivery ends as dead (gone), and the endpoint is disabled."},
			"429":     {Description: "It is attempted again after Retry-After, or after the next wait of its ladder, if that is later.", Headers: retryAfter()},
			"503":     {Description: "As 429. It counts as a failure of the receiver.", Headers: retryAfter()},
			"4XX":     {Description: "It is attempted again after the next wait of its ladder. With webhook-delivery: abort-message, which any response but a success may have, it ends as dead (rejected).", Headers: abort()},
			"default": {Description: "It is attempted again after the next wait of its ladder, also if no response came in time. A redirect is not followed.", Headers: abort()},
		},
	}
}

func retryAfter() map[string]*huma.Param {
	return map[string]*huma.Param{"Retry-After": {Description: "Seconds, or a date; at most 24 h.", Schema: api.TextSchema}}
}

func abort() map[string]*huma.Param {
	return map[string]*huma.Param{"webhook-delivery": {Description: "abort-message: this delivery is not attempted again.", Schema: &huma.Schema{Type: huma.TypeString, Enum: []any{"abort-message"}}}}
}

// callbackHeaders are the headers of each request.
func callbackHeaders() (list []*huma.Param) {
	integer := &huma.Schema{Type: huma.TypeInteger}
	for _, h := range []struct {
		name, doc string
		required  bool
		schema    *huma.Schema
		example   any
	}{
		{"webhook-id", "The id of the message: the same on each attempt.", true, api.MessageForm.Schema, "order-4711-paid"},
		{"webhook-timestamp", "The time of the attempt, in Unix seconds.", true, integer, 1769860800},
		{"accept-encoding", "No coding of the response's body.", true, &huma.Schema{Type: huma.TypeString, Enum: []any{"identity"}}, nil},
		{"webhook-signature", "Of the signatures standard and standard-ed25519: of webhook-id.webhook-timestamp.body, one for each secret, with spaces between.", false, api.TextSchema, "v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4="},
		{"stripe-signature", "Of the signature stripe: t=<Unix seconds>,v1=<hex of t.body>.", false, api.TextSchema, nil},
		{"x-hub-signature-256", "Of the signature github: sha256=<hex of the body>.", false, api.TextSchema, nil},
		{"x-signature", "Of the signature hmac-hex: the hex of the body. signature_header of the endpoint names another header.", false, api.TextSchema, nil},
		{"hookladder-topic", "The topic of the message. HEADER_PREFIX changes the beginning of this and the next three.", true, api.TextSchema, "payment.paid"},
		{"hookladder-attempt", "The number of the attempt, from 1.", true, integer, 1},
		{"hookladder-tenant", "The tenant of the message, if it has one.", false, api.TextSchema, "m7"},
		{"hookladder-resend", "true: a person asked for this attempt.", false, &huma.Schema{Type: huma.TypeString, Enum: []any{"true"}}, nil},
	} {
		list = append(list, &huma.Param{Name: h.name, In: "header", Description: h.doc, Required: h.required, Schema: h.schema, Example: h.example})
	}
	return list
}
