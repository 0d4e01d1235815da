package admin_test

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/admin"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
	"github.com/hookladder/hookladder/signer"
)

// No damage may stop a script: what can be delivered is, and the rest is for the
// doctor.
func TestNoDamageStopsAScript(t *testing.T) {
	t.Parallel()
	filled := newTestFilled(t)
	for _, c := range damages {
		t.Run(c.name, func(t *testing.T) {
			p := filled(t)
			c.do(p)
			p.useAll()
			p.now = p.now.Add(2 * time.Hour)
			p.SetClock(p.now)
			p.useAll()
			p.alive("last")
			p.examine(true)
			p.mustBeSound()
		})
	}
}

// A count below nothing could not be read again: it would stop its lane.
func TestACountThatIsTooLowStaysAtNothing(t *testing.T) {
	t.Parallel()
	p := newTestWard(t, redistest.Share(t))
	p.fill()
	p.do("HSET", p.key("in"), "b", "0 3")
	p.settle("b", "leased", dispatcher.Delivered)
	text, err := p.client.HGet(t.Context(), p.key("in"), "b").Result()
	require.NoError(t, err)
	require.Equal(t, "0 3", text)
}

// useAll calls every method on everything.
func (p *ward) useAll() {
	p.Helper()
	ctx, all := p.Context(), []int{0}
	_, _, err := p.store.Beat(ctx, "last", 1)
	require.NoError(p, err)
	p.schedule(fmt.Sprint("new", p.now.Unix()), to("a", "b", "k"), 0, keyed)
	ids := []dispatcher.DeliveryID{{Lane: "x", Message: "x"}}
	for id := range p.States()[0].Found {
		if id.Message != "" {
			ids = append(ids, id)
		}
	}
	for range 3 {
		_, _, err := p.store.Move(ctx, "last", all)
		require.NoError(p, err)
		claimed, _, err := p.store.Claim(ctx, "last", all, 64, 512)
		require.NoError(p, err)
		var batch []dispatcher.Settlement
		verdicts := []dispatcher.Verdict{dispatcher.Delivered, dispatcher.Retry, dispatcher.Dead, dispatcher.Back}
		for i, c := range claimed {
			v := verdicts[i%len(verdicts)]
			batch = append(batch, dispatcher.Settlement{
				ID: c.ID, Verdict: v, Reason: dispatcher.ReasonGone, Due: p.now,
				Attempt: dispatcher.Attempt{Number: c.Attempt, At: p.now, Status: 200, Verdict: v},
			})
		}
		_, _, err = p.store.Settle(ctx, "last", batch)
		require.NoError(p, err)
	}
	_, _, err = p.store.Retry(ctx, "last", ids, true)
	require.NoError(p, err)
	_, _, err = p.store.Cancel(ctx, "last", ids[len(ids)/2:])
	require.NoError(p, err)
	for _, lane := range []dispatcher.Lane{"a", "x"} {
		_, _, err = p.store.Limit(ctx, "last", lane, dispatcher.LaneLimits{Mode: dispatcher.LaneDisabled}, true)
		require.NoError(p, err)
		_, _, _, err = p.store.Sweep(ctx, "last", lane, "")
		require.NoError(p, err)
	}
	_, _, err = p.store.Reap(ctx, "last", "one")
	require.NoError(p, err)
	_, err = p.store.Trim(ctx, "last", all, dispatcher.Keep{Finished: time.Hour, FinishedMax: 1, SeenMax: 1, Dead: time.Hour, DeadMax: 1}, false)
	require.NoError(p, err)
	_, err = p.store.List(ctx, dispatcher.Filter{Limit: 500})
	require.NoError(p, err)
	_, _, err = p.store.Lanes(ctx, 100, "")
	require.NoError(p, err)
	_, err = p.store.Stats(ctx)
	require.NoError(p, err)
	_, err = p.store.ReadHints(ctx, all)
	require.NoError(p, err)
}

// Lists that are too long to be read in one script.
func TestDoctorOfLongLists(t *testing.T) {
	t.Parallel()
	p := newTestWard(t, redistest.Share(t))
	p.alive("one")
	const many = 6000 // a page of a list has 5000
	for from := 0; from < many; from += 60 {
		batch := make([]dispatcher.Entry, 60)
		for i := range batch {
			m := &dispatcher.Message{ID: fmt.Sprint("m", from+i), Topic: "a.b", URL: "https://example.com", Body: []byte("{}"), CreatedAt: p.now}
			lanes := to("a")
			if i%2 == 1 {
				m.Delay, lanes = time.Hour, to("d")
			}
			batch[i] = dispatcher.Entry{Message: m, Digest: m.Digest(), Lanes: append(lanes, "a2")}
		}
		_, _, err := p.store.Schedule(t.Context(), "one", 0, 0, batch)
		require.NoError(t, err)
	}
	_, found := p.examine(true)
	require.Empty(t, found)

	ready := p.key("ready:a")
	middle, err := p.client.LIndex(t.Context(), ready, many/4).Result()
	require.NoError(t, err)
	p.do("LREM", p.key("ready:a2"), 1, middle) // the same message, and the same time
	p.do("RPUSH", ready, middle)
	p.do("LINSERT", ready, "BEFORE", middle, middle)
	p.do("ZADD", p.key("leases:one"), 1, "a:m4440")
	p.do("HSET", p.key("in"), "d", "5 3")
	p.do("HINCRBY", p.key("counts"), "scheduled", -100)
	out, found := p.examine(true)
	require.Equal(t, out.Findings, out.Fixed)
	for _, kind := range []string{"no_place", "two_places", "counts"} {
		require.Contains(t, kinds(found), kind)
	}
	for range 2 { // three places of one become two, and then one
		_, found = p.examine(true)
	}
	require.Empty(t, found)
	p.mustBeSound()
}

