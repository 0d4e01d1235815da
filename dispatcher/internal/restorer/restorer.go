// Package restorer makes a lost store of its archive again: the endpoints, what is held,
// the ids that are known, and all that has not finished, at its place on the ladder.
//
// It may be stopped anywhere, also by a crash, and run again: what is there stays. Until
// it has ended the store takes no message, since a repeat of one that was delivered would
// be new to it, and attempts nothing.
package restorer

import (
	"context"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
)

// page is how many rows go to the store at a time. It divides them so that no script is
// long.
const page = 500

// pageBytes bounds the bodies of a page.
const pageBytes = 4 << 20

// askEvery is how often a restore asks whether the archive has all of the log.
const askEvery = 100 * time.Millisecond

// Options say what is restored, and into what.
type Options struct {
	From archive.Vault
	To   archive.Target

	IntoRunning bool // also where nothing counts as lost: what the store lacks besides
	Dead        bool // what died is put back too
	DryRun      bool // only counts

	Wait time.Duration // with IntoRunning: at most so long until all of the store's log is archived

	Keep dispatcher.Keep // for how long, and how many
	By   string          // for the audit

	Tell func(Step) // nil: it is not told
}

// Step is the progress of a restore.
type Step struct {
	Phase string // endpoints, known, open or dead
	Done  int64
	Of    int64 // 0: not known
}

// Report is what a restore did.
type Report struct {
	Endpoints int
	Known     int64
	Open      [archive.Puts]int64 // by archive.Put
	Dead      [archive.Puts]int64
	Refused   []string // ids of PutOdd and PutBad, the first ones
	Lost      []LostEndpoint

	Nothing bool // nothing was lost, so nothing was done

	Behind bool // not all of the store's log is archived, so what the archive has of its present data was left out

	archive.Ends // what happened later is not known
}

// LostEndpoint is one that neither the store nor the archive has. Its deliveries wait until
// it is there, or somebody cancels them.
type LostEndpoint struct {
	Lane       dispatcher.Lane
	Deliveries int64 // that are unfinished
}

// mostRefused bounds Report.Refused.
const mostRefused = 100

// Restore restores.
func Restore(ctx context.Context, o Options) (r Report, err error) {
	if o.Tell == nil {
		o.Tell = func(Step) {}
	}
	release, err := o.From.Lock(ctx)
	if err != nil {
		return r, err
	}
	defer release()
	lost, err := findLoss(ctx, o)
	if err != nil || !lost && !o.IntoRunning {
		r.Nothing = err == nil
		return r, err
	}
	epochs, drained, err := archived(ctx, &o, lost)
	if err != nil {
		return r, err
	}
	if r.Ends, err = o.From.Ends(ctx, epochs); err != nil {
		return r, err
	}
	present := epochs
	if r.Behind = !drained && !lost; drained && !lost {
		epochs = nil // what the store lost of its last second is put back too
	}
	w := &restoring{o: o, from: o.From, to: o.To, report: &r, epochs: epochs}
	if o.DryRun {
		return r, w.count(ctx)
	}
	if err := w.from.Sever(ctx, present); err != nil {
		return r, err
	}
	return r, w.all(ctx)
}

// archived reads the epochs of the store, and whether all of its log is archived. It waits for that
// where nothing is lost, because a restore before may have written to the log itself.
func archived(ctx context.Context, o *Options, lost bool) (epochs []string, drained bool, err error) {
	for late := time.Now().Add(o.Wait); ; {
		epochs, drained, err = o.To.Epochs(ctx)
		if err != nil || drained || lost || !time.Now().Before(late) {
			return epochs, drained, err
		}
		select {
		case <-ctx.Done():
			return nil, false, ctx.Err()
		case <-time.After(askEvery):
		}
	}
}

// findLoss reports whether the store lacks something that it had. The archive tells it also
// where no instance noticed.
func findLoss(ctx context.Context, o Options) (bool, error) {
	id, epochs, err := o.From.Home(ctx)
	if err != nil {
		return false, err
	}
	return o.To.Emptied(ctx, id, epochs)
}

func (r *Report) detail() map[string]any {
	return map[string]any{
		"endpoints": r.Endpoints, "known": r.Known, "restored": r.Open[archive.PutNew], "there": r.Open[archive.PutOld],
		"refused": r.Open[archive.PutOdd] + r.Open[archive.PutBad], "lost_endpoints": len(r.Lost), "dead": r.Dead[archive.PutNew], "archived_until": r.First,
	}
}

// restoring is one restore.
type restoring struct {
	o      Options
	from   archive.Vault
	to     archive.Target
	report *Report
	epochs []string // of the store, where what the archive has of these may have ended
}

func (w *restoring) count(ctx context.Context) error {
	list, _, err := w.from.Endpoints(ctx)
	if err != nil {
		return err
	}
	for i := range list {
		if !list[i].Deleted {
			w.report.Endpoints++
		}
	}
	w.report.Open[archive.PutNew], err = w.from.CountOpen(ctx, w.epochs)
	return err
}

