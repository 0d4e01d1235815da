package read

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/input"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// instancesPage is the maximum number of instances in a page, because their leases are counted
// in each partition.
const instancesPage = 100

// instancesMost is the maximum number of instances that a script gets. The script searches the
// leases of each. No store has more live instances, and names that a person wrote are found
// dead within seconds.
const instancesMost = 2500

// Instances returns a page of the instances.
func (s *Deliveries) Instances(ctx context.Context, limit int, after string) (list []dispatcher.InstanceState, next string, err error) {
	var last instancePlace
	if err := s.conn.Cursors().Open(ctx, instanceList, after, &last); err != nil {
		return nil, "", err
	}
	var there *redis.StringSliceCmd
	var about *redis.MapStringStringCmd
	err = s.conn.At(ctx, "read instances", conn.Home, func(p redis.Pipeliner) {
		there, about = p.HKeys(ctx, s.conn.Tag(conn.Home)+keys.Instances), p.HGetAll(ctx, s.conn.Tag(conn.Home)+keys.About)
	})
	if err != nil {
		return nil, "", err
	}
	for _, name := range there.Val() {
		one := dispatcher.InstanceState{Name: name, Instance: conn.ParseInstance(about.Val()[name])}
		if after == "" || compareInstances(one, last.state()) > 0 {
			list = append(list, one)
		}
	}
	slices.SortFunc(list, compareInstances)
	list, next, err = conn.CutPage(ctx, s.conn, instanceList, list, input.PageSize(limit, instancesPage), func(i dispatcher.InstanceState) instancePlace {
		return instancePlace{Started: i.StartedAt, Name: i.Name}
	})
	if err != nil {
		return nil, "", err
	}
	return list, next, s.countLeases(ctx, list)
}

// compareInstances sorts by start time, the newest first.
func compareInstances(a, b dispatcher.InstanceState) int {
	return cmp.Or(b.StartedAt.Compare(a.StartedAt), cmp.Compare(b.Name, a.Name))
}

// instanceList is the name of the list. The list has no filter.
var instanceList = dispatcher.ListName("instances", nil)

// instancePlace is the last instance of a page, with the values by which instances are sorted.
type instancePlace struct {
	Started time.Time
	Name    string
}

func (p instancePlace) state() dispatcher.InstanceState {
	return dispatcher.InstanceState{Name: p.Name, Instance: dispatcher.Instance{StartedAt: p.Started}}
}

// countLeases adds the number of leases of each instance.
func (s *Deliveries) countLeases(ctx context.Context, list []dispatcher.InstanceState) error {
	counts := make([][]*redis.IntCmd, s.conn.Partitions())
	err := s.conn.EachPartition(ctx, "count leases", s.conn.All(), func(p redis.Pipeliner, n int) {
		counts[n] = make([]*redis.IntCmd, len(list))
		for i := range list {
			counts[n][i] = p.ZCard(ctx, s.conn.Tag(n)+keys.Leases+list[i].Name)
		}
	})
	if err != nil {
		return err
	}
	for _, of := range counts {
		for i, count := range of {
			list[i].InFlight += int(count.Val())
			if count.Val() > 0 {
				list[i].Partitions++
			}
		}
	}
	return nil
}

// InstanceNames returns the instances' names as arguments of a script: their number, then each
// name.
func InstanceNames(ctx context.Context, c *conn.Client) ([]any, error) {
	var list *redis.StringSliceCmd
	err := c.At(ctx, "read instances", conn.Home, func(p redis.Pipeliner) { list = p.HKeys(ctx, c.Tag(conn.Home)+keys.Instances) })
	if err != nil {
		return nil, err
	}
	known := list.Val()
	slices.Sort(known)
	known = known[:min(len(known), instancesMost)]
	names := make([]any, 0, len(known)+1)
	names = append(names, len(known))
	for _, name := range known {
		names = append(names, name)
	}
	return names, nil
}