func TestDoctorOfEndpoints(t *testing.T) {
	t.Parallel()
	p := newTestWard(t, redistest.Share(t))
	p.alive("one")
	e := redisqtest.Endpoint("ep_000000001")
	_, err := p.store.CreateEndpoint(t.Context(), e)
	require.NoError(t, err)
	_, found := p.examine(false)
	require.Equal(t, []string{"limits"}, kinds(found), "its lane was never told")
	p.examine(true)
	_, found = p.examine(true)
	require.Empty(t, found)
	p.put("m1", to(e.Lane()))

	changed := redisqtest.Endpoint(e.ID)
	changed.Version, changed.MaxInFlight = 2, 3
	changed.Paused, changed.StoppedBy, changed.StoppedAt = true, "key:ops", p.now.Add(-time.Hour).UTC().Truncate(time.Second)
	require.NoError(t, p.store.ChangeEndpoint(t.Context(), changed))
	p.examine(true)
	states, err := p.store.LaneStates(t.Context(), to(e.Lane()))
	require.NoError(t, err)
	got := states[0].Limits
	got.By, got.Since = states[0].By, states[0].Since
	require.Equal(t, changed.Limits(), got, "a pause keeps its author and its time")

	redisqtest.MustDelete(t, p.store, e.ID)
	_, found = p.examine(false)
	require.Equal(t, []string{"half_deleted"}, kinds(found))
	require.NoError(t, p.store.ForgetDeleted(t.Context(), e.ID))
	p.do("HSET", "{"+p.project()+"}:gone", "ep_x", "nonsense")
	_, found = p.examine(true)
	require.Equal(t, []string{"broken_end", "no_endpoint_work"}, kinds(found))
	out, found := p.examine(true)
	require.Equal(t, []string{"no_endpoint_work"}, kinds(found))
	require.Zero(t, out.Fixed, "what waits is not given up")
	require.Equal(t, redisqtest.PlaceReady, p.States()[0].At(dispatcher.DeliveryID{Lane: e.Lane(), Message: "m1"}).Place)

	_, _, err = p.store.Cancel(t.Context(), "one", []dispatcher.DeliveryID{{Lane: e.Lane(), Message: "m1"}})
	require.NoError(t, err)
	_, _, err = p.store.Claim(t.Context(), "one", []int{0}, 1, 64)
	require.NoError(t, err)
	out, found = p.examine(true)
	require.Equal(t, []string{"no_endpoint"}, kinds(found))
	require.Equal(t, 1, out.Fixed)
	_, found = p.examine(true)
	require.Empty(t, found)
}

func TestDoctorOfSeveralPartitionsAndOfKeysThatAreNoneOfOurs(t *testing.T) {
	t.Parallel()
	store := redisqtest.Open(t, redisq.Options{URL: redisqtest.PatientURL(redistest.Share(t)), Project: "several", Partitions: 4, LaneMaxInFlight: 128, Permits: 1024})
	ctx := t.Context()
	_, _, err := store.Schedule(ctx, "one", 0, 0, append(redisqtest.Entries(20, 0), redisqtest.Entries(20, time.Hour)...))
	require.NoError(t, err)
	examine := func() (admin.Examined, []admin.Finding) {
		var found []admin.Finding
		out, err := admin.Examine(ctx, store.Queue(), admin.Examination{Fix: true, Still: time.Millisecond, Report: func(f admin.Finding) { found = append(found, f) }})
		require.NoError(t, err)
		return out, found
	}
	out, found := examine()
	require.Empty(t, found)
	require.Equal(t, admin.Examined{Partitions: 4, Messages: 40, Lanes: 20}, out)

	lane := redisqtest.LaneOf(3)
	own := int(keys.CRC16(string(lane))) % 4
	client, other := store.Client(), store.Conn().Tag((own+1)%4)
	for _, key := range []string{"{several:4}:due", "{several:1}:nothing", "{sever:1}:due", "{several:x}:due"} {
		require.NoError(t, client.Set(ctx, key, 1, 0).Err())
	}
	require.NoError(t, client.HSet(ctx, other+":in", string(lane), "0 0").Err())
	require.NoError(t, client.Del(ctx, store.Conn().Tag(own)+":ready:"+string(lane)).Err())
	out, found = examine()
	byKind := map[string][]string{}
	for _, f := range found {
		byKind[f.Kind] = append(byKind[f.Kind], f.Subject)
	}
	require.ElementsMatch(t, []string{"{several:4}:due", "{several:x}:due"}, byKind["foreign_part"])
	require.Equal(t, []string{"{several:1}:nothing"}, byKind["foreign_key"])
	require.Equal(t, []string{string(lane)}, byKind["wrong_partition"])
	require.Len(t, byKind["no_place"], 1)
	require.Positive(t, out.Fixed)
	require.Less(t, out.Fixed, out.Findings)
}

// What an instance holds that begins while the doctor looks is in its place.
func TestDoctorKnowsInstancesThatBeginMeanwhile(t *testing.T) {
	t.Parallel()
	p := newTestWard(t, redistest.Share(t))
	p.fill()
	number := int64(1)
	meanwhile := func() {
		number++
		for _, name := range []string{"one", "late"} {
			_, _, err := p.store.Beat(t.Context(), name, number)
			require.NoError(t, err)
		}
		_, _, err := p.store.Claim(t.Context(), "late", []int{0}, 64, 512)
		require.NoError(t, err)
	}
	tell := func(f admin.Finding) { t.Errorf("%+v", f) }
	_, err := admin.ExamineLate(t.Context(), p.store.Queue(), admin.Examination{Fix: true, Report: tell}, meanwhile)
	require.NoError(t, err)
	require.Len(t, p.States()[0].Leases["late"], 4)
	p.mustBeSound()
}

