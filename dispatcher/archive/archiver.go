package archive

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/wait"
)

const (
	// gatherTime is how long changes are gathered before the log is read. A message that is
	// accepted and delivered within it is never written as unfinished.
	gatherTime = 200 * time.Millisecond
	// Limits of a transaction: 4,096 lines take PostgreSQL some 80 ms.
	mostLines = 4096
	mostBytes = 8 << 20

	holdEvery = LeaseTime / 3

	// A lost notification is made up for by polling the log. A poll takes some five
	// commands for each partition, which is a third of a command a second.
	pollEvery     = 30 * time.Second
	pollPartition = 16 * time.Second // at least, for each partition

	firstPause, mostPause = 200 * time.Millisecond, 5 * time.Second // backoff after a failure
	versionPause          = time.Minute                             // while the tables have another version
	releaseWithin         = time.Second
	lastWithin            = 3 * time.Second // for the last changes when this instance stops
)

// PollEvery returns how often a log is polled without a notification.
func PollEvery(partitions int) time.Duration {
	return max(pollEvery, time.Duration(partitions)*pollPartition)
}

// ArchiverOptions say what to archive, and where.
type ArchiverOptions struct {
	Source    Source
	Archive   Archive
	Name      string        // of this instance
	Retention time.Duration // of the archive; 0 keeps all
	Now       func() time.Time
	Notify    func(dispatcher.News) // reports data that the archive or the store lost; must not block
	Log       *slog.Logger
}

// Archiver copies a store's log into an archive.
type Archiver struct {
	o       ArchiverOptions
	source  Source
	archive Archive
	changed wait.Signal // the store's log has changed

	// The fields below are used by Run's goroutine only.
	wants          []Want
	leases         map[int]*PartitionLease
	unreported     []Part    // written, but not reported to the store yet
	renewed        time.Time // when leases was read
	records        records
	walks          map[int]*runningWalk // running comparisons, by partition
	maintained     time.Time            // when the months were maintained last
	dropped        map[string]int64     // cut lines that were reported, by epoch
	failures       int                  // consecutive failures
	firstPartition int                  // index of the partition with which the next pass starts
	waiting        bool                 // the last pass stopped at a change that an endpoint does not have yet
	stopping       bool                 // Run archives the rest of the log and starts nothing else

	mu     sync.Mutex // guards status
	status Status
}

// NewArchiver returns an Archiver.
func NewArchiver(o ArchiverOptions) *Archiver {
	return &Archiver{
		o: o, source: o.Source, archive: o.Archive, changed: wait.NewSignal(),
		leases: map[int]*PartitionLease{}, dropped: map[string]int64{}, records: newRecords(), walks: map[int]*runningWalk{},
	}
}

// Wake wakes Run after a change in the store. It does not block.
func (a *Archiver) Wake() {
	a.changed.Set()
}

// Status returns the state of archiving on this instance.
func (a *Archiver) Status() Status {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.status
}

// Figures returns the status and the progress over all partitions.
func (a *Archiver) Figures(ctx context.Context) (Figures, error) {
	f := Figures{Status: a.Status()}
	states, err := a.source.States(ctx, a.source.All())
	for i := range states {
		s := &states[i]
		f.Backlog, f.Dropped = f.Backlog+s.Backlog, f.Dropped+s.Dropped
		if !s.First.IsZero() {
			f.Lag = max(f.Lag, s.Now.Sub(s.First))
		}
	}
	return f, err
}

// Run archives until ctx ends. Then it releases its partitions to other instances.
func (a *Archiver) Run(ctx context.Context) error {
	defer a.release(ctx)
	again := time.NewTimer(0) // the first try
	defer again.Stop()
	hold := time.NewTicker(holdEvery)
	defer hold.Stop()
	poll := time.NewTicker(PollEvery(len(a.source.All())))
	defer poll.Stop()
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
		case <-a.changed:
			if a.failures > 0 || len(a.leases) == 0 {
				continue
			}
			if !wait.Sleep(ctx, gatherTime) {
				return nil
			}
			err = a.work(ctx)
		case <-poll.C:
			if a.failures > 0 {
				continue
			}
			err = a.work(ctx)
		case <-again.C:
			err = a.work(ctx)
		}
		if pause := a.report(ctx, err); pause > 0 {
			again.Reset(pause)
		}
	}
	return nil
}

