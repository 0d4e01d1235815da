package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/callers"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/api"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/ladder"
)

// Messages reads and changes messages. If there is an archive, it is queried too.
type Messages interface {
	// Message returns a message with its deliveries, or dispatcher.ErrNotFound.
	Message(ctx context.Context, id string) (dispatcher.MessageView, error)
	// Cancel cancels the unfinished deliveries of a message, or only the one in lane if that is
	// set. It returns their new state.
	Cancel(ctx context.Context, id string, lane dispatcher.Lane) ([]dispatcher.Delivery, error)
	// Retry attempts these deliveries now, and returns the reason for each that it leaves. With
	// delivered it attempts delivered ones too.
	Retry(ctx context.Context, id string, lane dispatcher.Lane, delivered bool) ([]dispatcher.Retried, error)
}

// MessageLanes finds the lanes of a message's destinations. Methods return dispatcher.ErrNotFound
// if there is no such message. If there is an archive, it is queried too.
type MessageLanes interface {
	// MessageTenant returns the tenant of a message.
	MessageTenant(ctx context.Context, id string) (string, error)
	// MessageLane returns the lane of a destination. For a URL it uses the tenant of the message.
	MessageLane(ctx context.Context, id, destination string) (dispatcher.Lane, error)
}

// messageSubject is a message in a path.
var messageSubject = &api.Subject{Name: "id", Doc: "The id of the message.", Schema: api.MessageForm.Schema, Example: "order-4711-paid", Check: api.Known(dispatcher.ValidID, dispatcher.ErrNotFound)}

// traceparent is the header of both calls that publish.
var traceparent = &huma.Param{
	Name: "traceparent", In: "header", Schema: &huma.Schema{Type: huma.TypeString},
	Description: "The caller's span, by W3C Trace Context. It is kept beside the messages, and is no part of their content. An invalid one is ignored.",
}

// messageOperations returns the calls about messages.
func (s *server) messageOperations() []api.Operation {
	destination := api.OfText("destination", "Only the delivery to this lane, endpoint, queue (q_<name>), or URL of the message's tenant.", api.DestinationForm)
	all := api.OfFlag("all", "true: what was delivered is sent again too. What a destination names always is.")
	published := map[int]any{202: examplePublished, 200: exampleDuplicate}
	return []api.Operation{
		{
			ID: IDPublish, Method: "POST", Path: "/v1/messages", Scope: callers.Publish, FastPath: true,
			Summary: "Publish a message to a URL, to an endpoint, or to every endpoint that matches", Do: s.traced(s.publish),
			Headers: []*huma.Param{{
				Name: "Idempotency-Key", In: "header", Schema: keySchema(),
				Description: "1 to 255 printable characters, which become the id of a message without one. A key that is no valid id becomes idk_ and the first 32 hex digits of its SHA-256. Quotes around the key are removed.",
			}, traceparent},
			Body: exampleMessage, Draw: messageSchema, Limit: s.single, Answers: published,
			Cure:     fmt.Sprintf(": a message's body has at most %d (MAX_BODY); send less, or raise the setting", s.o.Policy.MaxBody),
			Problems: []*api.Kind{api.Conflict, api.Unmatched, api.TooMany, api.LaneFull, api.Full, api.Weak, api.Crowded},
		},
		{
			ID: IDBatch, Method: "POST", Path: "/v1/messages/batch", Scope: callers.Publish, FastPath: true,
			Summary: "Publish up to 1000 messages, each of which is taken or refused by itself; if none could be stored, the problem has the results", Do: s.traced(s.publishBatch), Headers: []*huma.Param{traceparent},
			Body: exampleBatch, Draw: batchSchema, Limit: batchBytes, Cure: ", which a batch may have: send several", Answers: map[int]any{202: exampleResults},
			Problems: []*api.Kind{api.Full, api.Weak, api.Crowded},
		},
		{
			ID: "get-message", Method: "GET", Path: "/v1/messages/{id}", Scope: callers.Read, Link: api.AnyLink,
			Summary: "Read a message and its deliveries", Do: s.message,
			Subject: messageSubject, Answers: api.OK(exampleRecord),
		},
		{
			ID: "cancel-message", Method: "DELETE", Path: "/v1/messages/{id}", Scope: callers.Publish, Audit: "message.cancel",
			Summary: "Cancel the deliveries of a message that have not ended", Do: s.cancel,
			Subject: messageSubject, Query: []*api.Param{destination}, Answers: api.OK(exampleDeliveries), Problems: []*api.Kind{api.Archived},
		},
		{
			ID: "retry-message", Method: "POST", Path: "/v1/messages/{id}/retry", Scope: callers.Publish, Link: api.ManagingLink, Audit: "message.retry",
			Summary: "Attempt a message's deliveries now", Do: s.retry,
			Subject: messageSubject, Query: []*api.Param{destination, all}, Answers: map[int]any{202: exampleRetried},
			Problems: []*api.Kind{api.Due, api.InFlight, api.Order, api.Delivered, api.Expired, api.Disabled, api.Deleted, api.Archived},
		},
	}
}

