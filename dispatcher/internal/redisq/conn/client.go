package conn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/script"
)

// Home stands for a partition where the project's own keys are meant.
const Home = -1

// Options say which Redis, and whose part of it.
type Options struct {
	URL        string                // redis://, rediss:// or unix://, with go-redis' options; several ?addr= for a cluster or sentinels
	Mode       Mode                  // what is behind the URL
	Master     string                // name of the master that sentinels watch
	CAFile     string                // certificates trusted for rediss:// besides the system's; empty: none
	Durability dispatcher.Durability // what a durable call waits for
	Project    string                // prefix of all keys
	Dial       DialFunc              // nil: the network
	TestClock  bool                  // the time is read from <tag>:clock, in microseconds, instead of Redis' TIME

	// Repair removes keys of another type than ours from a partition, or from
	// home, and reports whether there were any. It is called where a call met one.
	Repair func(ctx context.Context, partition int) bool
}

// Client is the connection of one project.
type Client struct {
	options Options
	mode    Mode
	rdb     redis.UniversalClient
	single  *redis.Client        // nil in a cluster
	cluster *redis.ClusterClient // nil elsewhere
	conns   *openConns
	where   string // for errors: the address, without any password

	home       string                   // tag of the project's own keys
	tags       []string                 // of each partition
	epochs     []atomic.Pointer[string] // of each partition; nil: not known yet
	impatient  []atomic.Bool            // of home and each partition: it used up a call's patience, and did not answer since
	conf       atomic.Pointer[string]   // ARGV[2] of every script, but for the key of the index and the id of the project
	durableWay string                   // one of the by words

	division  division
	archives  atomic.Bool            // :meta says that there is an archive
	id        atomic.Pointer[string] // of the project; nil: it has none yet
	index     atomic.Pointer[string] // key of what deliveries are found by, in hex; nil: it is not known yet
	breaker   *nodeBreaker
	takeovers chan struct{} // 1 deep: another node may serve a partition now
}

// Dial makes the client that the options ask for. It has no partitions yet.
func Dial(ctx context.Context, o Options) (*Client, error) {
	redis.SetLogger(silent{})
	c := &Client{
		options: o, conns: newConns(), home: keys.Home(o.Project), breaker: newNodeBreaker(),
		impatient: make([]atomic.Bool, 1), takeovers: make(chan struct{}, 1),
	}
	c.SetConf("")
	if err := c.connect(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// silent drops what go-redis would print to standard error. The calls here get the
// same as errors.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// Divide gives the client so many partitions.
func (c *Client) Divide(partitions int) {
	c.impatient = make([]atomic.Bool, 1+partitions)
	c.epochs = make([]atomic.Pointer[string], partitions)
	for n := range partitions {
		c.tags = append(c.tags, keys.Tag(c.options.Project, n))
	}
}

// SetConf sets what scripts have to know of the settings and of all instances'
// permits: ARGV[2] of every script, but for the key of the index and the id of the project.
func (c *Client) SetConf(conf string) { c.conf.Store(&conf) }

// Partitions is the number of partitions.
func (c *Client) Partitions() int { return len(c.tags) }

// Tag is the hash tag of a partition, or of home. All names of its keys begin
// with it.
func (c *Client) Tag(partition int) string {
	if partition == Home {
		return c.home
	}
	return c.tags[partition]
}

// Project is the prefix of all keys.
func (c *Client) Project() string { return c.options.Project }

// TestClock reports whether scripts read the tests' clock.
func (c *Client) TestClock() bool { return c.options.TestClock }

// Where is the address, without any password, for errors.
func (c *Client) Where() string { return c.where }

// Mode is the kind of Redis that was found.
func (c *Client) Mode() Mode { return c.mode }

// InCluster reports whether partitions may lie on several masters.
func (c *Client) InCluster() bool { return c.cluster != nil }

// Redis is go-redis' client, for subscriptions and for tests that read raw keys.
func (c *Client) Redis() redis.UniversalClient { return c.rdb }

// Ping reports whether Redis answers: in a cluster the master of home, without
// which no instance is known to be alive.
func (c *Client) Ping(ctx context.Context) error {
	return c.At(ctx, "ping", Home, func(p redis.Pipeliner) { p.Ping(ctx) })
}

// Close ends all connections.
func (c *Client) Close() error {
	c.breaker.finish()
	return c.rdb.Close()
}

// Load makes all masters know scripts. One that can't be reached gets them when
// it is back and says that it does not know one.
func (c *Client) Load(ctx context.Context, scripts []script.Script) error {
	masters, err := c.Masters(ctx)
	if err != nil {
		return err
	}
	errs := make([]error, len(masters))
	var all sync.WaitGroup
	for i, master := range masters {
		all.Go(func() { errs[i] = loadMissing(ctx, master, scripts) })
	}
	all.Wait()
	for _, err := range errs {
		if err := Failed("load the scripts", err); err != nil && (len(masters) == 1 || !errors.Is(err, dispatcher.ErrUnavailable)) {
			return err
		}
	}
	return nil
}

// loadMissing makes a master know scripts. Mostly it does, from another instance or
// an earlier start. To load all of them again takes it some milliseconds, in which
// it serves no other call. A master that does not tell what it knows gets all.
func loadMissing(ctx context.Context, master *redis.Client, all []script.Script) error {
	shas := make([]string, len(all))
	for i, sc := range all {
		shas[i] = sc.SHA
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
				p.ScriptLoad(ctx, sc.Text)
			}
		}
		return nil
	})
	return err
}

// Masters are the nodes that hold partitions, or home, in no order.
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

// MasterOf is the node that holds a partition, or home.
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

// holds reports whether the master with an address holds any partition, or home.
func (c *Client) holds(addr string) bool {
	for n := Home; n < len(c.tags); n++ {
		master, err := c.MasterOf(c.breaker.end, n)
		if err != nil || master.Options().Addr == addr {
			return true
		}
	}
	return false
}

// reload has the table of a cluster's slots read again, in the background and at
// most every 200 ms. Without it go-redis reads the table after MOVED, and else once
// a minute: it learns late of a node that took over from a dead one. (Measured:
// 58 s without, under 4 with.)
func (c *Client) reload(ctx context.Context) {
	if c.cluster != nil {
		c.cluster.ReloadState(ctx)
	}
}

// Flag is a yes or no as scripts take it.
func Flag(yes bool) int {
	if yes {
		return 1
	}
	return 0
}
