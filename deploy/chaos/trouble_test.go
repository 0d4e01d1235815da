package chaos_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"

	"github.com/hookladder/hookladder/deploy/kit"
)

// trouble breaks things, one hand at the instances and one at the store, each
// one thing after the other, so that two may be broken at a time.
type trouble struct {
	h        *history
	fleet    *fleet
	store    []deed // what may be done to the store
	archive  []deed // what may be done to the archive
	soon     []deed // what is surely done to the store
	resolver []deed // what may be done to the resolver
	outbox   []deed // what may be done to the outbox
	seed     uint64
	longest  time.Duration // an instance is stopped
	rest     time.Duration // for which the store is left alone now and then
	say      func(format string, a ...any)

	alone sync.RWMutex // its holder breaks the only thing; the store's hand reads

	mu     sync.Mutex // guards counts
	counts map[string]int
}

// deed is one thing to break, and to mend.
type deed func(ctx context.Context, random *rand.Rand)

// hand is what one of the two may do, each as often as it stands there.
type hand struct {
	random *rand.Rand
	calm   time.Duration // at most, between two
	does   []deed
	rest   time.Duration // after it did all
	done   int           // so far
	shares *sync.RWMutex // held while it does something; nil: it does not
	soon   []deed        // what it does second, in a run that may be too short for all
	deck   []int         // of what it does, what is still to come before any comes again
}

// do breaks the next thing.
func (h *hand) do(ctx context.Context) {
	if h.shares != nil {
		h.shares.RLock()
		defer h.shares.RUnlock()
	}
	h.next()(ctx, h.random)
}

// next is what it does next: all of what it may, in any order, and again.
func (h *hand) next() deed {
	if h.done++; h.done > 1 && len(h.soon) > 0 {
		what := h.soon[0]
		h.soon = h.soon[1:]
		return what
	}
	if len(h.deck) == 0 {
		h.deck = h.random.Perm(len(h.does))
	}
	what := h.does[h.deck[0]]
	h.deck = h.deck[1:]
	return what
}

// run breaks things until ctx ends, and returns when all is mended.
func (b *trouble) run(ctx context.Context) {
	var wg sync.WaitGroup
	for i, hand := range b.hands() {
		hand.random = rand.New(rand.NewPCG(b.seed, uint64(i)))
		wg.Go(func() {
			for kit.Rest(ctx, time.Second); ctx.Err() == nil; kit.Rest(ctx, between(hand.random, 0, hand.calm)) {
				hand.do(ctx)
				if len(hand.deck) == 0 {
					kit.Rest(ctx, hand.rest)
				}
			}
		})
	}
	wg.Wait()
}

func (b *trouble) hands() []hand {
	instances := []deed{b.kill, b.kill, b.kill, b.stop, b.stop, b.roll}
	if b.rest >= takeoverWithin { // else the run is too short for it
		instances = append(instances, b.killAlone)
	}
	if *chaosLog {
		instances = append(instances, b.leaveUnread, b.leaveUnread, b.closeLog)
	}
	hands := []hand{
		{calm: 3 * time.Second, does: instances},
		{calm: 4 * time.Second, rest: b.rest, does: b.store, soon: b.soon, shares: &b.alone},
	}
	if len(b.archive) > 0 {
		hands = append(hands, hand{calm: 4 * time.Second, does: b.archive})
	}
	if len(b.resolver) > 0 {
		hands = append(hands, hand{calm: 12 * time.Second, does: b.resolver})
	}
	if len(b.outbox) > 0 {
		hands = append(hands, hand{calm: 12 * time.Second, does: b.outbox})
	}
	return hands
}

// begins tells and remembers that something is broken; the answered function
// that it is mended.
func (b *trouble) begins(kind, who string) (mended func()) {
	b.mu.Lock()
	b.counts[kind]++
	b.mu.Unlock()
	began := time.Now()
	b.say("%s %s", kind, who)
	end := b.h.breaks(kind, who)
	return func() {
		end()
		if took := time.Since(began); took > 100*time.Millisecond {
			b.say("%s %s: over after %s", kind, who, took.Round(10*time.Millisecond))
		}
	}
}

func (b *trouble) slot(random *rand.Rand) *slot {
	return b.fleet.slots[random.IntN(len(b.fleet.slots))]
}

// replace starts an instance where one has gone.
func (b *trouble) replace(s *slot) {
	if err := b.fleet.start(context.Background(), s); err != nil {
		b.fleet.t.Error(err)
		return
	}
	b.say("%s has started", s.process().name)
}

func (b *trouble) kill(ctx context.Context, random *rand.Rand) {
	s, away := b.slot(random), between(random, 0, 3*time.Second)
	p := s.process()
	if p == nil {
		return
	}
	mended := b.begins(killed, p.name)
	p.Kill()
	mended()
	s.leave()
	kit.Rest(ctx, away)
	b.replace(s)
}

// killAlone kills an instance while nothing else is broken, nor was shortly
// before, and leaves its slot empty until others had to take over.
func (b *trouble) killAlone(ctx context.Context, random *rand.Rand) {
	b.alone.Lock()
	defer b.alone.Unlock()
	s := b.slot(random)
	kit.Rest(ctx, deadAfter+time.Second)
	p := s.process()
	if p == nil || ctx.Err() != nil {
		return
	}
	mended := b.begins(killed, p.name)
	p.Kill()
	mended()
	s.leave()
	kit.Rest(ctx, takeoverWithin+time.Second)
	b.replace(s)
}

func (b *trouble) stop(ctx context.Context, random *rand.Rand) {
	s, time := b.slot(random), between(random, time.Second, b.longest)
	p := s.process()
	if p == nil {
		return
	}
	mended := b.begins(stopped, p.name)
	_ = p.Signal(syscall.SIGSTOP)
	kit.Rest(ctx, time)
	_ = p.Signal(syscall.SIGCONT)
	mended()
}

// roll restarts all, one after the other, as a new version does.
func (b *trouble) roll(ctx context.Context, _ *rand.Rand) {
	for _, s := range b.fleet.slots {
		if ctx.Err() == nil {
			b.restart(s)
		}
	}
}

func (b *trouble) restart(s *slot) {
	p := s.process()
	if p == nil {
		return
	}
	b.begins(ended, p.name)()
	s.leave()
	if err := p.Terminate(); err != nil && p.Killed() {
		b.fleet.t.Error(err)
	} else if err != nil {
		b.say("%s ended with %d", p.name, p.ExitCode())
	}
	b.replace(s)
}

func (b *trouble) all() (slots []string) {
	for _, s := range b.fleet.slots {
		slots = append(slots, s.name)
	}
	return slots
}
