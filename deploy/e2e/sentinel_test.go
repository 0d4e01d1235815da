package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/deploy/kit/redistest"
)

// The sentinels, the master and its replicas use TLS, also among themselves. The master dies, and
// a replica replaces it.
func TestSentinelsWithTLSReplaceTheMaster(t *testing.T) {
	t.Parallel()
	redistest.Long(t)
	cert, key := kit.MustCertificate(t.TempDir(), "127.0.0.1")
	master := redistest.StartTLS(t, &kit.RedisTLS{Cert: cert, Key: key, CA: cert}, leastLine())
	heir := redistest.StartReplica(t, master, leastLine())
	sentinels := redistest.StartSentinels(t, master, 3, "main")
	var addresses []string
	for _, node := range sentinels.Nodes() {
		addresses = append(addresses, kit.Loopback(node.TLSPort))
	}
	url := "rediss://" + addresses[0] + "?addr=" + strings.Join(addresses[1:], "&addr=")
	w := newWorldOn(t, asLeast(url), "REDIS_MODE=sentinel", "REDIS_MASTER=main", "REDIS_CA_FILE="+cert, "DURABILITY=replicas:1")
	i := w.serve()
	i.troubled = true
	i.send("before")
	w.receiver.wait("before", 1)
	clients, err := master.Client.ClientList(t.Context()).Result()
	require.NoError(t, err)
	require.Regexp(t, fmt.Sprintf(`laddr=127\.0\.0\.1:%d .*user=hookladder`, master.TLSPort), clients)
	require.NotRegexp(t, fmt.Sprintf(`laddr=127\.0\.0\.1:%d .*user=hookladder`, master.Port()), clients, "only over TLS")
	was := kit.Loopback(master.TLSPort)
	require.Equal(t, was, sentinels.Master())

	// Without another replica, a publish would wait for one after the failover.
	second := redistest.StartReplica(t, heir, leastLine()) // on a busy machine the heir may be replaced too
	c := startCallers(2, 0, i)
	c.goOn(50)
	killed := time.Now()
	master.Kill()
	accepting, delivering := w.recovered(c, killed)
	t.Logf("the master was killed: accepted again after %s, delivered after %s", accepting, delivering)
	require.Contains(t, []string{kit.Loopback(heir.TLSPort), kit.Loopback(second.TLSPort)}, sentinels.WaitMaster(was))
	w.receiver.arrived(c.end())
}
