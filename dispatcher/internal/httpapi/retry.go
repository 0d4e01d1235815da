package httpapi

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/go-json-experiment/json"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// retry serves POST /v1/messages/{id}/retry.
func (s *server) retry(ctx context.Context, c *request) (*response, error) {
	id, err := c.id()
	if err != nil {
		return nil, err
	}
	q, err := c.query("destination", "all")
	if err != nil {
		return nil, err
	}
	all, err := yes(q, "all")
	if err != nil {
		return nil, err
	}
	lane, err := s.destination(ctx, c, q, id)
	if err != nil {
		return nil, err
	}
	list, err := s.svc.Retry(ctx, id, lane, all || lane != "")
	if err != nil {
		return nil, c.elsewhere(q, err)
	}
	var answer any = wire.Retried{ID: id, Deliveries: wireRetried(list)}
	if !c.reads {
		brief := make([]dispatcher.Delivery, len(list))
		for i := range list {
			brief[i] = list[i].Delivery
		}
		answer = briefDeliveries(id, brief)
	}
	for _, r := range list {
		if r.Left == dispatcher.LeftNot {
			return answerJSON(http.StatusAccepted, answer)
		}
	}
	p := leaving[list[0].Left]
	refusedWith(c.w, p)
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
	return &response{status: p.kind.status, contentType: mediaProblem, body: body}, nil
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

// yes reads a parameter that is true or false, which it is where it is left out.
func yes(q url.Values, name string) (bool, error) {
	switch text, err := only(q, name); {
	case err != nil:
		return false, err
	case text == "true":
		return true, nil
	case text == "" || text == "false":
		return false, nil
	default:
		return false, wrongField("query."+name, "must be true or false")
	}
}

// elsewhere tells a caller who may not read no more than that there is no such
// delivery: which uids there are is not told, so neither is whether one exists
// to which the message does not go.
func (c *request) elsewhere(q url.Values, err error) error {
	missing := errors.Is(err, dispatcher.ErrNotFound) || errors.Is(err, dispatcher.ErrNoDelivery) || errors.Is(err, dispatcher.ErrNoEndpoint)
	if !c.reads && missing && q.Has("destination") {
		return &problem{kind: notFound, detail: "it was never published, is no longer kept, or does not go to this destination"}
	}
	return err
}
