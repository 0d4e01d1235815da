package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/redistest"
)

// The master dies, and sentinels put one of two replicas in its place. Each
// acknowledgement waited for a replica, so that none is forgotten.
func TestE2ESentinelsReplaceTheMasterAndNothingIsLost(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	replicas := []*redistest.Server{redistest.StartReplica(t, master), redistest.StartReplica(t, master)}
	sentinels := redistest.StartSentinels(t, master, 3, "main")
	w := newWorldOn(t, sentinels.URL(), "REDIS_MODE=sentinel", "REDIS_MASTER=main", "DURABILITY=replicas:1")
	instances := []*instance{w.serve(), w.serve()}
	for _, i := range instances {
		i.troubled = true
	}
	c := startCallers(4, 20*time.Millisecond, instances...)
	c.goOn(100)

	killed := time.Now()
	master.Kill()
	accepting, delivering := w.recovered(c, killed)
	t.Logf("the master was killed: accepted again after %s, delivered after %s", accepting, delivering)
	require.Less(t, max(accepting, delivering), recoveryMost)
	require.Contains(t, []string{replicas[0].Addr(), replicas[1].Addr()}, sentinels.WaitMaster(master.Addr()))
	w.receiver.arrived(c.end())
}
