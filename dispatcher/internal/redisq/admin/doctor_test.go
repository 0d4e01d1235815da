package admin_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/admin"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// ward is a store with something in every place, which can be damaged.
type ward struct {
	testing.TB
	redisqtest.Fixture
	store  *redisqtest.Raw
	client redis.UniversalClient
	tag    string
	setup  redisqtest.Setup
	now    time.Time
	living []string
	beats  int64
}

func newTestWard(t testing.TB, server redisqtest.Server) *ward {
	t.Helper()
	p := &ward{TB: t, beats: 1, setup: redisqtest.Setup{Partitions: 1, LaneMaxInFlight: 128, Permits: 1024}, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	p.Fixture = redisqtest.Stores(server)(t, p.setup)
	p.store = p.Queue
	p.client = p.store.Client()
	p.tag = p.store.Conn().Tag(0)
	p.SetClock(p.now)
	_, _, err := p.store.Beat(t.Context(), "one", 1)
	require.NoError(t, err)
	return p
}

// key is the name of one of the partition's keys.
func (p *ward) key(name string) string { return p.tag + ":" + name }

// project is the name that is behind the tags.
func (p *ward) project() string { return strings.TrimPrefix(strings.TrimSuffix(p.tag, ":0}"), "{") }

// do makes a command of Redis, as a careless hand would.
func (p *ward) do(command string, args ...any) {
	p.Helper()
	require.NoError(p, p.client.Do(context.Background(), append([]any{command}, args...)...).Err())
}

// put publishes a message, and lets the instance lease it where it may.
func (p *ward) put(id string, lanes []dispatcher.Lane, changes ...func(*dispatcher.Message)) {
	p.Helper()
	p.schedule(id, lanes, 0, changes...)
}

func (p *ward) schedule(id string, lanes []dispatcher.Lane, lease int, changes ...func(*dispatcher.Message)) {
	p.Helper()
	m := &dispatcher.Message{ID: id, Topic: "a.b", URL: "https://example.com", Body: []byte("{}"), CreatedAt: p.now, ContentType: "application/json"}
	for _, change := range changes {
		change(m)
	}
	got, _, err := p.store.Schedule(p.Context(), "one", 1024, lease, []dispatcher.Entry{{Message: m, Digest: m.Digest(), Lanes: lanes}})
	require.NoError(p, err)
	require.NoError(p, got[0].Err)
	require.Equal(p, dispatcher.Accepted, got[0].Result)
	require.Len(p, redisqtest.Leased(got[0]), lease)
}

func to(lanes ...dispatcher.Lane) []dispatcher.Lane { return lanes }

func keyed(m *dispatcher.Message) { m.OrderingKey = "k" }

func later(m *dispatcher.Message) { m.Delay = time.Hour }

// settle ends what is leased, or has it retried.
func (p *ward) settle(lane dispatcher.Lane, id string, v dispatcher.Verdict) {
	p.Helper()
	p.settleAfter(lane, id, v, time.Minute)
}

// settleAfter is settle, with the wait of what is retried.
func (p *ward) settleAfter(lane dispatcher.Lane, id string, v dispatcher.Verdict, wait time.Duration) {
	p.Helper()
	s := dispatcher.Settlement{
		ID: dispatcher.DeliveryID{Lane: lane, Message: id}, Verdict: v, First: true, Due: p.now,
		Attempt: dispatcher.Attempt{Number: 1, At: p.now, Status: 200, Verdict: v},
	}
	if v != dispatcher.Delivered {
		s.Attempt.Status, s.Wait, s.Reason = 500, wait, dispatcher.ReasonGone
	}
	got, _, err := p.store.Settle(p.Context(), "one", []dispatcher.Settlement{s})
	require.NoError(p, err)
	require.Equal(p, []dispatcher.SettleResult{dispatcher.SettledOK}, got)
}

// fill puts something in every place.
func (p *ward) fill() {
	p.Helper()
	for id, v := range map[string]dispatcher.Verdict{"seen": dispatcher.Delivered, "cut": dispatcher.Delivered} {
		p.schedule(id, to("b"), 1)
		p.settle("b", id, v)
	}
	_, err := p.store.Trim(p.Context(), "one", []int{0}, dispatcher.Keep{Finished: time.Hour, SeenMax: 10, Dead: time.Hour, DeadMax: 10}, false)
	require.NoError(p, err)
	for _, end := range []struct {
		id string
		v  dispatcher.Verdict
	}{{"done", dispatcher.Delivered}, {"dead", dispatcher.Dead}, {"retrying", dispatcher.Retry}} {
		p.schedule(end.id, to("b"), 1)
		p.settle("b", end.id, end.v)
	}
	p.schedule("leased", to("b"), 1)
	p.schedule("taken", to("b"), 1)
	p.take("b:taken")
	p.put("due", to("a"), later)
	p.put("gone", to("a"), later)
	_, _, err = p.store.Cancel(p.Context(), "one", []dispatcher.DeliveryID{{Lane: "a", Message: "gone"}})
	require.NoError(p, err)
	p.put("r1", to("a"))
	p.put("r2", to("a"))
	p.put("fan", to("a", "b"))
	for _, id := range []string{"k1", "k2", "k3"} {
		p.put(id, to("k"), keyed)
	}
	p.mustBeSound()
}

// snapshot is all that is kept, in one order.
func (p *ward) snapshot() string {
	p.Helper()
	state := p.States()[0]
	for _, found := range state.Found {
		slices.SortFunc(found, func(a, b redisqtest.Found) int {
			return cmp.Or(cmp.Compare(a.Place, b.Place), cmp.Compare(a.Holder, b.Holder))
		})
	}
	return state.String()
}

func (p *ward) mustBeSound() {
	p.Helper()
	for _, s := range p.States() {
		require.Empty(p, s.Faults(p.setup))
	}
}

// examine looks at the patient and answers what was found, by kind.
func (p *ward) examine(fix bool) (admin.Examined, []admin.Finding) {
	p.Helper()
	var found []admin.Finding
	out, err := admin.ExamineAmong(p.Context(), p.store.Queue(), admin.Examination{Fix: fix, Report: func(f admin.Finding) { found = append(found, f) }}, p.beat)
	require.NoError(p, err)
	require.Equal(p, len(found), out.Findings)
	require.Zero(p, out.Unjudged)
	return out, found
}

func kinds(found []admin.Finding) []string {
	var out []string
	for _, f := range found {
		out = append(out, f.Kind)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// alive has an instance's number grow while an examination goes on.
func (p *ward) alive(name string) {
	p.Helper()
	p.living = append(p.living, name)
	p.beat()
}

func (p *ward) beat() {
	p.Helper()
	p.beats++
	for _, name := range p.living {
		_, _, err := p.store.Beat(p.Context(), name, p.beats)
		require.NoError(p, err)
	}
}

// damages are what a careless hand, or a failover, may do.
var damages = []damage{
	{"a due one is nowhere", func(p *ward) { p.do("ZREM", p.key("due"), "a:due") }, "no_place", map[string]redisqtest.Place{"a:due": redisqtest.PlaceDue}},
	{"a retrying one is nowhere", func(p *ward) { p.do("ZREM", p.key("due"), "b:retrying") }, "no_place", map[string]redisqtest.Place{"b:retrying": redisqtest.PlaceDue}},
	{"a ready one is nowhere", func(p *ward) { p.do("LPOP", p.key("ready:a")) }, "no_place", map[string]redisqtest.Place{"a:r1": redisqtest.PlaceReady}},
	{"a whole ready list is gone", func(p *ward) { p.do("DEL", p.key("ready:a")) }, "no_place", map[string]redisqtest.Place{"a:r1": redisqtest.PlaceReady, "a:r2": redisqtest.PlaceReady, "a:fan": redisqtest.PlaceReady}},
	{"a leased one is nowhere", func(p *ward) { p.do("DEL", p.key("leases:one")) }, "no_place", map[string]redisqtest.Place{"b:leased": redisqtest.PlaceReady}},
	{"a delivered one is nowhere", func(p *ward) { p.do("ZREM", p.key("done"), "b:done") }, "no_place", map[string]redisqtest.Place{"b:done": redisqtest.PlaceReady}},
	{"a dead one is nowhere", func(p *ward) { p.do("ZREM", p.key("dead"), "b:dead") }, "no_place", map[string]redisqtest.Place{"b:dead": redisqtest.PlaceDead}},
	{"one that was cancelled is nowhere", func(p *ward) { p.do("LPOP", p.key("ready:a")); p.do("HSET", p.key("marks"), "a:r1", "c") }, "no_place", map[string]redisqtest.Place{"a:r1": redisqtest.PlaceCancelled}},
	{"the first of a line is nowhere", func(p *ward) { p.do("LPOP", p.key("ready:k")) }, "no_place", map[string]redisqtest.Place{"k:k1": redisqtest.PlaceReady, "k:k2": redisqtest.PlaceBehind}},
	{"one behind another is nowhere", func(p *ward) { p.do("ZREM", p.line(), "k2") }, "no_place", map[string]redisqtest.Place{"k:k2": redisqtest.PlaceBehind, "k:k3": redisqtest.PlaceBehind}},
	{"a line is gone", func(p *ward) { p.do("DEL", p.line()) }, "no_line", map[string]redisqtest.Place{"k:k1": redisqtest.PlaceReady, "k:k2": redisqtest.PlaceBehind}},

	{"due and ready", func(p *ward) { p.do("RPUSH", p.key("ready:a"), "1:due") }, "two_places", map[string]redisqtest.Place{"a:due": redisqtest.PlaceDue}},
	{"ready twice", func(p *ward) { p.do("RPUSH", p.key("ready:a"), "1:r1") }, "two_places", map[string]redisqtest.Place{"a:r1": redisqtest.PlaceReady}},
	{"leased and ready", func(p *ward) { p.do("LPUSH", p.key("ready:b"), "1:leased") }, "two_places", map[string]redisqtest.Place{"b:leased": redisqtest.PlaceLeased}},
	{"leased and due", func(p *ward) { p.do("ZADD", p.key("due"), 1, "b:leased") }, "two_places", map[string]redisqtest.Place{"b:leased": redisqtest.PlaceLeased}},
	{"leased twice", func(p *ward) {
		p.do("ZADD", p.key("leases:two"), 1, "b:leased")
		p.do("HSET", p.home("instances"), "two", 1)
	}, "two_places", map[string]redisqtest.Place{"b:leased": redisqtest.PlaceLeased}},
	{"delivered and ready", func(p *ward) { p.do("RPUSH", p.key("ready:b"), "1:done") }, "two_places", map[string]redisqtest.Place{"b:done": redisqtest.PlaceDone}},
	{"delivered and dead", func(p *ward) { p.do("ZADD", p.key("dead"), 1, "b:done") }, "two_places", map[string]redisqtest.Place{"b:done": redisqtest.PlaceDone}},
	{"dead with attempts beside its ladder, and ready", func(p *ward) {
		p.do("HSET", p.key("progress"), "b:dead", "4 1 0 500 0 gone 2 0")
		p.do("RPUSH", p.key("ready:b"), "1:dead")
	}, "two_places", map[string]redisqtest.Place{"b:dead": redisqtest.PlaceReady}},
	{"dead and ready", func(p *ward) { p.do("RPUSH", p.key("ready:b"), "1:dead") }, "two_places", map[string]redisqtest.Place{"b:dead": redisqtest.PlaceReady}},
	{"cancelled and due", func(p *ward) { p.do("ZADD", p.key("due"), 1767326645000, "a:gone") }, "two_places", map[string]redisqtest.Place{"a:gone": redisqtest.PlaceDue}},
	{"behind and ready", func(p *ward) { p.do("RPUSH", p.key("ready:k"), "1:k2") }, "two_places", map[string]redisqtest.Place{"k:k2": redisqtest.PlaceBehind}},
	{"behind and leased", func(p *ward) { p.do("ZADD", p.key("leases:one"), 1, "k:k3") }, "two_places", map[string]redisqtest.Place{"k:k3": redisqtest.PlaceBehind}},
	{"delivered and behind", func(p *ward) { p.do("ZADD", p.key("done"), 1, "k:k2") }, "two_places", map[string]redisqtest.Place{"k:k2": redisqtest.PlaceDone}},

	{"due without a message", func(p *ward) { p.lose("due") }, "no_record", map[string]redisqtest.Place{"a:due": ""}},
	{"ready without a message", func(p *ward) { p.lose("r1") }, "no_record", map[string]redisqtest.Place{"a:r1": ""}},
	{"leased without a message", func(p *ward) { p.lose("leased") }, "no_record", map[string]redisqtest.Place{"b:leased": ""}},
	{"retrying without a message", func(p *ward) { p.lose("retrying") }, "no_record", map[string]redisqtest.Place{"b:retrying": ""}},
	{"done without a message", func(p *ward) { p.lose("done") }, "no_record", map[string]redisqtest.Place{"b:done": ""}},
	{"dead without a message", func(p *ward) { p.lose("dead") }, "no_record", map[string]redisqtest.Place{"b:dead": ""}},
	{"cancelled without a message", func(p *ward) { p.lose("gone") }, "no_record", map[string]redisqtest.Place{"a:gone": ""}},
	{"the first of a line without a message", func(p *ward) { p.lose("k1") }, "no_record", map[string]redisqtest.Place{"k:k1": "", "k:k2": redisqtest.PlaceReady}},
	{"behind without a message", func(p *ward) { p.lose("k2") }, "no_record", map[string]redisqtest.Place{"k:k2": "", "k:k3": redisqtest.PlaceBehind}},
	{"of several lanes without a message", func(p *ward) { p.lose("fan") }, "no_record", map[string]redisqtest.Place{"a:fan": "", "b:fan": ""}},
	{"with a digest for a message", func(p *ward) { p.do("HSET", p.key("messages"), "r1", "0123456789abcdef") }, "no_record", map[string]redisqtest.Place{"a:r1": ""}},

	{"a list of lanes is gone", func(p *ward) { p.do("DEL", p.key("fan")) }, "not_named", map[string]redisqtest.Place{"a:fan": redisqtest.PlaceReady, "b:fan": redisqtest.PlaceReady}},
	{"a lane is not named", func(p *ward) { p.do("HSET", p.key("fan"), "fan", "a -b") }, "not_named", map[string]redisqtest.Place{"b:fan": redisqtest.PlaceReady}},
	{"a lane without a delivery is named", func(p *ward) { p.do("HSET", p.key("fan"), "fan", "a b c") }, "no_place", map[string]redisqtest.Place{"c:fan": redisqtest.PlaceReady}},
	{"attempts of nothing", func(p *ward) { p.do("HSET", p.key("progress"), "a:x", "1 0 0 500 0 - 0 0") }, "leftover", nil},
	{"a mark of nothing", func(p *ward) { p.do("HSET", p.key("marks"), "a:x", "c") }, "leftover", nil},
	{"a history of nothing", func(p *ward) { p.do("RPUSH", p.key("history:a:x"), "0 0 ") }, "leftover", nil},
	{"a list of lanes of nothing", func(p *ward) { p.do("HSET", p.key("fan"), "x", "a b") }, "fan", nil},
	{"a message without a delivery", func(p *ward) { p.do("HSET", p.key("fan"), "r1", "-a -b"); p.do("LPOP", p.key("ready:a")) }, "no_delivery", map[string]redisqtest.Place{"a:r1": ""}},
	{"an id that is known for ever", func(p *ward) { p.do("DEL", p.key("seen")) }, "unseen", nil},
	{"an id to forget that is not known", func(p *ward) { p.do("ZADD", p.key("seen"), 1, "x") }, "seen", nil},
	{"an id to forget of a message that waits", func(p *ward) { p.do("ZADD", p.key("seen"), 1, "r1") }, "seen", map[string]redisqtest.Place{"a:r1": redisqtest.PlaceReady}},
	{"a body of nothing", func(p *ward) { p.do("HSET", p.key("bodies"), "x 0123456789abcdef", "y") }, "body", nil},
	{"a body whose message is lost", func(p *ward) { p.put("big", to("a"), redisqtest.Bulky); p.lose("big") }, "body", map[string]redisqtest.Place{"a:big": ""}},
	{"names of no deliveries", func(p *ward) {
		p.do("ZADD", p.key("due"), 1e13, "nonsense")
		p.do("RPUSH", p.key("ready:a"), "nonsense")
		p.do("HSET", p.key("progress"), "nonsense", "x")
	}, "broken_name", nil},

	{"due and marked as cancelled", func(p *ward) { p.do("HSET", p.key("marks"), "a:due", "c") }, "mark", map[string]redisqtest.Place{"a:due": redisqtest.PlaceCancelled}},
	{"due and marked as delivered", func(p *ward) { p.do("HSET", p.key("marks"), "b:retrying", "d") }, "mark", map[string]redisqtest.Place{"b:retrying": redisqtest.PlaceDone}},
	{"behind and marked as cancelled", func(p *ward) { p.do("HSET", p.key("marks"), "k:k2", "c") }, "mark", map[string]redisqtest.Place{"k:k2": redisqtest.PlaceCancelled}},
	{"delivered and marked", func(p *ward) { p.do("HSET", p.key("marks"), "b:done", "c") }, "mark", map[string]redisqtest.Place{"b:done": redisqtest.PlaceDone}},
	{"ended at the head of a line", func(p *ward) { p.do("LPOP", p.key("ready:k")); p.do("ZADD", p.key("done"), 1, "k:k1") }, "in_line", map[string]redisqtest.Place{"k:k1": redisqtest.PlaceDone, "k:k2": redisqtest.PlaceReady}},
	{"ready for a reason", func(p *ward) { p.do("HSET", p.key("progress"), "a:r1", "1 0 0 500 0 gone 0 0") }, "reason", map[string]redisqtest.Place{"a:r1": redisqtest.PlaceReady}},
	{"in no line", func(p *ward) { p.do("ZREM", p.line(), "k1") }, "no_line", map[string]redisqtest.Place{"k:k1": redisqtest.PlaceBehind, "k:k2": redisqtest.PlaceReady}},
	{"dead for no reason", func(p *ward) { p.do("HDEL", p.key("progress"), "b:dead") }, "reason", map[string]redisqtest.Place{"b:dead": redisqtest.PlaceDead}},

	{"too much in flight", func(p *ward) { p.do("HSET", p.key("in"), "b", "9 2") }, "counts", nil},
	{"too little in flight", func(p *ward) { p.do("HSET", p.key("in"), "b", "0 0") }, "counts", nil},
	{"a count that is none", func(p *ward) { p.do("HSET", p.key("in"), "a", "nonsense") }, "counts", nil},
	{"a count that is gone", func(p *ward) { p.do("HDEL", p.key("in"), "a") }, "counts", nil},
	{"a count of a lane that is not there", func(p *ward) { p.do("HSET", p.key("in"), "x", "3 4") }, "counts", nil},
	{"statuses that are wrong", func(p *ward) { p.do("HSET", p.key("counts"), "ready", 99, "dead", -1, "nothing", 3) }, "counts", nil},
	{"statuses that are gone", func(p *ward) { p.do("DEL", p.key("counts"), p.key("buried")) }, "counts", nil},
	{"reasons that are wrong", func(p *ward) { p.do("HSET", p.key("buried"), "b gone", 7, "x poison", 1) }, "counts", nil},
	{"lines that are not counted", func(p *ward) { p.do("HSET", p.key("lane"), "k", "2 0 0 0 0 0 4 0 0") }, "counts", nil},
	{"a lane that is held is not listed", func(p *ward) {
		p.do("HSET", p.key("limits"), "z", "0 0 0 0 p")
		p.do("ZADD", p.key("known"), p.now.UnixMilli(), "z")
	}, "held", nil},
	{"a lane that is not held is listed", func(p *ward) { p.do("HSET", p.key("held"), "b", "p 1 one") }, "held", nil},
	{"a lane that is cut is not listed", func(p *ward) {
		p.do("HSET", p.key("limits"), "z", "1767326645000 0 0 0 g")
		p.do("ZADD", p.key("known"), p.now.UnixMilli(), "z")
	}, "held", nil},
	{"a lane that is not cut is listed", func(p *ward) { p.do("HSET", p.key("held"), "b", "g 1 system") }, "held", nil},
	{"one of a lane that is cut is nowhere", func(p *ward) {
		p.do("HSET", p.key("limits"), "a", fmt.Sprint(p.now.UnixMilli(), " 0 0 0 g"))
		p.do("HSET", p.key("held"), "a", "g 1 system")
		p.do("LPOP", p.key("ready:a"))
	}, "no_place", map[string]redisqtest.Place{"a:r1": redisqtest.PlaceDead}},
	{"lines that are not there", func(p *ward) { p.do("HSET", p.key("lane"), "k", "2 0 0 0 0 5 4 0 0") }, "counts", nil},

	{"a lane without its turn", func(p *ward) { p.do("ZREM", p.key("lanes"), "a") }, "stuck", nil},
	{"no lane has a turn", func(p *ward) { p.do("DEL", p.key("lanes")) }, "stuck", nil},
	{"a lane that waits for nothing", func(p *ward) { p.do("ZREM", p.key("lanes"), "a"); p.do("ZADD", p.key("parked"), 1e13, "a") }, "stuck", nil},
	{"a turn of a lane with nothing ready", func(p *ward) { p.do("ZADD", p.key("lanes"), 1, "x") }, "turn", nil},
	{"a lane with two turns", func(p *ward) { p.do("ZADD", p.key("parked"), 1, "a") }, "turn", nil},
	{"a name that nobody would forget", func(p *ward) { p.do("HSET", p.key("names"), "x", "https://x t") }, "unknown_lane", nil},
	{"a lane without its name", func(p *ward) { p.do("HDEL", p.key("names"), "a") }, "no_name", nil},
	{"a lane that nobody would forget", func(p *ward) { p.do("ZREM", p.key("known"), "a") }, "unknown_lane", nil},

	{"leases of nobody", func(p *ward) { p.do("HDEL", p.home("instances"), "one") }, "dead_instance", map[string]redisqtest.Place{"b:leased": redisqtest.PlaceReady}},
	{"an instance that never was there", func(p *ward) { p.do("HSET", p.home("about"), "old", "64 1 1.0") }, "unmet_instance", nil},
	{"an instance that stands still", func(p *ward) { p.do("HSET", p.home("instances"), "old", 7) }, "dead_instance", nil},
}

func (p *ward) home(name string) string { return p.tag[:len(p.tag)-len(":0}")] + "}:" + name }

func (p *ward) lose(id string) { p.do("HDEL", p.key("messages"), id) }

// line is the key of the only line.
func (p *ward) line() string {
	keys, err := p.client.Keys(context.Background(), p.key("behind:*")).Result()
	require.NoError(p, err)
	require.Len(p, keys, 1)
	return keys[0]
}

// newTestFilled fills a project with something in every place. The returned function makes a ward of
// it for one test, in which all is as it was after the fill.
func newTestFilled(t *testing.T) func(t *testing.T) *ward {
	t.Helper()
	filled := newTestWard(t, redistest.Share(t))
	filled.fill()
	restore := redisqtest.CopyKeys(t, filled.client, filled.project())
	return func(t *testing.T) *ward {
		t.Helper()
		restore()
		p := *filled
		p.TB = t
		p.SetClock(p.now)
		return &p
	}
}

func TestDoctorFindsAndRepairs(t *testing.T) {
	t.Parallel()
	filled := newTestFilled(t)
	for _, c := range slices.Concat(damages, takenDamages, expiryDamages, shelfDamages, clockDamages) {
		t.Run(c.name, func(t *testing.T) {
			p := filled(t)
			if c.kind != "dead_instance" {
				p.alive("one")
			}
			c.do(p)
			before := p.snapshot()
			_, found := p.examine(false)
			require.Contains(t, kinds(found), c.kind, "%+v", found)
			require.Equal(t, before, p.snapshot(), "to look changes nothing")

			out, found := p.examine(true)
			require.Contains(t, kinds(found), c.kind, "%+v", found)
			require.Equal(t, out.Findings, out.Fixed, "%+v", found)
			_, left := p.examine(true)
			if c.kind == "dead_instance" {
				left = slices.DeleteFunc(left, func(f admin.Finding) bool { return f.Kind == c.kind })
			}
			require.Empty(t, left)
			p.mustBeSound()
			state := p.States()[0]
			for name, place := range c.where {
				id, _ := dispatcher.ParseDeliveryID(name)
				require.Equal(t, place, state.At(id).Place, name)
			}
			p.finish()
		})
	}
}

// finish has everything that waits delivered, which shows that nothing is stuck.
func (p *ward) finish(dead ...string) {
	p.Helper()
	p.now = p.now.Add(2 * time.Hour)
	p.SetClock(p.now)
	_, _, err := p.store.Beat(p.Context(), "last", 1)
	require.NoError(p, err)
	for _, dead := range append(dead, "one", "two") {
		_, _, err = p.store.Reap(p.Context(), "last", dead)
		require.NoError(p, err)
	}
	for more := true; more; {
		ended, _, err := p.store.Move(p.Context(), "last", []int{0})
		require.NoError(p, err)
		claimed, _, err := p.store.Claim(p.Context(), "last", []int{0}, 64, 512)
		require.NoError(p, err)
		taken, _, err := p.store.Take(p.Context(), "last", dispatcher.Take{Lanes: to("q_a"), Most: 64, Bytes: 1 << 20})
		require.NoError(p, err)
		var batch []dispatcher.Settlement
		for _, c := range slices.Concat(claimed, taken.Claimed, ended) {
			batch = append(batch, dispatcher.Settlement{
				ID: c.ID, Verdict: dispatcher.Delivered, First: c.First,
				Attempt: dispatcher.Attempt{Number: c.Attempt, At: p.now, Status: 200, Verdict: dispatcher.Delivered},
			})
		}
		_, _, err = p.store.Settle(p.Context(), "last", batch)
		require.NoError(p, err)
		more = len(batch) > 0
	}
	state := p.States()[0]
	for id, found := range state.Found {
		require.False(p, found[0].Place.Waits(), "%s is %v", id, found)
	}
	p.mustBeSound()
}

func TestDoctorFindsNothingInASoundStore(t *testing.T) {
	t.Parallel()
	p := newTestWard(t, redistest.Share(t))
	p.alive("one")
	_, found := p.examine(true)
	require.Empty(t, found, "it is empty")
	p.fill()
	out, found := p.examine(true)
	require.Empty(t, found)
	require.Equal(t, admin.Examined{Partitions: 1, Messages: 15, Lanes: 3}, out)
	p.mustBeSound()
}
