package redisq

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Times of a connection, unless the URL names them.
const (
	// dialWithin lets a lost SYN be sent once more, which is after a second.
	dialWithin = 2 * time.Second
	// readWithin is waitMost and a second for the script before it: a server that
	// answers later hangs. All our calls end after 5 s anyway.
	readWithin = 3 * time.Second
	// poolWithin is how long a call may wait for a connection to come free. Each
	// is used for one round trip: where all are in use for longer than any answer
	// may take, a caller that waits shall have some of its time left to be told so.
	poolWithin = readWithin
	// idleMost is below the time after which anything between forgets a
	// connection (cloud balancers: from 60 s), and far below what a machine
	// sleeps: none that is older is used again.
	idleMost = 50 * time.Second
)

// bufferSize is what go-redis gives connections for pipelines, which all our
// calls are. So they need no pool of their own, and pool_size is what it says.
const bufferSize = 128 << 10

// Mode is what kind of Redis a URL leads to.
type Mode string

// The modes. ModeAuto finds out: sentinels where a master is named, else what
// the server says of itself.
const (
	ModeAuto     Mode = "auto"
	ModeSingle   Mode = "single"
	ModeCluster  Mode = "cluster"
	ModeSentinel Mode = "sentinel"
)

// connection is how the store reaches Redis.
type connection struct {
	mode    Mode
	rdb     redis.UniversalClient
	single  *redis.Client        // nil in a cluster
	cluster *redis.ClusterClient // nil elsewhere
	lines   *lines
	where   string // for errors: the address, without any password
}

// connect makes the client that the options ask for. It dials only to find out
// what it can't know otherwise.
func connect(ctx context.Context, o Options) (*connection, error) {
	u, err := readURL(o)
	if err != nil {
		return nil, err
	}
	c := &connection{mode: o.Mode, lines: newLines(), where: u.where()}
	several := len(u.query["addr"]) > 0
	if c.mode == "" || c.mode == ModeAuto {
		switch {
		case o.Master != "":
			c.mode = ModeSentinel
		case several:
			c.mode = ModeCluster
		default:
			c.mode = ModeAuto
		}
	}
	switch {
	case c.mode == ModeSentinel && o.Master == "":
		return nil, errors.New("REDIS_MODE=sentinel needs REDIS_MASTER, the name by which the sentinels know the master")
	case c.mode != ModeSentinel && o.Master != "":
		return nil, fmt.Errorf("REDIS_MASTER=%s is for sentinels, but REDIS_MODE=%s", o.Master, c.mode)
	case c.mode == ModeSingle && several:
		return nil, errors.New("REDIS_MODE=single, but REDIS_URL has several addr=")
	case c.mode == ModeSentinel:
		return c, c.openSentinel(u, o.Master)
	case c.mode == ModeSingle:
		err = c.openSingle(u)
	case c.mode == ModeCluster:
		err = c.openCluster(u)
	case c.mode == ModeAuto:
		return c, c.find(ctx, u)
	default:
		return nil, fmt.Errorf("REDIS_MODE=%q is not auto, single, cluster or sentinel", string(c.mode))
	}
	if err != nil {
		return nil, err
	}
	return c, c.confirm(ctx)
}

// find opens what one address leads to.
func (c *connection) find(ctx context.Context, u *redisURL) error {
	if err := c.openSingle(u); err != nil {
		return err
	}
	clustered, err := inCluster(ctx, c.single)
	if err != nil {
		return errors.Join(failed("ask "+c.where, err), c.single.Close())
	}
	if !clustered {
		return nil
	}
	if err := c.single.Close(); err != nil {
		return fmt.Errorf("close the first connection: %w", err)
	}
	c.single = nil
	return c.openCluster(u)
}

// confirm makes sure that the mode asked for is what is there: a client of one
// node would meet the others' partitions as errors, one of a cluster fail at
// the first command.
func (c *connection) confirm(ctx context.Context) error {
	clustered, err := false, error(nil)
	if c.mode == ModeSingle {
		clustered, err = inCluster(ctx, c.single)
	} else {
		err = c.cluster.ForEachMaster(ctx, func(context.Context, *redis.Client) error { return nil }) // reads the slots
		if clustered = !strings.Contains(wordOf(err), "cluster support disabled"); !clustered {
			err = nil
		}
	}
	switch {
	case err != nil:
		err = failed("ask "+c.where, err)
	case c.mode == ModeSingle && clustered:
		err = errors.New("REDIS_MODE=single, but it is a node of a cluster: set REDIS_MODE=cluster, or unset it")
	case c.mode == ModeCluster && !clustered:
		err = errors.New("it is no node of a cluster, which REDIS_MODE=cluster or several addr= in REDIS_URL ask for")
	}
	if err != nil {
		return errors.Join(err, c.rdb.Close())
	}
	return nil
}

// inCluster asks a server whether it is a node of a cluster. One that does not
// tell is taken to be none.
func inCluster(ctx context.Context, client *redis.Client) (bool, error) {
	info, err := client.Info(ctx, "cluster").Result()
	if err != nil && wordOf(err) == "" {
		return false, err
	}
	if err == nil {
		return strings.Contains(info, "cluster_enabled:1"), nil
	}
	info, err = client.ClusterInfo(ctx).Result() // a user may be forbidden the one and not the other
	return err == nil && strings.Contains(info, "cluster_state:"), nil
}

