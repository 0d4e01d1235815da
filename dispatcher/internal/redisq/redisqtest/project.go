package redisqtest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/admin"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/home"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// Project is a project to repartition, with a clock that the test sets.
type Project struct {
	T       *testing.T
	Client  redis.UniversalClient
	Options redisq.Options
	Now     time.Time
	Lanes   map[string][]dispatcher.Lane // the lanes of each published message, by message
}

// ProjectKnown is the number of ids that a project may know.
const ProjectKnown = 1000

// NewProject returns an empty project on a server or a cluster.
func NewProject(t *testing.T, server Server, partitions int) *Project {
	t.Helper()
	p := &Project{T: t, Now: time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC), Lanes: map[string][]dispatcher.Lane{}}
	p.Options = redisq.Options{
		URL: PatientURL(server), Project: ProjectName(), Partitions: partitions,
		LaneMaxInFlight: 128, Permits: 1024, BreakerFailures: 3, BreakerWait: time.Minute, TestClock: true,
		Keep: dispatcher.Keep{SeenMax: ProjectKnown},
	}
	if _, cluster := server.(interface{ Slot(key string) int }); cluster {
		options, err := redis.ParseClusterURL(server.URL())
		require.NoError(t, err)
		p.Client = redis.NewClusterClient(options)
	} else {
		options, err := redis.ParseURL(server.URL())
		require.NoError(t, err)
		p.Client = redis.NewClient(options)
	}
	t.Cleanup(func() { _ = p.Client.Close() })
	p.Pass(0)
	return p
}

// Pass advances the clock of each possible partition.
func (p *Project) Pass(d time.Duration) {
	p.T.Helper()
	p.Now = p.Now.Add(d)
	for n := range 16 {
		require.NoError(p.T, p.Client.Set(context.Background(), fmt.Sprintf("{%s:%d}:clock", p.Options.Project, n), p.Now.UnixMicro(), 0).Err())
	}
}

func (p *Project) Open(partitions int) *Raw {
	p.T.Helper()
	o := p.Options
	o.Partitions = partitions
	return Open(p.T, o)
}

// To repartitions the project. It fails the test after an error.
func (p *Project) To(partitions int) admin.Repartitioned {
	p.T.Helper()
	out, err := admin.Repartition(context.Background(), p.Options, admin.RepartitionOptions{To: partitions})
	require.NoError(p.T, err)
	return out
}

func (p *Project) States(partitions int) []State {
	p.T.Helper()
	states := States(p.T, p.Client, p.Options.Project, partitions)
	for n := range states { // each possible partition has a clock
		states[n].Unknown = slices.DeleteFunc(states[n].Unknown, func(key string) bool { return strings.HasSuffix(key, "}:clock") })
	}
	return states
}

// Content returns the whole content of a project, in a form that does not
// depend on the number of partitions. It leaves out the parts of the state that
// may differ: shares of a message that are gone, and log lines.
func (p *Project) Content(partitions int) string {
	p.T.Helper()
	states := p.States(partitions)
	setup := Setup{Partitions: partitions, LaneMaxInFlight: 128, Permits: 1024, Breaker: 3, BreakerWait: time.Minute}
	for n, s := range states {
		require.Empty(p.T, s.Faults(setup), "partition %d of %d", n, partitions)
		for id := range s.Found {
			require.Equal(p.T, n, keys.Partition(string(id.Lane), partitions), "%s", id)
		}
	}
	all := Merged(states)
	all.Fanned, all.Reported = nil, nil
	slices.Sort(all.Fenced)
	all.Fenced = slices.Compact(all.Fenced)
	for id, m := range all.Messages {
		m.Lanes = maps.Clone(m.Lanes)
		maps.DeleteFunc(m.Lanes, func(_ dispatcher.Lane, there bool) bool { return !there })
		if m.Whole {
			delete(all.Seen, id) // another lane of it may be known in another partition
		}
		all.Messages[id] = m
	}
	return all.String() + p.Figures(partitions)
}

// fillFigures gives each of some lanes two bars.
func (p *Project) fillFigures() {
	p.T.Helper()
	for i, lane := range To16(0, 16) {
		for half := range int64(2) {
			n := keys.Partition(string(lane), p.Options.Partitions)
			of := strconv.FormatInt(time.Now().Unix()/1800-half, 10)
			key := keys.Tag(p.Options.Project, n) + keys.Health + of
			require.NoError(p.T, p.Client.HSet(context.Background(), key, string(lane), fmt.Sprintf("%d 1", i), "*", "1").Err())
			require.NoError(p.T, p.Client.ExpireAt(context.Background(), key, home.BarsUntil(of)).Err())
		}
	}
}

