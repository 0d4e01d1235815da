package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// absence is an answer that something is not there.
type absence struct {
	span        // of the call
	what, words string
	id          string // of a message; empty: it is an endpoint
	place       string // of an endpoint
}

// absence remembers such an answer.
func (h *history) absence(a absence) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.absences = append(h.absences, a)
}

// reader asks for what is there.
type reader struct {
	h     *history
	fleet *fleet
	load  *load
	seed  uint64
}

// readEvery is the time between two questions.
const readEvery = 100 * time.Millisecond

// run asks until ctx ends.
func (r *reader) run(ctx context.Context) {
	random := rand.New(rand.NewPCG(r.seed, 2000))
	http := &http.Client{Timeout: callWithin}
	defer http.CloseIdleConnections()
	for kit.Rest(ctx, readEvery) {
		p := r.fleet.any(random)
		if p == nil {
			continue
		}
		api, err := client.New(p.URL, "", client.WithHTTPClient(http), kit.Once)
		if err != nil {
			continue
		}
		r.ask(ctx, api, p.name, random)
	}
}

// ask asks for one thing.
func (r *reader) ask(ctx context.Context, api *client.Client, who string, random *rand.Rand) {
	began := time.Now()
	if random.IntN(3) > 0 {
		m := r.load.accepted(random)
		if m == nil {
			return
		}
		_, err := api.Message(ctx, m.id)
		if notFound(err) {
			r.h.absence(absence{span: span{began, time.Now()}, what: "message " + m.id, id: m.id, words: who + ": " + err.Error()})
		}
		return
	}
	list, err := api.Endpoints(ctx, client.EndpointFilter{Tenants: []string{tenant}})
	if err != nil {
		return
	}
	for place, e := range endpoints {
		if !slices.ContainsFunc(list.Data, func(v wire.EndpointView) bool { return v.UID == e.UID }) {
			r.h.absence(absence{span: span{began, time.Now()}, what: "endpoint " + e.UID, place: place, words: fmt.Sprintf("%s lists %d", who, len(list.Data))})
		}
	}
}

func notFound(err error) bool {
	var refusal *client.Problem
	return errors.As(err, &refusal) && refusal.Status == http.StatusNotFound
}

// misled is an answer that something is not there which is.
const misled = "told that it is not there"

// absent judges the answers that something is not there.
func (j *judge) absent() {
	for _, a := range j.h.absences {
		if a.id != "" {
			j.absentMessage(a)
			continue
		}
		for _, s := range j.existence(a.place) {
			if s.holds(a.span) && !j.lost(s.from.Add(-givesUp), s.from) {
				j.complain(misled, a.what, "%s at %s", a.words, a.from.Format("15:04:05.000"))
			}
		}
	}
}

// existence is when the endpoint of a place existed for sure.
func (j *judge) existence(place string) []span {
	for _, e := range j.h.owned {
		if e.place == place {
			return []span{e.exists}
		}
	}
	return j.h.existed[place]
}

// unmatched reports whether a fan-out may have missed the endpoint of a place, because that was not
// there for certain while it was published. No answer to a call of it named the endpoint then.
func (j *judge) unmatched(m *message, place string) bool {
	if len(m.places) == 1 || slices.Contains(m.named, place) {
		return false
	}
	published, there := span{m.tries[0].began, m.acceptedBy()}, j.existence(place)
	return len(there) > 0 && !slices.ContainsFunc(there, func(s span) bool { return s.holds(published) })
}

// absentMessage judges that a message is not there: it may be let go by a full store, or be lost.
func (j *judge) absentMessage(a absence) {
	m := j.h.messages[a.id]
	var known bool
	for _, t := range m.tries {
		known = known || t.acceptance == accepted && t.ended.Before(a.from)
	}
	if known && !j.letGo(m, m.tries[0].began, a.to) && !j.forgiven(m) {
		j.complain(misled, a.id, "%s at %s\n%s", a.words, a.from.Format("15:04:05.000"), j.story(m, m.places[0]))
	}
}

// holds reports whether all of a time is within it. An open end is no end.
func (s span) holds(other span) bool {
	return !s.from.IsZero() && s.from.Before(other.from) && (s.to.IsZero() || s.to.After(other.to))
}
