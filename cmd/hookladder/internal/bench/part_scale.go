package bench

import (
	"context"
	"strconv"
)

const (
	scaleMessages, scaleMessagesQuick = 10_000, 2000
	scaleRatio                        = "scale: three masters ÷ one server"
)

// deployment is a store and the instances that work on it.
type deployment struct {
	name                           string
	masters, partitions, instances int // 0: a single server, the default, and one
}

// deployments are compared with the first one. Several partitions on one server show which part of
// a cluster's cost they cause, because one call of a script becomes many calls.
var deployments = []deployment{
	{name: "one server"},
	{name: "one server with 2 partitions", partitions: 2},
	{name: "one server with 4 partitions", partitions: 4},
	{name: "one server with 128 partitions", partitions: 128},
	{name: "one server, 2 instances", instances: 2},
	{name: "one server, 4 instances", instances: 4},
	{name: "two masters", masters: 2},
	{name: "three masters", masters: 3},
	{name: "three masters, 4 instances", masters: 3, instances: 4},
}

// scalePart measures the cost of a delivery for each deployment, all its processes together.
func scalePart() part {
	return part{
		name:  "scale",
		about: "CPU time of Redis and serve for a delivery through due: partitions, instances, and masters of a cluster",
		measure: func(ctx context.Context, l *lab, s *sample) error {
			redis := map[string]float64{}
			for _, d := range deployments {
				cost, err := l.dueCost(ctx, d)
				if err != nil {
					return err
				}
				redis[d.name] = cost.redis
				s.add("scale: "+d.name, "µs", cost.redis)
				s.add("scale: "+d.name+": dispatcher CPU", "µs", cost.dispatcher)
			}
			s.add(scaleRatio, "", redis["three masters"]/redis["one server"])
			return nil
		},
	}
}

// dueCost starts a deployment, and delivers messages with one due time. It returns the CPU time of one
// message from the publish on.
func (l *lab) dueCost(ctx context.Context, d deployment) (cost used, err error) {
	var env []string
	if d.partitions > 0 {
		env = append(env, "PARTITIONS="+strconv.Itoa(d.partitions))
	}
	w, err := newSite(ctx, l, storeOptions{masters: d.masters}, env...)
	if err != nil {
		return cost, err
	}
	defer stopping(&err, w.stop)
	for range max(d.instances, 1) - 1 {
		more, err := l.serve(ctx, w.store, env...)
		if err != nil {
			return cost, err
		}
		w.more = append(w.more, more)
	}
	if err := w.warm(ctx, many); err != nil {
		return cost, err
	}
	n := l.size(scaleMessages, scaleMessagesQuick)
	err = w.again(func() error {
		before, err := w.count(ctx)
		if err != nil {
			return err
		}
		if err := w.deliverDue(ctx, n, many); err != nil {
			return err
		}
		after, err := w.count(ctx)
		cost = after.minus(before)
		return err
	})
	return used{dispatcher: cost.dispatcher / float64(n), redis: cost.redis / float64(n)}, err
}
