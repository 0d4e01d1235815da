package redisq

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// shares caches the permits and listeners of all instances. Each lane gets a part of the permits.
// The entry of an instance is read once, when its name is new.
type shares struct {
	options Options
	silent  bool

	mu    sync.Mutex // guards known, conf and news
	known map[string]share
	news  bool // known has changed since Listening was called

	conn *conn.Client // receives the configuration that scripts need, with all instances' permits
	conf string       // the last configuration passed to conn
}

// share is what is cached of one instance.
type share struct {
	permits int
	listens []netip.AddrPort
}

func (s *shares) begin(c *conn.Client, o Options, silent bool) {
	s.conn, s.options, s.silent, s.known = c, o, silent, map[string]share{}
	s.conf = o.conf(silent, o.Permits)
	c.SetConf(s.conf)
}

// add caches the entries of instances.
func (s *shares) add(texts map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, text := range texts {
		s.known[name] = share{conn.ParseInstance(text).Permits, conn.InstanceListens(text)}
		s.news = true
	}
}

// count adds up the permits of these instances. It returns the names whose permits are not cached.
func (s *shares) count(names map[string]int64) (unknown []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.known, func(name string, _ share) bool {
		_, there := names[name]
		s.news = s.news || !there
		return !there
	})
	total := 0
	for name := range names {
		if one, ok := s.known[name]; ok {
			total += one.permits
		} else if len(unknown) < AboutAtOnce {
			unknown = append(unknown, name)
		}
	}
	if conf := s.options.conf(s.silent, total); conf != s.conf {
		s.conf = conf
		s.conn.SetConf(conf)
	}
	if tell := s.options.Listening; tell != nil && s.news {
		listens := make(map[string][]netip.AddrPort, len(s.known))
		for name, one := range s.known {
			listens[name] = one.listens
		}
		tell(listens)
	}
	s.news = false
	return unknown
}

// AboutAtOnce is the most instances whose entries one call reads.
const AboutAtOnce = 256

// Join announces a new instance to the others, so that they count its permits. If memory is full,
// it uses a script, because Redis still accepts that.
func (s *Store) Join(ctx context.Context, by string, a dispatcher.Instance) error {
	key, text := s.home()+keys.About, conn.EncodeInstance(a, s.shares.options.Listens, s.shares.options.Archive)
	err := s.conn.At(ctx, "join", conn.Home, func(p redis.Pipeliner) { p.HSet(ctx, key, by, text) })
	if errors.Is(err, dispatcher.ErrFull) {
		_, err = s.setFull(ctx, keys.About, by, text)
	}
	if err == nil {
		s.shares.add(map[string]string{by: text})
	}
	return err
}

// countShares reads the names of the instances and their permits.
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

// countPermits adds up the permits of instances. It reads the entries of new instances, which they
// wrote before their first beat. If an entry can't be read, the next beat retries it. Until then
// the instance counts with 0 permits.
func (s *Store) countPermits(ctx context.Context, names map[string]int64) {
	unknown := s.shares.count(names)
	if len(unknown) == 0 {
		return
	}
	var read *redis.SliceCmd
	err := s.conn.At(ctx, "read reports of instances", conn.Home, func(p redis.Pipeliner) {
		read = p.HMGet(ctx, s.home()+keys.About, unknown...)
	})
	if err != nil {
		return
	}
	texts := make(map[string]string, len(unknown))
	for i, text := range read.Val() {
		if text, ok := text.(string); ok {
			texts[unknown[i]] = text
			if conn.InstanceArchives(text) {
				s.conn.SetArchives(true)
			}
		}
	}
	s.shares.add(texts)
	s.shares.count(names)
}