// The calls that accept messages.
const (
	IDPublish = "publish"
	IDBatch   = "publish-batch"
)

// message serves GET /v1/messages/{id}.
func (s *server) message(ctx context.Context, q *api.Request) (*api.Response, error) {
	view, err := s.o.Messages.Message(ctx, q.ID())
	if err != nil {
		return nil, err
	}
	view.Deliveries = own(q, view.Deliveries, func(d *dispatcher.Delivery) (string, dispatcher.Lane) { return view.Message.Tenant, d.ID.Lane })
	if q.Linked() && len(view.Deliveries) == 0 {
		return nil, dispatcher.ErrNotFound
	}
	w := wireMessage(view)
	switch gone := view.Message.Apart; {
	case gone != nil && view.Message.Body == nil: // the body is not kept
		w.BodyBytes = gone.Size
	case q.Bodies:
		setWireBody(&w.Message, &view.Message)
	default:
		sum := sha256.Sum256(view.Message.Body)
		w.BodyBytes, w.BodySHA256 = len(view.Message.Body), hex.EncodeToString(sum[:])
	}
	for i := range w.Deliveries {
		if !q.Bodies {
			api.HideResponses(&w.Deliveries[i], &view.Deliveries[i])
		}
		outwardDelivery(q, &w.Deliveries[i])
	}
	body, err := w.Append(nil)
	if err != nil {
		return nil, fmt.Errorf("read message %s: %w", q.ID(), err)
	}
	return &api.Response{Status: http.StatusOK, ContentType: api.MediaJSON, Body: body}, nil
}

// cancel serves DELETE /v1/messages/{id}.
func (s *server) cancel(ctx context.Context, q *api.Request) (*api.Response, error) {
	lane, err := s.destination(ctx, q)
	if err != nil {
		return nil, err
	}
	deliveries, err := s.o.Messages.Cancel(ctx, q.ID(), lane)
	if err != nil {
		return nil, elsewhere(q, err)
	}
	if !q.Reads {
		return api.JSON(http.StatusOK, deliveriesOf{q.ID(), api.Convert(deliveries, briefDelivery)})
	}
	list := api.Convert(deliveries, api.Delivery)
	if !q.Bodies {
		for i := range list {
			api.HideResponses(&list[i], &deliveries[i])
		}
	}
	return api.JSON(http.StatusOK, deliveriesOf{q.ID(), list})
}

