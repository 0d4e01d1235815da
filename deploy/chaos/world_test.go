package chaos_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/signer"
)

// world is all that takes part in a run.
type world struct {
	t     *testing.T
	h     *history
	store backend
	seed  uint64
	began time.Time

	receiver *receiver
	fleet    *fleet
	keeper   *keeper // nil: there is no archive
	names    *names  // nil: receivers have addresses only
	outbox   *box    // nil: all is published over HTTP
	operator *operator
	watcher  *watcher
	load     *load
	owners   *owners
	reader   *reader
	trouble  *trouble
}

// newWorld starts all of it.
func newWorld(t *testing.T, h *history, store backend, seed uint64) *world {
	t.Helper()
	w := &world{t: t, h: h, store: store, seed: seed, began: time.Now()}
	secret := signer.NewSecret()
	w.receiver = newReceiver(t, h, seed, secret)
	w.fleet = newFleet(t, h, w.receiver, secret)
	f := w.fleet
	f.env = append(store.env(), "LADDER="+rungs, "ATTEMPT_TIMEOUT="+attemptTimeout.String(), "BREAKER=20/1s", "SHUTDOWN_GRACE=5s")
	w.addNames()
	if archives(seed) {
		w.keeper = newKeeper(t, h, f)
		f.env = append(f.env, w.keeper.env()...)
	}
	if *chaosOutbox {
		w.outbox = newBox(t)
		f.env = append(f.env, w.outbox.env()...)
	}
	for _, name := range slots {
		slot := &slot{name: name, url: store.url(name)}
		f.slots = append(f.slots, slot)
		require.NoError(t, f.start(t.Context(), slot))
	}
	w.operator = &operator{h: h, fleet: f, url: store.straight(), say: w.say}
	w.watcher = &watcher{h: h, fleet: f}
	w.load = &load{h: h, fleet: f, receiver: w.receiver, seed: seed, rate: *chaosRate, callers: *chaosRate / 2}
	w.owners = &owners{h: h, fleet: f, receiver: w.receiver, seed: seed, n: *chaosOwners}
	w.load.owners, w.load.outbox = w.owners, w.outbox
	w.reader = &reader{h: h, fleet: f, load: w.load, seed: seed}
	require.NoError(t, w.load.register(t.Context()))
	w.trouble = &trouble{
		h: h, fleet: f, seed: seed, say: w.say, counts: map[string]int{},
		longest: min(20*time.Second, *chaosFor/4), rest: min(30*time.Second, *chaosFor/10),
	}
	w.trouble.store = store.deeds(w.trouble)
	if *chaosEmpty {
		l := &losing{trouble: w.trouble, store: store, operator: w.operator, watcher: w.watcher, load: w.load, archives: w.keeper != nil}
		w.trouble.store = append(w.trouble.store, l.empty)
		w.trouble.soon = append(w.trouble.soon, l.empty)
	}
	if w.names != nil {
		w.trouble.resolver = []deed{(&resolving{trouble: w.trouble, names: w.names}).away}
	}
	if w.outbox != nil {
		w.trouble.outbox = []deed{(&pooling{trouble: w.trouble, box: w.outbox}).kill}
	}
	if w.keeper != nil {
		w.trouble.archive = (&outage{trouble: w.trouble, keeper: w.keeper, watcher: w.watcher}).deeds()
	}
	return w
}

// addNames gives some receivers names, and the instances a resolver that can be broken, where that is
// possible.
func (w *world) addNames() {
	n, err := newNames(w.t, *chaosDNS)
	if err != nil {
		w.say("no resolver is broken: %v", err)
		return
	}
	w.names, w.receiver.names, w.fleet.names = n, n, n
	w.fleet.env = append(w.fleet.env, "GODEBUG=netdns=go") // the C library's resolver has a cache elsewhere
}

// say prints a line with the time since the start.
func (w *world) say(format string, a ...any) {
	fmt.Fprintf(w.t.Output(), "%7.1fs %s\n", time.Since(w.began).Seconds(), strings.TrimSpace(fmt.Sprintf(format, a...)))
}

// breakThings breaks things under load, and returns when all is mended.
func (w *world) breakThings() {
	w.say("chaos for %s with seed %d, %d messages a second, %s, archive: %t", *chaosFor, w.seed, *chaosRate, w.store, w.keeper != nil)
	ctx, stop := context.WithTimeout(w.t.Context(), *chaosFor)
	defer stop()
	var all sync.WaitGroup
	for _, part := range []func(context.Context){w.store.count, w.load.run, w.owners.run, w.reader.run, w.watcher.watch, w.trouble.run} {
		all.Go(func() { part(ctx) })
	}
	all.Wait()
	w.say("all is mended")
}

// end waits until nothing is under way any more, asks what became of everything, and judges.
func (w *world) end() {
	t, ctx := w.t, w.t.Context()
	w.store.recount(ctx)
	w.receiver.healed.Store(true)
	ask := &asker{t: t, h: w.h, api: w.fleet.slots[0].process().Client, say: w.say}
	ask.release(w.receiver)
	if w.h.tailLost() {
		require.NoError(t, w.operator.restoreTail(ctx))
	}
	ask.mend()
	if w.outbox != nil {
		require.NoError(t, w.outbox.relayed(ctx, ""))
		w.say("%d messages were committed to the outbox", w.outbox.committed.Load())
	}
	ask.drain()
	if w.keeper != nil { // what a full store let go is answered by the archive, which may lack ends that were cut
		require.NoError(t, w.keeper.current(ctx))
	}
	ask.endings()
	ask.endpoints(ctx, w.store)
	memory := w.fleet.memory()
	w.fleet.examine(t, len(w.h.losses) > 0)
	w.watcher.poll(ctx, rand.New(rand.NewPCG(w.seed, 3)))
	if w.keeper != nil {
		require.NoError(t, w.keeper.current(ctx))
	}
	for _, slot := range w.fleet.slots {
		require.NoError(t, slot.process().Terminate())
	}
	if w.keeper != nil {
		var err error
		w.h.archived, err = w.keeper.read(ctx)
		require.NoError(t, err)
	}
	report(t, w.h, w.trouble, memory)
	w.fleet.check(t)
}
