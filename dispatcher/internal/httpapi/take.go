package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/callers"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/apikey"
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
	SettleTaken(ctx context.Context, lane dispatcher.Lane, owner string, list []dispatcher.TakerOutcome) ([]dispatcher.Told, error)
}

// Bounds of requests, and what a take asks for that does not say.
const (
	takeBytes   = 1 << 10
	settleBytes = 2 << 20 // a thousand results with errors of 2 KiB

	takeMost    = 100
	takeDefault = 10
	takeWait    = 30 * time.Second
	takeLease   = 30 * time.Second
	settleAfter = 24 * time.Hour
)

var aQueue = &subject{"name", "The name of a queue, or the id of an endpoint of kind pull.", checkQueue}

// checkQueue checks the name in a path. A queue is there by being named.
func checkQueue(name string) error {
	if dispatcher.Lane(name).IsEndpoint() {
		return known(dispatcher.ValidName, dispatcher.ErrNoEndpoint)(name)
	}
	if !dispatcher.ValidQueue(name) {
		return wrongField("path.name", "must be 1 to 64 of A-Z a-z 0-9 _ . - and not begin with u_ or q_; or the id of an endpoint of kind pull")
	}
	return nil
}

func (s *server) queueOperations() []operation {
	return []operation{
		{
			id: "take", method: "POST", path: "/v1/queues/{name}/take", scope: apikey.Consume,
			summary: "Take deliveries of a queue, or of an endpoint of kind pull, and wait for some", do: s.take,
			subject: aQueue, body: wire.Take{}, limit: takeBytes, optional: true, answers: ok(wire.Taken{}), problems: []*problemKind{waiting},
		},
		{
			id: "settle", method: "POST", path: "/v1/queues/{name}/settle", scope: apikey.Consume,
			summary: "Say what became of deliveries that were taken, or extend their leases", do: s.settle,
			subject: aQueue, body: wire.Settle{}, limit: settleBytes, answers: ok(wire.Settled{}), problems: []*problemKind{crowded},
		},
	}
}

