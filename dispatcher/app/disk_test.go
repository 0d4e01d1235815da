package app_test

import (
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher/client"
)

func TestAFullDiskOfRedisIsReportedAsAFullDisk(t *testing.T) {
	redis := redistest.Start(t)
	r := newTestReceiver(t)
	r.answer <- struct{}{}
	var log logged
	o := newTestOptions(redis.URL())
	o.Log = slog.New(slog.NewTextHandler(&log, nil))
	p := start(t, o)
	_, err := p.client().Publish(t.Context(), message("before", r.URL))
	require.NoError(t, err)
	r.await(t)
	require.Eventually(t, func() bool {
		m, err := p.client().Message(t.Context(), "before")
		return err == nil && m.Deliveries[0].Status == "delivered"
	}, patience, 10*time.Millisecond)

	redis.FillDisk()
	var refused *client.Problem
	_, err = p.client().Publish(t.Context(), message("refused", r.URL))
	require.ErrorAs(t, err, &refused)
	require.Equal(t, http.StatusServiceUnavailable, refused.Status)
	require.Equal(t, "The store can't write to its disk", refused.Title)
	require.Contains(t, refused.Detail, "the disk of Redis is full; nothing was changed")
	_, err = p.client().Ready(t.Context())
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "The store can't write to its disk", refused.Title)
	require.Contains(t, refused.Detail, "the disk of Redis is full: MISCONF")
	res, err := http.Get(p.api + "/metrics")
	require.NoError(t, err)
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Contains(t, string(text), "\nhookladder_store_up 0\n")
	require.Contains(t, string(text), "\nhookladder_deliveries{status=\"delivered\"} 1\n", "it can be read")
	_, err = p.client().Message(t.Context(), "before")
	require.NoError(t, err)

	redis.FreeDisk()
	require.Eventually(t, func() bool { return strings.Contains(log.String(), "store takes changes again") }, patience, 10*time.Millisecond)
	_, err = p.client().Publish(t.Context(), message("refused", r.URL))
	require.NoError(t, err)
	r.answer <- struct{}{}
	require.Equal(t, "refused", r.await(t))
	require.NoError(t, p.end())
	require.Equal(t, 1, strings.Count(log.String(), `msg="store refuses changes"`))
	require.Contains(t, log.String(), "the disk of Redis is full")
	require.NotContains(t, log.String(), "store lost")
}
