package redisqtest

import (
	"bytes"
	"fmt"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/stretchr/testify/require"
)

// Spread has several partitions, so that a fan-out covers more than one.
var Spread = Setup{Partitions: 4}

// IDs returns the deliveries of messages to one lane.
func IDs(lane dispatcher.Lane, messages ...string) []dispatcher.DeliveryID {
	out := make([]dispatcher.DeliveryID, len(messages))
	for i, m := range messages {
		out[i] = Named(lane, m)
	}
	return out
}

// DeliverAt sets the time of a message.
func DeliverAt(t time.Time) func(*dispatcher.Message) {
	return func(m *dispatcher.Message) { m.DeliverAt = t }
}

// ManyLanes returns the names of n lanes.
func ManyLanes(n int) []dispatcher.Lane {
	lanes := make([]dispatcher.Lane, n)
	for i := range lanes {
		lanes[i] = dispatcher.Lane(fmt.Sprintf("lane%03d", i))
	}
	return lanes
}

// LargeBody returns a body of size bytes. Its text repeats every 17 bytes, so
// that blocks of it differ.
func LargeBody(size int) []byte {
	return bytes.Repeat([]byte("0123456789abcdefg"), size/17+1)[:size]
}

// NewID returns an id that is new in this case and above the others.
func (r *Rig) NewID() string {
	r.Serial++
	return fmt.Sprintf("n%05d", r.Serial)
}

// PublishMany publishes n messages with new ids to a lane.
func (r *Rig) PublishMany(lane dispatcher.Lane, n int) {
	r.Helper()
	names := make([]string, n)
	for i := range names {
		names[i] = r.NewID()
	}
	r.Publish(lane, names...)
}

// TakeNew publishes one message to a lane and claims it. The lane must be
// empty.
func (r *Rig) TakeNew(lane dispatcher.Lane) dispatcher.Claimed {
	r.Helper()
	id := r.NewID()
	r.Publish(lane, id)
	got, _, err := r.Queue.Claim(r.Ctx, One, []int{r.Partition(lane)}, 1, r.Setup.Permits)
	require.NoError(r, err)
	require.Equal(r, IDs(lane, id), ClaimedIDs(got))
	return got[0]
}

// Succeed delivers one message to a lane within 10 ms.
func (r *Rig) Succeed(lane dispatcher.Lane) {
	r.Helper()
	r.MustSettle(One, Success(r.TakeNew(lane)))
}

// ClaimAll claims until there is nothing to claim.
func (r *Rig) ClaimAll(by string) []dispatcher.Claimed {
	r.Helper()
	var all []dispatcher.Claimed
	for {
		got := r.ClaimWith(by, 64*r.Setup.Partitions, r.Setup.Permits/2)
		if len(got) == 0 {
			return all
		}
		all = append(all, got...)
	}
}

// TakeOver publishes a message and lets an instance claim it. It declares that
// instance dead, and returns the claim. The instance still believes that it has
// the lease, but the delivery is ready.
func (r *Rig) TakeOver(lane dispatcher.Lane, id string) dispatcher.Claimed {
	r.Helper()
	// A fenced instance claims nothing, so each takeover has an instance of its
	// own. The store does not care which instance settles late.
	victim := "victim-" + r.NewID()
	r.Beat(victim)
	r.Publish(lane, id)
	got := r.ClaimWith(victim, 1, r.Setup.Permits)
	require.Equal(r, IDs(lane, id), ClaimedIDs(got))
	taken, _, err := r.Queue.Reap(r.Ctx, Two, victim)
	require.NoError(r, err)
	require.Equal(r, 1, taken)
	return got[0]
}

// Reap declares an instance dead and returns the number of deliveries that it
// took over.
func (r *Rig) Reap(dead string) int {
	r.Helper()
	taken, hints, err := r.Queue.Reap(r.Ctx, Two, dead)
	require.NoError(r, err)
	r.MustBeCurrent(hints)
	return taken
}

// MustRefuse asks for attempts, which must all be refused for one reason.
func (r *Rig) MustRefuse(why error, ids ...dispatcher.DeliveryID) {
	r.Helper()
	for _, c := range r.Change(r.Spare, ids...) {
		require.False(r, c.Changed, "%s", c.ID)
		require.ErrorIs(r, c.Err, why, "%s", c.ID)
	}
}

// EndOne publishes a message and delivers it.
func (r *Rig) EndOne(lane dispatcher.Lane) dispatcher.DeliveryID {
	r.Helper()
	c := r.TakeNew(lane)
	r.MustSettle(One, Success(c))
	return c.ID
}

// DieOne publishes a message whose first attempt returns a 410.
func (r *Rig) DieOne(lane dispatcher.Lane) dispatcher.DeliveryID {
	r.Helper()
	c := r.TakeNew(lane)
	r.MustSettle(One, Death(c, dispatcher.ReasonGone))
	return c.ID
}

// MustBegin begins the attempt at a suspect.
func (r *Rig) MustBegin(by string, c dispatcher.Claimed) {
	r.Helper()
	ok, err := r.Queue.Begin(r.Ctx, by, dispatcher.Lease{ID: c.ID, At: c.Leased}, false)
	require.NoError(r, err)
	require.True(r, ok)
}

// DieWith makes an instance die with a delivery. It begins the attempt at a
// suspect.
func (r *Rig) DieWith(victim string, id dispatcher.DeliveryID) {
	r.Helper()
	if c := r.MustClaim(victim, id)[0]; c.Suspect {
		r.MustBegin(victim, c)
	}
	r.Reap(victim)
}
