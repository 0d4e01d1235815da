// Package archiver brings what the store's log tells into the archive. It is never in
// the way of a delivery. While the archive is away, the store keeps what is not archived
// as long as it may. Then the archiver goes on where it was.
//
// One instance archives a partition at a time. Where it is gone for archive.HoldFor,
// another goes on from where the archive says it was.
package archiver

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
)

const (
	// linger is how long what happens is gathered before it is read: what is accepted and
	// delivered within it is never written as unfinished.
	linger = 200 * time.Millisecond
	// A transaction takes at most so much: 4,096 lines take PostgreSQL some 80 ms.
	mostLines = 4096
	mostBytes = 8 << 20

	holdEvery = archive.HoldFor / 3

	// What was missed, since its hint was lost, is found by looking so often. A look takes
	// some five commands for each partition: a third of a command a second.
	lookEvery     = 30 * time.Second
	lookPartition = 16 * time.Second // at least, for each partition

	pauseLeast, pauseMost = 100 * time.Millisecond, 5 * time.Second // after a failure
	versionPause          = time.Minute                             // while the tables are of another version
	releaseWithin         = time.Second
	lastWithin            = 3 * time.Second // for what happened last, when this instance stops
)

// LookEvery is how often a log of so many partitions is looked at though nothing tells of
// anything.
func LookEvery(partitions int) time.Duration {
	return max(lookEvery, time.Duration(partitions)*lookPartition)
}

// Options say what is archived, and where.
type Options struct {
	Source    archive.Source
	Archive   archive.Archive
	Name      string        // of this instance
	Retention time.Duration // of the archive; 0: for ever
	Now       func() time.Time
	Tell      func(dispatcher.News) // is told of what is lost to the archive; must not block
	Log       *slog.Logger
}

// Archiver brings a store's log into an archive.
type Archiver struct {
	o       Options
	source  archive.Source
	archive archive.Archive
	stirred chan struct{} // 1 deep: something happened in the store

	// What Run's goroutine alone uses.
	wants    []archive.Want
	held     map[int]*archive.Held
	unsaid   []archive.Part // kept, and the store was not told
	renewed  time.Time      // when held was read
	records  records
	walks    map[int]*walking // of what is held, as far as it has to be compared
	cared    time.Time        // when the tables of months were looked after last
	dropped  map[string]int64 // by epoch: lines cut before they were archived, as they were reported last
	failures int              // in a row
	from     int              // the partition with which the next pass begins
	waits    bool             // the last pass met a change that an endpoint does not have yet
	stops    bool             // it archives what there is, and begins nothing more

	mu     sync.Mutex // guards what follows
	status archive.Status
}

// New makes an Archiver.
func New(o Options) *Archiver {
	return &Archiver{
		o: o, source: o.Source, archive: o.Archive, stirred: make(chan struct{}, 1),
		held: map[int]*archive.Held{}, dropped: map[string]int64{}, records: newRecords(), walks: map[int]*walking{},
	}
}

// Stirred tells that something happened in the store. It does not block.
func (a *Archiver) Stirred() {
	select {
	case a.stirred <- struct{}{}:
	default:
	}
}

// Status is how the archive does.
func (a *Archiver) Status() archive.Status {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.status
}

// Figures are how the archive does, and how far the store is archived.
func (a *Archiver) Figures(ctx context.Context) (archive.Figures, error) {
	f := archive.Figures{Status: a.Status()}
	states, err := a.source.States(ctx, a.all())
	for i := range states {
		s := &states[i]
		f.Backlog, f.Dropped = f.Backlog+s.Backlog, f.Dropped+s.Dropped
		if !s.First.IsZero() {
			f.Lag = max(f.Lag, s.Now.Sub(s.First))
		}
	}
	return f, err
}

// all are all partitions.
func (a *Archiver) all() []int {
	all := make([]int, a.source.Partitions())
	for n := range all {
		all[n] = n
	}
	return all
}

// Run archives until ctx ends. Then others go on.
func (a *Archiver) Run(ctx context.Context) error {
	defer a.release(ctx)
	again := time.NewTimer(0) // the first try
	defer again.Stop()
	hold := time.NewTicker(holdEvery)
	defer hold.Stop()
	look := time.NewTicker(LookEvery(a.source.Partitions()))
	defer look.Stop()
	for ctx.Err() == nil {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case <-hold.C:
			if a.failures > 0 {
				continue // again comes sooner
			}
			err = a.renew(ctx)
		case <-a.stirred:
			if a.failures > 0 || len(a.held) == 0 {
				continue
			}
			if !sleep(ctx, linger) {
				return nil
			}
			err = a.work(ctx)
		case <-look.C:
			if a.failures > 0 {
				continue
			}
			err = a.work(ctx)
		case <-again.C:
			err = a.work(ctx)
		}
		if wait := a.report(ctx, err); wait > 0 {
			again.Reset(wait)
		}
	}
	return nil
}

