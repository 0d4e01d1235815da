package admin_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/admin"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// No damage may stop a script: what can be delivered is, and the rest is for the
// doctor.
func TestNoDamageStopsAScript(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for _, c := range damages {
		t.Run(c.name, func(t *testing.T) {
			p := newTestWard(t, server)
			p.fill()
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
	p := newTestWard(t, redistest.Start(t))
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
	p := newTestWard(t, redistest.Start(t))
	p.alive("one")
	const many = 9000
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
	p := newTestWard(t, redistest.Start(t))
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
	server := redistest.Start(t)
	store := redisqtest.Open(t, redisq.Options{URL: redisqtest.PatientURL(server), Project: "several", Partitions: 4, LaneMaxInFlight: 128, Permits: 1024})
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
	p := newTestWard(t, redistest.Start(t))
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
	p := newTestWard(t, redistest.Start(t))
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
