package conn

import (
	"cmp"
	"context"
	_ "embed" // the script
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
)

// fresh is how long a result is cached. Health checks of several load balancers then cost
// four commands in ten seconds, so an idle instance stays below two a second.
const fresh = 10 * time.Second

// probePatience is the timeout of the queries, because health checks wait for the result, and
// some of them for the query of another caller. The first time it is firstPatience,
// because some checks take seconds.
const (
	probePatience = 3 * time.Second
	firstPatience = 10 * time.Second
)

// ProbeOptions configure the checks.
type ProbeOptions struct {
	Durability dispatcher.Durability // the condition on which a publish returns
	Polls      bool                  // neither pub/sub nor PUBLISH is used
	TestClock  bool                  // the server's clock is not used
}

// Probe queries a store and caches the result.
type Probe struct {
	conn    *Client
	options ProbeOptions
	script  Script

	mu    sync.Mutex // guards the fields below, so one caller queries for all
	last  dispatcher.StoreInfo
	until time.Time   // last is returned until then; zero: not queried yet
	able  *capability // nil: not completely known yet
}

//go:embed lua/probe.lua
var probeSrc string

// NewProbe returns a probe of the store behind a connection.
func NewProbe(c *Client, o ProbeOptions) *Probe {
	return &Probe{conn: c, options: o, script: MakeScript(o.TestClock, "probe", probeSrc)}
}

// node has the raw values of one master.
type node struct {
	name   string
	err    error             // it did not respond
	info   map[string]string // from INFO; nil: hidden
	config map[string]string // from CONFIG GET; hidden values are missing
	ahead  time.Duration     // its clock minus this host's
}

// Store queries all masters with partitions, and returns the worst value of each
// property. Managed services hide much, and hidden properties are unknown. A master that
// does not respond fails a check but returns no error, because the partitions on other
// masters work.
func (p *Probe) Store(ctx context.Context) (dispatcher.StoreInfo, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Now().Before(p.until) {
		return p.last, nil
	}
	within := probePatience
	if p.able == nil {
		within = firstPatience
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	f, err := p.query(ctx)
	if err != nil {
		return dispatcher.StoreInfo{Kind: "unknown", Loses: dispatcher.LosesUnknown}, err
	}
	p.last, p.until = f.report(), time.Now().Add(fresh)
	if p.able.open {
		p.able = nil
	}
	return p.last, nil
}

// query queries everything that the checks need.
func (p *Probe) query(ctx context.Context) (*facts, error) {
	nodes, err := p.queryMasters(ctx)
	if err != nil {
		return nil, err
	}
	if p.able == nil {
		if p.able, err = p.queryCapability(ctx); err != nil {
			return nil, err
		}
	}
	f := &facts{
		nodes: nodes, durability: p.options.Durability, waitAOF: p.conn.DurableBy() == ByWaitAOF,
		mode: p.conn.Mode(), polls: p.options.Polls, clock: !p.options.TestClock, project: p.conn.Project(),
	}
	if p.conn.InCluster() {
		f.cluster = queryCluster(ctx, p.conn.Redis())
	}
	if f.waitAOF && p.able.waits == dispatcher.Unknown && f.fsync() != "always" && f.fsync() != "no" {
		p.able.waits = p.tryWaitAOF(ctx)
	}
	f.able = *p.able
	return f, nil
}

// queryMasters queries each master. It returns an error only if none responds.
func (p *Probe) queryMasters(ctx context.Context) ([]node, error) {
	masters, err := p.conn.Masters(ctx)
	nodes := make([]node, len(masters))
	var all sync.WaitGroup
	for i, master := range masters {
		all.Go(func() { nodes[i] = queryNode(ctx, master) })
	}
	all.Wait()
	slices.SortFunc(nodes, func(a, b node) int { return strings.Compare(a.name, b.name) })
	answered := 0
	for _, n := range nodes {
		if n.err == nil {
			answered++
		} else {
			err = errors.Join(err, n.err)
		}
	}
	if answered == 0 {
		return nil, Failed("probe", cmp.Or(err, redis.ErrClosed))
	}
	return nodes, nil
}

// queryNode queries one master. It skips values that the master refuses to report.
func queryNode(ctx context.Context, c *redis.Client) node {
	n := node{name: c.Options().Addr, config: map[string]string{}}
	var info *redis.StringCmd
	var settings [2]*redis.MapStringStringCmd
	var clock *redis.TimeCmd
	sent := time.Now()
	_, _ = c.Pipelined(ctx, func(p redis.Pipeliner) error { // each command has its own error
		clock = p.Time(ctx)
		info = p.Info(ctx)
		for i, name := range []string{"appendfsync", "save"} { // several in one command only since 7.0
			settings[i] = p.ConfigGet(ctx, name)
		}
		return nil
	})
	if Meaning(clock.Err()) != nil {
		n.err = clock.Err()
		return n
	}
	if t, err := clock.Result(); err == nil {
		n.ahead = t.Sub(sent.Add(time.Since(sent) / 2))
	}
	if text, err := info.Result(); err == nil {
		n.info = infoFields(text)
	}
	for _, set := range settings {
		for name, value := range set.Val() {
			n.config[name] = value
		}
	}
	return n
}

// infoFields parses the lines of INFO.
func infoFields(text string) map[string]string {
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields
}

// queryCluster returns CLUSTER INFO of any node; nil: hidden.
func queryCluster(ctx context.Context, c redis.UniversalClient) map[string]string {
	text, err := c.ClusterInfo(ctx).Result()
	if err != nil {
		return nil
	}
	return infoFields(text)
}

// numberOf parses a whole number; nil: not a number.
func numberOf(text string) *int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil
	}
	return &n
}