// Figures of a time are in keys that are named after it.
func TestDoctorMendsFigures(t *testing.T) {
	p := newTestWard(t, redistest.Share(t))
	p.living = []string{"one"}
	p.do("HSET", p.key("health:990000"), "a", "1 2 3", "b", "by hand", "*", "7", "c", "1  2")
	p.do("SET", p.key("health:990001"), "by hand")
	p.do("SET", p.key("added"), "by hand")
	found := map[string]string{}
	_, list := p.examine(true)
	for _, f := range list {
		require.True(t, f.Fixed)
		found[f.Subject] = f.Kind
	}
	require.Equal(t, map[string]string{
		"b": "broken_value", "c": "broken_value", p.key("health:990001"): "wrong_type", p.key("added"): "wrong_type",
	}, found)
	_, list = p.examine(true)
	require.Empty(t, list)
	require.Equal(t, map[string]string{"a": "1 2 3", "*": "7"}, p.client.HGetAll(t.Context(), p.key("health:990000")).Val())
}

func TestDoctorTellsOfAMessageWithoutItsBody(t *testing.T) {
	t.Parallel()
	p := newTestWard(t, redistest.Share(t))
	p.fill()
	p.alive("one")
	p.put("big", to("a"), redisqtest.Bulky)
	p.do("DEL", p.key("bodies"))
	out, found := p.examine(true)
	require.Equal(t, []string{"no_body"}, kinds(found))
	require.Zero(t, out.Fixed)
}

// Fields of bodies are read a page at a time. An older Redis answers fields
// only with their bodies: then a page has few of them.
func TestDoctorReadsBodiesAPageAtATime(t *testing.T) {
	const n, size = 300, 64 << 10
	p := newTestWard(t, redistest.Share(t))
	p.fill()
	p.alive("one")
	for i := range n {
		p.do("HSET", p.key("bodies"), fmt.Sprintf("x%03d 0123456789abcdef", i), strings.Repeat("x", size))
	}
	g := redisqtest.Measure(p.client, nil)
	_, found := p.examine(false)
	require.Equal(t, n, len(found))
	pages := 0
	for _, s := range g.All() {
		if s.Name == "hkeys" {
			require.Less(t, s.Size, 10, "of instances, not of bodies")
		}
		if s.Name == "hscan" {
			pages++
			require.LessOrEqual(t, s.Bytes, 2<<20)
		}
	}
	require.Greater(t, pages, n/64)
}

// clockDamages are those that a clock of Redis leaves that was ahead for a while.
var clockDamages = []damage{
	{"a failed one waits by a clock that was a day ahead", func(p *ward) {
		p.ahead(25*time.Hour, func() { p.fail("late") })
	}, "ahead", map[string]redisqtest.Place{"c:late": redisqtest.PlaceDue}},
	{"a failed one waits by a clock that was two minutes ahead", func(p *ward) {
		p.ahead(2*time.Minute, func() { p.fail("late") })
	}, "ahead", map[string]redisqtest.Place{"c:late": redisqtest.PlaceDue}},
}

// ahead has the clock of Redis jump for a while.
func (p *ward) ahead(by time.Duration, meanwhile func()) {
	p.Helper()
	right := p.now
	p.now = right.Add(by)
	p.SetClock(p.now)
	meanwhile()
	p.now = right
	p.SetClock(p.now)
}

// fail has a new delivery wait a minute for its next attempt.
func (p *ward) fail(id string) {
	p.Helper()
	p.schedule(id, to("c"), 1)
	p.settle("c", id, dispatcher.Retry)
}

func TestDoctorLetsAFailedOneWaitAsLongAsItsAttemptAsked(t *testing.T) {
	t.Parallel()
	p := newTestWard(t, redistest.Share(t))
	p.alive("one")
	p.ahead(25*time.Hour, func() { p.fail("late") })
	id := dispatcher.DeliveryID{Lane: "c", Message: "late"}
	_, found := p.examine(false)
	require.Len(t, found, 1)
	require.Equal(t, "c:late", found[0].Subject)
	require.Contains(t, found[0].What, "for 90060 s more, in place of 60")
	require.Equal(t, p.now.Add(25*time.Hour+time.Minute).UnixMilli(), p.States()[0].At(id).At)
	p.examine(true)
	require.Equal(t, p.now.Add(time.Minute).UnixMilli(), p.States()[0].At(id).At)
}

func TestDoctorCountsWhatWasAcceptedByAClockThatWasAheadAndLeavesIt(t *testing.T) {
	t.Parallel()
	p := newTestWard(t, redistest.Share(t))
	p.alive("one")
	p.ahead(25*time.Hour, func() {
		p.put("delayed", to("a"), later)
		p.put("other", to("a"), later)
		p.put("at_once", to("a"))
	})
	before := p.snapshot()
	out, found := p.examine(true)
	require.Equal(t, []string{"ahead_accepted"}, kinds(found))
	require.Contains(t, found[0].What, "2 deliveries, a:")
	require.Zero(t, out.Fixed, "a deliver_at and a delay are stored alike, so nobody knows")
	require.Equal(t, before, p.snapshot())
}

