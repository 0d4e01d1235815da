package conn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// Home is the number for the project's own keys, in place of a partition.
const Home = -1

// Options name the Redis and the project in it.
type Options struct {
	URL        string                // redis://, rediss:// or unix://, with go-redis' options; several ?addr= for a cluster or sentinels
	Mode       Mode                  // the kind of Redis behind the URL
	Master     string                // name of the master in Sentinel
	CAFile     string                // certificates trusted for rediss:// in addition to the system's; empty: none
	Durability dispatcher.Durability // how durable a durable call must be
	Project    string                // prefix of all keys
	Dial       DialFunc              // nil: the network
	LogIn      LogInFunc             // returns the user and the password of each new connection; nil: those of the URL
	TestClock  bool                  // scripts read the time from <tag>:clock, in microseconds, instead of TIME

	// Repair removes keys of a wrong type from a partition, or from home, and reports
	// whether there were any. It is called after a call failed because of one.
	Repair func(ctx context.Context, partition int) bool
}

// Client is the connection of one project.
type Client struct {
	options Options
	mode    Mode
	rdb     redis.UniversalClient
	single  *redis.Client        // nil in a cluster
	cluster *redis.ClusterClient // nil without a cluster
	conns   *openConns
	where   string // for errors: the address without a password

	home       string                   // tag of the project's own keys
	tags       []string                 // by partition
	epochs     []atomic.Pointer[string] // by partition; nil: not known yet
	impatient  []atomic.Bool            // of home and each partition: its last call retried until its time was over
	conf       atomic.Pointer[string]   // ARGV[2] of every script, without the key of the index and the id of the project
	durableWay string                   // one of the By constants

	division  division
	archives  atomic.Bool            // :meta says that there is an archive
	id        atomic.Pointer[string] // of the project; nil: it has none yet
	index     atomic.Pointer[string] // key of the hashes of tenants and subjects, in hex; nil: not known yet
	breaker   *nodeBreaker
	measure   func(kind string, took time.Duration) // nil: round trips are not measured
	takeovers chan struct{}                         // 1 deep: another node may serve a partition now
	torn      torn
	cursors   Sealer
}

// Dial returns the client for the options. It has no partitions yet.
func Dial(ctx context.Context, o Options) (*Client, error) {
	redis.SetLogger(silent{})
	c := &Client{
		options: o, conns: newConns(), home: keys.Home(o.Project), breaker: newNodeBreaker(),
		impatient: make([]atomic.Bool, 1), takeovers: make(chan struct{}, 1),
		torn: torn{set: map[int]bool{}, wake: make(chan struct{}, 1)},
	}
	c.cursors.conn = c
	c.SetConf("")
	if err := c.connect(ctx); err != nil {
		return nil, o.Explain(err)
	}
	return c, nil
}

// silent discards the log of go-redis on standard error, because the calls return the
// same errors.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// Divide sets the number of partitions.
func (c *Client) Divide(partitions int) {
	c.impatient = make([]atomic.Bool, 1+partitions)
	c.epochs = make([]atomic.Pointer[string], partitions)
	for n := range partitions {
		c.tags = append(c.tags, keys.Tag(c.options.Project, n))
	}
}

// SetConf sets the settings and permits that scripts read: ARGV[2] of every script,
// without the key of the index and the id of the project.
func (c *Client) SetConf(conf string) { c.conf.Store(&conf) }

// Partitions returns the number of partitions.
func (c *Client) Partitions() int { return len(c.tags) }

// All are the numbers of all partitions.
func (c *Client) All() []int { return keys.Partitions(len(c.tags)) }

// Tag returns the hash tag of a partition, or of home. It is the prefix of the names of
// its keys.
func (c *Client) Tag(partition int) string {
	if partition == Home {
		return c.home
	}
	return c.tags[partition]
}

// Project returns the prefix of all keys.
func (c *Client) Project() string { return c.options.Project }

// script returns a script in the form that the client runs.
func (c *Client) script(s Script) Script {
	if c.options.TestClock {
		return s.OfTest()
	}
	return s
}

// Where returns the address without a password, for errors.
func (c *Client) Where() string { return c.where }

// Explain is Options.Explain for the options of the connection.
func (c *Client) Explain(err error) error { return c.options.Explain(err) }

