package redisq

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
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
)

// surveyFresh is how long an answer is given again. Health checks of several
// load balancers then cost four commands in ten seconds, which leaves an idle
// instance below two a second.
const surveyFresh = 10 * time.Second

// surveyPatience bounds the questions: callers that wait for them have a health
// check's patience, and some of them wait for another's. The first time, at the start,
// things are tried that take some seconds.
const (
	surveyPatience = 3 * time.Second
	firstPatience  = 10 * time.Second
)

// survey is what the store said of itself.
type survey struct {
	mu    sync.Mutex // guards what follows, and lets one caller ask for all
	last  dispatcher.StoreInfo
	until time.Time // last is given again before; zero: nobody has asked
	able  *ability  // what never changes while it runs; nil: not all of it is known yet
}

// node is what one master told, as it told it.
type node struct {
	name   string
	err    error             // it did not answer
	info   map[string]string // of INFO; nil: hidden
	config map[string]string // of CONFIG GET; what is hidden is missing
	ahead  time.Duration     // its clock before this host's
}

// Store reads what Redis tells of itself, of all masters that hold partitions:
// of each property the worst. Managed kinds hide much of it: what they hide is
// unknown. One master that does not answer is told as a check that does not
// hold, since what lies on others goes on.
func (s *Store) Store(ctx context.Context) (dispatcher.StoreInfo, error) {
	v := &s.survey
	v.mu.Lock()
	defer v.mu.Unlock()
	if time.Now().Before(v.until) {
		return v.last, nil
	}
	patience := surveyPatience
	if v.able == nil {
		patience = firstPatience
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	nodes, err := s.askMasters(ctx)
	if err != nil {
		return dispatcher.StoreInfo{Kind: "unknown", Loses: dispatcher.LosesUnknown}, err
	}
	if v.able == nil {
		if v.able, err = s.askAbility(ctx); err != nil {
			return dispatcher.StoreInfo{Kind: "unknown", Loses: dispatcher.LosesUnknown}, err
		}
	}
	f := surveyed{
		nodes: nodes, durability: s.durability, waitAOF: s.conn.DurableBy() == conn.ByWaitAOF,
		mode: s.conn.Mode(), polls: s.polls, clock: !s.testClock,
	}
	if s.conn.InCluster() {
		f.mode, f.cluster = conn.ModeCluster, askCluster(ctx, s.conn.Redis())
	}
	if f.waitAOF && v.able.waits == dispatcher.Unknown && f.fsync() != "always" && f.fsync() != "no" {
		v.able.waits = s.tryWaitAOF(ctx)
	}
	f.able = *v.able
	v.last, v.until = f.tell(), time.Now().Add(surveyFresh)
	if v.able.open {
		v.able = nil
	}
	return v.last, nil
}

// askMasters asks each master. It is an error only where none answers.
func (s *Store) askMasters(ctx context.Context) ([]node, error) {
	masters, err := s.conn.Masters(ctx)
	nodes := make([]node, len(masters))
	var all sync.WaitGroup
	for i, master := range masters {
		all.Go(func() { nodes[i] = ask(ctx, master) })
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
		return nil, conn.Failed("survey", cmp.Or(err, redis.ErrClosed))
	}
	return nodes, nil
}

// ask asks one master. What it refuses to say is left out.
func ask(ctx context.Context, c *redis.Client) node {
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

func number(text string) *int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil
	}
	return &n
}
