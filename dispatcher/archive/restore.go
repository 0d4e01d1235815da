package archive

import (
	"context"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/wait"
)

// page is how many rows go to the store at a time. It is small so that no script runs long.
const page = 500

// pageBytes limits the bodies of a page.
const pageBytes = 4 << 20

// restorePollEvery is how often a restore polls whether the whole log is archived.
const restorePollEvery = 100 * time.Millisecond

// RestoreOptions say what to restore, and into which store.
type RestoreOptions struct {
	From Vault
	To   Target

	IntoRunning bool // restore missing data even if the store lost nothing
	Dead        bool // restore dead deliveries too
	DryRun      bool // only count

	Wait time.Duration // with IntoRunning: how long to wait until the store's whole log is archived

	Limits dispatcher.Keep // age and number of the ids and dead deliveries to restore
	By     string          // for the audit

	Progress func(RestoreStep) // reports progress; may be nil
}

// RestoreStep is the progress of a restore.
type RestoreStep struct {
	Phase string // endpoints, known, open or dead
	Done  int64
	Of    int64 // 0 if unknown
}

// RestoreReport is the result of a restore.
type RestoreReport struct {
	Endpoints int
	Known     int64
	Open      [Puts]int64 // by Put
	Dead      [Puts]int64
	Refused   []string // the first ids with PutConflict or PutUnreadable
	Lost      []LostEndpoint
	Sealed    RestoreSealed

	Nothing bool // nothing was lost, so nothing was done

	Behind bool // the store's log is not archived completely, so data of its present epochs were not restored

	Ends // later events are unknown
}

// RestoreSealed counts restored data that wait because the store lacks their key.
type RestoreSealed struct {
	Endpoints  int   // that the archive has; nothing is sent to them
	Deliveries int64 // unfinished and dead ones whose message has headers that no key opens
}

// LostEndpoint is an endpoint that neither the store nor the archive has. Its deliveries
// wait until it is registered again or they are cancelled.
type LostEndpoint struct {
	Lane       dispatcher.Lane
	Deliveries int64 // unfinished ones
}

// mostRefused limits RestoreReport.Refused.
const mostRefused = 100

// Restore restores a store from its archive.
func Restore(ctx context.Context, o RestoreOptions) (r RestoreReport, err error) {
	if o.Progress == nil {
		o.Progress = func(RestoreStep) {}
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
		epochs = nil // the store may have lost data of its last second too
	}
	w := &restoreRun{o: o, from: o.From, to: o.To, report: &r, epochs: epochs}
	if o.DryRun {
		return r, w.count(ctx)
	}
	if err := w.from.Sever(ctx, present); err != nil {
		return r, err
	}
	return r, w.all(ctx)
}

// archived returns the epochs of the store, and whether its whole log is archived. It waits
// for that if nothing is lost, because an earlier restore may have written to the log.
func archived(ctx context.Context, o *RestoreOptions, lost bool) (epochs []string, drained bool, err error) {
	for late := time.Now().Add(o.Wait); ; {
		epochs, drained, err = o.To.Epochs(ctx)
		if err != nil || drained || lost || !time.Now().Before(late) {
			return epochs, drained, err
		}
		if !wait.Sleep(ctx, restorePollEvery) {
			return nil, false, ctx.Err()
		}
	}
}

// findLoss reports whether the store lost data. It compares the archive with the store, so
// it works even if no instance noticed the loss.
func findLoss(ctx context.Context, o RestoreOptions) (bool, error) {
	id, epochs, err := o.From.Home(ctx)
	if err != nil {
		return false, err
	}
	return o.To.Emptied(ctx, id, epochs)
}

func (r *RestoreReport) detail() map[string]any {
	return map[string]any{
		"endpoints": r.Endpoints, "known": r.Known, "restored": r.Open[PutNew], "there": r.Open[PutExists],
		"sealed_endpoints": r.Sealed.Endpoints, "sealed_deliveries": r.Sealed.Deliveries,
		"refused": r.Open[PutConflict] + r.Open[PutUnreadable], "lost_endpoints": len(r.Lost), "dead": r.Dead[PutNew], "archived_until": r.First,
	}
}

// restoreRun is the state of one restore.
type restoreRun struct {
	o      RestoreOptions
	from   Vault
	to     Target
	report *RestoreReport
	epochs []string // of the store, whose archived data may have ended already
}

// count counts what the archive has. It does not ask the store which of it is there already.
func (w *restoreRun) count(ctx context.Context) error {
	list, _, err := w.from.Endpoints(ctx)
	if err != nil {
		return err
	}
	for i := range list {
		if !list[i].Deleted {
			w.report.Endpoints++
		}
	}
	w.noteEndpoints(list)
	for o, err := range w.from.Open(ctx, w.epochs) {
		if err != nil {
			return err
		}
		w.report.Open[PutNew]++
		w.noteSealed(PutNew, &o)
	}
	for d, err := range w.allDead(ctx) {
		if err != nil {
			return err
		}
		w.report.Dead[PutNew]++
		w.noteSealed(PutNew, &d.Open)
	}
	return nil
}

