package lanes

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/queuetest/rig"
)

// mustReachAll fails the case unless two lanes have their turn beside a quick
// lane that has more work than can be sent. One of them is new. The last attempt
// of the other one got no response. Each round ends the oldest attempt.
func mustReachAll(r *rig.Rig) {
	r.Helper()
	for range 6 {
		r.Succeed("busy")
	}
	fallSilent(r, "hung")
	r.PublishMany("busy", 200)
	r.Pass(time.Second)
	r.Publish("hung", "h1")
	r.Publish("new", "n1")
	missing := map[dispatcher.Lane]bool{"hung": true, "new": true}
	var flying []dispatcher.Claimed
	for range 30 {
		free := r.Setup.Permits - len(flying)
		flying = append(flying, r.ClaimWith(rig.One, min(free, 64), free)...)
		for _, c := range flying {
			delete(missing, c.ID.Lane)
		}
		require.NotEmpty(r, flying)
		r.Pass(10 * time.Millisecond)
		r.MustSettle(rig.One, rig.Success(flying[0]))
		flying = flying[1:]
	}
	require.Empty(r, missing, "these lanes never had their turn")
	require.NotEmpty(r, r.State().Ready["busy"], "the quick lane always had more work")
}

// leaveOthers lets the other instances leave with all their permits.
func leaveOthers(r *rig.Rig) {
	r.Helper()
	require.NoError(r, r.Queue.Leave(r.Ctx, rig.Others))
	r.Setup.Total = 0
	r.Beat(rig.One)
}

// fallSilent settles an attempt of a new message that gets no response. The message
// then waits an hour for its retry.
func fallSilent(r *rig.Rig, lane dispatcher.Lane) {
	r.Helper()
	r.MustSettle(rig.One, rig.Silence(r.TakeNew(lane), time.Hour))
}
