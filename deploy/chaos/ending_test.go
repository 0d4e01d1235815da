package chaos_test

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// drainWithin is how long what was accepted may take to end when nothing is
// broken any more. It needs the guard's minute, where a hint was lost, and the
// ladder, and several times that on a busy machine.
const drainWithin = 6 * time.Minute

// asker asks the API what became of everything.
type asker struct {
	t   testing.TB
	h   *history
	api *client.Client
	say func(format string, a ...any)
}

// release lets the lanes of the bad destinations go on, whose breakers are open.
func (a *asker) release(r *receiver) {
	for _, place := range []string{failing, hanging} {
		_, err := a.api.ResumeLane(a.t.Context(), r.url(place), "")
		require.NoError(a.t, err)
	}
}

// mend does what is left to a person after a loss. An endpoint whose deletion was lost is deleted again, and what
// waits for one that was lost is cancelled. The judge complains of each endpoint of which nothing was lost.
func (a *asker) mend() {
	if len(a.h.losses) == 0 {
		return
	}
	ctx := a.t.Context()
	for _, e := range a.h.owned {
		view, err := a.api.Endpoint(ctx, e.uid)
		if err == nil && !e.exists.to.IsZero() {
			e.seen = &view
			_, err = a.api.DeleteEndpoint(ctx, e.uid)
			a.say("%s was deleted, and is back: deleted again (%v)", e.uid, err)
		}
	}
	for id := range a.h.places {
		if !strings.HasPrefix(id, "ep_") {
			continue
		}
		if _, err := a.api.Endpoint(ctx, id); notFound(err) {
			if n := a.cancelAll(id); n > 0 {
				a.say("%s of %s was lost: %d deliveries are cancelled", id, a.h.places[id], n)
			}
		}
	}
}

// cancelAll cancels what waits for a destination.
func (a *asker) cancelAll(destination string) (n int) {
	for _, status := range waiting {
		page, err := a.api.Deliveries(a.t.Context(), client.Filter{Statuses: []string{status}, Destinations: []string{destination}, Limit: 500})
		require.NoError(a.t, err)
		for _, d := range page.Data {
			_, id, _ := strings.Cut(d.ID, ":")
			_, err := a.api.Cancel(a.t.Context(), id, destination)
			require.NoError(a.t, err)
			n++
		}
	}
	return n
}

var waiting = []string{"scheduled", "ready", "in_flight", "retrying"}

// drain waits until nothing waits any more. What still does in the end, the
// judge finds.
func (a *asker) drain() {
	late, began := time.Now().Add(drainWithin), time.Now()
	for time.Now().Before(late) {
		s, err := a.api.Stats(a.t.Context())
		left := int64(0)
		for _, status := range waiting {
			left += s.Counts[status]
		}
		if err == nil && left == 0 {
			a.say("nothing waits after %s", time.Since(began).Round(100*time.Millisecond))
			return
		}
		kit.Rest(a.t.Context(), 200*time.Millisecond)
	}
	s, err := a.api.Stats(a.t.Context())
	a.say("still waiting: %v %v", s.Counts, err)
}

// endings asks for every delivery, and for each message that no list has.
func (a *asker) endings() {
	for _, status := range append([]string{"delivered", "dead", "cancelled"}, waiting...) {
		for cursor := ""; ; {
			page, err := ask(a, func() (wire.Page, error) {
				return a.api.Deliveries(a.t.Context(), client.Filter{Statuses: []string{status}, Limit: 500, Cursor: cursor})
			})
			require.NoError(a.t, err)
			for _, d := range page.Data {
				a.keep(d)
			}
			if page.NextCursor == nil {
				break
			}
			cursor = *page.NextCursor
		}
	}
	for _, id := range slices.Sorted(maps.Keys(a.h.messages)) {
		m := a.h.messages[id]
		if m.acceptance() == refused || len(m.endings) == len(m.places) {
			continue
		}
		record, err := ask(a, func() (wire.MessageView, error) {
			m, err := a.api.Message(a.t.Context(), id)
			if err == nil && m.Incomplete {
				err = &client.Problem{Problem: wire.Problem{Status: http.StatusServiceUnavailable, Detail: "the archive did not answer for " + id}}
			}
			return m, err
		})
		var unknown *client.Problem
		if errors.As(err, &unknown) && unknown.Status == http.StatusNotFound {
			continue
		}
		require.NoError(a.t, err)
		for _, d := range record.Deliveries {
			a.keep(d)
		}
	}
}

// ask repeats a call that is to be repeated, since the archive takes long on a busy machine.
func ask[T any](a *asker, call func() (T, error)) (got T, err error) {
	err = kit.Until(a.t.Context(), "the store and the archive answer", func() (err error) {
		got, err = call()
		var p *client.Problem
		if errors.As(err, &p) && p.Status == http.StatusServiceUnavailable || err == nil {
			return err
		}
		return kit.Stop(err)
	})
	return got, err
}

// endpoints asks what became of the endpoints that were changed all the time, and reads their records.
func (a *asker) endpoints(ctx context.Context, from backend) {
	for _, e := range a.h.owned {
		view, err := a.api.Endpoint(ctx, e.uid)
		if notFound(err) {
			continue
		}
		require.NoError(a.t, err)
		e.seen = &view
		text, err := from.record(ctx, e.id)
		require.NoError(a.t, err)
		version, record, _ := strings.Cut(text, " ")
		e.version, err = strconv.ParseInt(version, 10, 64)
		require.NoError(a.t, err)
		e.record = []byte(record)
	}
}

func (a *asker) keep(d wire.Delivery) {
	_, id, _ := strings.Cut(d.ID, ":")
	m := a.h.messages[id]
	place := a.h.places[d.Destination]
	if m == nil || place == "" {
		a.h.strange = append(a.h.strange, "the store has "+d.ID)
		return
	}
	if m.endings == nil {
		m.endings = map[string]ending{}
	}
	m.endings[place] = ending{status: d.Status, reason: d.DeadReason, attempts: d.Attempts}
}