// sleep waits, and reports whether ctx did not end.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// report takes in how a step came out, and answers when to try again; 0: not on account
// of that.
func (a *Archiver) report(ctx context.Context, err error) time.Duration {
	if ctx.Err() != nil {
		return 0
	}
	if errors.Is(err, archive.ErrMoved) { // another instance holds it by now
		a.o.Log.Info("another instance archives this, or the store was emptied: what there is to archive is read again", "err", err)
		clear(a.held)
		a.wants = nil // the store may hold other data by now
		err = nil
	}
	a.tellUp(err)
	if err == nil {
		a.failures = 0
		return 0
	}
	a.failures++
	if errors.Is(err, archive.ErrVersion) {
		return versionPause
	}
	most := min(pauseLeast<<min(a.failures, 10), pauseMost)
	return pauseLeast + rand.N(most)
}

// tellUp tells once that the archive is away, and once that it is back. That the store
// does not answer, the engine tells.
func (a *Archiver) tellUp(err error) {
	if err != nil && !errors.Is(err, archive.ErrUnavailable) && !errors.Is(err, archive.ErrVersion) {
		if a.failures == 0 && !errors.Is(err, dispatcher.ErrUnavailable) {
			a.o.Log.Error("the store can't be read for the archive", "err", err)
		}
		return
	}
	a.mu.Lock()
	was, since := a.status.Up, a.status.Since
	first := since.IsZero()
	a.status.Up, a.status.Err, a.status.Holds = err == nil, err, len(a.held)
	if was != a.status.Up || first {
		a.status.Since = time.Now()
	}
	a.mu.Unlock()
	switch {
	case err != nil && (was || first):
		a.o.Log.Warn("archive lost: deliveries go on, and the store keeps what is not archived", "err", err)
	case err == nil && !was && !first:
		a.o.Log.Info("archive back", "after_s", time.Since(since).Round(time.Millisecond).Seconds())
	}
}

// accepts tells that the archive took what it was given, also in the middle of a pass.
func (a *Archiver) accepts() {
	if !a.Status().Up {
		a.tellUp(nil)
	}
}

// release archives what happened until the end, and gives up what this instance holds.
func (a *Archiver) release(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	if len(a.held) > 0 && a.failures == 0 {
		last, cancel := context.WithTimeout(ctx, lastWithin)
		a.stops = true
		if err := a.work(last); err != nil {
			a.o.Log.Warn("could not archive what happened last, the next instance does", "err", err)
		}
		cancel()
	}
	ctx, cancel := context.WithTimeout(ctx, releaseWithin)
	defer cancel()
	if len(a.held) > 0 {
		if err := a.archive.Release(ctx, a.o.Name); err != nil {
			a.o.Log.Warn("could not give up the archive, another instance takes it over", "err", err)
		}
	}
	a.archive.Close()
}

// renew holds what there is to hold, and takes what is free.
func (a *Archiver) renew(ctx context.Context) error {
	if len(a.wants) == 0 {
		if err := a.begin(ctx); err != nil {
			return err
		}
	}
	before := len(a.held)
	held, err := a.archive.Hold(ctx, a.o.Name, a.wants)
	if err != nil {
		clear(a.held)
		return err
	}
	a.renewed = time.Now()
	for i := range a.wants {
		a.wants[i].Old = true
	}
	now := make(map[int]*archive.Held, len(held))
	orphans := int64(0)
	for i := range held {
		h := &held[i]
		now[h.Partition] = h
		orphans += h.Orphans
	}
	a.held = now
	a.mu.Lock()
	more := orphans > a.status.Orphans
	a.status.Orphans, a.status.Holds = orphans, len(now)
	if len(now) == 0 {
		a.status.Comparing = 0
	}
	a.mu.Unlock()
	if more {
		a.o.Log.Warn("the store was emptied: unfinished deliveries are only in the archive; bring them back with hookladder restore", "deliveries", orphans)
	}
	if before == 0 && len(now) > 0 {
		a.o.Log.Info("archiving", "partitions", len(now))
		a.Stirred()
	}
	return nil
}

// begin has the store name what it accepts and keep what is not archived, and learns its
// epochs.
func (a *Archiver) begin(ctx context.Context) error {
	all := a.all()
	if err := a.source.Begin(ctx); err != nil {
		return err
	}
	if err := a.checkHome(ctx); err != nil {
		return err
	}
	states, err := a.source.States(ctx, all)
	if err != nil {
		return err
	}
	a.wants = make([]archive.Want, 0, len(states))
	for i := range states {
		s := &states[i]
		a.wants = append(a.wants, archive.Want{Partition: s.Partition, Epoch: s.Epoch, At: s.At})
	}
	return nil
}

// checkHome compares the store with the one that was archived last, before the archive
// takes the epochs of this one.
func (a *Archiver) checkHome(ctx context.Context) error {
	id, epochs, err := a.archive.Home(ctx)
	if err != nil {
		return err
	}
	present, err := a.source.Lost(ctx, id, epochs)
	if err != nil || present == "" || present == id {
		return err
	}
	return a.archive.KeepHome(ctx, present)
}

// partitions are those that this instance archives, in another order each time: a pass
// may not reach all.
func (a *Archiver) partitions() []int {
	var all []int
	for n := range a.held {
		all = append(all, n)
	}
	slices.Sort(all)
	if len(all) == 0 {
		return nil
	}
	a.from++
	k := a.from % len(all)
	return append(all[k:len(all):len(all)], all[:k]...)
}