func TestDoctorTakesALongWaitForNoFault(t *testing.T) {
	t.Parallel()
	p := newTestWard(t, redistest.Share(t))
	p.alive("one")
	p.put("next_year", to("a"), func(m *dispatcher.Message) { m.DeliverAt = p.now.Add(360 * 24 * time.Hour) })
	p.ahead(59*time.Second, func() { p.fail("other_node") })
	p.schedule("long_rung", to("b"), 1)
	p.settleAfter("b", "long_rung", dispatcher.Retry, 30*24*time.Hour)
	_, found := p.examine(false)
	require.Empty(t, found)
}

// In a cluster the keys of all masters are examined. One that is down is told.
func TestDoctorOfACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0)
	store := redisqtest.Open(t, redisq.Options{URL: redisqtest.PatientURL(cluster), Project: "several", Partitions: 9, LaneMaxInFlight: 128, Permits: 1024})
	ctx := t.Context()
	_, _, err := store.Schedule(ctx, "one", 0, 0, append(redisqtest.Entries(30, 0), redisqtest.Entries(30, time.Hour)...))
	require.NoError(t, err)
	examine := func(fix bool) (out admin.Examined, found []admin.Finding) {
		out, err := admin.Examine(ctx, store.Queue(), admin.Examination{Fix: fix, Still: time.Millisecond, Report: func(f admin.Finding) { found = append(found, f) }})
		require.NoError(t, err)
		return out, found
	}
	out, found := examine(true)
	require.Empty(t, found)
	require.Equal(t, admin.Examined{Partitions: 9, Messages: 60, Lanes: 30}, out)
	for n := range 9 {
		require.NoError(t, store.Client().Del(ctx, store.Conn().Tag(n)+":due").Err())
	}
	_, found = examine(true)
	require.Len(t, found, 30)
	require.Equal(t, []string{"no_place"}, kinds(found))
	_, found = examine(true)
	require.Empty(t, found)

	cluster.KillMasterOf(store.Conn().Tag(0))
	_, err = admin.Examine(ctx, store.Queue(), admin.Examination{})
	require.ErrorIs(t, err, dispatcher.ErrUnavailable)
}

// expiryDamages are those of deliveries whose message expires.
var expiryDamages = []damage{
	{"nothing would end a ready one when it expires", func(p *ward) { p.expiring("e"); p.do("DEL", p.key("expiring")) }, "no_expiry", map[string]redisqtest.Place{"e:expires": redisqtest.PlaceReady}},
	{"nothing would end a due one when it expires", func(p *ward) { p.expiring("e", later); p.do("ZREM", p.key("expiring"), "e:expires") }, "no_expiry", map[string]redisqtest.Place{"e:expires": redisqtest.PlaceDue}},
	{"nothing would end one behind another when it expires", func(p *ward) { p.expiring("k", keyed); p.do("ZREM", p.key("expiring"), "k:expires") }, "no_expiry", map[string]redisqtest.Place{"k:expires": redisqtest.PlaceBehind}},
	{"one that expires is nowhere", func(p *ward) { p.expiring("e"); p.do("DEL", p.key("ready:e"), p.key("expiring")) }, "no_place", map[string]redisqtest.Place{"e:expires": redisqtest.PlaceReady}},
	{"one that ended is to expire", func(p *ward) { p.do("ZADD", p.key("expiring"), p.now.Add(time.Hour).UnixMilli(), "a:done") }, "expiry", nil},
	{"nothing is to expire", func(p *ward) { p.do("ZADD", p.key("expiring"), p.now.Add(time.Hour).UnixMilli(), "x:y") }, "expiry", nil},
	{"what expires names no delivery", func(p *ward) { p.do("ZADD", p.key("expiring"), 1, "x") }, "broken_name", nil},
	{"one that ended waits for a key", func(p *ward) { p.do("ZADD", p.key("unopened"), 1, "a:done") }, "key_wait", nil},
	{"nothing waits for a key", func(p *ward) { p.do("ZADD", p.key("unopened"), 1, "x:y") }, "key_wait", nil},
	{"what waits for a key names no delivery", func(p *ward) { p.do("ZADD", p.key("unopened"), 1, "x") }, "broken_name", nil},
	{"the time since when it waits for a key is none", func(p *ward) { p.expiring("e"); p.do("ZADD", p.key("unopened"), "inf", "e:expires") }, "score", nil},
	{"what expires is delivered too", func(p *ward) { p.expiring("e"); p.do("ZADD", p.key("done"), 1, "e:expires") }, "two_places", map[string]redisqtest.Place{"e:expires": redisqtest.PlaceDone}},
	{"what expires has no message", func(p *ward) { p.expiring("e"); p.lose("expires") }, "no_record", map[string]redisqtest.Place{"e:expires": ""}},
	{"no mover comes when it expires", func(p *ward) { p.expiring("e"); p.do("ZREM", p.key("parked"), "~expiring") }, "timer", nil},
	{"a mover comes too late when it expires", func(p *ward) {
		p.expiring("e")
		p.do("ZADD", p.key("parked"), p.now.Add(25*time.Hour).UnixMilli(), "~expiring")
	}, "timer", nil},
	{"the time when it expires is none", func(p *ward) { p.expiring("e"); p.do("ZADD", p.key("expiring"), "inf", "e:expires") }, "score", nil},
}

// expiring publishes a message that expires in a day.
func (p *ward) expiring(lane dispatcher.Lane, changes ...func(*dispatcher.Message)) {
	p.Helper()
	p.put("expires", to(lane), append(changes, func(m *dispatcher.Message) { m.ExpiresAt = p.now.Add(24 * time.Hour) })...)
	p.mustBeSound()
}

