package redisq_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// EndedCases are about queries of a lane's ended deliveries, oldest first.
var EndedCases = []redisqtest.Case{
	{Name: "a query of a lane without ends returns an empty page, whose cursor continues", Run: func(r *redisqtest.Rig) {
		page := endedPage(r, dispatcher.EndedFilter{Lane: "a"})
		require.Empty(r, page.Deliveries)
		require.False(r, page.More)
		require.Zero(r, page.CompleteSince)
		r.EndOne("a")
		r.Pass(time.Millisecond)
		require.Len(r, endedPage(r, dispatcher.EndedFilter{Lane: "a", Cursor: page.Resume}).Deliveries, 1)
	}},
	{Name: "a query returns the ends of one lane, oldest first", Setup: redisqtest.Setup{Partitions: 4}, Run: func(r *redisqtest.Rig) {
		all := r.Populate()
		r.Pass(time.Millisecond)
		for lane := range 3 {
			for _, limit := range []int{1, 2, 100} {
				got := map[dispatcher.DeliveryID]dispatcher.Status{}
				last := time.Time{}
				for _, d := range r.EndedAll(dispatcher.EndedFilter{Lane: dispatcher.Lane(fmt.Sprintf("lane%d", lane)), Limit: limit}) {
					require.False(r, d.Ended.Before(last))
					got[d.ID], last = d.Status, d.Ended
				}
				want := map[dispatcher.DeliveryID]dispatcher.Status{}
				for id, status := range all {
					if status.Ended() && string(id.Lane) == fmt.Sprintf("lane%d", lane) {
						want[id] = status
					}
				}
				require.Equal(r, want, got)
			}
		}
	}},
	{Name: "a query returns the fields of a list and the time of acceptance", Run: func(r *redisqtest.Rig) {
		accepted := r.Now
		about := func(m *dispatcher.Message) { m.Subject = "order 17" }
		r.Schedule(r.Entry("m1", redisqtest.To("a"), about), r.Entry("m2", redisqtest.To("a"), about))
		r.Pass(time.Second)
		for _, c := range r.MustClaim(redisqtest.One, redisqtest.IDs("a", "m1", "m2")...) {
			if c.ID.Message == "m1" {
				r.MustSettle(redisqtest.One, redisqtest.Success(c))
			} else {
				r.MustSettle(redisqtest.One, redisqtest.Death(c, dispatcher.ReasonGone))
			}
		}
		r.Pass(time.Millisecond)
		got := r.EndedAll(dispatcher.EndedFilter{Lane: "a", Limit: 10})
		require.Len(r, got, 2)
		for _, d := range got {
			require.Equal(r, accepted, d.Created)
			listed := r.ListAll(dispatcher.Filter{Lanes: redisqtest.To("a"), Statuses: []dispatcher.Status{d.Status}}, 10)
			require.Equal(r, listed[0], d)
			require.Equal(r, "order 17", d.Subject)
		}
		require.Equal(r, "answered 410", got[1].LastError)
	}},
	{Name: "a query applies filters for status and time together", Run: func(r *redisqtest.Rig) {
		done := r.EndOne("a")
		r.Pass(time.Minute)
		dead := r.DieOne("a")
		first := r.Now
		r.Pass(time.Minute)
		later := r.DieOne("a")
		r.Pass(time.Minute)
		for _, c := range []struct {
			f    dispatcher.EndedFilter
			want []dispatcher.DeliveryID
		}{
			{dispatcher.EndedFilter{}, []dispatcher.DeliveryID{done, dead, later}},
			{dispatcher.EndedFilter{Statuses: []dispatcher.Status{dispatcher.StatusDead}}, []dispatcher.DeliveryID{dead, later}},
			{dispatcher.EndedFilter{Statuses: []dispatcher.Status{dispatcher.StatusDelivered, dispatcher.StatusCancelled}}, []dispatcher.DeliveryID{done}},
			{dispatcher.EndedFilter{Since: first}, []dispatcher.DeliveryID{dead, later}},
			{dispatcher.EndedFilter{Since: first.Add(time.Microsecond)}, []dispatcher.DeliveryID{later}},
			{dispatcher.EndedFilter{Until: first}, []dispatcher.DeliveryID{done}},
			{dispatcher.EndedFilter{Until: first.Add(time.Microsecond)}, []dispatcher.DeliveryID{done, dead}},
			{dispatcher.EndedFilter{Since: first, Until: first.Add(time.Minute)}, []dispatcher.DeliveryID{dead}},
			{dispatcher.EndedFilter{Since: r.Now}, nil},
		} {
			c.f.Lane, c.f.Limit = "a", 1
			require.Equal(r, c.want, idsOf(r.EndedAll(c.f)), "%+v", c.f)
		}
	}},
	{Name: "a query returns ends only after their ms, in the order of their names", Run: func(r *redisqtest.Rig) {
		r.Publish("a", "m2", "m1")
		c := r.MustClaim(redisqtest.One, redisqtest.IDs("a", "m2", "m1")...)
		r.MustSettle(redisqtest.One, redisqtest.Success(c[0]))
		page := endedPage(r, dispatcher.EndedFilter{Lane: "a"})
		require.Empty(r, page.Deliveries)
		r.MustSettle(redisqtest.One, redisqtest.Death(c[1], dispatcher.ReasonGone))
		r.Pass(time.Millisecond)
		require.Equal(r, redisqtest.IDs("a", "m1", "m2"), idsOf(r.EndedAll(dispatcher.EndedFilter{Lane: "a", Limit: 1, Cursor: page.Resume})))
	}},
	{Name: "a query returns a delivery again that ended again after a retry", Run: func(r *redisqtest.Rig) {
		id := r.DieOne("a")
		r.Pass(time.Millisecond)
		page := endedPage(r, dispatcher.EndedFilter{Lane: "a"})
		require.Equal(r, []dispatcher.DeliveryID{id}, idsOf(page.Deliveries))
		r.Retry(id)
		r.MustSettle(redisqtest.One, redisqtest.Success(r.MustClaim(redisqtest.One, id)[0]))
		r.Pass(time.Millisecond)
		again := endedPage(r, dispatcher.EndedFilter{Lane: "a", Cursor: page.Resume})
		require.Equal(r, []dispatcher.DeliveryID{id}, idsOf(again.Deliveries))
		require.Equal(r, dispatcher.StatusDelivered, again.Deliveries[0].Status)
		require.Equal(r, 2, again.Deliveries[0].Attempts)
	}},
	{Name: "a query returns the start of the complete period of each status", Run: func(r *redisqtest.Rig) {
		r.DieOne("b")
		dead := r.Now
		r.Pass(time.Minute)
		r.EndOne("b")
		done := r.Now
		r.Pass(time.Minute)
		since := func(statuses ...dispatcher.Status) time.Time {
			return endedPage(r, dispatcher.EndedFilter{Lane: "a", Statuses: statuses}).CompleteSince
		}
		r.Trim(redisqtest.KeepAll)
		require.Zero(r, since())
		r.Trim(redisqtest.KeepDigests)
		require.Equal(r, done.Add(time.Millisecond), since())
		require.Equal(r, done.Add(time.Millisecond), since(dispatcher.StatusCancelled))
		require.Zero(r, since(dispatcher.StatusDead))
		r.Trim(redisqtest.KeepNothing)
		require.Equal(r, dead.Add(time.Millisecond), since(dispatcher.StatusDead))
		require.Equal(r, done.Add(time.Millisecond), since(dispatcher.StatusDead, dispatcher.StatusDelivered))
		r.Pass(time.Hour)
		r.Trim(redisqtest.KeepNothing)
		require.Equal(r, done.Add(time.Millisecond), since(), "nothing more was deleted")
	}},
	{Name: "a query refuses a cursor of another lane or other statuses, but not of other times", Run: func(r *redisqtest.Rig) {
		f := dispatcher.EndedFilter{Lane: "a", Statuses: []dispatcher.Status{dispatcher.StatusDead, dispatcher.StatusDelivered}, Limit: 10}
		f.Cursor = endedPage(r, f).Resume
		for _, change := range []func(*dispatcher.EndedFilter){
			func(f *dispatcher.EndedFilter) { f.Lane = "b" },
			func(f *dispatcher.EndedFilter) { f.Statuses = nil },
			func(f *dispatcher.EndedFilter) { f.Cursor = "bm90aGluZw" },
			func(f *dispatcher.EndedFilter) { f.Cursor = "%" },
		} {
			other := f
			change(&other)
			_, err := r.Queue.Ended(r.Ctx, other)
			require.ErrorIs(r, err, dispatcher.ErrCursor)
		}
		f.Since, f.Until = r.Now, r.Later(time.Hour)
		slices.Reverse(f.Statuses)
		_, err := r.Queue.Ended(r.Ctx, f)
		require.NoError(r, err)
	}},
	{Name: "consecutive pages return all ends in order, even if deliveries change between them", Run: func(r *redisqtest.Rig) { mustJoin(r, 1, 200) }},
	{Name: "consecutive pages return all ends in order, with another seed", Run: func(r *redisqtest.Rig) { mustJoin(r, 2, 200) }},
	{Name: "consecutive pages return all ends while several instances settle", Run: mustJoinInCrowd},
}

