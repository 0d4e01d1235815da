package queuetest

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

var readCases = []testCase{
	{name: "an id is known in whichever partition, whole or as a digest", setup: Setup{Partitions: 4}, run: func(r *rig) {
		known := func(ids ...string) []bool {
			got, err := r.Queue.Known(r.ctx, ids)
			require.NoError(r, err)
			return got
		}
		require.Empty(r, known())
		want, names := []bool{}, []string{}
		for i, lane := range manyLanes(600) {
			id := "m" + string(lane)
			if i%2 == 0 {
				r.publish(lane, id)
			}
			want, names = append(want, i%2 == 0), append(names, id)
		}
		require.Equal(r, want, known(names...))
	}},
	{name: "a conflict tells the stored message of the id, without a large body", setup: Setup{Partitions: 4}, run: func(r *rig) {
		var batch []dispatcher.Entry
		for i, lane := range manyLanes(100) {
			e := r.entry("m"+string(lane), to(lane))
			if i%2 == 0 {
				e.Message.Body = bytes.Repeat([]byte("x"), 40_000)
				e.Digest = e.Message.Digest()
			}
			if i%10 != 0 {
				r.schedule(e)
			}
			other := *e.Message
			other.Topic = "other"
			batch = append(batch, dispatcher.Entry{Message: &other, Digest: other.Digest(), Lanes: e.Lanes})
		}
		kept, err := r.Queue.Kept(r.ctx, batch)
		require.NoError(r, err)
		for i, m := range kept {
			if i%10 == 0 {
				require.Nil(r, m)
				continue
			}
			was := *batch[i].Message
			was.Topic = "payment.paid"
			require.Equal(r, "payment.paid", m.Topic)
			require.Equal(r, was.Digest(), m.Digest())
			require.Equal(r, i%2 == 0, m.Body == nil)
			batch[i] = dispatcher.Entry{Message: &was, Digest: was.Digest(), Lanes: batch[i].Lanes}
		}
		kept, err = r.Queue.Kept(r.ctx, batch)
		require.NoError(r, err)
		for _, m := range kept {
			require.Nil(r, m, "the same one is no other")
		}
	}},
	{name: "an id that was never published is not found", run: func(r *rig) {
		_, err := r.Queue.Read(r.ctx, "never")
		require.ErrorIs(r, err, dispatcher.ErrNotFound)
	}},
	{name: "a look tells the message and each of its deliveries", run: func(r *rig) {
		r.schedule(r.entry("m1", to("a", "b")))
		r.publish("c", "m2")
		rec, err := r.Queue.Read(r.ctx, "m1")
		require.NoError(r, err)
		require.Len(r, rec.Deliveries, 2)
		for i, lane := range []dispatcher.Lane{"a", "b"} {
			d := rec.Deliveries[i]
			require.Equal(r, named(lane, "m1"), d.ID)
			require.Equal(r, "payment.paid", d.Topic)
			require.Equal(r, "t1", d.Tenant)
			require.Equal(r, "https://example.com/m1", d.URL)
		}
	}},
	{name: "a look changes nothing", run: func(r *rig) {
		r.populate()
		r.mustChangeNothing(func() {
			for id := range r.State().Messages {
				_, err := r.Queue.Read(r.ctx, id)
				require.NoError(r, err)
			}
			r.listAll(dispatcher.Filter{}, 3)
			r.stats()
			_, err := r.Queue.ReadHints(r.ctx, r.all())
			require.NoError(r, err)
			_, err = r.Queue.Read(r.ctx, "never")
			require.Error(r, err)
		})
	}},
	{name: "an instance that is not known yet holds its leases", run: func(r *rig) {
		r.publish("a", "m1")
		r.mustClaim("three", named("a", "m1"))
		r.beat("three")
		r.mustStand(named("a", "m1"), dispatcher.StatusInFlight)
	}},
	{name: "the statuses of deliveries are told in pieces of the wanted size", setup: Setup{Partitions: 2}, run: func(r *rig) {
		lanes := manyLanes(300)
		var batch []dispatcher.Entry
		for i := range 150 {
			batch = append(batch, r.entry(fmt.Sprintf("m%03d", i), lanes[i%7:i%7+1]))
		}
		for i := range 40 {
			batch = append(batch, fan(r.entry(fmt.Sprintf("fan%02d", i), lanes[i:260+i])))
		}
		r.schedule(batch...)
		asked := append([]dispatcher.Entry(nil), batch...)
		asked = append(asked, r.entry("never", lanes[:1]), r.entry("m000", lanes[:1], body("other")), fan(r.entry("never", nil)))
		for i := 150; i < 190; i += 2 {
			asked[i].Lanes = asked[i].Lanes[:i%4] // only some, or none, of those that match by now
		}
		got, err := r.Queue.Standing(r.ctx, asked)
		require.NoError(r, err)
		require.Len(r, got, len(asked))
		for i, e := range batch {
			require.NoError(r, got[i].Err)
			require.Equal(r, dispatcher.Duplicate, got[i].Result, e.Message.ID)
			require.Equal(r, r.now, got[i].CreatedAt)
			require.ElementsMatch(r, e.Lanes, lanesOfDeliveries(got[i].Deliveries))
		}
		require.Equal(r, []dispatcher.Standing{{}, {Result: dispatcher.Conflict}, {}}, got[len(batch):])
	}},
	{name: "the statuses of deliveries are told where their message is kept whole", setup: Setup{Partitions: 4}, run: func(r *rig) {
		lanes := manyLanes(8)
		other := lanes[slices.IndexFunc(lanes, func(l dispatcher.Lane) bool { return r.Partition(l) != r.Partition(lanes[0]) })]
		r.publish(lanes[0], "m1")
		r.schedule(r.entry("m1", to(other), body("other")))
		standing := func(e dispatcher.Entry) dispatcher.Standing {
			got, err := r.Queue.Standing(r.ctx, []dispatcher.Entry{e})
			require.NoError(r, err)
			return got[0]
		}
		got := standing(r.entry("m1", lanes[:1]))
		require.Equal(r, dispatcher.Duplicate, got.Result)
		require.Equal(r, lanes[:1], lanesOfDeliveries(got.Deliveries))
		for _, e := range []dispatcher.Entry{fan(r.entry("m1", nil)), fan(r.entry("m1", nil, body("other")))} {
			got = standing(e)
			require.Equal(r, dispatcher.Duplicate, got.Result, "one of them")
			require.Len(r, got.Deliveries, 1)
		}
		require.Equal(r, dispatcher.Conflict, standing(fan(r.entry("m1", nil, body("a third")))).Result)
		for _, c := range r.claimAll(one) {
			r.mustSettle(one, success(c))
		}
		require.Equal(r, dispatcher.StatusDelivered, standing(r.entry("m1", lanes[:1])).Deliveries[0].Status)
		r.trim(keepDigests)
		require.Zero(r, standing(r.entry("m1", lanes[:1])))
		require.Zero(r, standing(fan(r.entry("m1", nil))))
	}},
	{name: "a delivery that waits tells the reason", run: func(r *rig) {
		r.schedule(r.entry("m1", to("a"), delay(time.Hour)))
		require.Equal(r, "due", r.look(named("a", "m1")).WaitingFor)
		r.publish("b", "m2", "m3", "m4")
		claimed := r.claim(one, 2)
		require.Equal(r, "limit", r.look(named("b", "m4")).WaitingFor, "the window is full")
		require.Empty(r, r.look(named("b", "m2")).WaitingFor)
		r.mustSettle(one, failure(claimed[0], time.Minute))
		require.Equal(r, "rung", r.look(named("b", "m2")).WaitingFor)
		require.Equal(r, "permits", r.look(named("b", "m4")).WaitingFor)
		r.mustSettle(one, success(claimed[1]))
		require.Empty(r, r.look(named("b", "m3")).WaitingFor)
	}},
	{name: "every status is told as it is", run: func(r *rig) {
		for id, want := range r.populate() {
			r.mustStand(id, want)
		}
	}},
	{name: "statistics count every status and reason", run: func(r *rig) {
		want := map[dispatcher.Status]int64{}
		for _, status := range r.populate() {
			want[status]++
		}
		got := r.stats()
		require.Equal(r, want, got.Counts)
		require.Equal(r, map[dispatcher.DeadReason]int64{dispatcher.ReasonGone: want[dispatcher.StatusDead]}, got.Dead)
		require.Equal(r, 2, got.Instances)
		require.WithinDuration(r, r.now, got.Now, time.Millisecond)
	}},
	{name: "an empty store counts nothing", run: func(r *rig) {
		got := r.stats()
		require.Empty(r, got.Counts)
		require.Empty(r, got.Dead)
		require.Empty(r, got.Lanes)
		require.Zero(r, got.OldestDue)
	}},
	{name: "the oldest due is the delivery that has waited longest for an attempt", run: func(r *rig) {
		r.schedule(r.entry("m1", to("a"), delay(2*time.Second)), r.entry("m2", to("b"), delay(time.Second)))
		require.Zero(r, r.stats().OldestDue, "nothing is due yet")
		r.pass(3 * time.Second)
		require.Equal(r, start.Add(time.Second), r.stats().OldestDue)
		r.move()
		require.Equal(r, start.Add(time.Second), r.stats().OldestDue)
		r.pass(time.Second)
		r.publish("c", "m3")
		require.Equal(r, start.Add(time.Second), r.stats().OldestDue)
		r.claim(one, 64)
		require.Zero(r, r.stats().OldestDue)
	}},
	{name: "statistics tell the fifty lanes with the most waiting", run: func(r *rig) {
		for i := range 60 {
			r.publishMany(dispatcher.Lane(fmt.Sprintf("l%02d", i)), 1+i%3)
		}
		r.publishMany("most", 7)
		require.Len(r, r.claim(one, 2), 2)
		lanes := r.stats().Lanes
		require.Len(r, lanes, 50)
		require.Equal(r, "https://example.com", lanes[0].URL)
		require.Equal(r, r.laneState("most"), lanes[0])
		for i := 1; i < len(lanes); i++ {
			require.LessOrEqual(r, lanes[i].Waiting, lanes[i-1].Waiting)
		}
		require.GreaterOrEqual(r, lanes[49].Waiting, 1)
		r.limitAs("l05", dispatcher.LaneLimits{Held: dispatcher.HeldPaused, By: "ops"}, false)
		lanes = r.stats().Lanes
		require.Equal(r, r.laneState("l05"), lanes[0], "what is paused comes first")
		require.Equal(r, "ops", lanes[0].By)
		require.EqualValues(r, "most", lanes[1].Lane)
	}},
	{name: "the store tells what it is", run: func(r *rig) {
		info, err := r.Queue.Store(r.ctx)
		require.NoError(r, err)
		require.NotEmpty(r, info.Kind)
	}},
	{name: "a peek is the hint of each partition asked for", run: func(r *rig) {
		peek := func(due time.Time, weight int) {
			hints, err := r.Queue.ReadHints(r.ctx, r.all())
			require.NoError(r, err)
			require.Len(r, hints, 1)
			r.mustBeCurrent(hints)
			require.Equal(r, due, hints[0].Due)
			require.Equal(r, weight, hints[0].Weight)
		}
		peek(time.Time{}, -1)
		r.schedule(r.entry("m1", to("a"), delay(time.Minute)), r.entry("m2", to("b")))
		peek(start.Add(time.Minute), r.setup.weight(4, 0))
		hints, err := r.Queue.ReadHints(r.ctx, nil)
		require.NoError(r, err)
		require.Empty(r, hints)
	}},
	{name: "a store that answers can be pinged", run: func(r *rig) {
		require.NoError(r, r.Queue.Ping(r.ctx))
		require.Equal(r, r.setup.Partitions, r.Queue.Partitions())
	}},
}