var takeFields = fieldset[dispatcher.TakerAsk]{
	{name: "max", set: func(a *dispatcher.TakerAsk, v jsontext.Value) (err error) {
		if a.Most, err = strconv.Atoi(string(v)); err != nil || a.Most < 1 || a.Most > takeMost {
			return fmt.Errorf("must be a whole number of 1 to %d", takeMost)
		}
		return nil
	}},
	{name: "lease", set: func(a *dispatcher.TakerAsk, v jsontext.Value) error { return leaseTime(&a.For, v) }},
	{name: "wait", set: func(a *dispatcher.TakerAsk, v jsontext.Value) error {
		if err := duration(&a.Wait, v); err != nil {
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
	if err := duration(to, v); err != nil {
		return err
	}
	if *to < dispatcher.ShortLease || *to > dispatcher.LongLease {
		return errors.New("must be 1s to 1h")
	}
	return nil
}

// take serves POST /v1/queues/{name}/take.
func (s *server) take(ctx context.Context, q *request) (*response, error) {
	p := decoded[dispatcher.TakerAsk]{value: &dispatcher.TakerAsk{}}
	if q.r.ContentLength != 0 { // else all is left to the defaults
		var err error
		if p, err = decode(q, func(d *decoder) decoded[dispatcher.TakerAsk] {
			return takeFields.fill(d, single, &dispatcher.TakerAsk{})
		}); err != nil {
			return nil, err
		}
	}
	if err := wrongFields(p.wrong); err != nil {
		return nil, err
	}
	a := *p.value
	a.Owner, a.Most, a.For = q.owner, cmp.Or(a.Most, takeDefault), cmp.Or(a.For, takeLease)
	var err error
	if a.Lane, err = s.takenLane(ctx, q.id()); err != nil {
		return nil, err
	}
	if err := s.refuseUID(ctx, q.id(), a.Lane); err != nil {
		return nil, err
	}
	if a.Wait > 0 {
		waits, leave, ok := s.waiting.Enter(ctx, q.w.caller)
		if !ok {
			return nil, &problem{kind: waiting, detail: "half of MAX_CONNECTIONS do; take with one call at a time, or raise the setting"}
		}
		defer leave()
		ctx = waits
		// The server's deadlines would end the wait, or pass for a caller that is gone. A writer
		// that has none needs none.
		conn := http.NewResponseController(q.w)
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
	if len(given) > 0 && !s.stillAllowed(q) { // it was taken away while it waited
		s.o.Takers.GiveBack(given)
		return nil, &problem{kind: unauthorized, detail: errKeyGone.Error()}
	}
	return nil, s.give(ctx, q, given)
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
		return "", wrongField("path.name", "is an endpoint that is called: only from one of kind pull anything is taken")
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
		return nil // take says itself what is wrong with the store
	}
	if pull {
		states, err := s.o.Lanes.LaneStates(ctx, []dispatcher.Lane{lane})
		if err != nil {
			return err
		}
		if len(states) == 0 {
			return wrongField("path.name", "is no queue, but the uid of an endpoint: take from its id, "+view.ID)
		}
	}
	s.queues.add(name)
	return nil
}

// mostQueues bounds a queueSet. More queues than that are looked up again and again.
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

// give writes the answer. What could not be written is given back, since its caller is
// gone.
func (s *server) give(ctx context.Context, q *request, given []dispatcher.Given) (err error) {
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
	h := q.w.Header()
	h["Content-Type"] = typeJSON
	h.Set("Content-Length", strconv.Itoa(len(b)))
	q.w.WriteHeader(http.StatusOK)
	_, err = q.w.Write(b)
	if flushed := http.NewResponseController(q.w).Flush(); err == nil && !errors.Is(flushed, http.ErrNotSupported) {
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

// verbatim reports whether a body may stand in an answer as it is, so that its bytes can be
// told from those around it.
func verbatim(m *dispatcher.Message) bool {
	return isJSON(m.ContentType) && utf8.Valid(m.Body) && jsontext.Value(m.Body).IsValid() && len(bytes.TrimSpace(m.Body)) == len(m.Body)
}

// settlement is a result in a call of settle.
type settlement struct {
	id, lease, outcome, err string
	after                   *time.Duration
}

var settlementFields = fieldset[settlement]{
	{name: "id", set: func(r *settlement, v jsontext.Value) error { return filled(&r.id, v) }},
	{name: "lease", set: func(r *settlement, v jsontext.Value) error { return filled(&r.lease, v) }},
	{name: "outcome", set: func(r *settlement, v jsontext.Value) error { return filled(&r.outcome, v) }},
	{name: "after", set: func(r *settlement, v jsontext.Value) error { return optionalDuration(&r.after, v) }},
	{name: "error", set: func(r *settlement, v jsontext.Value) error { return text(&r.err, v) }},
}

// decodeSettle reads the body of a call of settle.
func decodeSettle(d *decoder) decoded[[]dispatcher.TakerOutcome] {
	list := []dispatcher.TakerOutcome{}
	out := decoded[[]dispatcher.TakerOutcome]{value: &list}
	object, wrong := fieldset[dispatcher.TakerOutcome]{{name: "results"}}.read(d, single, func(_ int, v jsontext.Value) error {
		if v.Kind() != '[' {
			return errors.New("must be a list of results")
		}
		in := &decoder{dec: jsontext.NewDecoder(bytes.NewReader(v))}
		in.token()
		for in.err == nil && in.dec.PeekKind() != ']' {
			if len(list) == dispatcher.SettleMost {
				return fmt.Errorf("has more than %d results", dispatcher.SettleMost)
			}
			var r settlement
			p := settlementFields.fill(in, single, &r)
			o, more := r.outcomeOf(&p)
			at := "$.results[" + strconv.Itoa(len(list)) + "]"
			for _, w := range join(p.wrong, more) {
				out.fault(at+strings.TrimPrefix(w.Path, "$"), w.Detail)
			}
			list = append(list, o)
		}
		return in.err
	})
	out.wrong = append(out.wrong, wrong...)
	if object && len(out.wrong) == 0 && len(list) == 0 {
		out.fault("$.results", "at least one result is needed")
	}
	return out
}

// outcomeOf checks a result.
func (r *settlement) outcomeOf(p *decoded[settlement]) (o dispatcher.TakerOutcome, wrong []dispatcher.FieldError) {
	fault := func(path, detail string) { wrong = append(wrong, dispatcher.FieldError{Path: path, Detail: detail}) }
	if p.value == nil {
		return o, nil // it is no object
	}
	var valid bool
	if o.ID, valid = dispatcher.ParseDeliveryID(r.id); !valid {
		fault("$.id", "is needed: the id of a delivery, as take answered it")
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
func (s *server) settle(ctx context.Context, q *request) (*response, error) {
	asked, err := decode(q, decodeSettle)
	if err != nil {
		return nil, err
	}
	if err := wrongFields(asked.wrong); err != nil {
		return nil, err
	}
	lane, err := s.takenLane(ctx, q.id())
	if errors.Is(err, dispatcher.ErrNoEndpoint) && dispatcher.ValidLane(q.id()) {
		lane, err = dispatcher.Lane(q.id()), nil // it was deleted, and what was taken of it may be settled still
	}
	if err != nil {
		return nil, err
	}
	told, err := s.o.Takers.SettleTaken(ctx, lane, q.owner, *asked.value)
	if err != nil {
		return nil, err
	}
	return answerJSON(http.StatusOK, wire.Settled{Results: convert(told, wireSettled)})
}

func wireSettled(t *dispatcher.Told) wire.SettledDelivery {
	return wire.SettledDelivery{ID: t.ID.String(), Result: string(t.Result), Status: string(t.Status), LeaseUntil: wire.Time{Time: t.Until}}
}
