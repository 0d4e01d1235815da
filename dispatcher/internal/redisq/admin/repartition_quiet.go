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
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/feed"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// quietLook is how often the instances are looked at meanwhile: so a person who
// forgot one learns it soon.
const quietLook = time.Second

// joinEvery is how often the number grows by which another run knows of this
// one: well within the time for which it looks.
const joinEvery = time.Second

const joinName = "repartition-"

// join makes this run one of the instances until leave is called: of two that
// copy at the same time one would remove what the other is still reading.
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
				_ = beat() // the repartition meets the same fault itself
			}
		}
	})
	return func() {
		close(ended)
		beats.Wait()
		after, cancel := context.WithTimeout(context.WithoutCancel(ctx), withinMark)
		defer cancel()
		_ = r.s.Leave(after, r.name) // else the next one finds it dead
	}, nil
}

// mustBeQuiet refuses while an instance is alive: its number grows. What those
// held that are dead goes back to its lanes, so that nothing is leased.
func (r *repartition) mustBeQuiet(ctx context.Context) error {
	look := vigil{
		readings: int((r.options.Quiet + quietLook - 1) / quietLook), every: quietLook, wait: conn.Sleep, read: r.others,
		grown: func(names []string) error { return alive(slices.Min(names)) },
	}
	dead, err := look.silent(ctx)
	if err != nil {
		return err
	}
	for key, err := range r.eachKey(ctx) {
		if err != nil {
			return err
		}
		if name, ok := strings.CutPrefix(key.name, keys.Leases); ok && !slices.Contains(dead, name) {
			dead = append(dead, name) // it was forgotten though it held something
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

// ErrUnarchived says that something is not archived.
var ErrUnarchived = errors.New("not everything is archived")

// mustBeArchived refuses while there is an archive that has not got all of the log,
// unless that is allowed.
func (r *repartition) mustBeArchived(ctx context.Context) error {
	if r.options.Unarchived || r.mark.Phase > conn.PhaseBegin {
		return nil
	}
	meta, err := r.s.conn.ReadMeta(ctx)
	if err != nil || meta[conn.MetaArchive] == "" {
		return err
	}
	states, err := feed.New(r.s.Store).Look(ctx, r.mark.From)
	if err != nil {
		return err
	}
	for _, s := range states {
		if s.Last.After(s.At) {
			return fmt.Errorf("%w: partition %d is since %v; let an instance run that has ARCHIVE_URL until hookladder_archive_lag_seconds is 0, or allow it",
				ErrUnarchived, s.Partition, s.First.Format(time.RFC3339))
		}
	}
	return nil
}

// errBoth says that another run does the same, whose mark it is too.
var errBoth = fmt.Errorf("another repartition runs: %w", ErrAlive)

func alive(name string) error {
	if strings.HasPrefix(name, joinName) {
		return errBoth
	}
	return fmt.Errorf("%w: %s; stop all of them first", ErrAlive, name)
}

// others are the numbers of all instances but this run.
func (r *repartition) others(ctx context.Context) (map[string]int64, error) {
	numbers, err := r.numbers(ctx)
	delete(numbers, r.name)
	return numbers, err
}
