package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/callers"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/api"
	"github.com/hookladder/hookladder/dispatcher/trace"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// Takers take deliveries of queues, and of endpoints of kind pull.
type Takers interface {
	// Take leases deliveries to a caller, and waits for some if there are none. If
	// ctx ends, nothing is taken.
	Take(ctx context.Context, a dispatcher.TakerAsk) ([]dispatcher.Given, error)
	// GiveBack returns deliveries that a caller did not get after all.
	GiveBack(given []dispatcher.Given)
	// SettleTaken records the results of deliveries that were taken from a lane.
	SettleTaken(ctx context.Context, lane dispatcher.Lane, owner string, list []dispatcher.TakerOutcome) ([]dispatcher.TakerSettled, error)
}

// Bounds of requests, and the defaults of a take.
const (
	takeBytes   = 1 << 10
	settleBytes = 2 << 20 // a thousand results with errors of 2 KiB

	takeMost    = 100
	takeDefault = 10
	takeWait    = 30 * time.Second
	takeLease   = 30 * time.Second
	settleAfter = 24 * time.Hour
)

// takenSubject is a queue in a path.
var takenSubject = &api.Subject{Name: "name", Doc: "The name of a queue, or the id of an endpoint of kind pull.", Schema: api.TakenSchema(), Example: "order_cancel", Check: checkQueue}

// checkQueue checks the name in a path. A queue is there by being named.
func checkQueue(name string) error {
	if dispatcher.Lane(name).IsEndpoint() {
		return api.Known(dispatcher.ValidName, dispatcher.ErrNoEndpoint)(name)
	}
	if !dispatcher.ValidQueue(name) {
		return api.WrongField("path.name", "must be 1 to 64 of A-Z a-z 0-9 _ . - and not begin with u_ or q_; or the id of an endpoint of kind pull")
	}
	return nil
}

// takerOperations are the calls of takers.
func (s *server) takerOperations() []api.Operation {
	return []api.Operation{
		{
			ID: "take", Method: "POST", Path: "/v1/queues/{name}/take", Scope: callers.Consume,
			Summary: "Take deliveries of a queue, or of an endpoint of kind pull, and wait for some", Do: s.take,
			Subject: takenSubject, Body: exampleTake, Draw: takeSchema, Limit: takeBytes, Optional: true, Answers: api.OK(exampleTaken), Problems: []*api.Kind{api.Waiting},
		},
		{
			ID: "settle", Method: "POST", Path: "/v1/queues/{name}/settle", Scope: callers.Consume,
			Summary: "Say what became of deliveries that were taken, or extend their leases", Do: s.settle,
			Subject: takenSubject, Body: exampleSettle, Draw: settleSchema, Limit: settleBytes, Answers: api.OK(exampleSettled), Problems: []*api.Kind{api.Crowded},
		},
	}
}

var takeFields = api.Fieldset[dispatcher.TakerAsk]{
	{Name: "max", Set: func(a *dispatcher.TakerAsk, v jsontext.Value) error {
		var ok bool
		if a.Most, ok = api.Whole(v); !ok || a.Most < 1 || a.Most > takeMost {
			return fmt.Errorf("must be a whole number of 1 to %d", takeMost)
		}
		return nil
	}},
	{Name: "lease", Set: func(a *dispatcher.TakerAsk, v jsontext.Value) error { return leaseTime(&a.For, v) }},
	{Name: "wait", Set: func(a *dispatcher.TakerAsk, v jsontext.Value) error {
		if err := api.Duration(&a.Wait, v); err != nil {
			return err
		}
		if a.Wait < 0 || a.Wait > takeWait {
			return errors.New("must be 0s to 30s")
		}
		return nil
	}},
}

// leaseTime reads how long a lease lasts.
func leaseTime(to *time.Duration, v jsontext.Value) error {
	if err := api.Duration(to, v); err != nil {
		return err
	}
	if *to < dispatcher.ShortLease || *to > dispatcher.LongLease {
		return errors.New("must be 1s to 1h")
	}
	return nil
}

