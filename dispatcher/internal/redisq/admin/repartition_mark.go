package admin

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/wait"
)

// readMark returns the mark of this repartition, and whether it has begun before.
func (r *repartition) readMark(ctx context.Context) (m conn.Mark, again bool, err error) {
	meta, err := r.s.conn.ReadMeta(ctx)
	switch {
	case err != nil:
		return m, false, err
	case !meta.Exists:
		return m, false, errors.New("there is no such project in this Redis")
	}
	if err := r.s.conn.CheckLayout(meta.Schema); err != nil {
		return m, false, err
	}
	r.s.conn.TakeID(meta.ID) // without an id no instance is subscribed
	r.s.conn.TakeIndex(meta)
	m, marked, err := meta.Mark()
	switch {
	case err != nil:
		return m, false, err
	case marked && m.Phase > conn.PhaseBegin && m.To != r.options.To:
		return m, false, fmt.Errorf("one from %d to %d partitions has not ended: finish it with --to %d first", m.From, m.To, m.To)
	case marked && m.Phase > conn.PhaseBegin:
		return m, true, nil
	}
	from, err := meta.Partitions() // a marked one was stopped before it changed anything
	return conn.Mark{From: from, To: r.options.To}, false, err
}

// reach records that a phase has begun.
func (r *repartition) reach(ctx context.Context, p conn.Phase) error {
	r.mark.Phase = p
	if p != conn.PhaseBegin {
		r.report(p, -1)
	}
	return r.s.conn.SetMark(ctx, r.mark)
}

// mustBeMarked returns an error if the mark has changed, because another run may have
// ended this repartition while this process was stopped.
func (r *repartition) mustBeMarked(ctx context.Context) error {
	meta, err := r.s.conn.ReadMeta(ctx)
	if err != nil {
		return err
	}
	if mark, _, err := meta.Mark(); err != nil || mark != r.mark {
		return errors.New("another run has ended or changed it meanwhile")
	}
	return nil
}

// quietPoll is the time between two reads of the heartbeats, so a forgotten instance is
// reported soon.
const quietPoll = time.Second

// joinEvery is the time between two heartbeats of this run, by which another run detects
// it.
const joinEvery = time.Second

const joinName = "repartition-"

// join registers this run as an instance until leave is called. Of two concurrent runs
// one would delete data that the other still reads.
func (r *repartition) join(ctx context.Context) (leave func(), err error) {
	r.name = joinName + rand.Text()
	number := 0
	beat := func() error {
		number++
		return r.s.conn.At(ctx, "join", conn.Home, func(p redis.Pipeliner) { p.HSet(ctx, r.s.instances(), r.name, number) })
	}
	if err := beat(); err != nil {
		return func() {}, err
	}
	ended := make(chan struct{})
	var beats sync.WaitGroup
	beats.Go(func() {
		tick := time.NewTicker(joinEvery)
		defer tick.Stop()
		for {
			select {
			case <-ended:
				return
			case <-tick.C:
				_ = beat() // the repartition itself gets the same error
			}
		}
	})
	return func() {
		close(ended)
		beats.Wait()
		after, cancel := context.WithTimeout(context.WithoutCancel(ctx), withinMark)
		defer cancel()
		_ = r.s.Leave(after, r.name) // otherwise the next run must wait until it is dead
	}, nil
}

// mustBeQuiet returns an error while an instance is alive, which its heartbeat shows. It
// returns the deliveries leased by dead instances to their lanes, so that nothing is
// leased.
func (r *repartition) mustBeQuiet(ctx context.Context) error {
	watch := instanceWatch{
		readings: int((r.options.Quiet + quietPoll - 1) / quietPoll), every: quietPoll, wait: wait.Sleep, read: r.others,
		grown: func(names []string) error { return alive(slices.Min(names)) },
	}
	dead, err := watch.silent(ctx)
	if err != nil {
		return err
	}
	for key, err := range r.eachKey(ctx) {
		if err != nil {
			return err
		}
		if name, ok := strings.CutPrefix(key.name, keys.Leases); ok && !slices.Contains(dead, name) {
			dead = append(dead, name) // it was forgotten, but had leases
		}
	}
	for _, name := range dead {
		taken, err := r.s.Reap(ctx, r.by, name)
		r.out.Reaped += taken
		if err != nil {
			return err
		}
	}
	return nil
}

// ErrUnarchived means that something is not archived yet.
var ErrUnarchived = errors.New("not everything is archived")

// mustBeArchived returns an error if an archive does not have the whole log yet, unless
// that is allowed.
func (r *repartition) mustBeArchived(ctx context.Context) error {
	if r.options.Unarchived || r.mark.Phase > conn.PhaseBegin {
		return nil
	}
	meta, err := r.s.conn.ReadMeta(ctx)
	if err != nil || !meta.Archive {
		return err
	}
	states, err := NewFeed(r.s.Store).ReadStates(ctx, r.mark.From)
	if err != nil {
		return err
	}
	for _, s := range states {
		if s.Last.After(s.At) {
			return fmt.Errorf("%w: partition %d is behind since %v; run an instance with ARCHIVE_URL until hookladder_archive_lag_seconds is 0, or allow it",
				ErrUnarchived, s.Partition, s.First.Format(time.RFC3339))
		}
	}
	return nil
}

// errBoth means that another run works on the same mark.
var errBoth = fmt.Errorf("another repartition runs: %w", ErrAlive)

func alive(name string) error {
	if strings.HasPrefix(name, joinName) {
		return errBoth
	}
	return fmt.Errorf("%w: %s; stop all of them first", ErrAlive, name)
}

// others returns the heartbeat numbers of all instances except this run.
func (r *repartition) others(ctx context.Context) (map[string]int64, error) {
	numbers, err := r.numbers(ctx)
	delete(numbers, r.name)
	return numbers, err
}
