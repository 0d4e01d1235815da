package app_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// mustGet makes a request on a connection that stays as it is.
func mustGet(t testing.TB, conn net.Conn, path string) (status int, closes bool) {
	t.Helper()
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	_, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, conn.RemoteAddr())
	require.NoError(t, err)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	return res.StatusCode, res.Close
}

func mustDial(t testing.TB, url string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// leaving starts a process whose stop is announced until skip is called.
func leaving(t testing.TB) (p *process, figures string, skip func(), log *logged) {
	t.Helper()
	log = new(logged)
	skipped := make(chan struct{})
	o := newTestOptions(redistest.Start(t).URL())
	o.MetricsListen, o.Delay, o.SkipDelay = "127.0.0.1:0", time.Hour, skipped
	o.Log = slog.New(slog.NewTextHandler(log, nil))
	p = start(t, o)
	found := regexp.MustCompile(`metrics=(\S+)`).FindStringSubmatch(log.String())
	require.NotNil(t, found, log.String())
	return p, "http://" + found[1], func() { close(skipped) }, log
}

func untilItLeaves(t testing.TB, p *process) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, err := p.client().Ready(t.Context())
		return err != nil
	}, patience, 10*time.Millisecond, "it says that it is ready")
}

func TestWhileAStopIsAnnouncedEverythingElseContinues(t *testing.T) {
	r := newTestReceiver(t)
	r.answer <- struct{}{}
	p, figures, skip, log := leaving(t)
	idle := mustDial(t, p.api)
	status, closes := mustGet(t, idle, "/readyz")
	require.Equal(t, http.StatusOK, status)
	require.False(t, closes)

	p.stop()
	untilItLeaves(t, p)
	for _, address := range []string{p.api, figures} {
		status, closes = mustGet(t, mustDial(t, address), "/readyz")
		require.Equal(t, http.StatusServiceUnavailable, status, address)
		require.True(t, closes, address)
		status, _ = mustGet(t, mustDial(t, address), "/healthz")
		require.Equal(t, http.StatusOK, status, "it lives")
	}
	for _, path := range []string{"/", "/console/", "/v1/stats", "/no/such/path"} {
		_, closes = mustGet(t, mustDial(t, p.api), path)
		require.True(t, closes, path)
	}
	_, err := p.client().Publish(t.Context(), message("late", r.URL))
	require.NoError(t, err)
	require.Equal(t, "late", r.await(t), "it still attempts")
	require.Eventually(t, func() bool {
		m, err := p.client().Message(t.Context(), "late")
		return err == nil && m.Deliveries[0].Status == "delivered"
	}, patience, 10*time.Millisecond)
	status, closes = mustGet(t, idle, "/healthz")
	require.Equal(t, http.StatusOK, status, "a request on an idle connection is not lost")
	require.True(t, closes)

	skip()
	require.NoError(t, p.ended())
	require.Contains(t, log.String(), "msg=stopping delay_s=3600 grace_s=60")
}

func TestAtTheBeginningOfTheDelayStreamsAndTakesEnd(t *testing.T) {
	p, _, skip, _ := leaving(t)
	_, err := p.client().Publish(t.Context(), &wire.Message{ID: "first", Topic: "a", Queue: "orders", Body: json.RawMessage(`1`)})
	require.NoError(t, err)
	take := func() ([]wire.TakenDelivery, error) {
		return p.client().Take(t.Context(), "orders", wire.Take{Max: 1, Wait: wire.Duration(30 * time.Second), Lease: wire.Duration(time.Minute)})
	}
	require.Eventually(t, func() bool { // it leases nothing before its first heartbeat
		taken, err := take()
		return err == nil && len(taken) == 1
	}, patience, 10*time.Millisecond)

	begun, waited, ended := make(chan struct{}, 1), make(chan int, 1), make(chan string, 1)
	go func() {
		var last string
		_ = p.client().Follow(t.Context(), client.AttemptFilter{}, "", func(e client.Event) error {
			if e.End != nil {
				last = e.End.Reason
			}
			select {
			case begun <- struct{}{}:
			default:
			}
			return nil
		})
		ended <- last
	}()
	go func() {
		got, err := take()
		if err != nil {
			got = make([]wire.TakenDelivery, 9)
		}
		waited <- len(got)
	}()
	<-begun
	p.stop()
	require.Equal(t, "stopping", <-ended)
	require.Zero(t, <-waited)
	_, err = p.client().Publish(t.Context(), &wire.Message{ID: "second", Topic: "a", Queue: "orders", Body: json.RawMessage(`1`)})
	require.NoError(t, err)
	taken, err := take()
	require.NoError(t, err)
	require.Len(t, taken, 1, "what is there is still given out")
	skip()
	require.NoError(t, p.ended())
}

func TestTheDelayEndsByItself(t *testing.T) {
	o := newTestOptions(redistest.Start(t).URL())
	o.Delay = 50 * time.Millisecond
	require.NoError(t, start(t, o).end())
}

func TestADispatcherStopsWithoutADelay(t *testing.T) {
	o := newTestOptions(redistest.Start(t).URL())
	o.Listen, o.MetricsListen, o.Delay = "", "127.0.0.1:0", time.Hour
	require.NoError(t, start(t, o).end())
}
