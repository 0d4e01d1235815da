package redisqtest

import (
	"fmt"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/stretchr/testify/require"
)

// ListAll returns the deliveries of all pages. It follows the cursor to the
// end. No page may be too long, and no delivery may come twice.
func (r *Rig) ListAll(f dispatcher.Filter, limit int) []dispatcher.Delivery {
	r.Helper()
	f.Limit = limit
	var all []dispatcher.Delivery
	seen := map[dispatcher.DeliveryID]bool{}
	for range 10_000 {
		page, err := r.Queue.List(r.Ctx, f)
		require.NoError(r, err)
		require.LessOrEqual(r, len(page.Deliveries), limit)
		for _, d := range page.Deliveries {
			if f.Order != "" || f.Part != dispatcher.PartAll {
				require.False(r, seen[d.ID], "%s is listed twice", d.ID)
			}
			if !seen[d.ID] { // a list of several statuses shows a moved delivery once more
				all = append(all, d)
			}
			seen[d.ID] = true
		}
		if page.Next == "" {
			return all
		}
		f.Cursor = page.Next
	}
	r.Fatal("the list never ends")
	return nil
}

// MustList fails the case unless the list equals the deliveries of all that
// keep selects.
func (r *Rig) MustList(f dispatcher.Filter, all map[dispatcher.DeliveryID]dispatcher.Status,
	keep func(dispatcher.DeliveryID, dispatcher.Status) bool) {
	r.Helper()
	want := map[dispatcher.DeliveryID]dispatcher.Status{}
	for id, status := range all {
		if keep(id, status) {
			want[id] = status
		}
	}
	require.NotEmpty(r, want)
	for _, limit := range []int{1, 3, 100} {
		RequireStatuses(r, want, r.ListAll(f, limit))
	}
}

// RequireStatuses fails the case unless the deliveries have these statuses.
func RequireStatuses(r *Rig, want map[dispatcher.DeliveryID]dispatcher.Status, got []dispatcher.Delivery) {
	r.Helper()
	statuses := map[dispatcher.DeliveryID]dispatcher.Status{}
	for _, d := range got {
		statuses[d.ID] = d.Status
	}
	require.Equal(r, want, statuses)
}

// Stats reads the statistics.
func (r *Rig) Stats() dispatcher.Stats {
	r.Helper()
	st, err := r.Queue.Stats(r.Ctx)
	require.NoError(r, err)
	return st
}

// Populate makes some deliveries of every status, in several lanes and at
// several times. It returns the status of each.
func (r *Rig) Populate() map[dispatcher.DeliveryID]dispatcher.Status {
	r.Helper()
	want := map[dispatcher.DeliveryID]dispatcher.Status{}
	for round := range 3 {
		lane := dispatcher.Lane(fmt.Sprintf("lane%d", round))
		r.Pass(time.Second)
		want[r.EndOne(lane)] = dispatcher.StatusDelivered
		want[r.DieOne(lane)] = dispatcher.StatusDead
		r.Pass(time.Millisecond)
		c := r.TakeNew(lane)
		r.MustSettle(One, Failure(c, time.Hour))
		want[c.ID] = dispatcher.StatusRetrying
		for range round + 1 {
			id := r.NewID()
			r.Schedule(r.Entry(id, To(lane), Delay(time.Duration(round)*time.Minute+time.Hour)))
			want[Named(lane, id)] = dispatcher.StatusScheduled
			id = r.NewID()
			r.Schedule(r.Entry(id, To(lane), Delay(time.Hour)))
			r.Cancel(Named(lane, id))
			want[Named(lane, id)] = dispatcher.StatusCancelled
		}
		want[r.TakeNew(lane).ID] = dispatcher.StatusInFlight
	}
	for round := range 3 {
		lane := dispatcher.Lane(fmt.Sprintf("lane%d", round))
		id := r.NewID()
		r.Publish(lane, id)
		want[Named(lane, id)] = dispatcher.StatusReady
	}
	return want
}

// mustStandAlike fails the case unless Standing reports the same as a query of
// the message. It must also do so beside another message of that id in another
// partition.
func (r *Rig) mustStandAlike(rec dispatcher.MessageView) {
	r.Helper()
	read := map[dispatcher.DeliveryID]dispatcher.Delivery{}
	for _, d := range rec.Deliveries {
		read[d.ID] = dispatcher.Delivery{
			ID: d.ID, Topic: d.Topic, Tenant: d.Tenant, Subject: d.Subject, URL: d.URL, Status: d.Status, Due: d.Due, Ended: d.Ended,
		}
	}
	e := dispatcher.Entry{Message: &rec.Message, Digest: rec.Message.Digest(), Lanes: LanesOfDeliveries(rec.Deliveries)}
	for _, e.Fan = range []bool{false, true} {
		got, err := r.Queue.Standing(r.Ctx, []dispatcher.Entry{e})
		require.NoError(r, err)
		require.NoError(r, got[0].Err)
		require.Equal(r, dispatcher.Duplicate, got[0].Result)
		if r.Setup.Partitions == 1 {
			require.Len(r, got[0].Deliveries, len(read))
		}
		for _, d := range got[0].Deliveries {
			d.Created, d.Delivered, d.Climbed, d.LadderFrom, d.Ladder, d.MaxAttempts = time.Time{}, time.Time{}, 0, 0, nil, 0 // a repeat does not get these
			require.Equal(r, read[d.ID], d)
		}
		e.Lanes = nil
	}
}

// LanesOfDeliveries returns the lanes of some deliveries, in their order.
func LanesOfDeliveries(list []dispatcher.Delivery) (lanes []dispatcher.Lane) {
	for _, d := range list {
		lanes = append(lanes, d.ID.Lane)
	}
	return lanes
}

// BodyOf returns the body of a delivery. The store may keep it in the record or
// apart. It is read over a connection that does not break.
func (r *Rig) BodyOf(c dispatcher.Claimed) []byte {
	r.Helper()
	queue := r.Queue
	if r.Good != nil {
		queue = r.Good
	}
	if c.Message.Apart == nil {
		return c.Message.Body
	}
	require.Empty(r, c.Message.Body, "%s", c.ID)
	body, err := queue.Body(r.Ctx, c.ID, *c.Message.Apart)
	require.NoError(r, err, "%s", c.ID)
	return body
}

// EndedAll returns the deliveries of all pages. It follows the cursor until
// there are no more.
func (r *Rig) EndedAll(f dispatcher.EndedFilter) (all []dispatcher.Delivery) {
	r.Helper()
	for range 1000 {
		page, err := r.Queue.Ended(r.Ctx, f)
		require.NoError(r, err)
		require.LessOrEqual(r, len(page.Deliveries), f.Limit)
		all = append(all, page.Deliveries...)
		if f.Cursor = page.Resume; !page.More {
			return all
		}
	}
	r.Fatal("the pages of ended deliveries never end")
	return nil
}
