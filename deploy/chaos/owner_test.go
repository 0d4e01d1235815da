package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/signer"
)

// owned is an endpoint that its owner changes all the time, as its owner knows it.
type owned struct {
	uid, place, id string

	exists span // from the answer that made it to the call that deleted it; an open end: it was not deleted
	url    string
	rate   string
	paused bool
	unsure bool // a change had no answer, or the store may have lost it

	pauses  []span // from the answer that paused it to the call that resumed it
	changed []span // from the first call for a change until a good answer to one

	secrets []signer.Secret

	// At the end.
	seen    *wire.EndpointView // nil: the API says that there is none
	version int64              // in the store
	record  []byte
}

// owners change endpoints, each its own ones, one change after the other.
type owners struct {
	h        *history
	fleet    *fleet
	receiver *receiver
	seed     uint64
	n        int

	mu  sync.Mutex // guards all
	all []*owned
}

const (
	ownerTenant = "merchants"
	// mostOwned is how many endpoints an owner has at a time.
	mostOwned = 4
)

// run has all owners change their endpoints until ctx ends, and resumes what is paused then.
func (o *owners) run(ctx context.Context) {
	var all sync.WaitGroup
	for n := range o.n {
		all.Go(func() {
			w := &owner{owners: o, n: n, random: rand.New(rand.NewPCG(o.seed, uint64(n)+1000))}
			w.http = &http.Client{Timeout: callWithin}
			defer w.http.CloseIdleConnections()
			for kit.Rest(ctx, between(w.random, 0, 500*time.Millisecond)) {
				w.change(context.WithoutCancel(ctx))
			}
			for _, e := range w.mine {
				w.resume(context.WithoutCancel(ctx), e)
			}
		})
	}
	all.Wait()
}

// some is an endpoint that exists now, or nil.
func (o *owners) some(random *rand.Rand) *owned {
	o.mu.Lock()
	defer o.mu.Unlock()
	var living []*owned
	o.h.with(func() {
		for _, e := range o.all {
			if e.exists.to.IsZero() {
				living = append(living, e)
			}
		}
	})
	if len(living) == 0 {
		return nil
	}
	return living[random.IntN(len(living))]
}

// owner is one of them.
type owner struct {
	*owners
	n      int
	made   int
	random *rand.Rand
	http   *http.Client
	mine   []*owned // that it has not deleted
}

// change makes the next change.
func (w *owner) change(ctx context.Context) {
	if len(w.mine) == 0 || len(w.mine) < mostOwned && w.random.IntN(4) == 0 {
		w.create(ctx)
		return
	}
	w.h.with(func() { // those that were lost with the store
		w.mine = slices.DeleteFunc(w.mine, func(e *owned) bool { return !e.exists.to.IsZero() })
	})
	if len(w.mine) == 0 {
		return
	}
	i := w.random.IntN(len(w.mine))
	e := w.mine[i]
	switch chance := w.random.IntN(12); {
	case chance < 4:
		w.patch(ctx, e)
	case chance < 6:
		w.rotate(ctx, e)
	case chance < 9 && !e.paused:
		w.pause(ctx, e)
	case chance < 11:
		w.resume(ctx, e)
	default:
		w.mine = append(w.mine[:i:i], w.mine[i+1:]...)
		w.remove(ctx, e)
	}
}

// ask makes a call until it has an answer, or gives up. known says that the change was made.
func (w *owner) ask(ctx context.Context, e *owned, call func(*client.Client) error) (known bool, err error) {
	began := time.Now()
	for time.Since(began) < givesUp {
		p := w.fleet.any(w.random)
		if p == nil {
			kit.Rest(ctx, 200*time.Millisecond)
			continue
		}
		api, err := client.New(p.URL, "", client.WithHTTPClient(w.http), kit.Once)
		if err != nil {
			return false, err
		}
		asked := time.Now()
		err = call(api)
		var refusal *client.Problem
		if err == nil || errors.As(err, &refusal) && refusal.Status < http.StatusInternalServerError {
			// A call before this one, whose answer was lost, may have made the change.
			w.h.with(func() { e.changed = append(e.changed, span{began, time.Now()}) })
			if err != nil && refusal.Status == http.StatusNotFound {
				w.h.absence(absence{span: span{asked, time.Now()}, what: "endpoint " + e.uid, place: e.place, words: p.name + ": " + err.Error()})
			}
			return err == nil, err
		}
		kit.Rest(ctx, between(w.random, 50*time.Millisecond, 400*time.Millisecond))
	}
	w.h.with(func() { e.unsure = true })
	return false, nil
}

