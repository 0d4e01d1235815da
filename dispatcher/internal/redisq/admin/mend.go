package admin

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/wait"
)

// The mending of torn partitions: how long until the rights are tried again, and how often a
// caller says that it still mends. See torn.lua for the time after which another one takes over.
const (
	mendEvery  = time.Second
	renewEvery = 5 * time.Second
)

// KeepMended repairs partitions in which an error ended a script in its middle, until ctx ends. No
// script changes such a partition meanwhile. It waits until the user has all rights again, because
// a repair would be torn too. by is the name of the instance.
func KeepMended(ctx context.Context, s *redisq.Store, by string, log *slog.Logger) error {
	m := mender{s: s, by: by, log: log}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.Conn().TornSignal():
		}
		for m.mend(ctx) && wait.Sleep(ctx, mendEvery) {
		}
	}
}

// mender is KeepMended.
type mender struct {
	s     *redisq.Store
	by    string
	log   *slog.Logger
	said  string    // what was logged last about missing rights
	since time.Time // when it began
}

// mend repairs the torn partitions that it can. It reports whether there are others.
func (m *mender) mend(ctx context.Context) (more bool) {
	torn := m.s.Conn().Torn()
	if len(torn) == 0 {
		return false
	}
	if m.since.IsZero() {
		m.since = time.Now()
		m.log.Error("an error ended a script of Redis in its middle: nothing is done in these partitions until they are repaired", "partitions", len(torn))
	}
	if lacks := conn.LackedRights(ctx, m.s.Conn()); lacks != "" {
		if lacks != m.said {
			m.said = lacks
			m.log.Error("the repair waits until the user of Redis has its rights again", "cure", lacks)
		}
		return true
	}
	d := newDoctor(newStore(m.s), Examination{Fix: true, Report: func(f Finding) {
		m.log.Debug("found in a torn partition", "kind", f.Kind, "partition", f.Partition, "subject", f.Subject, "repaired", f.Fixed)
	}})
	d.by = doctorName + "-" + m.by
	if err := d.mend(ctx, torn); err != nil {
		if ctx.Err() == nil {
			m.log.Warn("torn partitions are not repaired yet", "err", err)
		}
		return true
	}
	if len(m.s.Conn().Torn()) > 0 { // another instance repairs them
		return true
	}
	m.log.Info("the partitions are repaired, and go on", "repaired", d.out.Fixed, slog.Float64("took_s", time.Since(m.since).Round(time.Millisecond).Seconds()))
	m.since, m.said = time.Time{}, ""
	return false
}

// mend repairs torn partitions.
func (d *doctor) mend(ctx context.Context, partitions []int) error {
	if err := d.readKeys(ctx); err != nil {
		return err
	}
	d.lanes = make([][]string, d.s.conn.Partitions())
	for _, n := range partitions {
		if err := d.examinePartition(ctx, n); err != nil {
			return d.s.conn.InPartition(n, err)
		}
	}
	return nil
}

// States of a partition, as torn.lua returns them.
const (
	whole     = 0
	tornHere  = 1 // the caller mends it
	tornThere = 2 // another caller does
)

// torn calls torn.lua: l looks, t begins to mend, e ends.
func (d *doctor) torn(ctx context.Context, n int, what string) (state int64, err error) {
	r := d.s.conn.Send(ctx, conn.Batch{Script: tornScript, By: d.by, Calls: []conn.Call{{Partition: n, Args: []any{what}}}})[0]
	state = r.Number()
	return state, r.Err
}

// examinePartition checks a partition. If it is torn, nothing else changes it until it is repaired.
func (d *doctor) examinePartition(ctx context.Context, n int) error {
	what := "l"
	if d.e.Fix {
		what = "t"
	}
	state, err := d.torn(ctx, n, what)
	switch {
	case err != nil:
		return err
	case state == whole:
		d.s.conn.Mended(n)
		return d.checkPartition(ctx, n)
	case state == tornThere:
		d.report(n, d.s.conn.Tag(n), "torn", "an instance repairs it now", false)
		return nil
	}
	d.report(n, d.s.conn.Tag(n), "torn", "", d.e.Fix)
	if !d.e.Fix {
		return d.checkPartition(ctx, n)
	}
	stop := d.renew(ctx, n)
	err = d.checkPartition(ctx, n)
	stop()
	if err != nil {
		return err
	}
	if state, err = d.torn(ctx, n, "e"); err != nil || state != whole {
		return errors.Join(err, errTornAgain)
	}
	d.s.conn.Mended(n)
	return nil
}

var errTornAgain = errors.New("a script was torn during the repair")

// renew says that the partition is still being mended, until stop is called.
func (d *doctor) renew(ctx context.Context, n int) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() {
		for wait.Sleep(ctx, renewEvery) {
			_, _ = d.torn(ctx, n, "t") // at worst another caller takes over
		}
	})
	return func() {
		cancel()
		done.Wait()
	}
}

// checkPartition checks the keys of a partition.
func (d *doctor) checkPartition(ctx context.Context, n int) error {
	sound, err := d.values(ctx, n)
	if err != nil || !sound {
		return err
	}
	for _, step := range []func(context.Context, int) error{d.places, d.records, d.shelves, d.counts, d.turns} {
		if err := step(ctx, n); err != nil {
			return err
		}
	}
	return nil
}