// shelfDamages are of the lists that lanes and tenants have of all their deliveries.
var shelfDamages = []damage{
	{"one that its lane does not list", func(p *ward) { p.do("ZREM", p.key("of:a"), "due") }, "unlisted", map[string]redisqtest.Place{"a:due": redisqtest.PlaceDue}},
	{"a lane that lists nothing", func(p *ward) { p.do("DEL", p.key("of:b")) }, "unlisted", map[string]redisqtest.Place{"b:dead": redisqtest.PlaceDead}},
	{"one that its lane lists at another time", func(p *ward) { p.do("ZADD", p.key("of:b"), 7, "done") }, "unlisted", map[string]redisqtest.Place{"b:done": redisqtest.PlaceDone}},
	{"a lane lists what is gone", func(p *ward) { p.do("ZADD", p.key("of:b"), 7, "cut", 8, "nothing") }, "leftover", nil},
	{"a lane lists what another has", func(p *ward) { p.do("ZADD", p.key("of:b"), 7, "due") }, "leftover", nil},

	{"a lane that its tenant does not list", func(p *ward) { p.tenants(); p.do("DEL", p.key("tenant:"+p.hash())) }, "unlisted", map[string]redisqtest.Place{"u_1:t1": redisqtest.PlaceDue}},
	{"a lane of which it is not known whose it is", func(p *ward) { p.tenants(); p.do("DEL", p.key("owners")) }, "unlisted", map[string]redisqtest.Place{"u_1:t1": redisqtest.PlaceDue}},
	{"a lane that is said to be another's", func(p *ward) { p.tenants(); p.do("HSET", p.key("owners"), "u_1", "0123456789abcdef") }, "unlisted", nil},
	{"one that its tenant's part of a queue does not list", func(p *ward) { p.tenants(); p.do("DEL", p.key("of:q_a~"+p.hash())) }, "unlisted", map[string]redisqtest.Place{"q_a:t1": redisqtest.PlaceDue}},
	{"one that this lists at another time", func(p *ward) { p.tenants(); p.do("ZADD", p.key("of:q_a~"+p.hash()), 7, "t1") }, "unlisted", nil},
	{"a tenant lists a lane of which nothing is kept", func(p *ward) { p.tenants(); p.do("ZADD", p.key("tenant:"+p.hash()), 0, "u_x") }, "astray_shelf", nil},
	{"a tenant lists another's lane", func(p *ward) { p.tenants(); p.do("ZADD", p.key("tenant:"+p.hash()), 0, "a") }, "astray_shelf", nil},
	{"nobody lists the lane of a tenant that is not there", func(p *ward) { p.do("HSET", p.key("owners"), "u_x", "0123456789abcdef") }, "astray_shelf", nil},
	{"a tenant's part of a queue lists another's", func(p *ward) { p.tenants(); p.do("ZADD", p.key("of:q_a~"+p.hash()), 7, "t2") }, "astray_shelf", nil},
	{"a part of a queue is nobody's", func(p *ward) {
		p.tenants()
		p.do("ZADD", p.key("of:q_a~0123456789abcdef"), 1767323045000, "t3", 8, "nothing")
	}, "astray_shelf", nil},

	{"one that its subject does not find", func(p *ward) { p.subjects(); p.do("HSET", p.key("subjects"), p.few(), "s2") }, "unfound", map[string]redisqtest.Place{"u_1:s1": redisqtest.PlaceDue}},
	{"no subject finds anything", func(p *ward) { p.subjects(); p.do("DEL", p.key("subjects")) }, "unfound", nil},
	{"one of many that their subject does not find", func(p *ward) { p.subjects(); p.do("ZREM", p.crowds(), "c3") }, "unfound", nil},
	{"many that are not there", func(p *ward) { p.subjects(); p.do("DEL", p.crowds()) }, "unfound", nil},
	{"a subject finds what is gone", func(p *ward) { p.subjects(); p.do("HSET", p.key("subjects"), p.few(), "s1 gone1 s2") }, "astray_subject", nil},
	{"a subject finds what has another", func(p *ward) { p.subjects(); p.do("HSET", p.key("subjects"), p.few(), "c3 s1 s2") }, "astray_subject", nil},
	{"a subject of nothing finds", func(p *ward) { p.do("HSET", p.key("subjects"), "01234567", "nothing") }, "astray_subject", nil},
	{"a subject of nothing is said to have many", func(p *ward) { p.do("HSET", p.key("subjects"), "01234567", "*") }, "astray_subject", nil},
	{"last digits find nothing", func(p *ward) { p.subjects(); p.do("DEL", p.key("digits:713")) }, "unfound", map[string]redisqtest.Place{"u_1:s1": redisqtest.PlaceDue}},
	{"one that its last digits do not find", func(p *ward) { p.subjects(); p.do("LPOP", p.key("digits:713")); p.do("LPOP", p.key("digits:713")) }, "unfound", nil},
	{"last digits find what is gone", func(p *ward) { p.do("RPUSH", p.key("digits:713"), "012345678", "012345678") }, "astray_digits", nil},
	{"one of many is gone", func(p *ward) { p.subjects(); p.do("ZADD", p.crowds(), 7, "nothing") }, "astray_subject", nil},

	{"a lane is in use of which nothing is kept", func(p *ward) { p.do("HSET", p.key("in"), "u_x", "0 0") }, "unused", nil},
}

// tenants publishes a message of a tenant, and another one to the same queue.
func (p *ward) tenants() {
	p.Helper()
	p.put("t1", to("u_1", "q_a"), later, func(m *dispatcher.Message) { m.Tenant = "acme" })
	p.put("t2", to("q_a"), later)
	p.mustBeSound()
}