// endedPage returns a page of ten deliveries by default.
func endedPage(r *redisqtest.Rig, f dispatcher.EndedFilter) dispatcher.EndedPage {
	r.Helper()
	if f.Limit == 0 {
		f.Limit = 10
	}
	page, err := r.Queue.Ended(r.Ctx, f)
	require.NoError(r, err)
	require.LessOrEqual(r, len(page.Deliveries), f.Limit)
	return page
}

func idsOf(list []dispatcher.Delivery) (ids []dispatcher.DeliveryID) {
	for _, d := range list {
		ids = append(ids, d.ID)
	}
	return ids
}

// anEnd is the end of a delivery. A delivery may have several.
type anEnd struct {
	at int64 // ms
	id dispatcher.DeliveryID
}

func (e anEnd) compare(o anEnd) int {
	if e.at != o.at {
		return int(e.at - o.at)
	}
	return strings.Compare(e.id.String(), o.id.String())
}

// joiner queries the ends of a lane in pages, between random steps.
type joiner struct {
	*redisqtest.Rig
	lane     dispatcher.Lane
	rng      *rand.Rand
	claimed  []dispatcher.Claimed
	ends     []anEnd // all that no retry undid before a page returned them
	now      map[dispatcher.DeliveryID]int64
	returned []anEnd
	resume   string
}

