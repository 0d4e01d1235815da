package conn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Timeouts of a connection, unless the URL sets them.
const (
	// dialWithin allows a lost SYN to be sent again, which happens after a second.
	dialWithin = 2 * time.Second
	// ReadWithin is waitMost and a second for the script before it. A server that takes
	// longer hangs. All our calls end after 5 s anyway.
	ReadWithin = 3 * time.Second
	// poolWithin is how long a call may wait for a free connection of the pool. Each is
	// used for one round trip, so all of them are rarely in use for longer than one
	// response takes. Then the caller gets the error while it still has some of its time.
	poolWithin = ReadWithin
	// idleMost is below the time after which a load balancer forgets a connection (in
	// clouds from 60 s), and far below the time that a machine sleeps. A connection that
	// was idle for longer is not used again.
	idleMost = 50 * time.Second
)

// bufferSize is the buffer size that go-redis uses for pipelines. All our calls are
// pipelines, so they need no pool of their own, and pool_size limits all connections.
const bufferSize = 128 << 10

// Mode is the kind of Redis behind a URL.
type Mode string

// The modes. ModeAuto detects the mode: Sentinel if a master is named, otherwise from the
// server's INFO.
const (
	ModeAuto     Mode = "auto"
	ModeSingle   Mode = "single"
	ModeCluster  Mode = "cluster"
	ModeSentinel Mode = "sentinel"
)

// connect makes the client for the options. It opens a connection only if it must query
// the server's mode.
func (c *Client) connect(ctx context.Context) error {
	o := c.options
	u, err := readURL(o.URL, o.CAFile)
	if err != nil {
		return err
	}
	c.where = u.where()
	several := len(u.query["addr"]) > 0
	switch c.mode = cmp.Or(o.Mode, ModeAuto); {
	case c.mode != ModeAuto:
	case o.Master != "":
		c.mode = ModeSentinel
	case several:
		c.mode = ModeCluster
	}
	switch {
	case c.mode == ModeSentinel && o.Master == "":
		return errors.New("REDIS_MODE=sentinel needs REDIS_MASTER, the name by which the sentinels know the master")
	case c.mode != ModeSentinel && o.Master != "":
		return fmt.Errorf("REDIS_MASTER=%s is for sentinels, but REDIS_MODE=%s", o.Master, c.mode)
	case c.mode == ModeSingle && several:
		return errors.New("REDIS_MODE=single, but REDIS_URL has several addr=")
	case c.mode == ModeSentinel:
		return c.openSentinel(u, o.Master)
	case c.mode == ModeSingle:
		err = c.openSingle(u)
	case c.mode == ModeCluster:
		err = c.openCluster(u)
	case c.mode == ModeAuto:
		return c.find(ctx, u)
	default:
		return fmt.Errorf("REDIS_MODE=%q is not auto, single, cluster or sentinel", string(c.mode))
	}
	if err != nil {
		return err
	}
	return c.confirm(ctx)
}

