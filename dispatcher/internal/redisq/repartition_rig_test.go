package redisq_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/queuetest/stored"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
)

// project is one that is repartitioned, by a clock that the test sets.
type project struct {
	t       *testing.T
	client  redis.UniversalClient
	options redisq.Options
	now     time.Time
	lanes   map[string][]dispatcher.Lane // that were published to, by message
}

// repartitionKnown is how many ids a project may know.
const repartitionKnown = 1000

// newTestProject makes one on a server or a cluster.
func newTestProject(t *testing.T, server interface{ URL() string }, partitions int) *project {
	t.Helper()
	p := &project{t: t, now: time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC), lanes: map[string][]dispatcher.Lane{}}
	p.options = redisq.Options{
		URL: server.URL(), Project: fmt.Sprintf("move%d", projects.Add(1)), Partitions: partitions,
		LaneMaxInFlight: 128, Permits: 1024, BreakerFailures: 3, BreakerWait: time.Minute, TestClock: true,
		Keep: dispatcher.Keep{SeenMax: repartitionKnown},
	}
	if _, ok := server.(*redistest.Cluster); ok {
		options, err := redis.ParseClusterURL(server.URL())
		require.NoError(t, err)
		p.client = redis.NewClusterClient(options)
	} else {
		options, err := redis.ParseURL(server.URL())
		require.NoError(t, err)
		p.client = redis.NewClient(options)
	}
	t.Cleanup(func() { _ = p.client.Close() })
	p.pass(0)
	return p
}

// pass lets time pass, in all partitions that there may ever be.
func (p *project) pass(d time.Duration) {
	p.t.Helper()
	p.now = p.now.Add(d)
	for n := range 16 {
		require.NoError(p.t, p.client.Set(context.Background(), fmt.Sprintf("{%s:%d}:clock", p.options.Project, n), p.now.UnixMicro(), 0).Err())
	}
}

func (p *project) open(partitions int) *redisq.Raw {
	p.t.Helper()
	o := p.options
	o.Partitions = partitions
	return openTestStore(p.t, o)
}

// to repartitions, and fails the test unless it succeeds.
func (p *project) to(partitions int) redisq.Repartitioned {
	p.t.Helper()
	out, err := redisq.Repartition(context.Background(), p.options, redisq.RepartitionOptions{To: partitions})
	require.NoError(p.t, err)
	return out
}

func (p *project) states(partitions int) []stored.State {
	p.t.Helper()
	states := rawStates(p.t, p.client, p.options.Project, partitions)
	for n := range states { // the clock is there for all that may be
		states[n].Unknown = slices.DeleteFunc(states[n].Unknown, func(key string) bool { return strings.HasSuffix(key, "}:clock") })
	}
	return states
}

// content is everything that a project keeps, however many partitions it has:
// where a message is one of several, what is gone of it may be told otherwise.
func (p *project) content(partitions int) string {
	p.t.Helper()
	states := p.states(partitions)
	setup := stored.Setup{Partitions: partitions, LaneMaxInFlight: 128, Permits: 1024, Breaker: 3, BreakerWait: time.Minute}
	for n, s := range states {
		require.Empty(p.t, s.Faults(setup), "partition %d of %d", n, partitions)
		for id := range s.Found {
			require.Equal(p.t, n, int(crc16(string(id.Lane)))%partitions, "%s", id)
		}
	}
	all := stored.Merged(states)
	all.Fanned, all.Told = nil, nil
	slices.Sort(all.Fenced)
	all.Fenced = slices.Compact(all.Fenced)
	for id, m := range all.Messages {
		m.Lanes = maps.Clone(m.Lanes)
		maps.DeleteFunc(m.Lanes, func(_ dispatcher.Lane, there bool) bool { return !there })
		if m.Whole {
			delete(all.Seen, id) // known besides where another lane of it was
		}
		all.Messages[id] = m
	}
	return all.String()
}

func (p *project) entry(id string, lanes []dispatcher.Lane, change ...func(*dispatcher.Message)) dispatcher.Entry {
	m := &dispatcher.Message{
		ID: id, Topic: "a.b", Tenant: "t", URL: "https://example.com/" + id, Body: []byte(`{"id":"` + id + `"}`), CreatedAt: p.now,
	}
	if crc16(id)%5 == 0 {
		bulky(m)
	}
	for _, c := range change {
		c(m)
	}
	p.lanes[id] = lanes
	return dispatcher.Entry{Message: m, Digest: m.Digest(), Lanes: lanes, Fan: len(lanes) > 1}
}

func (p *project) publish(s *redisq.Raw, batch ...dispatcher.Entry) {
	p.t.Helper()
	got, _, err := s.Schedule(context.Background(), "one", 0, 0, batch)
	require.NoError(p.t, err)
	for i := range got {
		require.NoError(p.t, got[i].Err)
		require.Equal(p.t, dispatcher.Accepted, got[i].Result, batch[i].Message.ID)
	}
}

func inLine(key string) func(*dispatcher.Message) {
	return func(m *dispatcher.Message) { m.OrderingKey = key }
}

func after(d time.Duration) func(*dispatcher.Message) {
	return func(m *dispatcher.Message) { m.Delay = d }
}