// Figures returns the bars of lanes, each in the lane's partition.
func (p *Project) Figures(partitions int) string {
	p.T.Helper()
	var lines []string
	for _, key := range Keys(p.T, p.Client, p.Options.Project) {
		tag, half, is := strings.Cut(key, keys.Health)
		if !is {
			continue
		}
		for lane, text := range p.Client.HGetAll(context.Background(), key).Val() {
			if lane != "*" {
				require.Equal(p.T, keys.Tag(p.Options.Project, keys.Partition(lane, partitions)), tag, "%s", lane)
				lines = append(lines, fmt.Sprintf("\nhealth %s %s %s", half, lane, text))
			}
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

func (p *Project) Entry(id string, lanes []dispatcher.Lane, change ...func(*dispatcher.Message)) dispatcher.Entry {
	m := &dispatcher.Message{
		ID: id, Topic: "a.b", Tenant: "t", URL: "https://example.com/" + id, Body: []byte(`{"id":"` + id + `"}`), CreatedAt: p.Now,
	}
	switch keys.CRC16(id) % 3 {
	case 0:
		m.Subject = "order " + id
	case 1:
		m.Subject = "order 104711" // the same subject for more than 16 messages
	}
	if keys.CRC16(id)%5 == 0 {
		Bulky(m)
	}
	for _, c := range change {
		c(m)
	}
	p.Lanes[id] = lanes
	return dispatcher.Entry{Message: m, Digest: m.Digest(), Lanes: lanes, Fan: len(lanes) > 1}
}

func (p *Project) Publish(s *Raw, batch ...dispatcher.Entry) {
	p.T.Helper()
	got, _, err := s.Schedule(context.Background(), "one", 0, 0, batch)
	require.NoError(p.T, err)
	for i := range got {
		require.NoError(p.T, got[i].Err)
		require.Equal(p.T, dispatcher.Accepted, got[i].Result, batch[i].Message.ID)
	}
}

// InLine sets a message's ordering key.
func InLine(key string) func(*dispatcher.Message) {
	return func(m *dispatcher.Message) { m.OrderingKey = key }
}

// expiring makes a message expire in a month.
func (p *Project) expiring(m *dispatcher.Message) { m.ExpiresAt = p.Now.Add(30 * 24 * time.Hour) }

// After sets a message's delay.
func After(d time.Duration) func(*dispatcher.Message) {
	return func(m *dispatcher.Message) { m.Delay = d }
}

// To16 returns n of 16 lanes, from a first one on. The lanes are in many
// partitions.
func To16(from, n int) []dispatcher.Lane {
	lanes := make([]dispatcher.Lane, n)
	for i := range lanes {
		lanes[i] = dispatcher.Lane(fmt.Sprintf("u_lane%06d", (from+i)%16))
	}
	return lanes
}

// Fill publishes rounds of messages of every kind and processes many of them.
// The result has every place and every mark, histories, lines, limits and
// breakers. It also has incomplete fan-outs, and messages of which only the id
// is left.
func (p *Project) Fill(rounds int) {
	p.T.Helper()
	ctx := context.Background()
	s := p.Open(p.Options.Partitions)
	limit := func(lane dispatcher.Lane, l dispatcher.LaneLimits) {
		_, _, err := s.Limit(ctx, "one", lane, l, false)
		require.NoError(p.T, err)
	}
	p.fillFigures()
	limit("ep_ordered", dispatcher.LaneLimits{Version: 3, Ordered: true})
	limit("ep_paused", dispatcher.LaneLimits{Version: 2, Mode: dispatcher.LanePaused, MaxInFlight: 4, Interval: 5 * time.Millisecond})
	limit("u_lane000003", dispatcher.LaneLimits{Mode: dispatcher.LanePaused})
	limit("ep_pulled", dispatcher.LaneLimits{Version: 2, Pull: true, Interval: 20 * time.Millisecond})
	for k := range rounds {
		name := func(what string) string { return fmt.Sprintf("%s%d", what, k) }
		p.Publish(s,
			p.Entry(name("plain"), To16(k, 1)), p.Entry(name("later"), To16(k+5, 1), After(time.Hour)),
			p.Entry(name("fan"), To16(3*k, 5)), p.Entry(name("latefan"), To16(k, 16), After(time.Minute)),
			p.Entry(name("key1"), To16(k, 1), InLine("k")), p.Entry(name("key2"), To16(k, 1), InLine("k")),
			p.Entry(name("key3"), To16(k, 1), InLine("k"), After(time.Hour)),
			p.Entry(name("order1"), []dispatcher.Lane{"ep_ordered"}), p.Entry(name("order2"), []dispatcher.Lane{"ep_ordered"}),
			p.Entry(name("queue"), []dispatcher.Lane{"q_a", "q_b", "ep_pulled"}), p.Entry(name("latequeue"), []dispatcher.Lane{"q_b"}, After(time.Minute)),
			p.Entry(name("held"), []dispatcher.Lane{"ep_paused", "u_lane000001"}),
			p.Entry(name("expires"), []dispatcher.Lane{"ep_paused", "u_lane000004", "q_b"}, p.expiring),
		)
		p.Pass(100 * time.Millisecond)
		p.happen(s, k)
		_, _, err := s.Take(ctx, "one", dispatcher.Take{
			Lanes: []dispatcher.Lane{"q_a", "ep_pulled"}, Most: 2, Bytes: 1 << 20, For: time.Duration(k+10) * time.Minute, Token: name("t"), Owner: "o",
		})
		require.NoError(p.T, err)
	}
	keep := dispatcher.Keep{Finished: time.Hour, FinishedMax: 1 + rounds/2, SeenMax: ProjectKnown, Dead: time.Hour, DeadMax: 1000}
	for more := true; more; {
		trimmed, err := s.Trim(ctx, "one", All(s), keep, false)
		require.NoError(p.T, err)
		more = trimmed.More
	}
	marked := []dispatcher.DeliveryID{{Lane: "ep_pulled", Message: "queue0"}} // it is taken, so it keeps a mark
	for id := range p.Lanes {
		if strings.HasPrefix(id, "fan") {
			marked = append(marked, dispatcher.DeliveryID{Lane: p.Lanes[id][4], Message: id})
		}
	}
	_, _, err := s.Cancel(ctx, "one", marked)
	require.NoError(p.T, err)
}

// happen claims the ready deliveries and settles them in each way.
func (p *Project) happen(s *Raw, round int) {
	p.T.Helper()
	ctx := context.Background()
	claimed, _, err := s.Claim(ctx, "one", All(s), 32, 512)
	require.NoError(p.T, err)
	verdicts := []dispatcher.Verdict{dispatcher.Delivered, dispatcher.Delivered, dispatcher.Retry, dispatcher.Dead, dispatcher.Back, dispatcher.Delivered}
	var batch []dispatcher.Settlement
	var dead []dispatcher.DeliveryID
	for i, c := range claimed {
		v := verdicts[(i+round)%len(verdicts)]
		status := 500
		if v == dispatcher.Delivered {
			status = 204
		}
		wait := time.Minute
		if v == dispatcher.Back {
			wait = 0 // it is ready again, and does not wait for a key
		}
		batch = append(batch, dispatcher.Settlement{
			ID: c.ID, Verdict: v, Wait: wait, Reason: dispatcher.ReasonGone, Due: c.Due, Blame: v == dispatcher.Retry,
			Attempt: dispatcher.Attempt{Number: c.Attempt, Status: status, Verdict: v, At: p.Now, Error: "no", Excerpt: []byte("it said no")},
		})
		if v == dispatcher.Dead && i%2 == 0 {
			dead = append(dead, c.ID)
		}
	}
	_, _, err = s.Settle(ctx, "one", batch)
	require.NoError(p.T, err)
	_, _, err = s.Retry(ctx, "one", dead, true)
	require.NoError(p.T, err)
	p.Pass(time.Second)
}

// Records returns all messages as callers read them.
func (p *Project) Records(s *Raw) map[string]dispatcher.MessageView {
	p.T.Helper()
	out := map[string]dispatcher.MessageView{}
	for id := range p.Lanes {
		record, err := s.Read(context.Background(), id)
		if err == nil {
			slices.SortFunc(record.Deliveries, func(a, b dispatcher.Delivery) int { return strings.Compare(a.ID.String(), b.ID.String()) })
			out[id] = record
		} else {
			require.ErrorIs(p.T, err, dispatcher.ErrNotFound)
		}
	}
	return out
}

// All returns the partitions of a store.
func All(s *Raw) []int { return s.Conn().All() }

// Unarchive builds a message from its parts in an archive. A nil body was not kept, or is stored
// apart. Sealed header values stay sealed.
func Unarchive(tb testing.TB, id string, head, body []byte) *dispatcher.Message {
	tb.Helper()
	m, err := conn.DecodeRecord(id, string(head))
	require.NoError(tb, err)
	if body != nil {
		m.Body, m.Apart = body, nil
	}
	return m
}
