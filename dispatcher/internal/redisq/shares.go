package redisq

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/codec"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// shares knows the permits of all instances, of which lanes get their parts.
// The entry of an instance is read once, when its name is new.
type shares struct {
	options Options
	silent  bool

	mu    sync.Mutex // guards known and conf
	known map[string]int

	conn *conn.Client // is told what scripts have to know of all instances' permits
	conf string       // what it was told last
}

func (s *shares) begin(c *conn.Client, o Options, silent bool) {
	s.conn, s.options, s.silent, s.known = c, o, silent, map[string]int{}
	s.conf = o.conf(silent, o.Permits)
	c.SetConf(s.conf)
}

// add notes the permits of instances.
func (s *shares) add(permits map[string]int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.Copy(s.known, permits)
}

// count sums up the permits of these instances. It names those whose permits
// are not known.
func (s *shares) count(names map[string]int64) (unknown []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.known, func(name string, _ int) bool { _, there := names[name]; return !there })
	total := 0
	for name := range names {
		if permits, ok := s.known[name]; ok {
			total += permits
		} else if len(unknown) < AboutAtOnce {
			unknown = append(unknown, name)
		}
	}
	if conf := s.options.conf(s.silent, total); conf != s.conf {
		s.conf = conf
		s.conn.SetConf(conf)
	}
	return unknown
}

// AboutAtOnce is the most instances about which one call reads.
const AboutAtOnce = 256

// Join tells the other instances of a new one, so that they know its permits.
// When memory is full a script does it, which Redis accepts.
func (s *Store) Join(ctx context.Context, by string, a dispatcher.Instance) error {
	key, text := s.home()+keys.About, codec.EncodeInstance(a, s.shares.options.Archive)
	err := s.conn.At(ctx, "join", conn.Home, func(p redis.Pipeliner) { p.HSet(ctx, key, by, text) })
	if errors.Is(err, dispatcher.ErrFull) {
		_, err = s.SetFull(ctx, keys.About, by, text)
	}
	if err == nil {
		s.shares.add(map[string]int{by: codec.ParseInstance(text).Permits})
	}
	return err
}

// countShares reads which instances there are and their permits.
func (s *Store) countShares(ctx context.Context) error {
	var read *redis.StringSliceCmd
	err := s.conn.At(ctx, "read instances", conn.Home, func(p redis.Pipeliner) { read = p.HKeys(ctx, s.instances()) })
	if err != nil {
		return err
	}
	names := map[string]int64{}
	for _, name := range read.Val() {
		names[name] = 0
	}
	s.countPermits(ctx, names)
	return nil
}

// countPermits sums up the permits of instances. It reads the entries of new
// ones, which they wrote before their first beat. An entry that can't be read
// now is read at the next beat. Until then it counts as 0.
func (s *Store) countPermits(ctx context.Context, names map[string]int64) {
	unknown := s.shares.count(names)
	if len(unknown) == 0 {
		return
	}
	var read *redis.SliceCmd
	err := s.conn.At(ctx, "read what instances told", conn.Home, func(p redis.Pipeliner) {
		read = p.HMGet(ctx, s.home()+keys.About, unknown...)
	})
	if err != nil {
		return
	}
	permits := make(map[string]int, len(unknown))
	for i, text := range read.Val() {
		if text, ok := text.(string); ok {
			permits[unknown[i]] = codec.ParseInstance(text).Permits
			if codec.InstanceArchives(text) {
				s.conn.SetArchives(true)
			}
		}
	}
	s.shares.add(permits)
	s.shares.count(names)
}

// instancesPage is how many instances a page has at most: their leases are counted
// in each partition.
const instancesPage = 100

// Instances reads a page of the instances.
func (s *Store) Instances(ctx context.Context, limit int, after string) (list []dispatcher.InstanceState, next string, err error) {
	var last instancePlace
	if after != "" {
		if err := s.sealer.Open(ctx, instanceList, after, &last); err != nil {
			return nil, "", err
		}
	}
	var there *redis.StringSliceCmd
	var about *redis.MapStringStringCmd
	err = s.conn.At(ctx, "read instances", conn.Home, func(p redis.Pipeliner) {
		there, about = p.HKeys(ctx, s.instances()), p.HGetAll(ctx, s.home()+keys.About)
	})
	if err != nil {
		return nil, "", err
	}
	for _, name := range there.Val() {
		one := dispatcher.InstanceState{Name: name, Instance: codec.ParseInstance(about.Val()[name])}
		if after == "" || compareInstances(one, last.state()) > 0 {
			list = append(list, one)
		}
	}
	slices.SortFunc(list, compareInstances)
	if limit = min(cmp.Or(max(limit, 0), 50), instancesPage); len(list) > limit {
		list = list[:limit]
		last = instancePlace{Started: list[limit-1].StartedAt, Name: list[limit-1].Name}
		if next, err = s.sealer.Seal(ctx, instanceList, last); err != nil {
			return nil, "", err
		}
	}
	return list, next, s.countLeases(ctx, list)
}

// compareInstances puts the instance first that started last.
func compareInstances(a, b dispatcher.InstanceState) int {
	return cmp.Or(b.StartedAt.Compare(a.StartedAt), cmp.Compare(b.Name, a.Name))
}

// instanceList is the name of the list, which has no filter.
var instanceList = dispatcher.ListName("instances", nil)

// instancePlace is the last instance of a page, by which they are in order.
type instancePlace struct {
	Started time.Time
	Name    string
}

func (p instancePlace) state() dispatcher.InstanceState {
	return dispatcher.InstanceState{Name: p.Name, Instance: dispatcher.Instance{StartedAt: p.Started}}
}

// countLeases adds what each instance holds.
func (s *Store) countLeases(ctx context.Context, list []dispatcher.InstanceState) error {
	counts := make([][]*redis.IntCmd, len(s.tags))
	err := s.conn.EachPartition(ctx, "count leases", s.all(), func(p redis.Pipeliner, n int) {
		counts[n] = make([]*redis.IntCmd, len(list))
		for i := range list {
			counts[n][i] = p.ZCard(ctx, s.tags[n]+keys.Leases+list[i].Name)
		}
	})
	if err != nil {
		return err
	}
	for _, of := range counts {
		for i, held := range of {
			list[i].InFlight += int(held.Val())
			if held.Val() > 0 {
				list[i].Partitions++
			}
		}
	}
	return nil
}
