// Package probe finds out what a store is able to do, how it is set, and what it
// would lose.
package probe

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
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/script"
)

// fresh is how long an answer is given again. Health checks of several load
// balancers then cost four commands in ten seconds, which leaves an idle
// instance below two a second.
const fresh = 10 * time.Second

// patience bounds the questions, since health checks wait for the answers, and some
// of them for those of another caller. The first time it is firstPatience: then
// things are tried that take some seconds.
const (
	patience      = 3 * time.Second
	firstPatience = 10 * time.Second
)

// Options are what a store is judged by.
type Options struct {
	Durability dispatcher.Durability // what a publish waits for
	Polls      bool                  // neither pub/sub nor PUBLISH is used
	TestClock  bool                  // the server's clock means nothing
}

// Probe finds out what a store is able to do and how it is set.
type Probe struct {
	conn    *conn.Client
	options Options
	script  script.Script

	mu    sync.Mutex // guards what follows, and lets one caller ask for all
	last  dispatcher.StoreInfo
	until time.Time   // last is given again before it; zero: the store was not asked yet
	able  *capability // nil: not all of it is known yet
}

//go:embed lua/probe.lua
var probeSrc string

// New makes a probe of the store behind a connection.
func New(c *conn.Client, o Options) *Probe {
	return &Probe{conn: c, options: o, script: script.Make(o.TestClock, "probe", probeSrc)}
}

// node is what one master tells, word for word.
type node struct {
	name   string
	err    error             // it did not answer
	info   map[string]string // of INFO; nil: hidden
	config map[string]string // of CONFIG GET; what is hidden is missing
	ahead  time.Duration     // its clock before this host's
}

// Store reads what all masters that hold partitions tell of themselves, and answers
// the worst of each property. Managed kinds hide much: what they hide is unknown. A
// master that does not answer is a check that does not hold, and no error: the
// partitions on others go on.
func (p *Probe) Store(ctx context.Context) (dispatcher.StoreInfo, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Now().Before(p.until) {
		return p.last, nil
	}
	within := patience
	if p.able == nil {
		within = firstPatience
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	f, err := p.ask(ctx)
	if err != nil {
		return dispatcher.StoreInfo{Kind: "unknown", Loses: dispatcher.LosesUnknown}, err
	}
	p.last, p.until = f.tell(), time.Now().Add(fresh)
	if p.able.open {
		p.able = nil
	}
	return p.last, nil
}

// ask asks for all that the checks need.
func (p *Probe) ask(ctx context.Context) (*facts, error) {
	nodes, err := p.askMasters(ctx)
	if err != nil {
		return nil, err
	}
	if p.able == nil {
		if p.able, err = p.askCapability(ctx); err != nil {
			return nil, err
		}
	}
	f := &facts{
		nodes: nodes, durability: p.options.Durability, waitAOF: p.conn.DurableBy() == conn.ByWaitAOF,
		mode: p.conn.Mode(), polls: p.options.Polls, clock: !p.options.TestClock,
	}
	if p.conn.InCluster() {
		f.cluster = askCluster(ctx, p.conn.Redis())
	}
	if f.waitAOF && p.able.waits == dispatcher.Unknown && f.fsync() != "always" && f.fsync() != "no" {
		p.able.waits = p.tryWaitAOF(ctx)
	}
	f.able = *p.able
	return f, nil
}

// askMasters asks each master. Only where none answers it is an error.
func (p *Probe) askMasters(ctx context.Context) ([]node, error) {
	masters, err := p.conn.Masters(ctx)
	nodes := make([]node, len(masters))
	var all sync.WaitGroup
	for i, master := range masters {
		all.Go(func() { nodes[i] = askNode(ctx, master) })
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
		return nil, conn.Failed("probe", cmp.Or(err, redis.ErrClosed))
	}
	return nodes, nil
}

// askNode asks one master. What it refuses to say is left out.
func askNode(ctx context.Context, c *redis.Client) node {
	n := node{name: c.Options().Addr, config: map[string]string{}}
	var info *redis.StringCmd
	var settings [2]*redis.MapStringStringCmd
	var clock *redis.TimeCmd
	sent := time.Now()
	_, _ = c.Pipelined(ctx, func(p redis.Pipeliner) error { // each command has its own error
		clock = p.Time(ctx)
		info = p.Info(ctx)
		for i, name := range []string{"appendfsync", "save"} { // several at once only since 7.0
			settings[i] = p.ConfigGet(ctx, name)
		}
		return nil
	})
	if conn.Meaning(clock.Err()) != nil {
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

// infoFields reads the lines of INFO.
func infoFields(text string) map[string]string {
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields
}

// askCluster reads CLUSTER INFO of any node; nil: it is hidden.
func askCluster(ctx context.Context, c redis.UniversalClient) map[string]string {
	text, err := c.ClusterInfo(ctx).Result()
	if err != nil {
		return nil
	}
	return infoFields(text)
}

// numberOf reads a whole number; nil: it is none.
func numberOf(text string) *int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil
	}
	return &n
}