// mustJoin does random steps and reads pages between them. The pages must return all
// ends, each once and in order, except the ends that a retry undid before.
func mustJoin(r *redisqtest.Rig, seed uint64, steps int) {
	r.Helper()
	j := &joiner{Rig: r, lane: "a", rng: rand.New(rand.NewPCG(seed, 0)), now: map[dispatcher.DeliveryID]int64{}}
	for range steps {
		j.step()
		j.observe()
	}
	r.Pass(time.Millisecond)
	j.read(100)
	require.Greater(r, len(j.returned), steps/10)
	slices.SortFunc(j.ends, anEnd.compare)
	require.Equal(r, j.ends, j.returned)
}

func (j *joiner) step() {
	switch j.rng.IntN(10) {
	case 0, 1, 2:
		for range 1 + j.rng.IntN(4) {
			lane := []dispatcher.Lane{"a", "a", "b"}[j.rng.IntN(3)]
			j.Publish(lane, fmt.Sprintf("%c%s", 'a'+rune(j.rng.IntN(26)), j.NewID())) // the names are in no order
		}
	case 3, 4:
		j.claimed = append(j.claimed, j.Claim(redisqtest.One, 1+j.rng.IntN(8))...)
	case 5, 6:
		j.settleSome()
	case 7:
		j.change()
	case 8:
		j.Pass(time.Duration(j.rng.IntN(3)) * 400 * time.Microsecond)
		j.Move()
	case 9:
		j.read(1 + j.rng.IntN(4))
	}
}

func (j *joiner) settleSome() {
	n := min(len(j.claimed), 1+j.rng.IntN(5))
	batch := make([]dispatcher.Settlement, n)
	for i, c := range j.claimed[:n] {
		switch j.rng.IntN(4) {
		case 0:
			batch[i] = redisqtest.Death(c, dispatcher.ReasonGone)
		case 1:
			batch[i] = redisqtest.Failure(c, time.Millisecond)
		default:
			batch[i] = redisqtest.Success(c)
		}
	}
	j.claimed = j.claimed[n:]
	j.Settle(redisqtest.One, batch...)
}