func (c *connection) openSingle(u *redisURL) error {
	opts, err := redis.ParseURL(u.text())
	if err != nil {
		return withoutURL(err)
	}
	secure(opts.TLSConfig, u)
	c.tune(knobs{
		dial: &opts.DialTimeout, read: &opts.ReadTimeout, pool: &opts.PoolTimeout, idle: &opts.ConnMaxIdleTime,
		retries: &opts.MaxRetries, dials: &opts.DialerRetries, pipelines: &opts.PipelinePoolSize,
		in: &opts.ReadBufferSize, out: &opts.WriteBufferSize,
		ctx: &opts.ContextTimeoutEnabled, nameless: &opts.DisableIdentity, news: &opts.MaintNotificationsConfig,
	})
	opts.Dialer = c.lines.dialer(opts.DialTimeout, opts.TLSConfig)
	c.single = redis.NewClient(opts)
	c.rdb = c.single
	if c.mode == ModeAuto {
		c.mode = ModeSingle
	}
	return nil
}

func (c *connection) openCluster(u *redisURL) error {
	if path := strings.Trim(u.url.Path, "/"); path != "" && path != "0" {
		return fmt.Errorf("REDIS_URL names database %s, but a cluster has only 0", path)
	}
	opts, err := redis.ParseClusterURL(u.text("skip_verify"))
	if err != nil {
		return withoutURL(err)
	}
	if opts.ReadOnly || opts.RouteByLatency || opts.RouteRandomly || opts.MaxRedirects != 0 {
		return errors.New("REDIS_URL: read_only, route_by_latency, route_randomly and max_redirects can't be used: " +
			"replicas are behind, and a redirect is not followed while keys are being moved")
	}
	secure(opts.TLSConfig, u)
	opts.MaxRedirects = -1 // ASK must not be followed, and repeating is ours to decide
	c.tune(knobs{
		dial: &opts.DialTimeout, read: &opts.ReadTimeout, pool: &opts.PoolTimeout, idle: &opts.ConnMaxIdleTime,
		retries: &opts.MaxRetries, dials: &opts.DialerRetries, pipelines: &opts.PipelinePoolSize,
		in: &opts.ReadBufferSize, out: &opts.WriteBufferSize,
		ctx: &opts.ContextTimeoutEnabled, nameless: &opts.DisableIdentity, news: &opts.MaintNotificationsConfig,
	})
	opts.Dialer = c.lines.dialer(opts.DialTimeout, opts.TLSConfig)
	c.mode, c.cluster = ModeCluster, redis.NewClusterClient(opts)
	c.rdb = c.cluster
	return nil
}

// openSentinel makes a client of the master that sentinels name. What the URL
// says of user, password and database is the master's.
func (c *connection) openSentinel(u *redisURL, master string) error {
	opts, err := redis.ParseFailoverURL(u.text("sentinel_username", "sentinel_password"))
	if err != nil {
		return withoutURL(err)
	}
	if opts.ReplicaOnly || opts.RouteByLatency || opts.RouteRandomly {
		return errors.New("REDIS_URL: replica_only, route_by_latency and route_randomly can't be used: replicas are behind")
	}
	secure(opts.TLSConfig, u)
	opts.MasterName = master
	opts.Username, opts.Password = opts.SentinelUsername, opts.SentinelPassword
	opts.SentinelUsername, opts.SentinelPassword = u.query.Get("sentinel_username"), u.query.Get("sentinel_password")
	var news *maintnotifications.Config // of no use with sentinels
	c.tune(knobs{
		dial: &opts.DialTimeout, read: &opts.ReadTimeout, pool: &opts.PoolTimeout, idle: &opts.ConnMaxIdleTime,
		retries: &opts.MaxRetries, dials: &opts.DialerRetries, pipelines: &opts.PipelinePoolSize,
		in: &opts.ReadBufferSize, out: &opts.WriteBufferSize,
		ctx: &opts.ContextTimeoutEnabled, nameless: &opts.DisableIdentity, news: &news,
	})
	opts.Dialer = c.lines.dialer(opts.DialTimeout, opts.TLSConfig)
	c.single = redis.NewFailoverClient(opts)
	c.rdb = c.single
	return nil
}

// knobs are the settings that the three kinds of clients have in common.
type knobs struct {
	dial, read, pool, idle    *time.Duration
	retries, dials, pipelines *int
	in, out                   *int
	ctx, nameless             *bool
	news                      **maintnotifications.Config
}

// tune sets what the URL left open, and what is not for it to say.
func (c *connection) tune(k knobs) {
	for _, d := range []struct {
		set     *time.Duration
		without time.Duration
	}{{k.dial, dialWithin}, {k.read, readWithin}, {k.pool, poolWithin}, {k.idle, idleMost}} {
		if *d.set == 0 {
			*d.set = d.without
		}
	}
	*k.retries = -1 // a script that is run again by the client would claim again; callers repeat what may be repeated
	*k.dials = 1    // who calls repeats; five dials of a server that is gone take half a second
	if *k.pipelines == 0 {
		*k.pipelines = -1
		*k.in, *k.out = bufferSize, bufferSize
	}
	*k.ctx = true
	*k.nameless = true // unknown before 7.2, and an error in its statistics for each connection
	*k.news = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}