// retry serves POST /v1/messages/{id}/retry.
func (s *server) retry(ctx context.Context, q *api.Request) (*api.Response, error) {
	lane, err := s.destination(ctx, q)
	if err != nil {
		return nil, err
	}
	all, err := s.o.Messages.Retry(ctx, q.ID(), lane, q.Flag("all") || lane != "")
	if err != nil {
		return nil, elsewhere(q, err)
	}
	full := api.Convert(all, wireRetried)
	for i := range full {
		if !q.Bodies {
			api.HideResponses(&full[i].Delivery, &all[i].Delivery)
		}
		outwardDelivery(q, &full[i].Delivery)
	}
	var list any = full
	if !q.Reads {
		list = api.Convert(all, func(r *dispatcher.Retried) wire.BriefDelivery {
			w := briefDelivery(&r.Delivery)
			w.Retried, w.Why = new(r.Left == dispatcher.LeftNot), string(r.Left)
			return w
		})
	}
	if slices.ContainsFunc(all, func(r dispatcher.Retried) bool { return r.Left == dispatcher.LeftNot }) {
		return api.JSON(http.StatusAccepted, deliveriesOf{q.ID(), list})
	}
	p := leaving[all[0].Left]
	q.Writer.Refusal = p
	body, err := json.Marshal(struct {
		wire.Problem
		Deliveries any `json:"deliveries"`
	}{p.Wire(), list})
	return p.Response(body), err
}

// destination returns the lane of the destination that the URL's query names; empty: it names
// none. A link must name one of its own.
func (s *server) destination(ctx context.Context, q *api.Request) (lane dispatcher.Lane, err error) {
	if text := q.One("destination"); text != "" {
		lane, err = s.o.MessageLanes.MessageLane(ctx, q.ID(), text)
		if err := elsewhere(q, err); err != nil {
			return "", unknownDestination(err)
		}
	}
	if q.Linked() && (lane == "" || !q.Owns(q.View.Tenant, lane)) { // the message is its tenant's, see narrow
		return "", dispatcher.ErrNoDelivery
	}
	return lane, nil
}

// deliveriesOf is the type of wire.Deliveries, wire.Retried or wire.BriefDeliveries.
type deliveriesOf struct {
	ID         string `json:"id"`
	Deliveries any    `json:"deliveries"`
}

// briefDelivery returns the response for a key without the scope read. Ids can be guessed,
// because callers choose them, and URLs and responses contain secrets.
func briefDelivery(d *dispatcher.Delivery) wire.BriefDelivery {
	return wire.BriefDelivery{ID: d.ID.String(), Destination: string(d.ID.Lane), Status: string(d.Status)}
}

// leaving maps each reason to leave a delivery to its problem.
var leaving = map[dispatcher.Left]*api.Problem{
	dispatcher.LeftReady:     {Kind: api.Due, Detail: "it is attempted as soon as nothing holds it back: see waiting_for"},
	dispatcher.LeftInFlight:  {Kind: api.InFlight, Detail: "wait for its end, then ask again"},
	dispatcher.LeftOrder:     {Kind: api.Order, Detail: "others of its ordering key go first: retry or cancel the first of them"},
	dispatcher.LeftDelivered: {Kind: api.Delivered, Detail: "to send it again, name its destination, or ask for all=true"},
	dispatcher.LeftExpired:   {Kind: api.Expired, Detail: "its expires_at has passed: publish it anew under another id"},
	dispatcher.LeftDisabled:  {Kind: api.Disabled, Detail: "resume its lane first: POST /v1/endpoints/{id}/resume, or of a URL POST /v1/lanes/{lane}/resume"},
	dispatcher.LeftDeleted:   {Kind: api.Deleted, Detail: "nothing is sent to it any more"},
}

func wireRetried(r *dispatcher.Retried) wire.RetriedDelivery {
	return wire.RetriedDelivery{Delivery: api.Delivery(&r.Delivery), Retried: r.Left == dispatcher.LeftNot, Why: string(r.Left)}
}

// elsewhere returns the same error to a caller without the scope read, whether the message, the
// endpoint or the delivery is missing. Different errors would report which uids exist.
func elsewhere(q *api.Request, err error) error {
	missing := errors.Is(err, dispatcher.ErrNotFound) || errors.Is(err, dispatcher.ErrNoDelivery) || errors.Is(err, dispatcher.ErrNoEndpoint)
	if !q.Reads && missing && q.Query.Has("destination") {
		return &api.Problem{Kind: api.NotFound, Detail: "it was never published, is no longer kept, or does not go to this destination"}
	}
	return err
}

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
