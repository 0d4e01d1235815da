package conn_test

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// Whatever the name of a project is, no master of a cluster has much more than its share.
func TestMastersOfANewClusterGetAboutEqualShares(t *testing.T) {
	t.Parallel()
	const slots = 16384
	for _, masters := range []int{1, 2, 3, 5, 6, 12} {
		t.Run(fmt.Sprint(masters, " masters"), func(t *testing.T) {
			t.Parallel()
			sum := 0
			for project := range 300 {
				masterOf := func(n int) (string, error) {
					slot := int(keys.CRC16(fmt.Sprintf("p%d:%d", project, n))) % slots
					return strconv.Itoa(slot * masters / slots), nil
				}
				n, err := conn.EvenPartitions(masters, masterOf)
				require.NoError(t, err)
				require.GreaterOrEqual(t, n, 12)
				require.Less(t, n, 1024)
				has := map[string]int{}
				for partition := range n {
					master, _ := masterOf(partition)
					has[master]++
				}
				for _, some := range has {
					require.LessOrEqual(t, float64(some), 1.25*float64(n)/float64(masters), "project %d with %d partitions", project, n)
				}
				sum += n
			}
			if masters <= 3 {
				require.Less(t, sum/300, 24, "partitions in the mean")
			}
		})
	}
}

func TestNoNumberOfPartitionsIsChosenIfAMasterIsUnknown(t *testing.T) {
	t.Parallel()
	down := errors.New("down")
	_, err := conn.EvenPartitions(3, func(int) (string, error) { return "", down })
	require.ErrorIs(t, err, down)
}

func TestAnEpochHasItsBeginning(t *testing.T) {
	require.WithinDuration(t, time.Now(), conn.EpochTime(conn.NewEpoch()), time.Minute)
	require.NotEqual(t, conn.NewEpoch(), conn.NewEpoch())
	for _, by := range []string{"", "-", "by hand", "lost", "-5-x", "zzzzzzzzzzzzzzzzzz-x"} {
		require.Zero(t, conn.EpochTime(by), by)
	}
}

// One parameter of each sort: of all kinds of clients, of sentinels, and such as
// the URL does not decide.
func TestTheURLOfSentinelsIsTheMasters(t *testing.T) {
	c, err := conn.Dial(t.Context(), conn.Options{Master: "orders", URL: "redis://worker:secret@127.0.0.1:1/3" +
		"?addr=127.0.0.1:2&sentinel_username=watcher&sentinel_password=other&replica_only=false&use_disconnected_replicas=true" +
		"&context_timeout_enabled=false&disableIdentity=false&max_retries=9&pool_size=7&read_timeout=9s&client_name=hook"})
	require.NoError(t, err)
	defer c.Close()
	require.Equal(t, conn.ModeSentinel, c.Mode())
	require.Equal(t, "127.0.0.1:1, 127.0.0.1:2", c.Where())
	o := c.Redis().(*redis.Client).Options()
	require.Equal(t, []any{"worker", "secret", 3, 7, "hook"}, []any{o.Username, o.Password, o.DB, o.PoolSize, o.ClientName})
	require.Equal(t, []time.Duration{9 * time.Second, 2 * time.Second, conn.ReadWithin, 50 * time.Second},
		[]time.Duration{o.ReadTimeout, o.DialTimeout, o.PoolTimeout, o.ConnMaxIdleTime})
	require.Equal(t, []any{0, 1, true, true, -1, 128 << 10}, // go-redis has 0 for no retries
		[]any{o.MaxRetries, o.DialerRetries, o.ContextTimeoutEnabled, o.DisableIdentity, o.PipelinePoolSize, o.ReadBufferSize})
}

// A cluster's parameters are known, those of other kinds are not.
func TestTheURLOfAClusterHasAClustersParameters(t *testing.T) {
	dial := func(query string) error {
		_, err := conn.Dial(t.Context(), conn.Options{Mode: conn.ModeCluster, URL: "redis://127.0.0.1:1?addr=127.0.0.1:2" + query})
		return err
	}
	known := "&failing_timeout_seconds=2&dialer_retries=3&dialer_retry_timeout=1s&route_by_latency_tolerance=1s&read_only=false&skip_verify=true"
	require.ErrorIs(t, dial(known), dispatcher.ErrUnavailable, "no server is there")
	for _, unknown := range []string{"db=1", "idle_timeout=5", "replica_only=false", "sentinel_username=x", "colour=red"} {
		require.ErrorContains(t, dial("&"+unknown), "a parameter that go-redis does not know", unknown)
	}
}