// take serves POST /v1/queues/{name}/take.
func (s *server) take(ctx context.Context, q *api.Request) (*api.Response, error) {
	began := time.Now()
	p := api.Decoded[dispatcher.TakerAsk]{Value: &dispatcher.TakerAsk{}}
	if q.HTTP.ContentLength != 0 { // else all is left to the defaults
		var err error
		if p, err = api.Decode(q, func(d *api.Decoder) api.Decoded[dispatcher.TakerAsk] {
			return takeFields.Fill(d, api.Single, &dispatcher.TakerAsk{})
		}); err != nil {
			return nil, err
		}
	}
	if err := api.WrongFields(p.Wrong); err != nil {
		return nil, err
	}
	a := *p.Value
	a.Owner, a.Most, a.For = q.Owner, cmp.Or(a.Most, takeDefault), cmp.Or(a.For, takeLease)
	var err error
	if a.Lane, err = s.takenLane(ctx, q.ID()); err != nil {
		return nil, err
	}
	if err := s.refuseUID(ctx, q.ID(), a.Lane); err != nil {
		return nil, err
	}
	if a.Wait > 0 {
		waits, leave, ok := q.Wait(ctx)
		if !ok {
			return nil, &api.Problem{Kind: api.Waiting, Detail: "half of MAX_CONNECTIONS do; take with one call at a time, or raise the setting"}
		}
		defer leave()
		ctx = waits
		// The server's deadlines would end the wait, or pass for a caller that is gone. A writer
		// that has none needs none.
		conn := http.NewResponseController(q.Writer)
		_ = conn.SetReadDeadline(time.Time{})
		_ = conn.SetWriteDeadline(time.Now().Add(a.Wait + callers.AnswerWithin))
	}
	given, err := s.o.Takers.Take(ctx, a)
	if err != nil && callers.CrowdedOut(ctx) { // as if its time were over
		given, err = nil, nil
	}
	if err != nil {
		return nil, err
	}
	if len(given) > 0 && !q.StillAllowed() { // it was taken away while it waited
		s.o.Takers.GiveBack(given)
		return nil, &api.Problem{Kind: api.Unauthorized, Detail: api.ErrKeyGone.Error()}
	}
	err = s.give(ctx, q, given)
	if s.o.Tracer != nil && len(given) > 0 {
		s.traceTake(ctx, q, a.Lane, given, began)
	}
	return nil, err
}

// takenLane is the lane of a queue, or of an endpoint of kind pull.
func (s *server) takenLane(ctx context.Context, name string) (dispatcher.Lane, error) {
	if !dispatcher.Lane(name).IsEndpoint() {
		return dispatcher.QueueLane(name), nil
	}
	view, err := s.o.Endpoints.Endpoint(ctx, name)
	switch {
	case err != nil:
		return "", err
	case !view.Pull:
		return "", api.WrongField("path.name", "is an endpoint that is called: only from one of kind pull anything is taken")
	}
	return view.Lane(), nil
}

// refuseUID refuses the name of an unknown queue that is the uid of a pull endpoint:
// its caller would wait for ever. Each take asks that until the queue is known.
func (s *server) refuseUID(ctx context.Context, name string, lane dispatcher.Lane) error {
	if !lane.IsQueue() || s.queues.has(name) {
		return nil
	}
	view, err := s.o.Endpoints.Endpoint(ctx, name)
	pull := err == nil && view.Pull && view.UID == name
	if err != nil && !errors.Is(err, dispatcher.ErrNoEndpoint) {
		return nil // take returns the store's error itself
	}
	if pull {
		states, err := s.o.Lanes.LaneStates(ctx, []dispatcher.Lane{lane})
		if err != nil {
			return err
		}
		if len(states) == 0 {
			return api.WrongField("path.name", "is no queue, but the uid of an endpoint: take from its id, "+view.ID)
		}
	}
	s.queues.add(name)
	return nil
}

// mostQueues limits a queueSet. Queues above the limit are looked up each time.
const mostQueues = 1000

// A queueSet is the names of queues from which something may be taken.
type queueSet struct {
	mu    sync.Mutex // guards names
	names map[string]bool
}

func (q *queueSet) has(name string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.names[name]
}

func (q *queueSet) add(name string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.names == nil || len(q.names) >= mostQueues {
		q.names = map[string]bool{}
	}
	q.names[name] = true
}

// give writes the response. It gives back the deliveries that it could not write, because
// their caller is gone.
func (s *server) give(ctx context.Context, q *api.Request, given []dispatcher.Given) (err error) {
	b := []byte(`{"data":[`)
	for i := range given {
		if i > 0 {
			b = append(b, ',')
		}
		w := wireTaken(&given[i])
		if b, err = w.Append(b); err != nil {
			s.o.Takers.GiveBack(given)
			return err
		}
	}
	b = append(b, "]}"...)
	if len(given) > 0 && ctx.Err() != nil {
		s.o.Takers.GiveBack(given)
		return ctx.Err()
	}
	h := q.Writer.Header()
	h["Content-Type"] = api.TypeJSON
	h.Set("Content-Length", strconv.Itoa(len(b)))
	q.Writer.WriteHeader(http.StatusOK)
	_, err = q.Writer.Write(b)
	if flushed := http.NewResponseController(q.Writer).Flush(); err == nil && !errors.Is(flushed, http.ErrNotSupported) {
		err = flushed
	}
	if err != nil {
		s.o.Takers.GiveBack(given)
	}
	return nil // the answer was begun
}

func wireTaken(g *dispatcher.Given) wire.TakenDelivery {
	m := g.Message
	w := wire.TakenDelivery{
		ID: g.ID.String(), Lease: g.Lease, LeaseUntil: wire.Time{Time: g.Until}, Attempt: g.Attempt,
		Message: wire.TakenMessage{
			ID: m.ID, Topic: m.Topic, Tenant: m.Tenant, Subject: m.Subject, ContentType: m.ContentType,
			CreatedAt: wire.Time{Time: m.CreatedAt}, ExpiresAt: wire.Time{Time: m.ExpiresAt},
		},
		Headers: make(map[string]string, len(g.Header)),
	}
	for name, values := range g.Header {
		w.Headers[strings.ToLower(name)] = strings.ToValidUTF8(strings.Join(values, ", "), "\ufffd")
	}
	if verbatim(m) {
		w.Body = m.Body
	} else {
		w.RawBodyBase64 = m.Body
	}
	return w
}