func (r *rig) stats() dispatcher.Stats {
	r.Helper()
	st, err := r.Queue.Stats(r.ctx)
	require.NoError(r, err)
	return st
}

// populate makes some deliveries of every status, in several lanes and at
// several times. It answers the status of each.
func (r *rig) populate() map[dispatcher.DeliveryID]dispatcher.Status {
	r.Helper()
	want := map[dispatcher.DeliveryID]dispatcher.Status{}
	for round := range 3 {
		lane := dispatcher.Lane(fmt.Sprintf("lane%d", round))
		r.pass(time.Second)
		want[r.endOne(lane)] = dispatcher.StatusDelivered
		want[r.dieOne(lane)] = dispatcher.StatusDead
		r.pass(time.Millisecond)
		c := r.takeNew(lane)
		r.mustSettle(one, failure(c, time.Hour))
		want[c.ID] = dispatcher.StatusRetrying
		for range round + 1 {
			id := r.newID()
			r.schedule(r.entry(id, to(lane), delay(time.Duration(round)*time.Minute+time.Hour)))
			want[named(lane, id)] = dispatcher.StatusScheduled
			id = r.newID()
			r.schedule(r.entry(id, to(lane), delay(time.Hour)))
			r.cancel(named(lane, id))
			want[named(lane, id)] = dispatcher.StatusCancelled
		}
		want[r.takeNew(lane).ID] = dispatcher.StatusInFlight
	}
	for round := range 3 {
		lane := dispatcher.Lane(fmt.Sprintf("lane%d", round))
		id := r.newID()
		r.publish(lane, id)
		want[named(lane, id)] = dispatcher.StatusReady
	}
	return want
}

