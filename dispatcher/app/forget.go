package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
	"github.com/hookladder/hookladder/dispatcher/internal/postgres"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/admin"
)

// ForgetOptions select the messages to forget.
type ForgetOptions struct {
	Of       archive.Selection
	Progress func(ForgetStep) // nil: not called
}

// ForgetStep is the progress of forgetting.
type ForgetStep struct {
	Phase string // store, wait or archive
	Done  int64  // deliveries in the store, messages in the archive
}

// Forgotten counts the forgotten messages and deliveries.
type Forgotten struct {
	Deliveries int64          // in the store
	Cancelled  int64          // the unfinished ones of them
	Left       int64          // not forgotten, because an attempt is under way
	Jobs       int            // with the tenant or subject in their filters
	Archive    archive.Erased // zero if there is no archive
	Archived   bool           // there is an archive
	Arguments  string         // an HMAC of the arguments, same as in both audits
}

// Forget deletes messages from the store, and from the archive if there is one. The store
// remembers their ids for the usual time. It may be repeated.
func Forget(ctx context.Context, o Options, f ForgetOptions) (out Forgotten, err error) {
	if f.Progress == nil {
		f.Progress = func(ForgetStep) {}
	}
	var eraser *postgres.Eraser
	if out.Archived = o.Archive.URL != ""; out.Archived {
		if eraser, err = postgres.OpenEraser(ctx, archiveOptions(o)); err != nil {
			return out, fmt.Errorf("ARCHIVE_URL: %w", err)
		}
		defer eraser.Close()
	}
	err = withStore(ctx, o, func(store *redisq.Store) error {
		w := &forgetting{store: store, eraser: eraser, o: f, out: &out, cancelled: map[dispatcher.DeliveryID]bool{}}
		return w.all(ctx)
	})
	return out, err
}

// forgetting is one call of Forget.
type forgetting struct {
	store  *redisq.Store
	eraser *postgres.Eraser // nil: no archive
	o      ForgetOptions
	out    *Forgotten
	left   map[string]bool          // messages that the store still has
	lanes  map[dispatcher.Lane]bool // of these messages

	cancelled map[dispatcher.DeliveryID]bool // but not forgotten yet
}

// all deletes from the store first. The store logs that, and the log must reach the archive
// before the archive deletes.
func (w *forgetting) all(ctx context.Context) (err error) {
	of := w.o.Of
	w.out.Arguments, err = w.store.Audit().Hide(ctx, of.Tenant, of.Subject, timeText(of.Since), timeText(of.Before))
	if err != nil {
		return err
	}
	defer func() { w.record(context.WithoutCancel(ctx), err) }()
	if err := w.inStore(ctx); err != nil {
		return err
	}
	if err := w.inJobs(ctx); err != nil {
		return err
	}
	if w.eraser == nil {
		return nil
	}
	if err := w.archived(ctx); err != nil {
		return err
	}
	return w.inArchive(ctx)
}

// record writes an audit entry when everything is counted.
func (w *forgetting) record(ctx context.Context, err error) {
	detail := fmt.Sprintf("deliveries %d, cancelled %d, left %d, jobs %d", w.out.Deliveries, w.out.Cancelled, w.out.Left, w.out.Jobs)
	if w.eraser != nil {
		a := w.out.Archive
		detail += fmt.Sprintf("; archive: messages %d, events %d, unfinished %d, months %d", a.Messages, a.Events, a.Open, a.Months)
	}
	if err != nil {
		detail += "; it stopped before its end"
	}
	w.store.Audit().Record(ctx, dispatcher.AuditEntry{
		By: dispatcher.System, What: "forget", Detail: detail + "; arguments hmac:" + w.out.Arguments, Failed: err != nil,
	})
}

// timeText formats a time of the arguments; empty: none.
func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// forgetPage is the number of deliveries in a page.
const forgetPage = 200

// passesMost limits the passes through the store. A pass may miss a delivery that moves at the
// same time, and the next pass finds it.
const passesMost = 4

// inStore deletes from the store until a pass finds nothing to delete.
func (w *forgetting) inStore(ctx context.Context) error {
	for range passesMost {
		before := w.out.Deliveries
		if err := w.pass(ctx); err != nil {
			return err
		}
		ended, err := w.carryOut(ctx)
		if err != nil || w.out.Deliveries == before && ended == 0 {
			return err
		}
	}
	return nil
}

