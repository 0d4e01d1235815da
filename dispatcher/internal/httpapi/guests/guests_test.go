package guests_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/apikey"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/guests"
)

// listener hands out what dial connects, in memory.
type listener struct {
	conns chan net.Conn
	once  sync.Once
	ended chan struct{}
}

func newListener() *listener {
	return &listener{conns: make(chan net.Conn, 16), ended: make(chan struct{})}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.ended:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error   { l.once.Do(func() { close(l.ended) }); return nil }
func (l *listener) Addr() net.Addr { return &net.TCPAddr{} }

// visitor is one connection to the API.
type visitor struct {
	net.Conn
	in *bufio.Reader
}

func (l *listener) dial() *visitor {
	ours, theirs := net.Pipe()
	l.conns <- theirs
	return &visitor{ours, bufio.NewReader(ours)}
}

// ask makes a request and reads its answer; err where the connection is closed.
func (v *visitor) ask(path, key string) (status int, err error) {
	text := "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n"
	if key != "" {
		text += "Authorization: Bearer " + key + "\r\n"
	}
	if _, err := io.WriteString(v, text+"\r\n"); err != nil {
		return 0, err
	}
	resp, err := http.ReadResponse(v.in, nil)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

// closed reports whether the API closed the connection. It waits for that.
func (v *visitor) closed() bool {
	_, err := v.in.ReadByte()
	return errors.Is(err, io.EOF)
}

const (
	readKey    = "read-key-0123456789abc"
	publishKey = "publish-key-0123456789"
	keys       = readKey + ":read," + publishKey + ":publish"
)

// quietService has nothing to tell.
type quietService struct{ httpapi.Service }

func (quietService) Stats(context.Context) (s dispatcher.Stats, err error) { return s, nil }
func (quietService) PausedLanes(context.Context) (states []dispatcher.LaneState, total int, err error) {
	return nil, 0, nil
}

// mustAPI is the API with these keys.
func mustAPI(t *testing.T, keys string) http.Handler {
	t.Helper()
	parsed, err := apikey.Parse(keys)
	require.NoError(t, err)
	h, err := httpapi.New(quietService{}, httpapi.Options{
		Keys: apikey.NewRing(parsed), Policy: dispatcher.Policy{MaxBody: 1 << 10}, Log: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	return h
}

// visit serves an API for so many connections, inside a bubble.
func visit(t *testing.T, most int, keys string, act func(l *listener, g *guests.Guests, log *bytes.Buffer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := slog.New(slog.NewTextHandler(&out, nil))
		s := guests.Server(mustAPI(t, keys), log)
		l, g := newListener(), guests.New(most, log)
		served := make(chan error, 1)
		go func() { served <- s.Serve(g.Listen(l)) }()
		act(l, g, &out)
		_ = s.Close()
		require.ErrorIs(t, <-served, http.ErrServerClosed)
		time.Sleep(time.Second) // simulated: a refusal leaves the caller half of that to read it
		require.Zero(t, g.Open())
	})
}

func TestStrangersMakeRoomForWhoComes(t *testing.T) {
	visit(t, 2, keys, func(l *listener, g *guests.Guests, log *bytes.Buffer) {
		first, second := l.dial(), l.dial()
		synctest.Wait()
		require.EqualValues(t, 2, g.Open())
		third := l.dial()
		status, err := third.ask("/v1/stats", readKey)
		require.NoError(t, err)
		require.Equal(t, 200, status)
		require.True(t, first.closed(), "the oldest goes")
		fourth := l.dial()
		status, err = fourth.ask("/v1/stats", readKey)
		require.NoError(t, err)
		require.Equal(t, 200, status)
		require.True(t, second.closed())
		full, strangers, failed := g.Refused()
		require.Equal(t, [3]int64{0, 2, 0}, [3]int64{full, strangers, failed})
		require.Equal(t, 1, strings.Count(log.String(), "all connections are taken"), "told once a minute")
	})
}

func TestCallersWithAKeyAreNeverPushedOut(t *testing.T) {
	visit(t, 2, keys, func(l *listener, g *guests.Guests, log *bytes.Buffer) {
		callers := []*visitor{l.dial(), l.dial()}
		for range 2 {
			for _, c := range callers {
				status, err := c.ask("/v1/stats", readKey)
				require.NoError(t, err)
				require.Equal(t, 200, status)
			}
		}
		for range 3 {
			require.True(t, l.dial().closed(), "it is closed at once")
		}
		for _, c := range callers {
			status, err := c.ask("/v1/stats", readKey)
			require.NoError(t, err)
			require.Equal(t, 200, status)
		}
		full, _, _ := g.Refused()
		require.EqualValues(t, 3, full)
		require.Contains(t, log.String(), "MAX_CONNECTIONS")
		_ = callers[0].Close()
		synctest.Wait()
		status, err := l.dial().ask("/healthz", "")
		require.NoError(t, err)
		require.Equal(t, 200, status, "a place that came free is given to others")
	})
}

func TestStrangersAreHeldShort(t *testing.T) {
	for name, tc := range map[string]struct {
		keys, path, key string
		held            time.Duration
	}{
		"nothing is asked":  {keys, "", "", 5 * time.Second},
		"without a key":     {keys, "/healthz", "", 15 * time.Second},
		"with an older key": {keys, "/healthz", "some-older-key-0123", 15 * time.Second},
		"with a key":        {keys, "/v1/stats", readKey, 2 * time.Minute},
		"no keys are set":   {"", "/v1/stats", "", 2 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			visit(t, 2, tc.keys, func(l *listener, _ *guests.Guests, _ *bytes.Buffer) {
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
	visit(t, 2, keys, func(l *listener, _ *guests.Guests, _ *bytes.Buffer) {
		v := l.dial()
		_, err := io.WriteString(v, "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+
			"Authorization: Bearer "+publishKey+"\r\nContent-Length: 1000\r\n\r\n{")
		require.NoError(t, err)
		time.Sleep(25 * time.Second) // simulated; a stranger's would have ended
		_, err = io.WriteString(v, strings.Repeat(" ", 998)+"}")
		require.NoError(t, err)
		resp, err := http.ReadResponse(v.in, nil)
		require.NoError(t, err)
		require.Equal(t, 422, resp.StatusCode)
	})
}

func TestAnUnknownKeyLosesItsConnection(t *testing.T) {
	visit(t, 2, keys, func(l *listener, _ *guests.Guests, _ *bytes.Buffer) {
		v := l.dial()
		status, err := v.ask("/v1/stats", "wrong-key-0123456789")
		require.NoError(t, err)
		require.Equal(t, 401, status)
		require.True(t, v.closed())
	})
}

func TestALargeHeaderIsRefused(t *testing.T) {
	visit(t, 2, keys, func(l *listener, _ *guests.Guests, _ *bytes.Buffer) {
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
		s := guests.Server(mustAPI(t, ""), log)
		l, g := &failing{newListener(), 100}, guests.New(2, log)
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
	s := guests.Server(http.NotFoundHandler(), nil)
	require.Equal(t, 5*time.Second, s.ReadHeaderTimeout)
	require.Positive(t, s.ReadTimeout)
	require.Positive(t, s.WriteTimeout)
	require.Positive(t, s.IdleTimeout)
	require.Positive(t, s.MaxHeaderBytes)
}