// mustStandAlike fails the case unless Standing tells the same as a look. It must
// do so also beside another message of that id in another partition.
func (r *rig) mustStandAlike(rec dispatcher.MessageView) {
	r.Helper()
	looked := map[dispatcher.DeliveryID]dispatcher.Delivery{}
	for _, d := range rec.Deliveries {
		looked[d.ID] = dispatcher.Delivery{
			ID: d.ID, Topic: d.Topic, Tenant: d.Tenant, URL: d.URL, Status: d.Status, Due: d.Due, Ended: d.Ended,
		}
	}
	e := dispatcher.Entry{Message: &rec.Message, Digest: rec.Message.Digest(), Lanes: lanesOfDeliveries(rec.Deliveries)}
	for _, e.Fan = range []bool{false, true} {
		got, err := r.Queue.Standing(r.ctx, []dispatcher.Entry{e})
		require.NoError(r, err)
		require.NoError(r, got[0].Err)
		require.Equal(r, dispatcher.Duplicate, got[0].Result)
		if r.setup.Partitions == 1 {
			require.Len(r, got[0].Deliveries, len(looked))
		}
		for _, d := range got[0].Deliveries {
			d.Delivered, d.Climbed, d.LadderFrom, d.Ladder, d.MaxAttempts = time.Time{}, 0, 0, nil, 0 // these are not told to a repeat
			require.Equal(r, looked[d.ID], d)
		}
		e.Lanes = nil
	}
}

func lanesOfDeliveries(list []dispatcher.Delivery) (lanes []dispatcher.Lane) {
	for _, d := range list {
		lanes = append(lanes, d.ID.Lane)
	}
	return lanes
}
