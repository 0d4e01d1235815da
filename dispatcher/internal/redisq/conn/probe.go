package conn

import (
	"cmp"
	"context"
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

// Probe queries a store and caches the result.
type Probe struct {
	conn  *Client
	polls bool // neither pub/sub nor PUBLISH is used

	mu    sync.Mutex // guards the fields below, so one caller queries for all
	last  dispatcher.StoreInfo
	until time.Time   // last is returned until then; zero: not queried yet
	able  *capability // nil: not completely known yet
}

var probeScript = MakeScript("probe", part("probe"))

// NewProbe returns a probe of the store behind a connection. polls: neither pub/sub nor PUBLISH is used.
func NewProbe(c *Client, polls bool) *Probe { return &Probe{conn: c, polls: polls} }

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
		nodes: nodes, durability: p.conn.options.Durability, waitAOF: p.conn.DurableBy() == ByWaitAOF,
		mode: p.conn.Mode(), polls: p.polls, clock: !p.conn.options.TestClock, project: p.conn.Project(),
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

// capability has the features that a store supports. It does not change while the store runs.
type capability struct {
	mini    bool                // it is miniredis in this process
	hidden  bool                // it does not report its commands
	missing []string            // of the required commands
	scripts dispatcher.Tristate // with undeclared keys
	fault   string              // the error of a script; empty: scripts run
	open    bool                // a partition could not be queried: query again later
	rights  rights
	waits   dispatcher.Tristate // WAITAOF works if appendfsync is not always; Unknown: not tried
}

// queryCapability queries the capability of the store once.
func (p *Probe) queryCapability(ctx context.Context) (*capability, error) {
	a := &capability{}
	if err := p.queryCommands(ctx, a); err != nil {
		return nil, err
	}
	if !a.mini {
		a.rights = queryRights(ctx, p.conn)
	}
	if len(a.rights.required) == 0 {
		p.tryScript(ctx, a)
	}
	return a, nil
}

// queryCommands queries the commands by name, because a version number proves nothing.
func (p *Probe) queryCommands(ctx context.Context, a *capability) error {
	args := []any{"command", "info"}
	for _, name := range names() {
		args = append(args, name)
	}
	known := map[string]bool{}
	var reply *redis.Cmd
	err := p.conn.At(ctx, "probe commands", Home, func(p redis.Pipeliner) { reply = p.Do(ctx, args...) })
	lines, _ := Value(reply).([]any)
	switch {
	case away(err):
		return err
	case err != nil:
		a.hidden = true
		return nil
	}
	for _, line := range lines {
		if fields, ok := line.([]any); ok && len(fields) > 0 {
			name, _ := fields[0].(string)
			known[strings.ToUpper(name)] = true
		}
	}
	if len(lines) > len(args)-2 { // miniredis always returns its whole table, but it lacks some of its commands
		a.mini = true
		return nil
	}
	for _, name := range names() {
		if !known[name] {
			a.missing = append(a.missing, name)
		}
	}
	return nil
}

// away reports whether a store did not respond. A refusal for lack of a right is a response.
func away(err error) bool { return errors.Is(err, dispatcher.ErrUnavailable) && !Forbidden(err) }

// tryScript runs a typical script in each partition. A partition that can't be reached
// leaves the result unknown, unless the script fails in another one.
func (p *Probe) tryScript(ctx context.Context, a *capability) {
	for _, r := range p.conn.Send(ctx, Batch{Script: probeScript, Calls: p.conn.Everywhere([]any{probeValue})}) {
		r.Hint()
		switch {
		case away(r.Err), errors.Is(r.Err, dispatcher.ErrFull):
			a.open = true
		case r.Err != nil:
			a.scripts, a.fault = dispatcher.No, r.Err.Error()
			return
		case r.Text() != probeValue:
			a.scripts, a.fault = dispatcher.No, "a key that was just written can't be read"
			return
		case a.scripts == dispatcher.Unknown:
			a.scripts = dispatcher.Yes
		}
	}
	if a.open {
		a.scripts = dispatcher.Unknown
	}
}

const probeValue = "probe"

// A server that writes to its disk once a second can't do so three times within truthful.
// The time counts from the first response, because a slow disk may delay it and the next
// one comes soon after.
const (
	waitTries = 3
	truthful  = 700 * time.Millisecond
)

// tryWaitAOF finds out whether WAITAOF waits for a disk that is written once a second.
// Some versions of Redis and Valkey respond before the write, and a version number proves
// nothing.
func (p *Probe) tryWaitAOF(ctx context.Context) dispatcher.Tristate {
	var began time.Time
	for i := range waitTries {
		if i == 1 {
			began = time.Now()
		}
		r := p.conn.Send(ctx, Batch{Script: probeScript, Durable: true, Calls: []Call{{Args: []any{probeValue}}}})[0]
		if r.Err != nil || r.Weak != nil {
			return dispatcher.Unknown
		}
		if i > 0 && time.Since(began) > truthful {
			return dispatcher.Yes
		}
	}
	return dispatcher.No
}

// clockTolerance is how far a server's clock may differ from this host's before it is
// reported. It matters only to people who compare logs.
const clockTolerance = 5 * time.Second

// facts has the results of all queries. The checks use them.
type facts struct {
	nodes      []node // at least one has responded
	able       capability
	durability dispatcher.Durability
	waitAOF    bool // a publish waits by WAITAOF
	mode       Mode
	polls      bool
	project    string
	clock      bool              // the server's clock is used
	cluster    map[string]string // from CLUSTER INFO; nil: hidden, or not a cluster
}

// report returns the results of all checks.
func (f *facts) report() dispatcher.StoreInfo {
	i := dispatcher.StoreInfo{
		Kind: "unknown", Mode: f.modeName(), Nodes: len(f.nodes), Durability: f.durability,
		AppendOnly: f.appendOnly(), Fsync: f.fsync(), Eviction: f.eviction(),
	}
	i.UsedBytes, i.MaxBytes = f.memory()
	if first := f.answered()[0].info; f.able.mini {
		i.Kind = "miniredis"
	} else if v := first["valkey_version"]; v != "" {
		i.Kind, i.Version = "valkey", v
	} else if v := first["redis_version"]; v != "" {
		i.Kind, i.Version = "redis", v
	}
	durable := f.checkDurability(i)
	i.Durable = durable.Holds
	i.Loses = f.loses(i)
	i.Checks = []dispatcher.Check{
		f.checkCommands(), checkRights(f.able.rights, f.project), f.checkScripts(), f.checkEviction(i), f.checkMemory(i), f.checkAppendOnly(i), durable, f.checkPubSub(),
	}
	if f.clock {
		i.Checks = append(i.Checks, f.checkClock())
	}
	if f.mode == ModeCluster {
		i.Checks = append(i.Checks, f.checkCluster())
	}
	return i
}

// modeName returns the mode. An unknown mode is a single server.
func (f *facts) modeName() string {
	if f.mode == "" || f.mode == ModeAuto {
		return string(ModeSingle)
	}
	return string(f.mode)
}

// answered returns the masters that responded.
func (f *facts) answered() []node {
	return slices.DeleteFunc(slices.Clone(f.nodes), func(n node) bool { return n.err != nil })
}

// worst returns the value of the masters that is first in order. It is empty if a master
// hides its value and no other has the first one.
func (f *facts) worst(order []string, value func(node) string) string {
	found, hidden := len(order), false
	for _, n := range f.answered() {
		v := value(n)
		at := slices.Index(order, v)
		switch {
		case v == "":
			hidden = true
		case at < 0:
			return v // an unknown value may be worse than all in order
		default:
			found = min(found, at)
		}
	}
	if found == len(order) || hidden && found > 0 {
		return ""
	}
	return order[found]
}

func (f *facts) appendOnly() *bool {
	on := f.worst([]string{"0", "1"}, func(n node) string { return n.info["aof_enabled"] })
	if on == "" {
		return nil
	}
	yes := on == "1"
	return &yes
}

func (f *facts) fsync() string {
	return f.worst([]string{"no", "everysec", "always"}, func(n node) string { return n.config["appendfsync"] })
}

func (f *facts) eviction() string {
	policy, hidden := "", false
	for _, n := range f.answered() {
		p := n.info["maxmemory_policy"]
		if evicts(p) {
			return p
		}
		policy, hidden = p, hidden || p == ""
	}
	if hidden {
		return ""
	}
	return policy
}

func evicts(policy string) bool { return strings.HasPrefix(policy, "allkeys-") }

// memory returns the memory and the limit of the fullest master; 0: no limit.
func (f *facts) memory() (used, limit *int64) {
	full := -1.0
	for _, n := range f.answered() {
		u, m := numberOf(n.info["used_memory"]), numberOf(n.info["maxmemory"])
		if u == nil {
			continue
		}
		share := float64(*u) / (1 << 62) // no limit: less than any share of a limit
		if m != nil && *m > 0 {
			share = float64(*u) / float64(*m)
		}
		if share > full {
			full, used, limit = share, u, m
		}
	}
	return used, limit
}

// loses returns which data are lost if a master's host dies.
func (f *facts) loses(i dispatcher.StoreInfo) string {
	switch {
	case f.able.mini:
		return dispatcher.LosesEverything
	case f.durability.Fsync && i.Durable == dispatcher.Yes:
		return dispatcher.LosesNothing
	case f.durability.Replicas > 0 && i.Durable == dispatcher.Yes:
		return dispatcher.LosesUnreplicated
	case i.AppendOnly == nil:
		return dispatcher.LosesUnknown
	case !*i.AppendOnly && slices.ContainsFunc(f.answered(), func(n node) bool { save, reported := n.config["save"]; return reported && save == "" }):
		return dispatcher.LosesEverything
	case !*i.AppendOnly:
		return dispatcher.LosesSinceSnapshot
	case i.Fsync == "always":
		return dispatcher.LosesNothing
	case i.Fsync == "everysec":
		return dispatcher.LosesLastSecond
	}
	return dispatcher.LosesUnknown // hidden, or no: the kernel decides when to write
}
