package e2e_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
)

// The master dies, and sentinels put its replica in its place, which has one of
// its own. Each acknowledgement waited for that replica: of two it might have
// been the one that sentinels do not choose.
func TestSentinelsReplaceTheMasterAndNothingIsLost(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	heir := redistest.StartReplica(t, master)
	redistest.StartReplica(t, heir)
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
	require.Equal(t, heir.Addr(), sentinels.WaitMaster(master.Addr()))
	w.receiver.arrived(c.end())
}