// allDead has the dead deliveries to restore, if they are to be restored.
func (w *restoreRun) allDead(ctx context.Context) iter.Seq2[DeadOne, error] {
	if !w.o.Dead {
		return func(func(DeadOne, error) bool) {}
	}
	return w.from.Dead(ctx, w.report.Now.Add(-w.o.Limits.Dead), w.o.Limits.DeadMax)
}

// noteEndpoints counts endpoints that the store can't open.
func (w *restoreRun) noteEndpoints(list []Endpoint) {
	for i := range list {
		if e := &list[i]; !e.Deleted && !w.to.OpensEndpoint(e) {
			w.report.Sealed.Endpoints++
		}
	}
}

// noteSealed counts a restored delivery whose message the store can't open.
func (w *restoreRun) noteSealed(p Put, o *Open) {
	if p == PutNew && !w.to.Opens(o) {
		w.report.Sealed.Deliveries++
	}
}

// all restores in the order of dependencies. No attempt is made before all data are there,
// and no message is accepted before all known ids are.
func (w *restoreRun) all(ctx context.Context) error {
	if err := w.to.Hold(ctx); err != nil {
		return err
	}
	for _, phase := range []func(context.Context) error{w.endpoints, w.known, w.open, w.dead, w.lost} {
		if err := phase(ctx); err != nil {
			return err
		}
	}
	// The archive is first, because if this fails here, the data still count as lost and a repeat reports them.
	if err := w.from.Note(ctx, w.o.By, "restore", w.report.detail()); err != nil {
		return err
	}
	if err := w.from.KeepHome(ctx, w.to.ID()); err != nil {
		return err
	}
	return w.to.Release(ctx)
}

func (w *restoreRun) endpoints(ctx context.Context) error {
	list, holds, err := w.from.Endpoints(ctx)
	if err != nil {
		return err
	}
	holds = slices.DeleteFunc(holds, func(h PausedLane) bool { return slices.Contains(w.epochs, h.Epoch) }) // the store has newer data
	w.noteEndpoints(list)
	w.o.Progress(RestoreStep{Phase: "endpoints", Of: int64(len(list))})
	for done := 0; len(list) > 0 || len(holds) > 0; {
		some := list[:min(len(list), page)]
		n, err := w.to.PutEndpoints(ctx, some, holds)
		if err != nil {
			return err
		}
		w.report.Endpoints += n
		list, holds, done = list[len(some):], nil, done+len(some)
		w.o.Progress(RestoreStep{Phase: "endpoints", Done: int64(done), Of: int64(done + len(list))})
	}
	return nil
}

func (w *restoreRun) known(ctx context.Context) error {
	all := w.from.Known(ctx, w.report.Now.Add(-w.o.Limits.Finished), w.o.Limits.SeenMax)
	return paged(all, func(Known) int { return 0 }, func(some []Known) error {
		if err := w.to.PutKnown(ctx, some); err != nil {
			return err
		}
		w.report.Known += int64(len(some))
		w.o.Progress(RestoreStep{Phase: "known", Done: w.report.Known})
		return nil
	})
}

func (w *restoreRun) open(ctx context.Context) error {
	of, err := w.from.CountOpen(ctx, w.epochs)
	if err != nil {
		return err
	}
	w.o.Progress(RestoreStep{Phase: "open", Of: of})
	done := int64(0)
	return paged(w.from.Open(ctx, w.epochs), sizeOf, func(some []Open) error {
		tried := make([]*Open, len(some))
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
			w.noteSealed(p, &some[i])
		}
		done += int64(len(some))
		w.o.Progress(RestoreStep{Phase: "open", Done: done, Of: max(of, done)})
		return nil
	})
}

func (w *restoreRun) dead(ctx context.Context) error {
	done := int64(0)
	return paged(w.allDead(ctx), func(d DeadOne) int { return sizeOf(d.Open) }, func(some []DeadOne) error {
		tried := make([]*Open, len(some))
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
			w.noteSealed(p, &some[i].Open)
		}
		done += int64(len(some))
		w.o.Progress(RestoreStep{Phase: "dead", Done: done})
		return nil
	})
}

// lost finds deliveries whose endpoint is neither in the archive nor in the store. Some may
// be in data that were not lost.
func (w *restoreRun) lost(ctx context.Context) error {
	lost, err := w.to.Lost(ctx)
	for _, lane := range slices.Sorted(maps.Keys(lost)) {
		w.report.Lost = append(w.report.Lost, LostEndpoint{Lane: lane, Deliveries: lost[lane]})
	}
	return err
}

func sizeOf(o Open) int { return len(o.Head) + len(o.Body) }

// paged calls put with pages of a sequence.
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

func (w *restoreRun) note(counts *[Puts]int64, p Put, id dispatcher.DeliveryID) {
	counts[p]++
	if (p == PutConflict || p == PutUnreadable) && len(w.report.Refused) < mostRefused {
		w.report.Refused = append(w.report.Refused, id.String())
	}
}
