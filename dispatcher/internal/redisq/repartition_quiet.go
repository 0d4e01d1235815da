package redisq

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
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
		return r.conn.At(ctx, "join", conn.Home, func(p redis.Pipeliner) { p.HSet(ctx, r.instances(), r.name, number) })
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
		_ = r.Leave(after, r.name) // else the next one finds it dead
	}, nil
}

// mustBeQuiet refuses while an instance is alive: its number grows. What those
// held that are dead goes back to its lanes, so that nothing is leased.
func (r *repartition) mustBeQuiet(ctx context.Context) error {
	first, err := r.numbers(ctx)
	if err != nil {
		return err
	}
	for left := r.options.Quiet; left > 0; left -= quietLook {
		wait := time.NewTimer(min(left, quietLook))
		select {
		case <-ctx.Done():
			wait.Stop()
			return ctx.Err()
		case <-wait.C:
		}
		numbers, err := r.numbers(ctx)
		if err != nil {
			return err
		}
		for name, number := range numbers {
			if was, known := first[name]; !known || was != number {
				return alive(name)
			}
		}
	}
	dead := slices.Collect(maps.Keys(first))
	err = r.eachKey(ctx, func(key partitionKey) error {
		if name, ok := strings.CutPrefix(key.name, keys.Leases); ok && !slices.Contains(dead, name) {
			dead = append(dead, name) // it was forgotten though it held something
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, name := range dead {
		taken, _, err := r.Reap(ctx, "repartition", name)
		r.out.Reaped += taken
		if err != nil {
			return err
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

func (r *repartition) numbers(ctx context.Context) (map[string]string, error) {
	var all *redis.MapStringStringCmd
	err := r.conn.At(ctx, "read instances", conn.Home, func(p redis.Pipeliner) { all = p.HGetAll(ctx, r.instances()) })
	numbers := conn.Value(all)
	delete(numbers, r.name)
	return numbers, err
}
