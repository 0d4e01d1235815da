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

// work archives until the log has no more.
func (a *Archiver) work(ctx context.Context) error {
	for more := true; more && ctx.Err() == nil; {
		if time.Since(a.renewed) >= holdEvery || len(a.leases) == 0 {
			if err := a.renew(ctx); err != nil {
				return err
			}
		}
		if len(a.leases) == 0 {
			return nil
		}
		var comparing bool
		var err error
		if more, comparing, err = a.pass(ctx); err == nil && !more && !a.stopping {
			more, err = a.maintain(ctx)
		}
		if err != nil {
			return err
		}
		more = more || comparing
	}
	if a.waiting && !a.stopping {
		a.Wake()
	}
	return nil
}

// pass archives one transaction and compares one page. It reports whether the log may have
// more, and whether a comparison may. A partition that can't be read does not block the
// others.
func (a *Archiver) pass(ctx context.Context) (more, comparing bool, err error) {
	if err := a.reportArchived(ctx); err != nil {
		return false, false, err
	}
	a.waiting = false
	in := a.partitions()
	states, err := a.source.States(ctx, in)
	if err != nil {
		return false, false, err
	}
	var parts []Part
	var errs []error
	lines, bytes := mostLines, mostBytes
	for i := range states {
		s := &states[i]
		h := a.leases[s.Partition]
		if !a.sameEpoch(h, s) {
			return true, false, nil // it has to be leased again
		}
		a.notifyDropped(h, s)
		switch {
		case h.At.After(s.At): // the store missed the report, or lost it
			a.unreported = append(a.unreported, Part{Partition: s.Partition, Epoch: h.Epoch, From: h.At, To: h.At})
			more = true
			continue
		case !s.Last.After(h.At):
			continue
		case lines <= 0 || bytes <= 0:
			more = true
			continue
		}
		p, err := a.source.Read(ctx, s.Partition, h.At, lines, bytes)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if p.Epoch != h.Epoch { // it was emptied after its state was read
			return true, false, nil
		}
		p.Gap, p.Dropped = newest(p.Gap, gapOf(h, s)), s.Dropped
		a.waiting, more = a.waiting || p.Waits, more || p.More
		lines, bytes = lines-len(p.Accepted)-len(p.Events)-len(p.Endpoints)-len(p.PausedLanes), bytes-size(&p)
		if p.To.After(p.From) {
			parts = append(parts, p)
		}
	}
	if err := a.write(ctx, parts); err != nil {
		return false, false, err
	}
	if !a.stopping {
		comparing, err = a.compare(ctx, states)
	}
	return more, comparing, errors.Join(append(errs, err)...)
}

// size returns the bytes of messages and endpoints in a part.
func size(p *Part) (n int) {
	for i := range p.Accepted {
		n += len(p.Accepted[i].Head) + len(p.Accepted[i].Body)
	}
	for i := range p.Endpoints {
		n += len(p.Endpoints[i].Record)
	}
	return n
}

// sameEpoch reports whether a partition still has the leased epoch. If not, all leases are
// forgotten and taken again.
func (a *Archiver) sameEpoch(h *PartitionLease, s *State) bool {
	if s.Epoch != "" && s.Epoch == h.Epoch {
		return true
	}
	a.o.Log.Warn("a partition of the store has other data than before: it was emptied, or its node failed over to one without them", "partition", s.Partition)
	a.wants = nil
	clear(a.leases)
	delete(a.dropped, h.Epoch)
	return false
}

// write writes parts to the archive and reports them to the store.
func (a *Archiver) write(ctx context.Context, parts []Part) error {
	if len(parts) == 0 {
		return nil
	}
	last := make([]int64, len(parts))
	for i := range parts {
		last[i] = parts[i].Number(a.leases[parts[i].Partition].Last)
	}
	written, err := a.archive.Write(ctx, a.o.Name, parts)
	if err != nil {
		return err
	}
	a.reportWritten()
	missing := int64(0)
	for i := range parts {
		h := a.leases[parts[i].Partition]
		h.At, h.Last, h.Gap = parts[i].To, last[i], newest(h.Gap, parts[i].Gap)
		missing += int64(parts[i].Missing)
		if parts[i].TailLost {
			a.notifyTailLost(parts[i].Partition)
		}
		parts[i].Accepted, parts[i].Events, parts[i].Endpoints, parts[i].PausedLanes = nil, nil, nil, nil
	}
	a.mu.Lock()
	s := &a.status
	s.Messages, s.Events = s.Messages+int64(written.Messages), s.Events+int64(written.Events)
	s.Changed, s.Passed, s.Lost = s.Changed+int64(written.Changed), s.Passed+int64(written.Passed), s.Lost+missing
	a.mu.Unlock()
	a.unreported = append(a.unreported, parts...)
	return a.reportArchived(ctx)
}

// reportArchived reports to the store which parts are archived. If that fails, the next pass repeats
// it.
func (a *Archiver) reportArchived(ctx context.Context) error {
	if len(a.unreported) == 0 {
		return nil
	}
	if err := a.source.Archived(ctx, a.unreported); err != nil {
		return err
	}
	a.unreported = nil
	return nil
}

// notifyTailLost reports that the store lost its newest data. Restoring it is left to the
// operator, because another store may still have these deliveries and attempt them.
func (a *Archiver) notifyTailLost(partition int) {
	const detail = "the store lost its newest data: hookladder restore --into-running restores it from the archive"
	a.o.Log.Warn(detail, "partition", partition)
	a.notify(reasonTail, 0, detail)
}

// notify reports a problem that is over when it is found.
func (a *Archiver) notify(reason string, count int, detail string) {
	if a.o.Notify == nil {
		return
	}
	at := a.o.Now().Truncate(time.Millisecond)
	a.o.Notify(dispatcher.News{Notice: dispatcher.NoticeUnhealthy, At: at, Since: at, Reason: reason, Count: count, Detail: detail})
}

// The reasons in the reports: the archive or the store lost data.
const (
	reasonBacklog = "archive_backlog"
	reasonTail    = "tail_lost"
)

// notifyDropped reports log lines that the store cut before they were archived. The archive
// has the number that was reported before this instance started.
func (a *Archiver) notifyDropped(h *PartitionLease, s *State) {
	before := max(a.dropped[s.Epoch], h.Dropped)
	a.dropped[s.Epoch] = s.Dropped
	if s.Dropped <= before {
		return
	}
	n := int(s.Dropped - before)
	a.o.Log.Warn("the store cut log lines that were not archived: ARCHIVE_BACKLOG was reached", "partition", s.Partition, "lines", n)
	a.notify(reasonBacklog, n, "log lines were cut before they were archived, because ARCHIVE_BACKLOG was reached")
}

// Status is the state of archiving on one instance.
type Status struct {
	Up         bool      // the last write succeeded
	Since      time.Time // when Up changed last, by this host's clock
	Err        error     // the cause if it is not up
	Partitions int       // partitions that this instance archives
	Orphans    int64     // unfinished deliveries of emptied stores, in the partitions of this instance

	// Comparing is the share of its partitions' deliveries that this instance has not
	// compared yet; 0 if all are compared.
	Comparing float64

	// Counts since the instance started. Changed rows have a replaced text. Passed rows
	// were rejected by the archive, and Lost ones were cut by the store.
	Messages, Events, Changed, Passed, Lost int64
}

// Figures are a Status and the progress of archiving.
type Figures struct {
	Status
	Lag     time.Duration // age of the oldest event that is not archived; 0 if all are
	Backlog int64         // bytes that the store keeps because they are not archived
	Dropped int64         // lines that the store ever cut before they were archived
}