// to16 are n of 16 lanes, from one of them on, which lie in many partitions.
func to16(from, n int) []dispatcher.Lane {
	lanes := make([]dispatcher.Lane, n)
	for i := range lanes {
		lanes[i] = dispatcher.Lane(fmt.Sprintf("u_lane%06d", (from+i)%16))
	}
	return lanes
}

// fill publishes rounds of everything that there can be, and has much of it
// happen: every place, every mark, histories, lines, fan-outs of which a part
// is gone, ids of which nothing else is left, limits and breakers.
func (p *project) fill(rounds int) {
	p.t.Helper()
	ctx := context.Background()
	s := p.open(p.options.Partitions)
	limit := func(lane dispatcher.Lane, l dispatcher.LaneLimits) {
		_, _, err := s.Limit(ctx, "one", lane, l, false)
		require.NoError(p.t, err)
	}
	limit("ep_ordered", dispatcher.LaneLimits{Version: 3, Ordered: true})
	limit("ep_paused", dispatcher.LaneLimits{Version: 2, Held: dispatcher.HeldPaused, MaxInFlight: 4, Interval: 5 * time.Millisecond})
	limit("u_lane000003", dispatcher.LaneLimits{Held: dispatcher.HeldPaused})
	for k := range rounds {
		name := func(what string) string { return fmt.Sprintf("%s%d", what, k) }
		p.publish(s,
			p.entry(name("plain"), to16(k, 1)), p.entry(name("later"), to16(k+5, 1), after(time.Hour)),
			p.entry(name("fan"), to16(3*k, 5)), p.entry(name("latefan"), to16(k, 16), after(time.Minute)),
			p.entry(name("key1"), to16(k, 1), inLine("k")), p.entry(name("key2"), to16(k, 1), inLine("k")),
			p.entry(name("key3"), to16(k, 1), inLine("k"), after(time.Hour)),
			p.entry(name("order1"), []dispatcher.Lane{"ep_ordered"}), p.entry(name("order2"), []dispatcher.Lane{"ep_ordered"}),
			p.entry(name("held"), []dispatcher.Lane{"ep_paused", "u_lane000001"}),
		)
		p.pass(100 * time.Millisecond)
		p.happen(s, k)
	}
	keep := dispatcher.Keep{Finished: time.Hour, FinishedMax: 1 + rounds/2, SeenMax: repartitionKnown, Dead: time.Hour, DeadMax: 1000}
	for more := true; more; {
		trimmed, err := s.Trim(ctx, "one", allOf(s), keep, false)
		require.NoError(p.t, err)
		more = trimmed.More
	}
	var marked []dispatcher.DeliveryID
	for id := range p.lanes {
		if strings.HasPrefix(id, "fan") {
			marked = append(marked, dispatcher.DeliveryID{Lane: p.lanes[id][4], Message: id})
		}
	}
	_, _, err := s.Cancel(ctx, "one", marked)
	require.NoError(p.t, err)
}

// happen claims what there is and settles it in each way.
func (p *project) happen(s *redisq.Raw, round int) {
	p.t.Helper()
	ctx := context.Background()
	claimed, _, err := s.Claim(ctx, "one", allOf(s), 32, 512)
	require.NoError(p.t, err)
	verdicts := []dispatcher.Verdict{dispatcher.Delivered, dispatcher.Delivered, dispatcher.Retry, dispatcher.Dead, dispatcher.Back, dispatcher.Delivered}
	var batch []dispatcher.Settlement
	var dead []dispatcher.DeliveryID
	for i, c := range claimed {
		v := verdicts[(i+round)%len(verdicts)]
		status := 500
		if v == dispatcher.Delivered {
			status = 204
		}
		batch = append(batch, dispatcher.Settlement{
			ID: c.ID, Verdict: v, Wait: time.Minute, Reason: dispatcher.ReasonGone, Due: c.Due, Blame: v == dispatcher.Retry,
			Attempt: dispatcher.Attempt{Number: c.Attempt, Status: status, Verdict: v, At: p.now, Error: "no", Excerpt: []byte("it said no")},
		})
		if v == dispatcher.Dead && i%2 == 0 {
			dead = append(dead, c.ID)
		}
	}
	_, _, err = s.Settle(ctx, "one", batch)
	require.NoError(p.t, err)
	_, _, err = s.Retry(ctx, "one", dead, true)
	require.NoError(p.t, err)
	p.pass(time.Second)
}

// records are all messages as callers read them.
func (p *project) records(s *redisq.Raw) map[string]dispatcher.MessageView {
	p.t.Helper()
	out := map[string]dispatcher.MessageView{}
	for id := range p.lanes {
		record, err := s.Read(context.Background(), id)
		if err == nil {
			slices.SortFunc(record.Deliveries, func(a, b dispatcher.Delivery) int { return strings.Compare(a.ID.String(), b.ID.String()) })
			out[id] = record
		} else {
			require.ErrorIs(p.t, err, dispatcher.ErrNotFound)
		}
	}
	return out
}

// allOf lists a store's partitions.
func allOf(s *redisq.Raw) []int {
	all := make([]int, s.Partitions())
	for n := range all {
		all[n] = n
	}
	return all
}