// change cancels a waiting delivery or retries an ended one.
func (j *joiner) change() {
	var ended, waiting []dispatcher.DeliveryID
	for id, found := range j.State().Found {
		switch place := found[0].Place; {
		case !place.Waits():
			ended = append(ended, id)
		case place != redisqtest.PlaceLeased:
			waiting = append(waiting, id)
		}
	}
	byName := func(a, b dispatcher.DeliveryID) int { return strings.Compare(a.String(), b.String()) }
	slices.SortFunc(ended, byName)
	slices.SortFunc(waiting, byName)
	if len(waiting) > 0 && j.rng.IntN(2) == 0 {
		j.Cancel(waiting[j.rng.IntN(len(waiting))])
	} else if len(ended) > 0 {
		j.Retry(ended[j.rng.IntN(len(ended))])
	}
}

// observe records new ends, and drops the ends that were undone before a page returned them.
func (j *joiner) observe() {
	now := map[dispatcher.DeliveryID]int64{}
	for id, found := range j.State().Found {
		if id.Lane == j.lane && !found[0].Place.Waits() {
			now[id] = found[0].At
		}
	}
	for id, at := range j.now {
		if now[id] != at && !slices.Contains(j.returned, anEnd{at, id}) {
			j.ends = slices.DeleteFunc(j.ends, func(e anEnd) bool { return e == anEnd{at, id} })
		}
	}
	for id, at := range now {
		if j.now[id] != at {
			j.ends = append(j.ends, anEnd{at, id})
		}
	}
	j.now = now
}

// read continues after the last page. It may stop early although there is more.
func (j *joiner) read(limit int) {
	for pages, more := 0, true; more; pages++ {
		require.Less(j, pages, 1000, "it never ends")
		page := endedPage(j.Rig, dispatcher.EndedFilter{Lane: j.lane, Limit: limit, Cursor: j.resume})
		for _, d := range page.Deliveries {
			j.returned = append(j.returned, anEnd{d.Ended.UnixMilli(), d.ID})
		}
		j.resume, more = page.Resume, page.More && j.rng.IntN(4) > 0
	}
}

// mustJoinInCrowd reads pages while three instances settle and time passes.
func mustJoinInCrowd(r *redisqtest.Rig) {
	const all = 450
	for i := range all {
		r.Publish("a", fmt.Sprintf("%c%03d", 'a'+rune(i%7), i))
	}
	var senders errgroup.Group
	var left atomic.Int64
	left.Store(all)
	var clock sync.Mutex
	for _, by := range []string{redisqtest.One, redisqtest.Two, "three"} {
		senders.Go(func() error {
			for left.Load() > 0 {
				claimed, _, err := r.Queue.Claim(r.Ctx, by, r.All(), 4, r.Setup.Permits/2)
				if err != nil {
					return err
				}
				var batch []dispatcher.Settlement
				for _, c := range claimed {
					batch = append(batch, redisqtest.Success(c))
				}
				got, _, err := r.Queue.Settle(r.Ctx, by, batch)
				if err != nil {
					return err
				}
				left.Add(-int64(len(got)))
				clock.Lock()
				r.SetNow(r.Now.Add(300 * time.Microsecond))
				clock.Unlock()
			}
			return nil
		})
	}
	over := make(chan error, 1)
	go func() { over <- senders.Wait() }()
	var returned []anEnd
	cursor := ""
	for settling := true; settling; {
		select {
		case err := <-over:
			require.NoError(r, err)
			r.Pass(time.Millisecond)
			settling = false
		default:
		}
		for pages, more := 0, true; more; pages++ {
			require.Less(r, pages, 1000, "it never ends")
			page := endedPage(r, dispatcher.EndedFilter{Lane: "a", Limit: 7, Cursor: cursor})
			for _, d := range page.Deliveries {
				returned = append(returned, anEnd{d.Ended.UnixMilli(), d.ID})
			}
			cursor, more = page.Resume, page.More
		}
	}
	require.Len(r, returned, all)
	require.True(r, slices.IsSortedFunc(returned, anEnd.compare))
	require.Len(r, slices.Compact(returned), all)
}