// find connects to the single address of the URL in the mode of its server.
func (c *Client) find(ctx context.Context, u *redisURL) error {
	if err := c.openSingle(u); err != nil {
		return err
	}
	clustered, err := inCluster(ctx, c.single)
	if err != nil {
		return errors.Join(Failed("ask "+c.where, err), c.single.Close())
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

// confirm checks that the server has the configured mode. Otherwise a client of one node
// would get errors for the partitions of the others, and a client of a cluster would fail
// at its first command.
func (c *Client) confirm(ctx context.Context) error {
	clustered, err := false, error(nil)
	if c.mode == ModeSingle {
		clustered, err = inCluster(ctx, c.single)
	} else {
		err = c.cluster.ForEachMaster(ctx, func(context.Context, *redis.Client) error { return nil }) // reads the slots
		if clustered = !strings.Contains(Word(err), "cluster support disabled"); !clustered {
			err = nil
		}
	}
	switch {
	case err != nil:
		err = Failed("ask "+c.where, err)
	case c.mode == ModeSingle && clustered:
		err = errors.New("REDIS_MODE=single, but the server is a node of a cluster: set REDIS_MODE=cluster, or unset it")
	case c.mode == ModeCluster && !clustered:
		err = errors.New("the server is not a node of a cluster, but REDIS_MODE=cluster or several addr= in REDIS_URL require one")
	}
	if err != nil {
		return errors.Join(err, c.rdb.Close())
	}
	return nil
}

// inCluster queries whether a server is a node of a cluster. If the server does not
// report it, it is not.
func inCluster(ctx context.Context, client *redis.Client) (bool, error) {
	info, err := client.Info(ctx, "cluster").Result()
	if err != nil && Word(err) == "" {
		return false, err
	}
	if err == nil {
		return strings.Contains(info, "cluster_enabled:1"), nil
	}
	info, err = client.ClusterInfo(ctx).Result() // a user may be forbidden the one and not the other
	return err == nil && strings.Contains(info, "cluster_state:"), nil
}

func (c *Client) openSingle(u *redisURL) error {
	opts, err := c.universal(u)
	if err != nil {
		return err
	}
	c.single = redis.NewClient(opts.Simple())
	c.rdb = c.single
	if c.mode == ModeAuto {
		c.mode = ModeSingle
	}
	return nil
}

func (c *Client) openCluster(u *redisURL) error {
	if path := strings.Trim(u.url.Path, "/"); path != "" && path != "0" {
		return fmt.Errorf("REDIS_URL names database %s, but a cluster has only 0", path)
	}
	parsed, err := redis.ParseClusterURL(u.text("skip_verify"))
	if err != nil {
		return errParameter
	}
	if parsed.ReadOnly || parsed.RouteByLatency || parsed.RouteRandomly || parsed.MaxRedirects != 0 {
		return errors.New("REDIS_URL: read_only, route_by_latency, route_randomly and max_redirects can't be used: " +
			"replicas are behind, and a redirect is not followed while keys are being moved")
	}
	opts, err := c.universal(u, append(slices.Clip(ofOneKind), "skip_verify")...)
	if err != nil {
		return err
	}
	opts.Addrs = parsed.Addrs
	opts.FailingTimeoutSeconds = parsed.FailingTimeoutSeconds
	opts.MaxRedirects = -1 // ASK must not be followed, and Send decides about repeats
	c.mode, c.cluster = ModeCluster, redis.NewClusterClient(opts.Cluster())
	c.rdb = c.cluster
	return nil
}

// openSentinel makes a client for the master in Sentinel. User, password and database of
// the URL are for the master.
func (c *Client) openSentinel(u *redisURL, master string) error {
	parsed, err := redis.ParseFailoverURL(u.text("sentinel_username", "sentinel_password"))
	if err != nil {
		return errParameter
	}
	if parsed.ReplicaOnly || parsed.RouteByLatency || parsed.RouteRandomly {
		return errors.New("REDIS_URL: replica_only, route_by_latency and route_randomly can't be used: replicas are behind")
	}
	opts, err := c.universal(u, ofOneKind...)
	if err != nil {
		return err
	}
	opts.Addrs, opts.MasterName = parsed.SentinelAddrs, master
	opts.SentinelUsername, opts.SentinelPassword = u.query.Get("sentinel_username"), u.query.Get("sentinel_password")
	c.single = redis.NewFailoverClient(opts.Failover())
	c.rdb = c.single
	return nil
}

// ofOneKind are the parameters that go-redis accepts only for clusters or only for
// sentinels. Its parser for that kind has checked them already.
var ofOneKind = []string{
	"addr", "dialer_retries", "dialer_retry_timeout", "max_redirects", "read_only", "replica_only", "route_by_latency",
	"route_by_latency_tolerance", "route_randomly", "failing_timeout_seconds", "master_name", "username", "password",
	"sentinel_username", "sentinel_password", "use_disconnected_replicas", "context_timeout_enabled", "disableIdentity",
	"identitySuffix", "unstable_resp3",
}

// universal returns the options that all kinds of clients share. It reads them from the
// URL, except the parameters in without, and adds our timeouts. Some options do not
// depend on the URL.
func (c *Client) universal(u *redisURL, without ...string) (*redis.UniversalOptions, error) {
	o, err := u.options(without...)
	if err != nil {
		return nil, err
	}
	secure(o.TLSConfig, u)
	opts := &redis.UniversalOptions{
		Addrs: []string{o.Addr}, DB: o.DB, Username: o.Username, Password: o.Password, TLSConfig: o.TLSConfig,
		Protocol: o.Protocol, ClientName: o.ClientName,
		DialTimeout: cmp.Or(o.DialTimeout, dialWithin), ReadTimeout: cmp.Or(o.ReadTimeout, ReadWithin), WriteTimeout: o.WriteTimeout,
		PoolFIFO: o.PoolFIFO, PoolSize: o.PoolSize, PoolTimeout: cmp.Or(o.PoolTimeout, poolWithin), MaxConcurrentDials: o.MaxConcurrentDials,
		MinIdleConns: o.MinIdleConns, MaxIdleConns: o.MaxIdleConns, MaxActiveConns: o.MaxActiveConns,
		ConnMaxIdleTime: cmp.Or(o.ConnMaxIdleTime, idleMost), ConnMaxLifetime: o.ConnMaxLifetime, ConnMaxLifetimeJitter: o.ConnMaxLifetimeJitter,
		PipelinePoolSize: o.PipelinePoolSize, PipelineReadBufferSize: o.PipelineReadBufferSize, PipelineWriteBufferSize: o.PipelineWriteBufferSize,
		MaxRetries:               -1, // go-redis would run a claim twice; callers repeat what may be repeated
		DialerRetries:            1,  // callers repeat; five dials to a dead server take half a second
		ContextTimeoutEnabled:    true,
		DisableIdentity:          true, // unknown before 7.2, and an error in its statistics for each connection
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if opts.PipelinePoolSize == 0 {
		opts.PipelinePoolSize = -1
		opts.ReadBufferSize, opts.WriteBufferSize = bufferSize, bufferSize
	}
	opts.CredentialsProviderContext = c.options.LogIn
	dial := c.options.Dial
	if dial == nil {
		dial = (&net.Dialer{KeepAliveConfig: keepAlive}).DialContext
	}
	opts.Dialer = c.conns.dialer(dial, opts.DialTimeout, opts.TLSConfig)
	return opts, nil
}
