package app_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
)

// halfRequest is a publish of which the server has read the head and waits for
// the body.
type halfRequest struct {
	t    testing.TB
	conn net.Conn
	read *bufio.Reader
	body string
}

func beginPublish(t testing.TB, p *process, id, url string) *halfRequest {
	t.Helper()
	addr := strings.TrimPrefix(p.api, "http://")
	conn, err := net.DialTimeout("tcp", addr, patience)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() }) // the server may have closed it
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	h := &halfRequest{t: t, conn: conn, read: bufio.NewReader(conn)}
	h.body = fmt.Sprintf(`{"id":%q,"topic":"a.b","url":%q,"body":1}`, id, url)
	_, err = fmt.Fprintf(conn, "POST /v1/messages HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n"+
		"Content-Length: %d\r\nExpect: 100-continue\r\n\r\n", addr, len(h.body))
	require.NoError(t, err)
	goOn, err := h.read.ReadString('\n') // it is asked for when the handler reads the body
	require.NoError(t, err)
	require.Contains(t, goOn, "100 Continue")
	_, err = h.read.ReadString('\n')
	require.NoError(t, err)
	return h
}

func (h *halfRequest) finish() int {
	h.t.Helper()
	_, err := fmt.Fprint(h.conn, h.body)
	require.NoError(h.t, err)
	resp, err := http.ReadResponse(h.read, nil)
	require.NoError(h.t, err)
	require.NoError(h.t, resp.Body.Close())
	return resp.StatusCode
}

func TestARequestThatWasBegunIsAcceptedThoughItStops(t *testing.T) {
	redis := redistest.Start(t)
	r := newTestReceiver(t)
	p := start(t, newTestOptions(redis.URL()))
	half := beginPublish(t, p, "last", r.URL)
	p.stop()
	require.Eventually(t, func() bool {
		conn, err := net.Dial("tcp", strings.TrimPrefix(p.api, "http://"))
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	}, patience, 10*time.Millisecond, "it goes on taking connections")

	require.Equal(t, http.StatusAccepted, half.finish())
	r.answer <- struct{}{}
	require.NoError(t, p.ended())

	again := start(t, newTestOptions(redis.URL()))
	require.Equal(t, "last", r.await(t), "what was acknowledged is delivered, by whoever comes next")
	require.NoError(t, again.end())
}
