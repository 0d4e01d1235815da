package admin_test

import (
	"fmt"
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// overlapCases are of jobs whose deliveries somebody else changes too.
var overlapCases = []jobCase{
	{name: "two jobs over the same thousand do each once, and fail none", run: func(b *bench) {
		ids := b.thousand(func(lane dispatcher.Lane) []dispatcher.DeliveryID { return b.die(lane, 50) })
		b.overlap(dispatcher.JobRetry, dispatcher.StatusDead, ids)
	}},
	{name: "two jobs that purge the same thousand fail none", run: func(b *bench) {
		ids := b.thousand(func(lane dispatcher.Lane) []dispatcher.DeliveryID { return b.die(lane, 50) })
		b.overlap(dispatcher.JobPurge, dispatcher.StatusDead, ids)
	}},
	{name: "two jobs that cancel the same thousand fail none", run: func(b *bench) {
		ids := b.thousand(func(lane dispatcher.Lane) []dispatcher.DeliveryID {
			b.PublishMany(lane, 50)
			return nil
		})
		b.overlap(dispatcher.JobCancel, "", ids)
	}},
	{name: "people who ask for attempts beside a job make it fail none", run: func(b *bench) {
		ids := b.die("a", 50)
		j, _ := b.add(dispatcher.JobRetry, dispatcher.Filter{})
		require.Equal(b, ids, b.page(j))
		b.Retry(ids[:20]...)
		b.MustSettle(redisqtest.One, redisqtest.Success(b.MustClaim(redisqtest.One, ids[0])[0]))
		b.MustClaim(redisqtest.One, ids[1])
		b.step(j, dispatcher.StatusDead, ids...)
		read := b.read(j)
		require.Equal(b, counts(50, 30, 0, 20), read.JobCounts)
		require.Equal(b, map[dispatcher.Left]int{dispatcher.LeftChanged: 20}, read.Reasons)
		require.Empty(b, read.Failures)
	}},
}

// thousand makes fifty deliveries in each of twenty lanes.
func (b *bench) thousand(make func(lane dispatcher.Lane) []dispatcher.DeliveryID) (ids []dispatcher.DeliveryID) {
	b.Helper()
	for n := range 20 {
		ids = append(ids, make(dispatcher.Lane(fmt.Sprintf("l%02d", n)))...)
	}
	if len(ids) == 0 {
		for _, d := range b.ListAll(dispatcher.Filter{Statuses: []dispatcher.Status{dispatcher.StatusReady}}, 500) {
			ids = append(ids, d.ID)
		}
	}
	require.Len(b, ids, 1000)
	return ids
}

// overlap has two jobs find the same deliveries, and change them by turns.
func (b *bench) overlap(kind dispatcher.JobKind, of dispatcher.Status, ids []dispatcher.DeliveryID) (first, second dispatcher.Job) {
	b.Helper()
	one, _ := b.add(kind, dispatcher.Filter{})
	two, _ := b.add(kind, dispatcher.Filter{})
	for some := range slices.Chunk(ids, 40) {
		b.step(one, of, some[:20]...)
		b.step(two, of, some...)
		b.step(one, of, some[20:]...)
	}
	first, second = b.read(one), b.read(two)
	require.Equal(b, 1000, first.Done+second.Done)
	require.Zero(b, first.Failed+second.Failed)
	require.Equal(b, 1000, first.Left+second.Left)
	require.Equal(b, map[dispatcher.Left]int{dispatcher.LeftChanged: first.Left}, first.Reasons)
	return first, second
}