// OnRoundTrip sets a function that gets the duration of each round trip, with the name of the
// script that it runs; empty: it runs none. It must be set before the calls that it measures.
func (c *Client) OnRoundTrip(measure func(kind string, took time.Duration)) { c.measure = measure }

// Mode returns the kind of Redis.
func (c *Client) Mode() Mode { return c.mode }

// InCluster reports whether partitions may be on several masters.
func (c *Client) InCluster() bool { return c.cluster != nil }

// Redis returns go-redis' client, for subscriptions and for tests that read raw keys.
func (c *Client) Redis() redis.UniversalClient { return c.rdb }

// Ping returns nil if Redis responds. In a cluster that is the master of home, because
// without it no heartbeat can be read.
func (c *Client) Ping(ctx context.Context) error {
	return c.At(ctx, "ping", Home, func(p redis.Pipeliner) { p.Ping(ctx) })
}

// Close closes all connections.
func (c *Client) Close() error {
	c.breaker.finish()
	return c.rdb.Close()
}

// Load loads scripts on all masters. A master that can't be reached gets them when it is
// back and reports an unknown script.
func (c *Client) Load(ctx context.Context, scripts []Script) error {
	masters, err := c.Masters(ctx)
	if err != nil {
		return err
	}
	of := make([]Script, len(scripts))
	for i, sc := range scripts {
		of[i] = c.script(sc)
	}
	errs := make([]error, len(masters))
	var all sync.WaitGroup
	for i, master := range masters {
		all.Go(func() { errs[i] = loadMissing(ctx, master, of) })
	}
	all.Wait()
	for _, err := range errs {
		if err := Failed("load the scripts", err); err != nil && (len(masters) == 1 || !errors.Is(err, dispatcher.ErrUnavailable)) {
			return err
		}
	}
	return nil
}

// loadMissing loads the scripts that a master does not have. Usually it has all of them,
// from another instance or an earlier start. Loading all of them again would block it for
// some milliseconds. A master that does not report its scripts gets all of them.
func loadMissing(ctx context.Context, master *redis.Client, all []Script) error {
	shas := make([]string, len(all))
	for i, sc := range all {
		shas[i] = sc.SHA()
	}
	known, err := master.ScriptExists(ctx, shas...).Result()
	if err != nil || len(known) != len(all) {
		known = make([]bool, len(all))
	}
	if !slices.Contains(known, false) {
		return nil
	}
	_, err = master.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, sc := range all {
			if !known[i] {
				p.ScriptLoad(ctx, sc.Text())
			}
		}
		return nil
	})
	return err
}

// Masters returns the nodes with partitions or home, in no order.
func (c *Client) Masters(ctx context.Context) ([]*redis.Client, error) {
	if c.cluster == nil {
		return []*redis.Client{c.single}, nil
	}
	var list []*redis.Client
	met := map[*redis.Client]bool{}
	for n := Home; n < len(c.tags); n++ {
		master, err := c.MasterOf(ctx, n)
		if err != nil {
			return nil, Failed("find the masters", err)
		}
		if !met[master] {
			met[master] = true
			list = append(list, master)
		}
	}
	return list, nil
}

// MasterOf returns the node with a partition, or with home.
func (c *Client) MasterOf(ctx context.Context, partition int) (*redis.Client, error) {
	if c.cluster == nil {
		return c.single, nil
	}
	master, err := c.cluster.MasterForKey(ctx, c.Tag(partition))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotTried, err)
	}
	return master, nil
}

// holds reports whether the master with an address has any partition, or home.
func (c *Client) holds(addr string) bool {
	for n := Home; n < len(c.tags); n++ {
		master, err := c.MasterOf(c.breaker.end, n)
		if err != nil || master.Options().Addr == addr {
			return true
		}
	}
	return false
}

// reload reads the table of a cluster's slots again, in the background and at most every
// 200 ms. go-redis itself reads it after MOVED, and otherwise once a minute. So it would
// learn late of a node that took over from a dead one. (Measured: 58 s without, under 4
// with.)
func (c *Client) reload(ctx context.Context) {
	if c.cluster != nil {
		c.cluster.ReloadState(ctx)
	}
}

// Flag returns a boolean as scripts expect it.
func Flag(yes bool) int {
	if yes {
		return 1
	}
	return 0
}
