package chaos_test

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/hookladder/hookladder/deploy/kit"
)

// The faults of the archive. Deliveries never depend on it, so these explain no duplicate.
const (
	archiveKilled  = "archive killed"
	archiveStopped = "archive stopped"
	archiveCut     = "archive stopped until its backlog was cut"
)

// apart are the faults that keep no instance from the store.
var apart = map[string]bool{
	archiveKilled: true, archiveStopped: true, archiveCut: true, resolverAway: true, resolverHalf: true, logUnread: true, logClosed: true,
	poolerKilled: true,
}

// watcher reads the metrics of the instances all the time: they have to report what was lost.
type watcher struct {
	h     *history
	fleet *fleet
	last  float64   // of the counter of cut lines: it begins anew in an emptied store
	from  time.Time // since when something was not archived, by the samples of the last moments
	at    time.Time // when from was moved
}

// lagKept is for how long an instance that knows of no lag does not count: while the archive is
// away, only the one that archived last knows it.
const lagKept = 10 * time.Second

// lagUnseen is how much older than the known lag a line may be that is cut. The instance that archives
// may stand still or be killed, and the others do not know what it left.
const lagUnseen = 20 * time.Second

// watchEvery is how often one instance is asked.
const watchEvery = 300 * time.Millisecond

// watch asks until ctx ends.
func (w *watcher) watch(ctx context.Context) {
	random := rand.New(rand.NewPCG(1, 2))
	for kit.Rest(ctx, watchEvery) {
		w.poll(ctx, random)
	}
}

// poll asks one instance, and notes what grew.
func (w *watcher) poll(ctx context.Context, random *rand.Rand) {
	p := w.fleet.any(random)
	if p == nil {
		return
	}
	now := time.Now()
	is, err := metrics(ctx, p)
	dropped, known := is["hookladder_archive_dropped_total"]
	if err != nil || !known {
		return
	}
	// It is the sum of all partitions. Where it falls since one of them was emptied, others may have cut.
	if n := int(dropped - w.last); n != 0 {
		w.h.with(func() {
			w.h.dropped += max(n, 0)
			w.h.cuts = append(w.h.cuts, span{w.from.Add(-lagUnseen), time.Now()})
		})
	}
	lag := time.Duration(is["hookladder_archive_lag_seconds"] * float64(time.Second))
	w.last = dropped
	if from := now.Add(-lag - time.Second); from.Before(w.from) || now.Sub(w.at) > lagKept && !w.h.underWay(archiveStopped, archiveKilled, archiveCut) {
		w.from, w.at = from, now
	}
}

// counted is how many lines were cut so far.
func (w *watcher) counted() (n int) {
	w.h.with(func() { n = w.h.dropped })
	return n
}

// outage breaks the archive.
type outage struct {
	*trouble
	keeper  *keeper
	watcher *watcher
}

func (b *outage) deeds() []deed { return []deed{b.cut, b.kill, b.stop} }

func (b *outage) kill(ctx context.Context, random *rand.Rand) {
	defer b.begins(archiveKilled, "")()
	b.keeper.server.Kill()
	kit.Rest(ctx, between(random, 0, 2*time.Second))
	b.keeper.server.Restart()
}

func (b *outage) stop(ctx context.Context, random *rand.Rand) {
	defer b.begins(archiveStopped, "")()
	b.keeper.server.Stop()
	kit.Rest(ctx, between(random, time.Second, 6*time.Second))
	b.keeper.server.Restart()
}

// cutsWithin bounds how long PostgreSQL is away for its backlog to be cut.
const cutsWithin = 90 * time.Second

// cut stops PostgreSQL until the store cuts what it keeps for it, and waits until the archive is
// current again. An emptied store takes nothing that could be cut, and its restore needs PostgreSQL.
func (b *outage) cut(ctx context.Context, random *rand.Rand) {
	before := b.watcher.counted()
	mended := b.begins(archiveCut, "")
	b.keeper.server.Stop()
	for late := time.Now().Add(cutsWithin); b.watcher.counted() == before && !b.h.underWay(emptied) && ctx.Err() == nil && time.Now().Before(late); {
		kit.Rest(ctx, watchEvery)
	}
	kit.Rest(ctx, between(random, 0, 2*time.Second))
	b.keeper.server.Restart()
	mended()
	if err := b.keeper.current(context.WithoutCancel(ctx)); err != nil {
		b.say("after the outage: %v", err)
	}
	b.say("the backlog was cut by %d lines so far", b.watcher.counted())
}
