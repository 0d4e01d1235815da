package main

import (
	"context"
	"fmt"
	"strconv"
)

// masters is the number of masters of the cluster that is measured.
const masters = 3

// wide is the number of partitions that leaves a cluster room to grow.
const wide = 128

// measureMasters measures what a delivery costs all servers of a cluster, as a ratio of what it
// costs one server. Callers publish in batches, which fall into many partitions.
func measureMasters(ctx context.Context, l *lab, s *sample) error {
	one, err := l.clusterUse(ctx, 1, 0)
	if err != nil {
		return err
	}
	one.report(s, "masters, one server")
	for _, c := range []struct {
		name       string
		partitions int // 0: those that a new store gets
	}{{"a new cluster", 0}, {fmt.Sprintf("%d partitions", wide), wide}} {
		name := fmt.Sprintf("masters, %d, %s", masters, c.name)
		all, err := l.clusterUse(ctx, masters, c.partitions)
		if err != nil {
			return err
		}
		all.report(s, name)
		s.add(name+": ÷ one server", "", all.cpu/one.cpu)
	}
	return nil
}

// perMessage is what all servers together have done for a message that is published and delivered.
type perMessage struct{ cpu, calls float64 }

func (p perMessage) report(s *sample, name string) {
	s.add(name+": Redis CPU", "µs", p.cpu)
	s.add(name+": calls", "", p.calls)
}

func (l *lab) clusterUse(ctx context.Context, servers, partitions int) (p perMessage, err error) {
	st, err := l.cluster(ctx, servers)
	if err != nil {
		return p, err
	}
	var env []string
	if partitions > 0 {
		env = append(env, "PARTITIONS="+strconv.Itoa(partitions))
	}
	g, err := l.rigOn(ctx, st, env...)
	if err != nil {
		return p, err
	}
	defer stopping(&err, g.stop)
	if err := g.warm(ctx, many, "delivered"); err != nil {
		return p, err
	}
	run, n := l.newRun("masters"), l.load(51_200, 12_800)
	begin, err := g.begin(ctx)
	if err != nil {
		return p, err
	}
	err = l.callers.publishAll(ctx, g.serve.URL, work{fillers, n, inBatch}, func(i int) string { return g.message(run, i, many, "") })
	if err != nil {
		return p, err
	}
	if _, err := g.receiver.expect(ctx, run, n); err != nil {
		return p, err
	}
	if err := g.holds(ctx, "delivered", n); err != nil {
		return p, err
	}
	spent, err := g.since(ctx, begin)
	if err != nil {
		return p, err
	}
	return perMessage{cpu: spent.redis / float64(n), calls: spent.calls / float64(n)}, g.receiver.forget(ctx, run)
}
