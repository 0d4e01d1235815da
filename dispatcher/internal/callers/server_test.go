package callers_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/internal/callers"
)

func TestStrangersAreHeldShort(t *testing.T) {
	for name, tc := range map[string]struct {
		keyless   bool
		path, key string
		held      time.Duration
	}{
		"nothing is asked":  {false, "", "", 5 * time.Second},
		"without a key":     {false, "/healthz", "", 15 * time.Second},
		"with an older key": {false, "/healthz", "some-older-key-0123", 15 * time.Second},
		"with a key":        {false, "/v1/stats", readKey, 2 * time.Minute},
		"no keys are set":   {true, "/v1/stats", "", 2 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			visitBehind(t, 2, nil, tc.keyless, func(l *listener, _ *callers.Guests, _ *bytes.Buffer) {
				v := l.dial()
				if tc.path != "" {
					status, err := v.ask(tc.path, tc.key)
					require.NoError(t, err)
					require.Equal(t, 200, status)
				}
				began := time.Now()
				require.True(t, v.closed())
				require.Equal(t, tc.held, time.Since(began))
			})
		})
	}
}

func TestABodyThatComesWithAKeyHasTheTimeItNeeds(t *testing.T) {
	visit(t, 2, func(l *listener, _ *callers.Guests, _ *bytes.Buffer) {
		v := l.dial()
		_, err := io.WriteString(v, "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+
			"Authorization: Bearer "+publishKey+"\r\nContent-Length: 1000\r\n\r\n{")
		require.NoError(t, err)
		time.Sleep(25 * time.Second) // simulated; a stranger's would have ended
		_, err = io.WriteString(v, strings.Repeat(" ", 998)+"}")
		require.NoError(t, err)
		resp, err := http.ReadResponse(v.in, nil)
		require.NoError(t, err)
		require.Equal(t, 202, resp.StatusCode)
	})
}

func TestALargeHeaderIsRefused(t *testing.T) {
	visit(t, 2, func(l *listener, _ *callers.Guests, _ *bytes.Buffer) {
		v := l.dial()
		go func() {
			_, _ = io.WriteString(v, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Long: "+strings.Repeat("x", 16<<10)+"\r\n\r\n")
		}()
		resp, err := http.ReadResponse(v.in, nil)
		require.NoError(t, err)
		require.Equal(t, 431, resp.StatusCode)
	})
}

// failing fails to accept some times.
type failing struct {
	*listener
	times int
}

type temporary struct{ error }

func (temporary) Temporary() bool { return true }
func (temporary) Timeout() bool   { return false }

func (l *failing) Accept() (net.Conn, error) {
	if l.times--; l.times >= 0 {
		return nil, temporary{errors.New("accept: too many open files")}
	}
	return l.listener.Accept()
}

func TestWhatTheServerComplainsOfIsLoggedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := slog.New(slog.NewTextHandler(&out, nil))
		s := callers.Server(api(true), log)
		l, g := &failing{newListener(), 100}, callers.New(2, nil, log)
		served := make(chan error, 1)
		go func() { served <- s.Serve(g.Listen(l)) }()
		status, err := l.dial().ask("/healthz", "")
		require.NoError(t, err)
		require.Equal(t, 200, status)
		_ = s.Close()
		<-served
		_, _, failed := g.Refused()
		require.EqualValues(t, 100, failed)
		require.Equal(t, 2, strings.Count(out.String(), "too many open files"), "%s", out.String())
		require.Contains(t, out.String(), "missed=6")
	})
}

func TestTheServerDoesNotWaitForSlowCallers(t *testing.T) {
	s := callers.Server(http.NotFoundHandler(), nil)
	require.Equal(t, 5*time.Second, s.ReadHeaderTimeout)
	require.Positive(t, s.ReadTimeout)
	require.Positive(t, s.WriteTimeout)
	require.Positive(t, s.IdleTimeout)
	require.Positive(t, s.MaxHeaderBytes)
}