// carryOut ends cancelled deliveries that were not found in the long list of their lane.
func (w *forgetting) carryOut(ctx context.Context) (ended int, err error) {
	for lane := range w.lanes {
		some, err := w.store.CarryOut(ctx, dispatcher.System, lane)
		if ended += some; err != nil {
			return ended, err
		}
	}
	return ended, nil
}

// pass reads the store once.
func (w *forgetting) pass(ctx context.Context) error {
	w.out.Left, w.left, w.lanes = 0, map[string]bool{}, map[dispatcher.Lane]bool{}
	f := dispatcher.Filter{Limit: forgetPage}
	if w.o.Of.Tenant != "" {
		f.Tenants = []string{w.o.Of.Tenant}
	}
	if w.o.Of.Subject != "" {
		f.Subjects = []string{w.o.Of.Subject}
	}
	for {
		page, err := w.store.Deliveries.List(ctx, f)
		if err != nil {
			return err
		}
		var open, all []dispatcher.DeliveryID
		for i := range page.Deliveries {
			d := &page.Deliveries[i]
			if !accepted(d.Created, w.o.Of) {
				continue
			}
			if all = append(all, d.ID); !d.Status.Ended() {
				open = append(open, d.ID)
			}
		}
		if err := w.erase(ctx, open, all); err != nil {
			return err
		}
		w.o.Progress(ForgetStep{Phase: "store", Done: w.out.Deliveries})
		if f.Cursor = page.Next; f.Cursor == "" {
			return nil
		}
	}
}

// inJobs removes the names from the filters of jobs.
func (w *forgetting) inJobs(ctx context.Context) (err error) {
	w.out.Jobs, err = admin.NewJobStore(w.store).HideNames(ctx, admin.JobNames{
		Tenant: w.o.Of.Tenant, Subject: w.o.Of.Subject, Since: w.o.Of.Since, Before: w.o.Of.Before, By: dispatcher.System, Now: w.store.Now(),
	})
	return err
}

// accepted reports whether a message was accepted within the times of a selection.
func accepted(at time.Time, s archive.Selection) bool {
	return (s.Since.IsZero() || !at.Before(s.Since)) && (s.Before.IsZero() || at.Before(s.Before))
}

// erase cancels unfinished deliveries, and deletes all.
func (w *forgetting) erase(ctx context.Context, open, all []dispatcher.DeliveryID) error {
	if len(open) > 0 {
		changes, err := w.store.Cancel(ctx, dispatcher.System, open)
		if err != nil {
			return err
		}
		for _, c := range changes {
			if c.Changed {
				w.cancelled[c.ID] = true
			}
		}
	}
	for len(all) > 0 {
		changes, err := w.store.Erase(ctx, dispatcher.System, all)
		if err != nil {
			return err
		}
		left := all[:0]
		for _, c := range changes {
			switch {
			case c.Changed:
				w.out.Deliveries++
				if w.cancelled[c.ID] {
					delete(w.cancelled, c.ID)
					w.out.Cancelled++
				}
			case errors.Is(c.Err, dispatcher.ErrInFlight):
				w.out.Left++
				w.left[c.ID.Message], w.lanes[c.ID.Lane] = true, true
			case c.Err == nil:
				left = append(left, c.ID)
			}
		}
		all = left
	}
	return nil
}

// archived waits until the archive has everything that the store has logged.
func (w *forgetting) archived(ctx context.Context) error {
	all, err := awaitArchive(ctx, w.store, func() { w.o.Progress(ForgetStep{Phase: "wait"}) })
	if err == nil && !all {
		err = errors.New("the archive does not take in the store's log, so it would know forgotten messages again: see that an instance with ARCHIVE_URL runs and PostgreSQL answers, then run this again")
	}
	return err
}

func (w *forgetting) inArchive(ctx context.Context) error {
	all := &w.out.Archive
	for cursor := ""; ; {
		page, next, err := w.eraser.Choose(ctx, w.o.Of, cursor)
		if err != nil {
			return err
		}
		// Messages that the store still has are kept here too. Their end will be logged, and a
		// later run finds it by the names of its message.
		page = slices.DeleteFunc(page, func(c archive.Chosen) bool { return w.left[c.ID] })
		gone, err := w.eraser.Erase(ctx, w.o.Of, page)
		all.Messages, all.Events, all.Open = all.Messages+gone.Messages, all.Events+gone.Events, all.Open+gone.Open
		if err != nil {
			return err
		}
		w.o.Progress(ForgetStep{Phase: "archive", Done: all.Messages})
		if cursor = next; cursor == "" {
			break
		}
	}
	var err error
	*all, err = w.eraser.Finish(ctx, w.o.Of, w.out.Arguments, *all)
	return err
}
