package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// message serves GET /v1/messages/{id}.
func (s *server) message(ctx context.Context, q *request) (*response, error) {
	view, err := s.svc.Message(ctx, q.id())
	if err != nil {
		return nil, err
	}
	w := wireMessage(view)
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
	deliveries, err := s.svc.Cancel(ctx, q.id(), lane)
	if err != nil {
		return nil, q.elsewhere(err)
	}
	if !q.reads {
		return answerJSON(http.StatusOK, briefDeliveries(q.id(), deliveries))
	}
	return answerJSON(http.StatusOK, wire.Deliveries{ID: q.id(), Deliveries: wireDeliveries(deliveries)})
}

// briefDeliveries are what a key without the scope read is told: ids are the
// callers' own, so they can be guessed, and URLs and answers hold secrets.
func briefDeliveries(id string, all []dispatcher.Delivery) wire.BriefDeliveries {
	out := wire.BriefDeliveries{ID: id, Deliveries: make([]wire.BriefDelivery, len(all))}
	for i, d := range all {
		out.Deliveries[i] = wire.BriefDelivery{ID: d.ID.String(), Destination: string(d.ID.Lane), Status: string(d.Status)}
	}
	return out
}

// retry serves POST /v1/messages/{id}/retry.
func (s *server) retry(ctx context.Context, q *request) (*response, error) {
	all, err := q.yes("all")
	if err != nil {
		return nil, err
	}
	lane, err := s.destination(ctx, q)
	if err != nil {
		return nil, err
	}
	list, err := s.svc.Retry(ctx, q.id(), lane, all || lane != "")
	if err != nil {
		return nil, q.elsewhere(err)
	}
	var answer any = wire.Retried{ID: q.id(), Deliveries: wireRetried(list)}
	if !q.reads {
		brief := make([]dispatcher.Delivery, len(list))
		for i := range list {
			brief[i] = list[i].Delivery
		}
		answer = briefDeliveries(q.id(), brief)
	}
	for _, r := range list {
		if r.Left == dispatcher.LeftNot {
			return answerJSON(http.StatusAccepted, answer)
		}
	}
	p := leaving[list[0].Left]
	q.w.refusal = p
	return leftAlone(p, answer)
}

// leaving says what a caller is told where nothing could be attempted.
var leaving = map[dispatcher.Left]*problem{
	dispatcher.LeftReady:     {kind: due, detail: "it is attempted as soon as what it waits for lets it: see waiting_for"},
	dispatcher.LeftInFlight:  {kind: inFlight, detail: "wait for its end, then ask again"},
	dispatcher.LeftOrder:     {kind: order, detail: "others of its ordering key go first: retry or cancel the first of them"},
	dispatcher.LeftDelivered: {kind: delivered, detail: "to send it again, name its destination, or ask for all=true"},
	dispatcher.LeftExpired:   {kind: expired, detail: "its expires_at has passed: publish it anew under another id"},
	dispatcher.LeftDisabled:  {kind: disabled, detail: "resume it first: POST /v1/endpoints/{id}/resume"},
	dispatcher.LeftDeleted:   {kind: deleted, detail: "nothing goes there any more"},
}

// leftAlone answers that nothing is attempted, with the deliveries that the
// answer has else.
func leftAlone(p *problem, answer any) (*response, error) {
	var list any
	switch a := answer.(type) {
	case wire.Retried:
		list = a.Deliveries
	case wire.BriefDeliveries:
		list = a.Deliveries
	}
	body, err := json.Marshal(struct {
		wire.Problem
		Deliveries any `json:"deliveries"`
	}{p.wire(), list})
	if err != nil {
		return nil, err
	}
	return p.response(body), nil
}

func wireRetried(list []dispatcher.Retried) []wire.RetriedDelivery {
	out := make([]wire.RetriedDelivery, len(list))
	for i := range list {
		out[i] = wire.RetriedDelivery{
			Delivery: wireDelivery(&list[i].Delivery),
			Retried:  list[i].Left == dispatcher.LeftNot, Why: string(list[i].Left),
		}
	}
	return out
}

// elsewhere tells a caller who may not read no more than that there is no such
// delivery: which uids there are is not told, so neither is whether one exists
// to which the message does not go.
func (q *request) elsewhere(err error) error {
	missing := errors.Is(err, dispatcher.ErrNotFound) || errors.Is(err, dispatcher.ErrNoDelivery) || errors.Is(err, dispatcher.ErrNoEndpoint)
	if !q.reads && missing && q.query.Has("destination") {
		return &problem{kind: notFound, detail: "it was never published, is no longer kept, or does not go to this destination"}
	}
	return err
}