// hash names the tenant in keys.
func (p *ward) hash() string { return p.store.Conn().TenantHash("acme") }

// subjects publishes messages of two subjects: one of few messages, and one of more than a
// field of a hash names.
func (p *ward) subjects() {
	p.Helper()
	about := func(subject string) func(*dispatcher.Message) {
		return func(m *dispatcher.Message) { m.Subject = subject }
	}
	p.put("s1", to("u_1"), later, about("order 8713"))
	p.put("s2", to("u_1", "u_2"), later, about("#8713"))
	for i := range 18 {
		p.put(fmt.Sprint("c", i), to("u_1"), later, about("a crowd"))
	}
	p.mustBeSound()
}

// few and crowd are the fields of these.
func (p *ward) few() string   { return p.store.Conn().SubjectHash("8713") }
func (p *ward) crowd() string { return p.store.Conn().SubjectHash("A crowd") }
func (p *ward) crowds() string {
	return p.key("subject:" + hex.EncodeToString([]byte(p.crowd())))
}

// A list of last digits loses its oldest elements at its limit. That is no damage, and remains none when
// newer messages go and the list is short again.
func TestDoctorKnowsAListOfLastDigitsThatWasCut(t *testing.T) {
	t.Parallel()
	p := newTestWard(t, redistest.Share(t))
	p.alive("one")
	const most, over = 4096, 4
	var newest []dispatcher.DeliveryID
	for n := 0; n < most+over; n += 100 {
		var batch []dispatcher.Entry
		for k := n; k < n+100; k++ {
			m := &dispatcher.Message{
				ID: fmt.Sprint("m", k), Topic: "a.b", URL: "https://example.com", Body: []byte("{}"), CreatedAt: p.now, Subject: fmt.Sprintf("order_%d4711", k), Delay: time.Hour,
			}
			batch = append(batch, dispatcher.Entry{Message: m, Digest: m.Digest(), Lanes: to("u_1")})
			if k >= over {
				newest = append(newest, dispatcher.DeliveryID{Lane: "u_1", Message: m.ID})
			}
		}
		_, _, err := p.store.Schedule(p.Context(), "one", 1<<20, 0, batch)
		require.NoError(t, err)
	}
	_, found := p.examine(false)
	require.Empty(t, found, "the list is full")

	end := func(ids []dispatcher.DeliveryID) {
		for some := range slices.Chunk(ids, 100) {
			_, _, err := p.store.Cancel(p.Context(), "one", some)
			require.NoError(t, err)
		}
		for more := true; more; {
			trimmed, err := p.store.Trim(p.Context(), "one", []int{0}, dispatcher.Keep{}, false)
			require.NoError(t, err)
			more = trimmed.More
		}
	}
	ending := func() (ids []string) {
		list, _, err := p.store.Subjects(p.Context(), nil, []string{"4711"}, time.Time{})
		require.NoError(t, err)
		for _, m := range list {
			ids = append(ids, m.ID)
		}
		return ids
	}
	for _, some := range [][]dispatcher.DeliveryID{newest[:2000], newest[2000:]} {
		end(some)
		_, found = p.examine(true)
		require.Empty(t, found)
		p.mustBeSound()
	}
	require.Empty(t, ending(), "the oldest were cut away")
	p.put("again", to("u_2"), later, func(m *dispatcher.Message) { m.Subject = "order 04711" })
	p.put("twice", to("u_2"), later, func(m *dispatcher.Message) { m.Subject = "order 04711" })
	require.ElementsMatch(t, []string{"again", "m0", "twice"}, ending())
	for _, id := range []string{"m0", "twice", "again"} {
		require.Contains(t, ending(), "again", "the oldest message of its order has no element, and takes none away")
		end([]dispatcher.DeliveryID{{Lane: "u_2", Message: id}, {Lane: "u_1", Message: id}})
		_, found = p.examine(true)
		require.Empty(t, found)
		p.mustBeSound()
	}
	require.Empty(t, ending())
}

// damage is something that doctor finds and repairs.
type damage struct {
	name  string
	do    func(p *ward)
	kind  string
	where map[string]redisqtest.Place // deliveries, after the repair; empty: nowhere
}