// report handles the result of a step. It returns the wait before a retry, or 0 if none is
// needed.
func (a *Archiver) report(ctx context.Context, err error) time.Duration {
	if ctx.Err() != nil {
		return 0
	}
	if errors.Is(err, ErrMoved) { // another instance owns it now
		a.o.Log.Info("another instance archives this partition, or the store was emptied: the partitions are read again", "err", err)
		clear(a.leases)
		a.wants = nil // the store may have other data now
		err = nil
	}
	a.reportUp(err)
	if err == nil {
		a.failures = 0
		return 0
	}
	a.failures++
	if errors.Is(err, ErrVersion) {
		return versionPause
	}
	return wait.Backoff(a.failures, firstPause, mostPause)
}

// reportUp logs once that the archive is down and once that it is back. If the store is down,
// the engine logs it.
func (a *Archiver) reportUp(err error) {
	if err != nil && !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrVersion) {
		if a.failures == 0 && !errors.Is(err, dispatcher.ErrUnavailable) {
			a.o.Log.Error("reading the store for the archive failed", "err", err)
		}
		return
	}
	a.mu.Lock()
	was, since := a.status.Up, a.status.Since
	first := since.IsZero()
	a.status.Up, a.status.Err, a.status.Partitions = err == nil, err, len(a.leases)
	if was != a.status.Up || first {
		a.status.Since = time.Now()
	}
	a.mu.Unlock()
	switch {
	case err != nil && (was || first):
		a.o.Log.Warn("archive lost: deliveries continue, and the store keeps its log", "err", err)
	case err == nil && !was && !first:
		a.o.Log.Info("archive back", "after_s", time.Since(since).Round(time.Millisecond).Seconds())
	}
}

// reportWritten reports the archive as up after a successful write, even in the middle of a pass.
func (a *Archiver) reportWritten() {
	if !a.Status().Up {
		a.reportUp(nil)
	}
}

// release archives the rest of the log and releases the partitions.
func (a *Archiver) release(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	// It tries also after a failure, because the stop itself may have cut a call off, with which the leases go.
	// It does not wait for an archive that it never reached.
	if !a.renewed.IsZero() {
		last, cancel := context.WithTimeout(ctx, lastWithin)
		a.stopping = true
		if err := a.work(last); err != nil {
			a.o.Log.Warn("archiving the last changes failed, another instance continues", "err", err)
		}
		cancel()
	}
	ctx, cancel := context.WithTimeout(ctx, releaseWithin)
	defer cancel()
	if len(a.leases) > 0 {
		if err := a.archive.Release(ctx, a.o.Name); err != nil {
			a.o.Log.Warn("releasing the archive's partitions failed, another instance takes over when the leases end", "err", err)
		}
	}
	a.archive.Close()
}

// renew renews the leases and leases free partitions.
func (a *Archiver) renew(ctx context.Context) error {
	if len(a.wants) == 0 {
		if err := a.begin(ctx); err != nil {
			return err
		}
	}
	before := len(a.leases)
	leases, err := a.archive.Lease(ctx, a.o.Name, a.wants)
	if err != nil {
		clear(a.leases)
		return err
	}
	a.renewed = time.Now()
	for i := range a.wants {
		a.wants[i].Old = true
	}
	now := make(map[int]*PartitionLease, len(leases))
	orphans := int64(0)
	for i := range leases {
		h := &leases[i]
		now[h.Partition] = h
		orphans += h.Orphans
	}
	a.leases = now
	a.mu.Lock()
	more := orphans > a.status.Orphans
	a.status.Orphans, a.status.Partitions = orphans, len(now)
	if len(now) == 0 {
		a.status.Comparing = 0
	}
	a.mu.Unlock()
	if more {
		a.o.Log.Warn("the store was emptied: unfinished deliveries are only in the archive; bring them back with hookladder restore", "deliveries", orphans)
	}
	if before == 0 && len(now) > 0 {
		a.o.Log.Info("archiving", "partitions", len(now))
		a.Wake()
	}
	return nil
}

// begin starts logging and log retention in the store and reads its epochs.
func (a *Archiver) begin(ctx context.Context) error {
	all := a.source.All()
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
	a.wants = make([]Want, 0, len(states))
	for i := range states {
		s := &states[i]
		a.wants = append(a.wants, Want{Partition: s.Partition, Epoch: s.Epoch, At: s.At})
	}
	return nil
}

// checkHome compares the store with the archived one. It runs before the archive leases
// partitions with this store's epochs.
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

// partitions returns the partitions of this instance. Each call starts with another one,
// because a pass may not reach all of them.
func (a *Archiver) partitions() []int {
	var all []int
	for n := range a.leases {
		all = append(all, n)
	}
	slices.Sort(all)
	if len(all) == 0 {
		return nil
	}
	a.firstPartition++
	k := a.firstPartition % len(all)
	return append(all[k:len(all):len(all)], all[:k]...)
}