// verbatim reports whether a response may contain a body byte for byte: it must be valid JSON
// without space around it.
func verbatim(m *dispatcher.Message) bool {
	return api.IsJSON(m.ContentType) && utf8.Valid(m.Body) && jsontext.Value(m.Body).IsValid() && len(bytes.TrimSpace(m.Body)) == len(m.Body)
}

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
func (s *server) settle(ctx context.Context, q *api.Request) (*api.Response, error) {
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
	results, err := s.o.Takers.SettleTaken(ctx, lane, q.Owner, *asked.Value)
	if s.o.Tracer != nil {
		s.traceSettle(ctx, q, lane, *asked.Value, began, err)
	}
	if err != nil {
		return nil, err
	}
	return api.JSON(http.StatusOK, wire.Settled{Results: api.Convert(results, wireSettled)})
}

func wireSettled(t *dispatcher.TakerSettled) wire.SettledDelivery {
	return wire.SettledDelivery{ID: t.ID.String(), Result: string(t.Result), Status: string(t.Status), LeaseUntil: wire.Time{Time: t.Until}}
}

// traceTake records a take that found something. It is linked to the spans that published the
// deliveries. An empty take is not recorded: a consumer makes one every few seconds.
func (s *server) traceTake(ctx context.Context, q *api.Request, lane dispatcher.Lane, given []dispatcher.Given, began time.Time) {
	start := q.Span("take", trace.Receive, slog.String(trace.Destination, string(lane)))
	start.At = began
	for i := range given {
		if m := given[i].Message; m.Trace != nil {
			start.Links = append(start.Links, *m.Trace)
		}
	}
	start.Attrs = append(start.Attrs, slog.Int(trace.Messages, len(given)), slog.Int(trace.Status, http.StatusOK))
	if len(given) == 1 {
		start.Attrs = append(start.Attrs, slog.String(trace.MessageID, given[0].ID.Message), slog.String(trace.DeliveryID, given[0].ID.String()))
	}
	_, span := s.o.Tracer.Begin(ctx, start)
	span.End("", time.Time{})
}

// traceSettle records a settle. It has no links, because it has no messages: reading them would
// cost more than the settle.
func (s *server) traceSettle(ctx context.Context, q *api.Request, lane dispatcher.Lane, list []dispatcher.TakerOutcome, began time.Time, err error) {
	start := q.Span("settle", trace.Settle, slog.String(trace.Destination, string(lane)))
	start.At = began
	start.Attrs = append(start.Attrs, slog.Int(trace.Messages, len(list)))
	if len(list) == 1 {
		start.Attrs = append(start.Attrs, slog.String(trace.MessageID, list[0].ID.Message), slog.String(trace.DeliveryID, list[0].ID.String()))
		if list[0].Extend == 0 {
			start.Attrs = append(start.Attrs, slog.String(trace.Outcome, list[0].Handled.Verdict.String()))
		}
	}
	status, failed := api.SpanStatus(nil, err)
	start.Attrs = append(start.Attrs, slog.Int(trace.Status, status))
	_, span := s.o.Tracer.Begin(ctx, start)
	span.End(failed, time.Time{})
}

// takeSchema returns the schema of a take.
func takeSchema(r huma.Registry) *huma.Schema {
	p := api.Input(r, wire.Take{}).Properties
	api.Between(p["lease"], dispatcher.ShortLease, dispatcher.LongLease)
	api.Between(p["wait"], 0, takeWait)
	return api.RefTo[wire.Take](r)
}

// settleSchema returns the schema of a settle.
func settleSchema(r huma.Registry) *huma.Schema {
	one := api.Input(r, wire.Settlement{})
	one.Properties["error"].MinLength = nil
	one.Properties["id"].Pattern = `^[^:]+:[\s\S]+$`
	after := func(least, most time.Duration) *huma.Schema {
		return &huma.Schema{Type: huma.TypeNumber, Minimum: api.Ref(least.Seconds()), Maximum: api.Ref(most.Seconds())}
	}
	bad := func(least, most time.Duration) *huma.Schema {
		return api.Holding("after", api.Both(&huma.Schema{Type: huma.TypeNumber}, api.Unlike(after(least, most))))
	}
	api.Between(one.Properties["after"], 0, settleAfter)
	extend := api.Holding("outcome", api.OneOf("extend"))
	api.Never(one,
		api.Both(extend, api.Unlike(api.Given("after"))),
		api.Both(extend, bad(dispatcher.ShortLease, dispatcher.LongLease)),
		api.Both(api.Holding("outcome", api.OneOf("delivered", "dead")), api.Given("after")),
	)
	one.Description = "after goes with retry and extend only. extend needs it."
	api.Input(r, wire.Settle{}).Properties["results"].Nullable = false
	return api.RefTo[wire.Settle](r)
}
