package app_test

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// laneAt returns the URL of a receiver whose lane is in a partition.
func laneAt(t testing.TB, partition, of int) string {
	t.Helper()
	for n := range 250 {
		u := &url.URL{Scheme: "http", Host: fmt.Sprintf("127.0.0.%d:1", 2+n)}
		if keys.Partition(string(dispatcher.URLLane(u, "")), of) == partition {
			return u.String()
		}
	}
	require.FailNow(t, "no lane is there")
	return ""
}

// Nothing is done in a torn partition, and each place where an operator looks says so.
func TestATornPartitionIsReportedUntilItIsRepaired(t *testing.T) {
	const partitions = 2
	redis := redistest.Start(t)
	may := func(rules ...any) {
		require.NoError(t, redis.Client.Do(t.Context(), append([]any{"ACL", "SETUSER", "limited"}, rules...)...).Err())
	}
	may("reset", "on", ">least", "+@all", "~*", "&*")
	ops, came := newTestOps(t)
	at, err := url.Parse(ops)
	require.NoError(t, err)
	torn := 1 - keys.Partition(string(dispatcher.URLLane(at, "")), partitions) // the notice is stored in the other one
	var log logged
	o := newTestOptions(strings.Replace(redis.URL(), "://", "://limited:least@", 1))
	o.OpsURL, o.Partitions, o.Log = ops+"/ops", partitions, slog.New(slog.NewTextHandler(&log, nil))
	o.Engine.PollEvery = 10 * time.Millisecond
	p := start(t, o)
	require.NoError(t, redis.Client.Set(t.Context(), keys.Tag("test", torn), fmt.Sprint("other ", time.Now().UnixMilli()), 0).Err()) // another one repairs it
	publish := func(id string) error {
		_, err := p.client().Publish(t.Context(), message(id, laneAt(t, torn, partitions)))
		return err
	}
	require.ErrorIs(t, publish("one"), client.ErrUnavailable)
	_, err = p.client().Ready(t.Context())
	require.ErrorContains(t, err, "an error ended a script in its middle, in 1 of 2 partitions")
	resp, err := http.Get(p.api + "/metrics")
	require.NoError(t, err)
	defer resp.Body.Close() //nolint:errcheck // it was read
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Contains(t, string(text), "\nhookladder_store_torn_partitions 1\n")
	notice := func(topic dispatcher.Notice) sentNotice {
		for {
			one := awaitNotices(t, came, 1)
			if n, ok := one["/ops "+string(topic)]; ok && n.body["reason"] == "unfit" {
				return n
			}
		}
	}
	require.Contains(t, notice(dispatcher.NoticeUnhealthy).body["detail"], "an error ended a script in its middle, in 1 of 2 partitions")

	may("-xtrim")
	require.NoError(t, redis.Client.Set(t.Context(), keys.Tag("test", torn), "-", 0).Err()) // nobody repairs it
	require.NoError(t, kit.Until(t.Context(), "the log says what the repair waits for", func() error {
		if !strings.Contains(log.String(), "ACL SETUSER limited +xtrim") {
			return errors.New(log.String())
		}
		return nil
	}))
	require.ErrorIs(t, publish("one"), client.ErrUnavailable)
	may("+xtrim")
	require.NoError(t, kit.Until(t.Context(), "it is repaired", func() error { return publish("one") }))
	require.NoError(t, kit.Until(t.Context(), "it is ready", func() error {
		_, err := p.client().Ready(t.Context())
		return err
	}))
	notice(dispatcher.NoticeHealthy)
	require.Equal(t, 1, strings.Count(log.String(), "an error ended a script of Redis in its middle"))
	require.Equal(t, 1, strings.Count(log.String(), "the partitions are repaired, and go on"))
	require.NoError(t, p.end())
}
