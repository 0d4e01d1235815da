package app_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/app"
)

func TestAProcessWithoutAnAPILetsItsAttemptsFinishToo(t *testing.T) {
	redis := redistest.Start(t)
	r := newTestReceiver(t)
	accepts, dispatches := newTestOptions(redis.URL()), newTestOptions(redis.URL())
	accepts.Engine.MaxInFlight = 0
	dispatches.Listen = ""
	a, d := start(t, accepts), start(t, dispatches)
	_, err := a.client().Publish(t.Context(), message("slow", r.URL))
	require.NoError(t, err)
	r.await(t)
	d.stop()
	r.answer <- struct{}{}
	require.NoError(t, d.ended())
	record, err := a.client().Message(t.Context(), "slow")
	require.NoError(t, err)
	require.Equal(t, "delivered", record.Deliveries[0].Status, "an attempt that was cut would have gone back")
	require.NoError(t, a.end())
}

func TestAStopBeforeItBeganIsNoFailure(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // takes connections, and answers nothing
	require.NoError(t, err)
	defer silent.Close()
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		conn, err := silent.Accept()
		stop()
		if err == nil {
			_, _ = io.Copy(io.Discard, conn) // until it is closed
		}
	}()
	var log logged
	o := newTestOptions("redis://" + silent.Addr().String())
	o.Log = slog.New(slog.NewTextHandler(&log, nil))
	require.NoError(t, app.Run(ctx, o))
	require.Contains(t, log.String(), "stopped before it began")
	require.NotContains(t, log.String(), "msg=started")
}

func TestTheMetricsMayHaveAnAddressOfTheirOwn(t *testing.T) {
	keys, err := app.ParseKeys("0123456789abcdef:publish")
	require.NoError(t, err)
	var log logged
	o := newTestOptions("")
	o.Keys, o.MetricsListen = keys, "127.0.0.1:0"
	o.Log = slog.New(slog.NewTextHandler(&log, nil))
	p := start(t, o)
	found := regexp.MustCompile(`metrics=(\S+)`).FindStringSubmatch(log.String())
	require.NotNil(t, found, log.String())
	get := func(path string) (int, string) {
		res, err := http.Get("http://" + found[1] + path)
		require.NoError(t, err)
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		return res.StatusCode, string(text)
	}
	status, text := get("/metrics")
	require.Equal(t, http.StatusOK, status, "without a key")
	require.Contains(t, text, "hookladder_permits 64")
	status, _ = get("/v1/stats")
	require.Equal(t, http.StatusNotFound, status, "nothing else is there")
	require.NoError(t, p.end())

	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	o.MetricsListen = taken.Addr().String()
	require.ErrorContains(t, app.Run(t.Context(), o), "serve metrics: ")
}

func TestItTellsWhatItRunsOn(t *testing.T) {
	var log logged
	o := newTestOptions(redistest.Start(t, "appendfsync always").URL())
	o.Partitions, o.Durability = 3, dispatcher.Durability{Fsync: true}
	o.Log = slog.New(slog.NewTextHandler(&log, nil))
	require.NoError(t, start(t, o).end())
	require.Regexp(t, `msg=started .*partitions=3 .*mode=single durability=fsync loses=nothing`, log.String())
}

func TestItRunsAServerOfItsOwn(t *testing.T) {
	r := newTestReceiver(t)
	o := newTestOptions("")
	o.InMemory, o.DataDir = false, filepath.Join(t.TempDir(), "data")
	first := start(t, o)
	r.answer <- struct{}{}
	_, err := first.client().Publish(t.Context(), message("one", r.URL))
	require.NoError(t, err)
	require.Equal(t, "one", r.await(t))
	require.ErrorContains(t, app.Run(t.Context(), o), "DATA_DIR: "+o.DataDir+" is in use by another process")
	require.NoError(t, first.end())

	second := start(t, o)
	record, err := second.client().Message(t.Context(), "one")
	require.NoError(t, err)
	require.Equal(t, "delivered", record.Deliveries[0].Status)
	require.NoError(t, second.end())

	o.RedisURL = "redis://127.0.0.1:1"
	require.ErrorContains(t, app.Run(t.Context(), o), "more than one store")
}