func (w *owner) create(ctx context.Context) {
	w.made++
	e := &owned{uid: fmt.Sprintf("m%d-%d", w.n, w.made), place: fmt.Sprintf("/m%d", w.n*100+w.made), secrets: []signer.Secret{signer.NewSecret()}}
	e.url = w.receiver.url(e.place)
	w.trust(e)
	known, _ := w.ask(ctx, e, func(api *client.Client) error {
		view, _, err := api.CreateEndpoint(ctx, &wire.Endpoint{
			UID: e.uid, Tenant: ownerTenant, URL: e.url, Secret: e.secrets[0].Reveal(), Topics: []string{},
		})
		if err == nil {
			w.h.with(func() { e.id, w.h.places[view.ID] = view.ID, e.place })
		}
		return err
	})
	if !known {
		return // nothing is ever sent to it
	}
	w.h.with(func() { e.exists.from = time.Now() })
	w.mine = append(w.mine, e)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, e)
	w.h.with(func() { w.h.owned = append(w.h.owned, e) })
}

// trust has the receiver take all secrets that an endpoint ever had.
func (w *owner) trust(e *owned) {
	w.receiver.Trust(e.place, &signer.Verifier{Secrets: e.secrets})
}

func (w *owner) patch(ctx context.Context, e *owned) {
	rate := fmt.Sprintf("%d/s", 50+w.random.IntN(100))
	url := fmt.Sprintf("%s?v=%d", w.receiver.url(e.place), w.random.IntN(1000))
	known, _ := w.ask(ctx, e, func(api *client.Client) error {
		_, err := api.PatchEndpoint(ctx, e.uid, map[string]any{"rate": rate, "url": url})
		return err
	})
	if known {
		w.h.with(func() { e.rate, e.url = rate, url })
	}
}

func (w *owner) rotate(ctx context.Context, e *owned) {
	secret := signer.NewSecret()
	e.secrets = append(e.secrets, secret)
	w.trust(e)
	overlap := wire.Duration(time.Hour)
	_, _ = w.ask(ctx, e, func(api *client.Client) error {
		_, err := api.RotateSecret(ctx, e.uid, wire.Rotation{Secret: secret.Reveal(), Overlap: &overlap})
		return err
	})
}

func (w *owner) pause(ctx context.Context, e *owned) {
	known, _ := w.ask(ctx, e, func(api *client.Client) error {
		_, err := api.PauseEndpoint(ctx, e.uid)
		return err
	})
	w.h.with(func() {
		e.paused = true
		if known {
			e.pauses = append(e.pauses, span{from: time.Now()})
		}
	})
}

func (w *owner) resume(ctx context.Context, e *owned) {
	w.unpaused(e)
	known, _ := w.ask(ctx, e, func(api *client.Client) error {
		_, err := api.ResumeEndpoint(ctx, e.uid)
		return err
	})
	w.h.with(func() { e.paused = e.paused && !known })
}

// unpaused ends the pause of an endpoint: from now on attempts may come.
func (w *owner) unpaused(e *owned) {
	w.h.with(func() {
		if n := len(e.pauses); n > 0 && e.pauses[n-1].to.IsZero() {
			e.pauses[n-1].to = time.Now()
		}
	})
}

func (w *owner) remove(ctx context.Context, e *owned) {
	w.unpaused(e)
	w.h.with(func() { e.exists.to = time.Now() })
	_, _ = w.ask(ctx, e, func(api *client.Client) error { // 404 where an earlier call had no answer
		_, err := api.DeleteEndpoint(ctx, e.uid)
		return err
	})
}