// takenDamages are those of leases that end by themselves.
var takenDamages = []damage{
	{"taken without a message", func(p *ward) { p.lose("taken") }, "no_record", map[string]redisqtest.Place{"b:taken": ""}},
	{"a taken one is nowhere", func(p *ward) { p.do("DEL", p.key("taken"), p.key("tokens")); p.do("ZREM", p.key("parked"), "~taken") }, "no_place", map[string]redisqtest.Place{"b:taken": redisqtest.PlaceReady}},
	{"taken and ready", func(p *ward) { p.do("LPUSH", p.key("ready:b"), "1:taken") }, "two_places", map[string]redisqtest.Place{"b:taken": redisqtest.PlaceTaken}},
	{"taken and delivered", func(p *ward) { p.do("ZADD", p.key("done"), 1, "b:taken") }, "two_places", map[string]redisqtest.Place{"b:taken": redisqtest.PlaceDone}},
	{"taken and leased", func(p *ward) { p.do("ZADD", p.key("taken"), p.now.UnixMilli(), "b:leased") }, "two_places", nil},
	{"taken without a token", func(p *ward) { p.do("DEL", p.key("tokens")) }, "no_token", map[string]redisqtest.Place{"b:taken": redisqtest.PlaceTaken}},
	{"a token that can't be read", func(p *ward) { p.do("HSET", p.key("tokens"), "b:taken", "x") }, "broken_value", map[string]redisqtest.Place{"b:taken": redisqtest.PlaceTaken}},
	{"a token of what is ready, which can't be read", func(p *ward) { p.do("HSET", p.key("tokens"), "a:r1", "1 t o") }, "broken_value", map[string]redisqtest.Place{"a:r1": redisqtest.PlaceReady}},
	{"a last lease of what ended", func(p *ward) { p.do("HSET", p.key("tokens"), "a:done", "1 t o 1") }, "token", nil},
	{"a token of nothing", func(p *ward) { p.do("HSET", p.key("tokens"), "x:y", "1 t o 1") }, "token", nil},
	{"a queue has no turn", func(p *ward) { p.queue(); p.do("ZREM", p.key("pulls"), "q_a") }, "stuck", map[string]redisqtest.Place{"q_a:queued": redisqtest.PlaceReady}},
	{"a queue has a turn among those that are called", func(p *ward) {
		p.queue()
		p.do("ZREM", p.key("pulls"), "q_a")
		p.do("ZADD", p.key("lanes"), 1, "q_a")
	}, "stuck", map[string]redisqtest.Place{"q_a:queued": redisqtest.PlaceReady}},
	{"a queue with nothing in it has a turn", func(p *ward) {
		p.queue()
		p.do("DEL", p.key("ready:q_a"))
		p.do("HDEL", p.key("in"), "q_a")
		p.do("HDEL", p.key("messages"), "queued")
		p.do("ZREM", p.key("of:q_a"), "queued")
	}, "turn", map[string]redisqtest.Place{"q_a:queued": ""}},
	{"nobody is told of a lease", func(p *ward) { p.do("ZREM", p.key("parked"), "~taken") }, "timer", nil},
	{"a lease is told of too late", func(p *ward) { p.do("ZADD", p.key("parked"), p.now.Add(61*time.Minute).UnixMilli(), "~taken") }, "timer", nil},
	{"a lease is told of that there is not", func(p *ward) {
		p.do("DEL", p.key("taken"), p.key("tokens"))
		p.do("RPUSH", p.key("ready:b"), "1:taken")
	}, "timer", map[string]redisqtest.Place{"b:taken": redisqtest.PlaceReady}},
}

// queue puts a message into a queue.
func (p *ward) queue() {
	p.Helper()
	p.put("queued", to("q_a"))
	p.mustBeSound()
}

// take has a lease of the instance end by itself in an hour.
func (p *ward) take(delivery string) {
	p.Helper()
	p.do("ZREM", p.key("leases:one"), delivery)
	p.do("ZADD", p.key("taken"), p.now.Add(time.Hour).UnixMilli(), delivery)
	p.do("HSET", p.key("tokens"), delivery, fmt.Sprint(p.now.UnixMilli(), " t1 o1 1"))
	p.do("ZADD", p.key("parked"), p.now.Add(time.Hour).UnixMilli(), "~taken")
}

// fillEndpoints makes one of each sort: with a uid and a tenant, with a public
// key, and with neither; enough that none is found in a first page.
func (p *ward) fillEndpoints() {
	p.Helper()
	p.alive("one")
	for i := range 200 {
		e := redisqtest.Endpoint(fmt.Sprintf("ep_%09d", i))
		e.UID, e.Tenant = fmt.Sprint("uid", i), []string{"t1", "t2", ""}[i%3]
		if i%4 == 1 {
			e.UID, e.Signature = "", signer.StandardEd25519
			e.Secrets = []dispatcher.EndpointSecret{{Secret: signer.StandardEd25519.NewSecret()}}
		}
		redisqtest.MustCreate(p, p.store, e)
		_, _, err := p.store.Limit(p.Context(), "one", e.Lane(), e.Limits(), false)
		require.NoError(p, err)
	}
}

// indexes are what all indexes hold.
func (p *ward) indexes() map[string]any {
	p.Helper()
	uids, err := p.client.HGetAll(p.Context(), p.home("uids")).Result()
	require.NoError(p, err)
	sealed, err := p.client.HGetAll(p.Context(), p.home("sealed")).Result()
	require.NoError(p, err)
	out := map[string]any{"uids": uids, "sealed": sealed}
	for _, name := range []string{"all", "public", "tenant:t1", "tenant:t2", "tenant:", "tenant:gone"} {
		out[name], err = p.client.ZRangeWithScores(p.Context(), p.home(name), 0, -1).Result()
		require.NoError(p, err)
	}
	return out
}

