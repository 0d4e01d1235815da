package chaos_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/signer"
)

// Where messages go: eight destinations that mostly answer well, one that never
// does, one that never answers, and three endpoints that share the hosts of the
// first.
const (
	good    = 8
	failing = "/d8"
	hanging = "/d9"
)

var endpoints = map[string]wire.Endpoint{
	"/e0": {UID: "plain"},
	"/e1": {UID: "in-turn", Ordered: true},
	"/e2": {UID: "few", MaxInFlight: 4, Rate: "200/s"},
}

const (
	tenant = "acme"
	// callWithin is how long a caller waits for an answer. The API gives up
	// later, so that some calls end without one.
	callWithin = 2500 * time.Millisecond
	// givesUp is when a caller asks no more, and never learns what became of its
	// message. It is longer than the store is ever away; some give up sooner.
	givesUp = 25 * time.Second
)

// load is callers who publish.
type load struct {
	h        *history
	fleet    *fleet
	receiver *receiver
	seed     uint64
	owners   *owners
	outbox   *box // nil: there is none
	rate     int  // messages a second
	callers  int

	mu   sync.Mutex // guards done
	done []*message // that were accepted
}

// register makes the endpoints.
func (l *load) register(ctx context.Context) error {
	random := rand.New(rand.NewPCG(l.seed, 50))
	for place, e := range endpoints {
		secret := signer.NewSecret()
		e.Tenant, e.URL, e.Secret = tenant, l.receiver.url(place), secret.Reveal()
		l.receiver.Trust(place, &signer.Verifier{Secrets: []signer.Secret{secret}})
		err := kit.Until(ctx, "an endpoint is registered", func() error {
			p := l.fleet.any(random)
			if p == nil {
				return errors.New("no instance takes calls")
			}
			view, _, err := p.CreateEndpoint(ctx, &e)
			if err != nil {
				kit.Rest(ctx, 100*time.Millisecond)
				return err
			}
			l.h.with(func() {
				l.h.places[view.ID] = place
				l.h.existed[place] = append(l.h.existed[place], span{from: time.Now()})
			})
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// accepted is a message that was accepted, or nil.
func (l *load) accepted(random *rand.Rand) *message {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.done) == 0 {
		return nil
	}
	return l.done[random.IntN(len(l.done))]
}

// run publishes until ctx ends, and then until all callers know, or have given up.
func (l *load) run(ctx context.Context) {
	var wg sync.WaitGroup
	for n := range l.callers {
		wg.Go(func() {
			c := &caller{
				load: l, n: n, random: rand.New(rand.NewPCG(l.seed, uint64(n)+100)), last: map[string]*message{},
				http: &http.Client{Timeout: callWithin, Transport: &http.Transport{MaxIdleConnsPerHost: 2}},
			}
			defer c.http.CloseIdleConnections()
			every := time.Second * time.Duration(l.callers) / time.Duration(l.rate)
			tick := time.NewTicker(every)
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
					c.publish(context.WithoutCancel(ctx))
				}
			}
		})
	}
	wg.Wait()
}

// caller publishes one message after the other.
type caller struct {
	*load
	n      int
	made   int
	random *rand.Rand
	last   map[string]*message // by ordering key
	http   *http.Client
}

// publish publishes one message of some kind until its fate is known, or it is
// given up.
func (c *caller) publish(ctx context.Context) {
	c.made++
	w := wire.Message{ID: fmt.Sprintf("c%d-%05d", c.n, c.made), Topic: "order.paid"}
	text := fmt.Sprintf(`{"id": %q, "pad": %q}`, w.ID, strings.Repeat("x", c.random.IntN(2000)))
	w.Body = []byte(text)
	m := &message{id: w.ID, sum: sha256.Sum256(w.Body)}
	place := fmt.Sprint("/d", c.random.IntN(good))
	cancels, commits, key := false, false, ""
	switch chance := c.random.IntN(100); {
	case chance < 15:
		w.Delay = wire.Duration(between(c.random, time.Second, 5*time.Second))
	case chance < 30:
		key = fmt.Sprintf("key-%d", c.n)
		w.OrderingKey, place = key, fmt.Sprint("/d", c.n%good)
	case chance < 42:
		w.Tenant, m.places = tenant, []string{"/e0", "/e1", "/e2"}
	case chance < 43:
		place = failing
	case chance < 44:
		place = hanging
	case chance < 46:
		w.Delay, cancels = wire.Duration(4*time.Second), true
	case chance < 60 && c.owners != nil:
		if e := c.owners.some(c.random); e != nil {
			w.Endpoint, m.places, m.tenant = e.uid, []string{e.place}, ownerTenant
		}
	case chance < 61:
		w.Topic = "not a topic" // which is certainly refused
	case chance < 72:
		commits = c.outbox != nil
	}
	if m.places == nil {
		w.URL, m.places = c.receiver.url(place), []string{place}
	}
	if c.random.IntN(2) == 0 {
		w.Subject = fmt.Sprint("order-", c.random.IntN(1000))
	}
	if w.Tenant != "" {
		m.tenant = w.Tenant // else it is the endpoint's
	}
	m.topic, m.subject, m.delay = w.Topic, w.Subject, time.Duration(w.Delay)
	if before := c.last[key+place]; key != "" && before != nil && before.acceptance() == accepted {
		m.after = before
	}
	c.h.publish(m)
	if commits {
		c.commit(ctx, m, &w)
	} else {
		c.ask(ctx, m, &w)
	}
	if key != "" {
		c.last[key+place] = m
	}
	if m.acceptance() == accepted {
		c.mu.Lock()
		c.done = append(c.done, m)
		c.mu.Unlock()
	}
	switch {
	case m.acceptance() != accepted:
	case cancels:
		c.cancel(ctx, m)
	case c.random.IntN(50) == 0:
		c.again(ctx, m, w)
	}
}

// ask publishes a message until it is accepted or refused, or given up.
func (c *caller) ask(ctx context.Context, m *message, w *wire.Message) {
	began := time.Now()
	for n := 0; time.Since(began) < givesUp; n++ {
		p := c.fleet.any(c.random)
		if p == nil {
			kit.Rest(ctx, 200*time.Millisecond)
			continue
		}
		t := c.try(ctx, p, m, w)
		c.h.tried(m, t)
		if t.acceptance != nothing || n > 0 && c.random.IntN(20) == 0 {
			return
		}
		kit.Rest(ctx, between(c.random, 50*time.Millisecond, 400*time.Millisecond))
	}
}

func (c *caller) try(ctx context.Context, p *process, m *message, w *wire.Message) try {
	t := try{began: time.Now()}
	var answer wire.Published
	api, err := client.New(p.URL, "", client.WithHTTPClient(c.http), kit.Once)
	if err == nil {
		answer, err = api.Publish(ctx, w)
		if err == nil && len(m.places) == 1 && len(answer.Deliveries) == 1 {
			c.h.with(func() { c.h.places[answer.Deliveries[0].Destination] = m.places[0] })
		}
	}
	t.ended = time.Now()
	c.absent(m, w, &t, &answer, err)
	var refusal *client.Problem
	switch {
	case err == nil && answer.Matched == 0 && len(answer.Deliveries) == 0:
		t.acceptance, t.words = refused, "nothing matches, by "+p.name
	case err == nil:
		t.acceptance, t.words = accepted, "accepted by "+p.name
	case errors.As(err, &refusal) && refusal.Status < 500:
		t.acceptance, t.words = refused, fmt.Sprint(refusal.Status, " by ", p.name)
	default:
		t.words = p.name + ": " + err.Error()
	}
	return t
}

// absent notes where an answer says that an endpoint is not there.
func (c *caller) absent(m *message, w *wire.Message, t *try, answer *wire.Published, err error) {
	if w.Endpoint != "" && notFound(err) {
		c.h.absence(absence{span: span{t.began, t.ended}, what: "endpoint " + w.Endpoint, place: m.places[0], words: err.Error()})
	}
	if err != nil || len(m.places) == 1 || answer.Duplicate {
		return
	}
	c.h.with(func() {
		for _, place := range m.places {
			if slices.ContainsFunc(answer.Deliveries, func(d wire.DeliveryRef) bool { return c.h.places[d.Destination] == place }) {
				m.named = append(m.named, place)
			} else {
				c.h.absences = append(c.h.absences, absence{span: span{t.began, t.ended}, what: "endpoint of " + place, place: place, words: m.id + " does not match it"})
			}
		}
	})
}

// again publishes an accepted id with another body, which must be refused and
// never be sent.
func (c *caller) again(ctx context.Context, m *message, w wire.Message) {
	p := c.fleet.any(c.random)
	if p == nil {
		return
	}
	w.Body = []byte(`{"forged": true}`)
	c.h.with(func() { m.forged = time.Now() })
	c.try(ctx, p, m, &w) // where it is taken, the judge sees it come
}

// cancel cancels a message that waits.
func (c *caller) cancel(ctx context.Context, m *message) {
	p := c.fleet.any(c.random)
	if p == nil {
		return
	}
	api, err := client.New(p.URL, "", client.WithHTTPClient(c.http), kit.Once)
	if err != nil {
		return
	}
	c.h.with(func() { m.cancels = true })
	if left, err := api.Cancel(ctx, m.id, ""); err == nil && len(left) == 1 && left[0].Status == "cancelled" {
		c.h.with(func() { m.cancelled = time.Now() })
	}
}
