package redisq_test

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// ReadCases are about queries of messages and about statistics.
var ReadCases = []redisqtest.Case{
	{Name: "a query finds an id in any partition, whole or as a digest", Setup: redisqtest.Setup{Partitions: 4}, Run: func(r *redisqtest.Rig) {
		known := func(ids ...string) []bool {
			got, err := r.Queue.Known(r.Ctx, ids)
			require.NoError(r, err)
			return got
		}
		require.Empty(r, known())
		want, names := []bool{}, []string{}
		for i, lane := range redisqtest.ManyLanes(600) {
			id := "m" + string(lane)
			if i%2 == 0 {
				r.Publish(lane, id)
			}
			want, names = append(want, i%2 == 0), append(names, id)
		}
		require.Equal(r, want, known(names...))
	}},
	{Name: "a query of a conflict returns the stored message of the id, without a large body", Setup: redisqtest.Setup{Partitions: 4}, Run: func(r *redisqtest.Rig) {
		var batch []dispatcher.Entry
		for i, lane := range redisqtest.ManyLanes(100) {
			e := r.Entry("m"+string(lane), redisqtest.To(lane))
			if i%2 == 0 {
				e.Message.Body = bytes.Repeat([]byte("x"), 40_000)
				e.Digest = e.Message.Digest()
			}
			if i%10 != 0 {
				r.Schedule(e)
			}
			other := *e.Message
			other.Topic = "other"
			batch = append(batch, dispatcher.Entry{Message: &other, Digest: other.Digest(), Lanes: e.Lanes})
		}
		kept, err := r.Queue.Kept(r.Ctx, batch)
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
		kept, err = r.Queue.Kept(r.Ctx, batch)
		require.NoError(r, err)
		for _, m := range kept {
			require.Nil(r, m, "a message with the same content is no conflict")
		}
	}},
	{Name: "a query of an id that was never published returns not found", Run: func(r *redisqtest.Rig) {
		_, err := r.Queue.Read(r.Ctx, "never")
		require.ErrorIs(r, err, dispatcher.ErrNotFound)
	}},
	{Name: "a query returns the message and each of its deliveries", Run: func(r *redisqtest.Rig) {
		r.Schedule(r.Entry("m1", redisqtest.To("a", "b")))
		r.Publish("c", "m2")
		rec, err := r.Queue.Read(r.Ctx, "m1")
		require.NoError(r, err)
		require.Len(r, rec.Deliveries, 2)
		for i, lane := range []dispatcher.Lane{"a", "b"} {
			d := rec.Deliveries[i]
			require.Equal(r, redisqtest.Named(lane, "m1"), d.ID)
			require.Equal(r, "payment.paid", d.Topic)
			require.Equal(r, "t1", d.Tenant)
			require.Equal(r, "https://example.com/m1", d.URL)
		}
	}},
	{Name: "a query changes nothing", Run: func(r *redisqtest.Rig) {
		r.Populate()
		r.MustChangeNothing(func() {
			for id := range r.State().Messages {
				_, err := r.Queue.Read(r.Ctx, id)
				require.NoError(r, err)
			}
			r.ListAll(dispatcher.Filter{}, 3)
			r.Stats()
			_, err := r.Queue.ReadHints(r.Ctx, r.All())
			require.NoError(r, err)
			_, err = r.Queue.Read(r.Ctx, "never")
			require.Error(r, err)
		})
	}},
	{Name: "a new instance can claim before its first beat, and keeps its leases", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m1")
		r.MustClaim("three", redisqtest.Named("a", "m1"))
		r.Beat("three")
		r.MustStand(redisqtest.Named("a", "m1"), dispatcher.StatusInFlight)
	}},
	{Name: "a query returns the statuses of deliveries in pieces of the wanted size", Setup: redisqtest.Setup{Partitions: 2}, Run: func(r *redisqtest.Rig) {
		lanes := redisqtest.ManyLanes(300)
		var batch []dispatcher.Entry
		for i := range 150 {
			batch = append(batch, r.Entry(fmt.Sprintf("m%03d", i), lanes[i%7:i%7+1]))
		}
		for i := range 40 {
			batch = append(batch, redisqtest.Fan(r.Entry(fmt.Sprintf("fan%02d", i), lanes[i:260+i])))
		}
		r.Schedule(batch...)
		asked := append([]dispatcher.Entry(nil), batch...)
		asked = append(asked, r.Entry("never", lanes[:1]), r.Entry("m000", lanes[:1], redisqtest.Body("other")), redisqtest.Fan(r.Entry("never", nil)))
		for i := 150; i < 190; i += 2 {
			asked[i].Lanes = asked[i].Lanes[:i%4] // only some of the lanes that match, or none
		}
		got, err := r.Queue.Standing(r.Ctx, asked)
		require.NoError(r, err)
		require.Len(r, got, len(asked))
		for i, e := range batch {
			require.NoError(r, got[i].Err)
			require.Equal(r, dispatcher.Duplicate, got[i].Result, e.Message.ID)
			require.Equal(r, r.Now, got[i].CreatedAt)
			require.ElementsMatch(r, e.Lanes, redisqtest.LanesOfDeliveries(got[i].Deliveries))
		}
		require.Equal(r, []dispatcher.Standing{{}, {Result: dispatcher.Conflict}, {}}, got[len(batch):])
	}},
	{Name: "a query returns the statuses of deliveries if their message is kept whole", Setup: redisqtest.Setup{Partitions: 4}, Run: func(r *redisqtest.Rig) {
		lanes := redisqtest.ManyLanes(8)
		other := lanes[slices.IndexFunc(lanes, func(l dispatcher.Lane) bool { return r.Partition(l) != r.Partition(lanes[0]) })]
		r.Publish(lanes[0], "m1")
		r.Schedule(r.Entry("m1", redisqtest.To(other), redisqtest.Body("other")))
		standing := func(e dispatcher.Entry) dispatcher.Standing {
			got, err := r.Queue.Standing(r.Ctx, []dispatcher.Entry{e})
			require.NoError(r, err)
			return got[0]
		}
		got := standing(r.Entry("m1", lanes[:1]))
		require.Equal(r, dispatcher.Duplicate, got.Result)
		require.Equal(r, lanes[:1], redisqtest.LanesOfDeliveries(got.Deliveries))
		for _, e := range []dispatcher.Entry{redisqtest.Fan(r.Entry("m1", nil)), redisqtest.Fan(r.Entry("m1", nil, redisqtest.Body("other")))} {
			got = standing(e)
			require.Equal(r, dispatcher.Duplicate, got.Result, "one of them")
			require.Len(r, got.Deliveries, 1)
		}
		require.Equal(r, dispatcher.Conflict, standing(redisqtest.Fan(r.Entry("m1", nil, redisqtest.Body("a third")))).Result)
		for _, c := range r.ClaimAll(redisqtest.One) {
			r.MustSettle(redisqtest.One, redisqtest.Success(c))
		}
		require.Equal(r, dispatcher.StatusDelivered, standing(r.Entry("m1", lanes[:1])).Deliveries[0].Status)
		r.Trim(redisqtest.KeepDigests)
		require.Zero(r, standing(r.Entry("m1", lanes[:1])))
		require.Zero(r, standing(redisqtest.Fan(r.Entry("m1", nil))))
	}},
	{Name: "a query returns the reason why a delivery waits", Run: func(r *redisqtest.Rig) {
		r.Schedule(r.Entry("m1", redisqtest.To("a"), redisqtest.Delay(time.Hour)))
		require.Equal(r, "due", r.Inspect(redisqtest.Named("a", "m1")).WaitingFor)
		r.Publish("b", "m2", "m3", "m4")
		claimed := r.Claim(redisqtest.One, 2)
		require.Equal(r, "limit", r.Inspect(redisqtest.Named("b", "m4")).WaitingFor, "the window is full")
		require.Empty(r, r.Inspect(redisqtest.Named("b", "m2")).WaitingFor)
		r.MustSettle(redisqtest.One, redisqtest.Failure(claimed[0], time.Minute))
		require.Equal(r, "rung", r.Inspect(redisqtest.Named("b", "m2")).WaitingFor)
		require.Equal(r, "permits", r.Inspect(redisqtest.Named("b", "m4")).WaitingFor)
		r.MustSettle(redisqtest.One, redisqtest.Success(claimed[1]))
		require.Empty(r, r.Inspect(redisqtest.Named("b", "m3")).WaitingFor)
	}},
	{Name: "a query returns the current status of each delivery", Run: func(r *redisqtest.Rig) {
		for id, want := range r.Populate() {
			r.MustStand(id, want)
		}
	}},
	{Name: "statistics report the count of every status and reason", Run: func(r *redisqtest.Rig) {
		want := map[dispatcher.Status]int64{}
		for _, status := range r.Populate() {
			want[status]++
		}
		got := r.Stats()
		require.Equal(r, want, got.Counts)
		require.Equal(r, map[dispatcher.DeadReason]int64{dispatcher.ReasonGone: want[dispatcher.StatusDead]}, got.Dead)
		require.Equal(r, 2, got.Instances)
		require.WithinDuration(r, r.Now, got.Now, time.Millisecond)
	}},
	{Name: "statistics of an empty store report nothing", Run: func(r *redisqtest.Rig) {
		got := r.Stats()
		require.Empty(r, got.Counts)
		require.Empty(r, got.Dead)
		require.Empty(r, got.Lanes)
		require.Zero(r, got.OldestDue)
	}},
	{Name: "statistics report the due time of the delivery that has waited longest for an attempt", Run: func(r *redisqtest.Rig) {
		r.Schedule(r.Entry("m1", redisqtest.To("a"), redisqtest.Delay(2*time.Second)), r.Entry("m2", redisqtest.To("b"), redisqtest.Delay(time.Second)))
		require.Zero(r, r.Stats().OldestDue, "nothing is due yet")
		r.Pass(3 * time.Second)
		require.Equal(r, redisqtest.Start.Add(time.Second), r.Stats().OldestDue)
		r.Move()
		require.Equal(r, redisqtest.Start.Add(time.Second), r.Stats().OldestDue)
		r.Pass(time.Second)
		r.Publish("c", "m3")
		require.Equal(r, redisqtest.Start.Add(time.Second), r.Stats().OldestDue)
		r.Claim(redisqtest.One, 64)
		require.Zero(r, r.Stats().OldestDue)
	}},
	{Name: "statistics report the fifty lanes with the most waiting deliveries", Run: func(r *redisqtest.Rig) {
		for i := range 60 {
			r.PublishMany(dispatcher.Lane(fmt.Sprintf("l%02d", i)), 1+i%3)
		}
		r.PublishMany("most", 7)
		require.Len(r, r.Claim(redisqtest.One, 2), 2)
		lanes := r.Stats().Lanes
		require.Len(r, lanes, 50)
		require.Equal(r, "https://example.com", lanes[0].URL)
		require.Equal(r, r.LaneState("most"), lanes[0])
		for i := 1; i < len(lanes); i++ {
			require.LessOrEqual(r, lanes[i].Waiting, lanes[i-1].Waiting)
		}
		require.GreaterOrEqual(r, lanes[49].Waiting, 1)
		r.LimitAs("l05", dispatcher.LaneLimits{Mode: dispatcher.LanePaused, By: "ops"}, false)
		lanes = r.Stats().Lanes
		require.Equal(r, r.LaneState("l05"), lanes[0], "paused lanes come first")
		require.Equal(r, "ops", lanes[0].By)
		require.EqualValues(r, "most", lanes[1].Lane)
	}},
	{Name: "the store reports its kind", Run: func(r *redisqtest.Rig) {
		info, err := r.Queue.Store(r.Ctx)
		require.NoError(r, err)
		require.NotEmpty(r, info.Kind)
	}},
	{Name: "a query of hints returns the hint of each requested partition", Run: func(r *redisqtest.Rig) {
		peek := func(due time.Time, weight int) {
			hints, err := r.Queue.ReadHints(r.Ctx, r.All())
			require.NoError(r, err)
			require.Len(r, hints, 1)
			r.MustBeCurrent(hints)
			require.Equal(r, due, hints[0].Due)
			require.Equal(r, weight, hints[0].Weight)
		}
		peek(time.Time{}, -1)
		r.Schedule(r.Entry("m1", redisqtest.To("a"), redisqtest.Delay(time.Minute)), r.Entry("m2", redisqtest.To("b")))
		peek(redisqtest.Start.Add(time.Minute), r.Setup.Weight(redisqtest.NewLane, 0))
		hints, err := r.Queue.ReadHints(r.Ctx, nil)
		require.NoError(r, err)
		require.Empty(r, hints)
	}},
	{Name: "a ping of a running store returns no error", Run: func(r *redisqtest.Rig) {
		require.NoError(r, r.Queue.Ping(r.Ctx))
		require.Equal(r, r.Setup.Partitions, r.Queue.Partitions())
	}},
}
