package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/api"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// settlement is a result in a call of settle.
type settlement struct {
	id, lease, outcome, err string
	after                   *time.Duration
}

var settlementFields = api.Fieldset[settlement]{
	{Name: "id", Set: func(r *settlement, v jsontext.Value) error { return api.Filled(&r.id, v) }},
	{Name: "lease", Set: func(r *settlement, v jsontext.Value) error { return api.Filled(&r.lease, v) }},
	{Name: "outcome", Set: func(r *settlement, v jsontext.Value) error { return api.Filled(&r.outcome, v) }},
	{Name: "after", Set: func(r *settlement, v jsontext.Value) error { return api.OptionalDuration(&r.after, v) }},
	{Name: "error", Set: func(r *settlement, v jsontext.Value) error { return api.Text(&r.err, v) }},
}

// decodeSettle reads the body of a call of settle.
func decodeSettle(d *api.Decoder) api.Decoded[[]dispatcher.TakerOutcome] {
	list := []dispatcher.TakerOutcome{}
	out := api.Decoded[[]dispatcher.TakerOutcome]{Value: &list}
	object, wrong := api.Fieldset[dispatcher.TakerOutcome]{{Name: "results"}}.Read(d, api.Single, func(_ int, v jsontext.Value) error {
		if v.Kind() != '[' {
			return errors.New("must be a list of results")
		}
		in := api.DecoderOf(v)
		in.Token()
		for in.Err == nil && in.Peek() != ']' {
			if len(list) == dispatcher.SettleMost {
				return fmt.Errorf("has more than %d results", dispatcher.SettleMost)
			}
			var r settlement
			p := settlementFields.Fill(in, api.Single, &r)
			o, more := r.outcomeOf(&p)
			at := "$.results[" + strconv.Itoa(len(list)) + "]"
			for _, w := range api.JoinErrors(p.Wrong, more) {
				out.Fault(at+strings.TrimPrefix(w.Path, "$"), w.Detail)
			}
			list = append(list, o)
		}
		return in.Err
	})
	out.Wrong = append(out.Wrong, wrong...)
	if object && len(out.Wrong) == 0 && len(list) == 0 {
		out.Fault("$.results", "at least one result is needed")
	}
	return out
}

// outcomeOf checks a result.
func (r *settlement) outcomeOf(p *api.Decoded[settlement]) (o dispatcher.TakerOutcome, wrong []dispatcher.FieldError) {
	fault := func(path, detail string) { wrong = append(wrong, dispatcher.FieldError{Path: path, Detail: detail}) }
	if p.Value == nil {
		return o, nil // it is no object
	}
	var valid bool
	if o.ID, valid = dispatcher.ParseDeliveryID(r.id); !valid {
		fault("$.id", "must be the id of a delivery, as take answered it")
	}
	o.Lease, o.Handled.Error = r.lease, r.err
	switch r.outcome {
	case "delivered":
		o.Handled.Verdict = dispatcher.Delivered
	case "dead":
		o.Handled.Verdict = dispatcher.Dead
	case "retry":
		o.Handled.Verdict, o.Handled.After = dispatcher.Retry, r.after
		if r.after != nil && (*r.after < 0 || *r.after > settleAfter) {
			fault("$.after", "must be 0s to 24h")
		}
		return o, wrong
	case "extend":
		if r.after == nil || *r.after < dispatcher.ShortLease || *r.after > dispatcher.LongLease {
			fault("$.after", "is needed to extend: 1s to 1h")
		} else {
			o.Extend = *r.after
		}
		return o, wrong
	default:
		fault("$.outcome", "must be delivered, retry, dead or extend")
		return o, wrong
	}
	if r.after != nil {
		fault("$.after", "goes with retry and extend only")
	}
	return o, wrong
}

// settle serves POST /v1/queues/{name}/settle.
func (s *takerServer) settle(ctx context.Context, q *api.Request) (*api.Response, error) {
	asked, err := api.Decode(q, decodeSettle)
	if err != nil {
		return nil, err
	}
	if err := api.WrongFields(asked.Wrong); err != nil {
		return nil, err
	}
	lane, err := s.takenLane(ctx, q.ID())
	if errors.Is(err, dispatcher.ErrNoEndpoint) && dispatcher.ValidLane(q.ID()) {
		lane, err = dispatcher.Lane(q.ID()), nil // it was deleted, but its deliveries that were taken may be settled still
	}
	if err != nil {
		return nil, err
	}
	began := time.Now()
	results, err := s.Takers.SettleTaken(ctx, lane, q.Owner, *asked.Value)
	if s.Tracer != nil {
		s.traceSettle(ctx, q, lane, *asked.Value, traced{began, err})
	}
	if err != nil {
		return nil, err
	}
	return api.JSON(http.StatusOK, wire.Settled{Results: api.Convert(results, wireSettled)})
}

func wireSettled(t *dispatcher.TakerSettled) wire.SettledDelivery {
	return wire.SettledDelivery{ID: t.ID.String(), Result: string(t.Result), Status: string(t.Status), LeaseUntil: wire.Time{Time: t.Until}}
}
