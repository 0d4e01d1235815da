package admin

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/wait"
)

// unmet returns the instances that have a description but never sent a heartbeat, because
// they died between the two writes of their start.
func (d *doctor) unmet(ctx context.Context) (map[string]bool, error) {
	var about *redis.StringSliceCmd
	err := d.s.conn.At(ctx, "read descriptions of instances", conn.Home, func(p redis.Pipeliner) { about = p.HKeys(ctx, d.s.conn.Tag(conn.Home)+keys.About) })
	if err != nil {
		return nil, err
	}
	there, err := d.numbers(ctx)
	if err != nil {
		return nil, err
	}
	unmet := map[string]bool{}
	for _, name := range about.Val() {
		if _, ok := there[name]; !ok {
			unmet[name] = true
		}
	}
	return unmet, nil
}

// archive reports that the log is kept for an archive although no running instance has
// one. With Fix it stops that.
func (d *doctor) archive(ctx context.Context) error {
	var meta, about *redis.MapStringStringCmd
	err := d.s.conn.At(ctx, "read the archive flag", conn.Home, func(p redis.Pipeliner) {
		meta, about = d.s.conn.QueueMeta(ctx, p), p.HGetAll(ctx, d.s.conn.Tag(conn.Home)+keys.About)
	})
	if err != nil || !conn.ParseMeta(meta.Val()).Archive || len(about.Val()) == 0 {
		return err
	}
	for _, text := range about.Val() {
		if conn.InstanceArchives(text) {
			return nil
		}
	}
	if d.e.Fix {
		if err = d.s.conn.EndArchive(ctx); err == nil {
			err = d.s.endArchive(ctx, d.s.conn.Partitions())
		}
	}
	d.report(-1, d.s.conn.Tag(conn.Home)+keys.Meta, "unarchived", "", d.e.Fix && err == nil)
	return err
}

// endArchive forgets how far each partition is archived. A new archive starts again.
func (s *projectStore) endArchive(ctx context.Context, partitions int) error {
	return s.conn.EachPartition(ctx, "end the archive", keys.Partitions(partitions), func(p redis.Pipeliner, n int) {
		p.HDel(ctx, s.conn.Tag(n)+keys.Archive, "p", "b", "gap")
	})
}

// forgetUnmet removes the descriptions of instances that were unmet some reads ago and
// still are.
func (d *doctor) forgetUnmet(ctx context.Context, before map[string]bool) error {
	if len(before) == 0 {
		return nil
	}
	now, err := d.unmet(ctx)
	if err != nil {
		return err
	}
	maps.DeleteFunc(before, func(name string, _ bool) bool { return !now[name] })
	names := slices.Sorted(maps.Keys(before))
	if d.e.Fix && len(names) > 0 {
		err := d.s.conn.At(ctx, "forget descriptions of instances", conn.Home, func(p redis.Pipeliner) {
			for some := range slices.Chunk(names, redisq.AboutAtOnce) {
				p.HDel(ctx, d.s.conn.Tag(conn.Home)+keys.About, some...)
			}
		})
		if err != nil {
			return err
		}
	}
	for _, name := range names {
		d.report(-1, name, "unmet_instance", "", d.e.Fix)
	}
	return nil
}

// instanceWatch reads the heartbeats of the instances until it is known which are dead.
type instanceWatch struct {
	readings int           // after the first
	every    time.Duration // between two reads
	wait     func(ctx context.Context, d time.Duration) bool
	read     func(ctx context.Context) (map[string]int64, error)
	grown    func(names []string) error // called with the names of live instances; an error ends the watch; nil: stop as soon as the dead ones are known
}

// silent returns the names of the dead instances.
func (v instanceWatch) silent(ctx context.Context) ([]string, error) {
	pulses := wait.NewPulses(v.every, v.readings)
	for last := time.Now(); ; {
		began := time.Now()
		numbers, err := v.read(ctx)
		if err != nil {
			return nil, err
		}
		grown, dead := pulses.Read(numbers, time.Since(last))
		last = time.Now()
		if v.grown != nil && len(grown) > 0 {
			if err := v.grown(grown); err != nil {
				return nil, err
			}
		}
		if pulses.Complete() || v.grown == nil && pulses.Decided() {
			slices.Sort(dead)
			return dead, nil
		}
		if !v.wait(ctx, v.every-time.Since(began)) {
			return nil, ctx.Err()
		}
	}
}

// Project describes the project of a store, read without opening it.
type Project struct {
	Layout    string // of its keys; empty: the project is new
	Instances []dispatcher.InstanceState
}

// Inspect reads a store of any layout. It writes nothing.
func Inspect(ctx context.Context, o redisq.Options) (p Project, err error) {
	c, err := conn.Dial(ctx, conn.Options{URL: o.URL, Mode: o.Mode, Master: o.Master, CAFile: o.CAFile, Project: o.Project, Dial: o.Dial})
	if err != nil {
		return p, err
	}
	defer func() { _ = c.Close() }() // nothing was written
	meta, err := c.ReadMeta(ctx)
	if err != nil {
		return p, c.Explain(err)
	}
	p.Layout = meta.Schema
	var there *redis.StringSliceCmd
	var about *redis.MapStringStringCmd
	err = c.At(ctx, "read instances", conn.Home, func(r redis.Pipeliner) {
		there, about = r.HKeys(ctx, c.Tag(conn.Home)+keys.Instances), r.HGetAll(ctx, c.Tag(conn.Home)+keys.About)
	})
	if err != nil {
		return p, err
	}
	for _, name := range there.Val() {
		p.Instances = append(p.Instances, dispatcher.InstanceState{Name: name, Instance: conn.ParseInstance(about.Val()[name])})
	}
	slices.SortFunc(p.Instances, func(a, b dispatcher.InstanceState) int { return strings.Compare(a.Name, b.Name) })
	return p, nil
}