func TestDoctorOfTheIndexesOfEndpoints(t *testing.T) {
	t.Parallel()
	const id = "ep_000000100" // t2, with a uid
	filled := newTestWard(t, redistest.Share(t))
	filled.fillEndpoints() // each case repairs what it damages
	_, found := filled.examine(true)
	require.Empty(t, found)
	for name, c := range map[string]struct {
		kind, subject, what string
		do                  func(p *ward)
	}{
		"not in :all":                     {"index", id, ":all", func(p *ward) { p.do("ZREM", p.home("all"), id) }},
		"at another time in :all":         {"index", id, ":all", func(p *ward) { p.do("ZADD", p.home("all"), 5, id) }},
		"not in its tenant's":             {"index", id, ":tenant:", func(p *ward) { p.do("ZREM", p.home("tenant:t2"), id) }},
		"its uid is gone":                 {"index", id, ":uids", func(p *ward) { p.do("HDEL", p.home("uids"), "uid100") }},
		"its uid names nothing":           {"index", id, ":uids", func(p *ward) { p.do("HSET", p.home("uids"), "uid100", "ep_x") }},
		"not in :public":                  {"index", "ep_000000101", ":public", func(p *ward) { p.do("ZREM", p.home("public"), "ep_000000101") }},
		"in :public without a public key": {"index", id, ":public", func(p *ward) { p.do("ZADD", p.home("public"), 5, id) }},
		"in :all and not there":           {"astray", "ep_x in :all", "without a matching endpoint", func(p *ward) { p.do("ZADD", p.home("all"), 5, "ep_x") }},
		"in :public and not there":        {"astray", "ep_x in :public", "without a matching endpoint", func(p *ward) { p.do("ZADD", p.home("public"), 5, "ep_x") }},
		"in a tenant's and not there":     {"astray", "ep_x in :tenant:gone", "without a matching endpoint", func(p *ward) { p.do("ZADD", p.home("tenant:gone"), 5, "ep_x") }},
		"in another tenant's":             {"astray", id + " in :tenant:t1", "without a matching endpoint", func(p *ward) { p.do("ZADD", p.home("tenant:t1"), 5, id) }},
		"among those without a tenant":    {"astray", id + " in :tenant", "without a matching endpoint", func(p *ward) { p.do("ZADD", p.home("tenant:"), 5, id) }},
		"a uid of nothing":                {"astray", "uidx in :uids", "without a matching endpoint", func(p *ward) { p.do("HSET", p.home("uids"), "uidx", "ep_x") }},
		"a count by key too high":         {"index", ":sealed", "but the count is", func(p *ward) { p.do("HINCRBY", p.home("sealed"), "-", 1) }},
		"a count by key that is none":     {"index", ":sealed", "but the count is", func(p *ward) { p.do("HSET", p.home("sealed"), "-", "x") }},
		"a count by key of another key":   {"index", ":sealed", "0a1b2c3d: 0 endpoints, but the count is 7", func(p *ward) { p.do("HSET", p.home("sealed"), "0a1b2c3d", 7) }},
		"no counts by key":                {"index", ":sealed", "but the count is 0", func(p *ward) { p.do("DEL", p.home("sealed")) }},
		"a uid of what has another":       {"astray", "uidx in :uids", "without a matching endpoint", func(p *ward) { p.do("HSET", p.home("uids"), "uidx", id) }},
	} {
		t.Run(name, func(t *testing.T) {
			here := *filled
			here.TB = t
			p := &here
			before := p.indexes()
			c.do(p)
			broken := p.indexes()
			require.NotEqual(t, before, broken)
			_, found := p.examine(false)
			require.NotEmpty(t, found)
			at := 0
			for i, f := range found {
				if f.Kind == c.kind {
					at = i
				}
			}
			require.Equal(t, c.kind, found[at].Kind)
			require.Equal(t, c.subject, found[at].Subject)
			require.Contains(t, found[at].What, c.what)
			for _, kind := range kinds(found) {
				require.Contains(t, []string{"index", "astray"}, kind, "a missing index entry causes no other finding")
			}
			require.Equal(t, broken, p.indexes(), "it was only looked at")
			out, _ := p.examine(true)
			require.Equal(t, out.Findings, out.Fixed)
			require.Equal(t, before, p.indexes())
			_, found = p.examine(true)
			require.Empty(t, found)
		})
	}
}

// An endpoint that can't be read is listed, and nothing else is said of it.
func TestDoctorListsAnEndpointThatCantBeRead(t *testing.T) {
	t.Parallel()
	p := newTestWard(t, redistest.Share(t))
	p.alive("one")
	p.do("HSET", p.home("endpoints"), "ep_x", "7 {broken")
	_, found := p.examine(true)
	require.Contains(t, kinds(found), "index")
	all, err := p.client.ZRangeWithScores(t.Context(), p.home("all"), 0, -1).Result()
	require.NoError(t, err)
	require.Equal(t, []redis.Z{{Score: 0, Member: "ep_x"}}, all)
	_, found = p.examine(true)
	require.Equal(t, []string{"unopened"}, kinds(found))
}

func TestDoctorTellsOfAUIDThatTwoHave(t *testing.T) {
	t.Parallel()
	p := newTestWard(t, redistest.Share(t))
	p.fillEndpoints()
	p.do("HDEL", p.home("uids"), "uid100")
	e := redisqtest.Endpoint("ep_second000")
	e.UID = "uid100" // it was free
	redisqtest.MustCreate(t, p.store, e)
	_, _, err := p.store.Limit(t.Context(), "one", e.Lane(), e.Limits(), false)
	require.NoError(t, err)
	out, found := p.examine(true)
	require.Equal(t, []string{"same_uid"}, kinds(found))
	require.Equal(t, "ep_000000100", found[0].Subject)
	require.Contains(t, found[0].What, e.ID)
	require.Zero(t, out.Fixed)
	redisqtest.MustDelete(t, p.store, "ep_000000100")
	id, err := p.store.EndpointID(t.Context(), "uid100")
	require.NoError(t, err)
	require.Equal(t, e.ID, id, "the other is found as before")
}

// What changes between the reading of a record and its judgement is left.
func TestDoctorLeavesAnEndpointThatIsChangedMeanwhile(t *testing.T) {
	t.Parallel()
	p := newTestWard(t, redistest.Share(t))
	p.fillEndpoints()
	before := p.indexes()
	require.NoError(t, admin.CompareIndexes(t.Context(), p.store.Queue(), "ep_000000100", "9 {}"))
	require.NoError(t, admin.CompareIndexes(t.Context(), p.store.Queue(), "ep_unknown00", "1 {}"))
	require.Equal(t, before, p.indexes())
}
