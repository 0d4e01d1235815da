package queuetest

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

// mustReachAll fails the case unless two lanes have their turn beside a quick
// lane that has more work than can be sent. One was never seen, the other one
// hung. Each round ends the oldest attempt.
func (r *rig) mustReachAll() {
	r.Helper()
	for range 6 {
		r.succeed("busy")
	}
	r.fallSilent("hung")
	r.publishMany("busy", 200)
	r.pass(time.Second)
	r.publish("hung", "h1")
	r.publish("new", "n1")
	missing := map[dispatcher.Lane]bool{"hung": true, "new": true}
	var flying []dispatcher.Claimed
	for range 30 {
		free := r.setup.Permits - len(flying)
		flying = append(flying, r.claimWith(one, min(free, 64), free)...)
		for _, c := range flying {
			delete(missing, c.ID.Lane)
		}
		require.NotEmpty(r, flying)
		r.pass(10 * time.Millisecond)
		r.mustSettle(one, success(flying[0]))
		flying = flying[1:]
	}
	require.Empty(r, missing, "these lanes never had their turn")
	require.NotEmpty(r, r.State().Ready["busy"], "there was always more for the quick lane")
}

// leaveOthers lets the other instances leave, with all their permits.
func (r *rig) leaveOthers() {
	r.Helper()
	require.NoError(r, r.Queue.Leave(r.ctx, others))
	r.setup.Total = 0
	r.beat(one)
}

// takeNew publishes one message to a lane and claims it. The lane must be empty.
func (r *rig) takeNew(lane dispatcher.Lane) dispatcher.Claimed {
	r.Helper()
	id := r.newID()
	r.publish(lane, id)
	got, _, err := r.Queue.Claim(r.ctx, one, []int{r.Partition(lane)}, 1, r.setup.Permits)
	require.NoError(r, err)
	require.Equal(r, ids(lane, id), claimedIDs(got))
	return got[0]
}

// succeed delivers one message to a lane within 10 ms.
func (r *rig) succeed(lane dispatcher.Lane) {
	r.Helper()
	r.mustSettle(one, success(r.takeNew(lane)))
}

// fallSilent attempts one message to a lane that does not answer. The message
// then waits for an hour.
func (r *rig) fallSilent(lane dispatcher.Lane) {
	r.Helper()
	r.mustSettle(one, silence(r.takeNew(lane), time.Hour))
}

// publishMany puts n messages with new ids into a lane.
func (r *rig) publishMany(lane dispatcher.Lane, n int) {
	r.Helper()
	names := make([]string, n)
	for i := range names {
		names[i] = r.newID()
	}
	r.publish(lane, names...)
}

// newID is an id that is new in this case and above the others.
func (r *rig) newID() string {
	r.serial++
	return fmt.Sprintf("n%05d", r.serial)
}
