package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// Messages are read and changed. While there is an archive, it is asked too.
type Messages interface {
	// Message reads a message with its deliveries, or dispatcher.ErrNotFound.
	Message(ctx context.Context, id string) (dispatcher.MessageView, error)
	// Cancel ends the unfinished deliveries of a message, or the one in lane if that
	// is set, and returns their new state.
	Cancel(ctx context.Context, id string, lane dispatcher.Lane) ([]dispatcher.Delivery, error)
	// Retry attempts these deliveries now, and returns for each why it does not.
	// With delivered it attempts delivered ones too.
	Retry(ctx context.Context, id string, lane dispatcher.Lane, delivered bool) ([]dispatcher.Retried, error)
}

// message serves GET /v1/messages/{id}.
func (s *server) message(ctx context.Context, q *request) (*response, error) {
	view, err := s.o.Messages.Message(ctx, q.id())
	if err != nil {
		return nil, err
	}
	w := wireMessage(view)
	switch gone := view.Message.Apart; {
	case gone != nil && view.Message.Body == nil: // it is not kept
		w.BodyBytes = gone.Size
	case q.bodies:
		setWireBody(&w.Message, &view.Message)
	default:
		sum := sha256.Sum256(view.Message.Body)
		w.BodyBytes, w.BodySHA256 = len(view.Message.Body), hex.EncodeToString(sum[:])
	}
	for i := range w.Deliveries {
		if !q.bodies {
			hideAnswers(&w.Deliveries[i], &view.Deliveries[i])
		}
	}
	body, err := w.Append(nil)
	if err != nil {
		return nil, fmt.Errorf("read message %s: %w", q.id(), err)
	}
	return &response{status: http.StatusOK, contentType: mediaJSON, body: body}, nil
}

// cancel serves DELETE /v1/messages/{id}.
func (s *server) cancel(ctx context.Context, q *request) (*response, error) {
	lane, err := s.destination(ctx, q)
	if err != nil {
		return nil, err
	}
	deliveries, err := s.o.Messages.Cancel(ctx, q.id(), lane)
	if err != nil {
		return nil, q.elsewhere(err)
	}
	if !q.reads {
		return answerJSON(http.StatusOK, deliveriesOf{q.id(), convert(deliveries, briefDelivery)})
	}
	list := convert(deliveries, wireDelivery)
	if !q.bodies {
		for i := range list {
			hideAnswers(&list[i], &deliveries[i])
		}
	}
	return answerJSON(http.StatusOK, deliveriesOf{q.id(), list})
}

// hideAnswers replaces what a receiver answered by its size, for a key without the
// scope bodies.
func hideAnswers(w *wire.Delivery, d *dispatcher.Delivery) {
	for k := range w.History {
		w.History[k].ResponseExcerpt, w.History[k].ResponseBytes = "", len(d.History[k].Excerpt)
	}
}

// deliveriesOf is wire.Deliveries, wire.Retried or wire.BriefDeliveries.
type deliveriesOf struct {
	ID         string `json:"id"`
	Deliveries any    `json:"deliveries"`
}

// briefDelivery is the answer to a key without the scope read. Ids can be guessed,
// since callers choose them, and URLs and answers hold secrets.
func briefDelivery(d *dispatcher.Delivery) wire.BriefDelivery {
	return wire.BriefDelivery{ID: d.ID.String(), Destination: string(d.ID.Lane), Status: string(d.Status)}
}

// retry serves POST /v1/messages/{id}/retry.
func (s *server) retry(ctx context.Context, q *request) (*response, error) {
	lane, err := s.destination(ctx, q)
	if err != nil {
		return nil, err
	}
	all, err := s.o.Messages.Retry(ctx, q.id(), lane, q.flag("all") || lane != "")
	if err != nil {
		return nil, q.elsewhere(err)
	}
	full := convert(all, wireRetried)
	if !q.bodies {
		for i := range full {
			hideAnswers(&full[i].Delivery, &all[i].Delivery)
		}
	}
	var list any = full
	if !q.reads {
		list = convert(all, func(r *dispatcher.Retried) wire.BriefDelivery {
			w := briefDelivery(&r.Delivery)
			w.Retried, w.Why = new(r.Left == dispatcher.LeftNot), string(r.Left)
			return w
		})
	}
	if slices.ContainsFunc(all, func(r dispatcher.Retried) bool { return r.Left == dispatcher.LeftNot }) {
		return answerJSON(http.StatusAccepted, deliveriesOf{q.id(), list})
	}
	p := leaving[all[0].Left]
	q.w.refusal = p
	body, err := json.Marshal(struct {
		wire.Problem
		Deliveries any `json:"deliveries"`
	}{p.wire(), list})
	return p.response(body), err
}

// leaving has the problem for each reason why nothing is attempted.
var leaving = map[dispatcher.Left]*problem{
	dispatcher.LeftReady:     {kind: due, detail: "it is attempted as soon as nothing holds it back: see waiting_for"},
	dispatcher.LeftInFlight:  {kind: inFlight, detail: "wait for its end, then ask again"},
	dispatcher.LeftOrder:     {kind: order, detail: "others of its ordering key go first: retry or cancel the first of them"},
	dispatcher.LeftDelivered: {kind: delivered, detail: "to send it again, name its destination, or ask for all=true"},
	dispatcher.LeftExpired:   {kind: expired, detail: "its expires_at has passed: publish it anew under another id"},
	dispatcher.LeftDisabled:  {kind: disabled, detail: "resume its lane first: POST /v1/endpoints/{id}/resume, or of a URL POST /v1/lanes/{lane}/resume"},
	dispatcher.LeftDeleted:   {kind: deleted, detail: "nothing is sent to it any more"},
}

func wireRetried(r *dispatcher.Retried) wire.RetriedDelivery {
	return wire.RetriedDelivery{Delivery: wireDelivery(&r.Delivery), Retried: r.Left == dispatcher.LeftNot, Why: string(r.Left)}
}

// elsewhere is one error for a caller without the scope read, whatever is missing:
// the message, the endpoint, or the delivery of one to the other. Else the caller
// could find out which uids exist.
func (q *request) elsewhere(err error) error {
	missing := errors.Is(err, dispatcher.ErrNotFound) || errors.Is(err, dispatcher.ErrNoDelivery) || errors.Is(err, dispatcher.ErrNoEndpoint)
	if !q.reads && missing && q.query.Has("destination") {
		return &problem{kind: notFound, detail: "it was never published, is no longer kept, or does not go to this destination"}
	}
	return err
}