// all restores in the order in which one thing needs another: nothing goes out before all
// is there, and nothing is taken before it is known what was taken before.
func (w *restoring) all(ctx context.Context) error {
	if err := w.to.Hold(ctx); err != nil {
		return err
	}
	for _, phase := range []func(context.Context) error{w.endpoints, w.known, w.open, w.dead, w.lost} {
		if err := phase(ctx); err != nil {
			return err
		}
	}
	// First the archive: if this ends here, what was lost still counts as lost, and a repeat reports it.
	if err := w.from.Note(ctx, w.o.By, "restore", w.report.detail()); err != nil {
		return err
	}
	if err := w.from.KeepHome(ctx, w.to.ID()); err != nil {
		return err
	}
	return w.to.Release(ctx)
}

func (w *restoring) endpoints(ctx context.Context) error {
	list, holds, err := w.from.Endpoints(ctx)
	if err != nil {
		return err
	}
	holds = slices.DeleteFunc(holds, func(h archive.Hold) bool { return slices.Contains(w.epochs, h.Epoch) }) // the store knows better
	w.o.Tell(Step{Phase: "endpoints", Of: int64(len(list))})
	for done := 0; len(list) > 0 || len(holds) > 0; {
		some := list[:min(len(list), page)]
		n, err := w.to.PutEndpoints(ctx, some, holds)
		if err != nil {
			return err
		}
		w.report.Endpoints += n
		list, holds, done = list[len(some):], nil, done+len(some)
		w.o.Tell(Step{Phase: "endpoints", Done: int64(done), Of: int64(done + len(list))})
	}
	return nil
}

func (w *restoring) known(ctx context.Context) error {
	all := w.from.Known(ctx, w.report.Now.Add(-w.o.Keep.Finished), w.o.Keep.SeenMax)
	return paged(all, func(archive.Known) int { return 0 }, func(some []archive.Known) error {
		if err := w.to.PutKnown(ctx, some); err != nil {
			return err
		}
		w.report.Known += int64(len(some))
		w.o.Tell(Step{Phase: "known", Done: w.report.Known})
		return nil
	})
}

func (w *restoring) open(ctx context.Context) error {
	of, err := w.from.CountOpen(ctx, w.epochs)
	if err != nil {
		return err
	}
	w.o.Tell(Step{Phase: "open", Of: of})
	done := int64(0)
	return paged(w.from.Open(ctx, w.epochs), sizeOf, func(some []archive.Open) error {
		tried := make([]*archive.Open, len(some))
		for i := range some {
			tried[i] = &some[i]
		}
		if err := w.from.History(ctx, tried); err != nil {
			return err
		}
		puts, err := w.to.Put(ctx, some)
		if err != nil {
			return err
		}
		for i, p := range puts {
			w.note(&w.report.Open, p, some[i].ID)
		}
		done += int64(len(some))
		w.o.Tell(Step{Phase: "open", Done: done, Of: max(of, done)})
		return nil
	})
}

func (w *restoring) dead(ctx context.Context) error {
	if !w.o.Dead {
		return nil
	}
	done := int64(0)
	all := w.from.Dead(ctx, w.report.Now.Add(-w.o.Keep.Dead), w.o.Keep.DeadMax)
	return paged(all, func(d archive.DeadOne) int { return sizeOf(d.Open) }, func(some []archive.DeadOne) error {
		tried := make([]*archive.Open, len(some))
		for i := range some {
			tried[i] = &some[i].Open
		}
		if err := w.from.History(ctx, tried); err != nil {
			return err
		}
		puts, err := w.to.PutDead(ctx, some)
		if err != nil {
			return err
		}
		for i, p := range puts {
			w.note(&w.report.Dead, p, some[i].ID)
		}
		done += int64(len(some))
		w.o.Tell(Step{Phase: "dead", Done: done})
		return nil
	})
}

// lost finds the deliveries whose endpoint is neither in the archive nor in the store. Some may be
// in data that were not lost.
func (w *restoring) lost(ctx context.Context) error {
	lost, err := w.to.Lost(ctx)
	for _, lane := range slices.Sorted(maps.Keys(lost)) {
		w.report.Lost = append(w.report.Lost, LostEndpoint{Lane: lane, Deliveries: lost[lane]})
	}
	return err
}

func sizeOf(o archive.Open) int { return len(o.Head) + len(o.Body) }

// paged puts all of a sequence, some at a time.
func paged[T any](all iter.Seq2[T, error], size func(T) int, put func([]T) error) error {
	var some []T
	bytes := 0
	flush := func() error {
		defer func() { clear(some); some, bytes = some[:0], 0 }()
		return put(some)
	}
	for one, err := range all {
		if err != nil {
			return err
		}
		some, bytes = append(some, one), bytes+size(one)
		if len(some) == page || bytes >= pageBytes {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if len(some) == 0 {
		return nil
	}
	return flush()
}

func (w *restoring) note(counts *[archive.Puts]int64, p archive.Put, id dispatcher.DeliveryID) {
	counts[p]++
	if (p == archive.PutOdd || p == archive.PutBad) && len(w.report.Refused) < mostRefused {
		w.report.Refused = append(w.report.Refused, id.String())
	}
}
