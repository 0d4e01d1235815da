package callers_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/internal/callers"
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

func (l *listener) dial() *visitor { return l.dialFrom("192.0.2.1") }

// dialFrom connects from an address.
func (l *listener) dialFrom(address string) *visitor {
	ours, theirs := net.Pipe()
	l.conns <- addressed{theirs, &net.TCPAddr{IP: net.ParseIP(address), Port: 1}}
	return &visitor{ours, bufio.NewReader(ours)}
}

// addressed is a connection that comes from an address.
type addressed struct {
	net.Conn
	from net.Addr
}

func (a addressed) RemoteAddr() net.Addr { return a.from }

// ask makes a request and reads its answer; err where the connection is closed.
func (v *visitor) ask(path, key string, more ...string) (status int, err error) {
	text := "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n" + strings.Join(more, "")
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
)

// api is a small API. The keys that are known each have one call.
func api(keyless bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		who, known := callers.Key(key), key == readKey || key == publishKey
		if keyless {
			who, known = callers.Key("local"), true
		}
		if !known {
			who = callers.Address(callers.AddressOf(r))
		}
		if err := callers.Identify(w, r, who); err != nil {
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		switch {
		case r.URL.Path == "/healthz":
		case r.URL.Path == "/form":
			_, _ = io.Copy(io.Discard, r.Body)
		case r.URL.Path == "/long":
			_, _ = w.Write(make([]byte, 1<<20))
		case r.URL.Path == "/closed":
			w.WriteHeader(http.StatusForbidden)
		case !known:
			w.WriteHeader(http.StatusUnauthorized)
		case r.Method == http.MethodPost:
			if _, err := io.Copy(io.Discard, r.Body); err == nil {
				w.WriteHeader(http.StatusAccepted)
			}
		case key == publishKey:
			w.WriteHeader(http.StatusForbidden)
		}
	})
}

// visit serves an API for so many connections, inside a bubble.
func visit(t *testing.T, most int, act func(l *listener, g *callers.Guests, log *bytes.Buffer)) {
	t.Helper()
	visitBehind(t, most, nil, false, act)
}

// visitBehind is visit with proxies that are trusted.
func visitBehind(t *testing.T, most int, proxies callers.Proxies, keyless bool, act func(l *listener, g *callers.Guests, log *bytes.Buffer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := slog.New(slog.NewTextHandler(&out, nil))
		s := callers.Server(api(keyless), log)
		l, g := newListener(), callers.New(most, proxies, log)
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
	visit(t, 2, func(l *listener, g *callers.Guests, log *bytes.Buffer) {
		first := l.dial()
		time.Sleep(time.Millisecond) // simulated
		second := l.dial()
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

func (v *visitor) mustAsk(t *testing.T, want int, path, key string, more ...string) {
	t.Helper()
	status, err := v.ask(path, key, more...)
	require.NoError(t, err)
	require.Equal(t, want, status)
}

// begin sends the head of a publish and a part of its body, so that its request is under way.
func (v *visitor) begin(t *testing.T, key string) { v.beginAt(t, "/v1/messages", key) }

// beginAt is begin at another path.
func (v *visitor) beginAt(t *testing.T, path, key string) {
	t.Helper()
	_, err := io.WriteString(v, "POST "+path+" HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+
		"Authorization: Bearer "+key+"\r\nContent-Length: 1000\r\n\r\n{")
	require.NoError(t, err)
	synctest.Wait()
}

// A response that needs no body does not wait for one that never comes.
func TestAResponseEndsTheConnectionIfTheBodyWasNotRead(t *testing.T) {
	for name, tc := range map[string]struct {
		path, key string
		want      int
	}{
		"without a key":             {"/v1/messages", "", 401},
		"a key that may not":        {"/closed", readKey, 403},
		"a call that needs no body": {"/healthz", "", 200},
		"a long response":           {"/long", readKey, 200},
	} {
		for framing, head := range map[string]string{"counted": "Content-Length: 200000", "chunked": "Transfer-Encoding: chunked", "waits for 100": "Content-Length: 200000\r\nExpect: 100-continue"} {
			t.Run(name+", "+framing, func(t *testing.T) {
				visit(t, 2, func(l *listener, g *callers.Guests, _ *bytes.Buffer) {
					v, began := l.dial(), time.Now()
					_, err := io.WriteString(v, "POST "+tc.path+" HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+tc.key+"\r\n"+head+"\r\n\r\n")
					require.NoError(t, err)
					resp, err := http.ReadResponse(v.in, nil)
					require.NoError(t, err)
					require.Equal(t, tc.want, resp.StatusCode)
					_, err = io.Copy(io.Discard, resp.Body)
					require.NoError(t, err)
					require.True(t, resp.Close)
					require.Zero(t, time.Since(began))
					require.True(t, v.closed())
					require.LessOrEqual(t, time.Since(began), time.Second)
				})
			})
		}
	}
}

// A connection whose body was read goes on.
func TestAConnectionGoesOnAfterABodyThatWasRead(t *testing.T) {
	visit(t, 2, func(l *listener, _ *callers.Guests, _ *bytes.Buffer) {
		v := l.dial()
		for _, body := range []string{"Content-Length: 2\r\n\r\n{}", "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", "Content-Length: 0\r\n\r\n"} {
			_, err := io.WriteString(v, "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+publishKey+"\r\n"+body)
			require.NoError(t, err)
			resp, err := http.ReadResponse(v.in, nil)
			require.NoError(t, err)
			require.Equal(t, 202, resp.StatusCode)
			require.False(t, resp.Close)
		}
	})
}

func TestAKeyEvictsARequestOfAStrangerAfterASecond(t *testing.T) {
	visit(t, 4, func(l *listener, _ *callers.Guests, _ *bytes.Buffer) {
		first := l.dial()
		first.beginAt(t, "/form", "")
		time.Sleep(time.Millisecond) // simulated
		second := l.dial()
		second.beginAt(t, "/form", "")
		for range 2 {
			l.dial().begin(t, publishKey)
		}
		early := l.dial()
		early.mustAsk(t, 200, "/v1/stats", readKey)
		require.True(t, early.closed(), "it got no place")
		time.Sleep(time.Second) // simulated
		late := l.dial()
		late.mustAsk(t, 200, "/v1/stats", readKey)
		require.True(t, first.closed())
		late.mustAsk(t, 200, "/v1/stats", readKey)
		_, err := io.WriteString(second, strings.Repeat(" ", 999))
		require.NoError(t, err)
		resp, err := http.ReadResponse(second.in, nil)
		require.NoError(t, err)
		require.Equal(t, 200, resp.StatusCode, "one was enough")
	})
}

func TestStrangersHaveRequestsOnAtMostHalfOfThePlaces(t *testing.T) {
	for name, key := range map[string]string{"for a key": readKey, "for another stranger": ""} {
		t.Run(name, func(t *testing.T) {
			visit(t, 4, func(l *listener, g *callers.Guests, _ *bytes.Buffer) {
				var held []*visitor
				for i := range 4 {
					v := l.dialFrom(fmt.Sprintf("192.0.2.%d", 1+i/2))
					v.beginAt(t, "/form", "")
					held = append(held, v)
				}
				time.Sleep(200 * time.Millisecond) // simulated: less than the second of a request
				for range 2 {
					v := l.dialFrom("192.0.2.7")
					v.begin(t, publishKey)
				}
				require.True(t, held[0].closed(), "the oldest goes")
				_, evicted, _ := g.Refused()
				require.EqualValues(t, 2, evicted)
				l.dialFrom("192.0.2.8").mustAsk(t, 200, "/healthz", key)
				_, evicted, _ = g.Refused()
				require.EqualValues(t, 2, evicted, "the rest is their half")
			})
		})
	}
}

func TestAStrangerThatReadsNoResponseHasTenSeconds(t *testing.T) {
	for key, most := range map[string]time.Duration{"": 10 * time.Second, readKey: time.Minute} {
		visit(t, 2, func(l *listener, g *callers.Guests, _ *bytes.Buffer) {
			_, err := io.WriteString(l.dial(), "GET /long HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+key+"\r\n\r\n")
			require.NoError(t, err)
			time.Sleep(most - time.Millisecond) // simulated
			require.EqualValues(t, 1, g.Open())
			time.Sleep(2 * time.Millisecond)
			require.Zero(t, g.Open())
		})
	}
}

func TestStrangersNeverPushOutAKey(t *testing.T) {
	visit(t, 2, func(l *listener, g *callers.Guests, log *bytes.Buffer) {
		known := []*visitor{l.dial(), l.dial()}
		for _, v := range known {
			v.mustAsk(t, 200, "/v1/stats", readKey)
		}
		synctest.Wait()
		for i := range 40 {
			v := l.dialFrom(fmt.Sprintf("192.0.2.%d", 10+i))
			v.mustAsk(t, 200, "/healthz", "")
			require.True(t, v.closed(), "it is served beside the places, once")
		}
		for _, v := range known {
			v.mustAsk(t, 200, "/v1/stats", readKey)
		}
		require.EqualValues(t, 2, g.Open())
		require.Zero(t, log.Len(), "nothing was refused")
	})
}

func TestTheOldestStrangerBesideThePlacesMakesRoom(t *testing.T) {
	visit(t, 1, func(l *listener, g *callers.Guests, log *bytes.Buffer) {
		known := l.dial()
		known.mustAsk(t, 200, "/v1/stats", readKey)
		synctest.Wait()
		var silent []*visitor
		for range callers.Overflow {
			silent = append(silent, l.dial())
			synctest.Wait()
		}
		l.dialFrom("192.0.2.9").mustAsk(t, 200, "/healthz", "")
		require.True(t, silent[0].closed())
		_, evicted, _ := g.Refused()
		require.EqualValues(t, 1, evicted)
		require.Contains(t, log.String(), "MAX_CONNECTIONS")
		began := time.Now()
		for _, v := range silent[1:] {
			require.True(t, v.closed())
		}
		require.Equal(t, 2*time.Second, time.Since(began), "they have that for a request")
		known.mustAsk(t, 200, "/v1/stats", readKey)
	})
}

// What connects last is read last on a busy machine: those that came before it don't take its slot meanwhile.
func TestARequestWithoutAKeyEvictsNobodyWhenItArrives(t *testing.T) {
	visit(t, 1, func(l *listener, _ *callers.Guests, _ *bytes.Buffer) {
		busy := l.dial()
		busy.beginAt(t, "/form", "")
		early := l.dial() // it gets no slot
		synctest.Wait()
		require.NoError(t, busy.Close())
		synctest.Wait()
		late := l.dial()
		synctest.Wait()
		early.mustAsk(t, 200, "/healthz", "")
		require.True(t, early.closed(), "it is served beside the places, once")
		late.mustAsk(t, 200, "/healthz", "")
		late.mustAsk(t, 200, "/healthz", "")
	})
}

func TestTheAddressWithTheMostConnectionsBesideThePlacesMakesRoom(t *testing.T) {
	visit(t, 1, func(l *listener, _ *callers.Guests, _ *bytes.Buffer) {
		known := l.dial()
		known.mustAsk(t, 200, "/v1/stats", readKey)
		synctest.Wait()
		slow := l.dialFrom("192.0.2.8") // its request takes a while to arrive
		synctest.Wait()
		for range 5 * callers.Overflow {
			l.dialFrom("192.0.2.9")
			synctest.Wait()
		}
		slow.mustAsk(t, 200, "/healthz", "")
	})
}

func TestTheAddressWithTheMostConnectionsMakesRoom(t *testing.T) {
	visit(t, 5, func(l *listener, _ *callers.Guests, _ *bytes.Buffer) {
		few := []*visitor{l.dialFrom("192.0.2.1"), l.dialFrom("192.0.2.1")}
		time.Sleep(time.Second) // simulated
		many := l.dialFrom("192.0.2.2")
		time.Sleep(time.Second)
		for range 2 {
			l.dialFrom("192.0.2.2")
		}
		synctest.Wait()
		l.dialFrom("192.0.2.3").mustAsk(t, 200, "/healthz", "")
		require.True(t, many.closed(), "though others were idle for longer")
		for _, v := range few {
			v.mustAsk(t, 200, "/healthz", "")
		}
	})
}

// Callers that are known, and find no place, leave room beside the places to others.
func TestHalfOfWhatIsBesideThePlacesIsForThoseThatAreNotKnown(t *testing.T) {
	visit(t, 2, func(l *listener, _ *callers.Guests, _ *bytes.Buffer) {
		for range 2 {
			l.dial().begin(t, publishKey)
		}
		for range callers.Overflow / 2 {
			l.dial().begin(t, readKey)
		}
		l.dial().mustAsk(t, 429, "/v1/stats", readKey)
		for range callers.Overflow {
			l.dial().mustAsk(t, 200, "/healthz", "")
		}
	})
}

// Of keys, the one with the most makes room for one with fewer, and for itself.
func TestTheKeyWithTheMostConnectionsMakesRoom(t *testing.T) {
	visit(t, 3, func(l *listener, g *callers.Guests, _ *bytes.Buffer) {
		var many []*visitor
		for range 3 {
			v := l.dial()
			v.mustAsk(t, 200, "/v1/stats", readKey)
			many = append(many, v)
			time.Sleep(time.Second) // simulated
		}
		few := l.dial()
		few.mustAsk(t, 403, "/v1/stats", publishKey)
		require.True(t, many[0].closed(), "it was idle longest")
		again := l.dial()
		again.mustAsk(t, 200, "/v1/stats", readKey)
		require.True(t, many[1].closed(), "of its own, since the other has fewer")
		few.mustAsk(t, 403, "/v1/stats", publishKey)
		again.mustAsk(t, 200, "/v1/stats", readKey)
		require.EqualValues(t, 3, g.Open())
	})
}

// The weakest key opens all connections and sends requests that do not end.
func TestAKeyThatHoldsAllConnectionsShutsNobodyOut(t *testing.T) {
	visit(t, 8, func(l *listener, g *callers.Guests, _ *bytes.Buffer) {
		var held []*visitor
		for range 8 {
			v := l.dial()
			v.begin(t, publishKey)
			held = append(held, v)
		}
		for range 40 {
			more := l.dial()
			_, _ = io.WriteString(more, "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+
				"Authorization: Bearer "+publishKey+"\r\nContent-Length: 1000\r\n\r\n")
			resp, err := http.ReadResponse(more.in, nil)
			require.NoError(t, err)
			require.Equal(t, 429, resp.StatusCode, "it has half of all and more") // and it does not hang up
		}
		other := l.dialFrom("192.0.2.7")
		other.mustAsk(t, 200, "/v1/stats", readKey)
		require.True(t, other.closed(), "no place came free")
		l.dialFrom("192.0.2.8").mustAsk(t, 200, "/healthz", "")
		_, err := io.WriteString(held[0], strings.Repeat(" ", 998)+"}")
		require.NoError(t, err)
		resp, err := http.ReadResponse(held[0].in, nil)
		require.NoError(t, err)
		require.Equal(t, 202, resp.StatusCode, "a request under way was not cut")
		_, _ = io.Copy(io.Discard, resp.Body)
		synctest.Wait()
		stays := l.dialFrom("192.0.2.7")
		stays.mustAsk(t, 200, "/v1/stats", readKey)
		stays.mustAsk(t, 200, "/v1/stats", readKey)
		require.True(t, held[0].closed(), "the idle one made room")
	})
}

// A response that nobody reads counts, too.
func TestBehindAProxyARequestCountsUntilItsConnectionIsIdle(t *testing.T) {
	proxies := callers.Proxies{netip.MustParsePrefix("10.0.0.0/8")}
	visitBehind(t, 4, proxies, false, func(l *listener, g *callers.Guests, _ *bytes.Buffer) {
		var held []*visitor
		for range 2 {
			v := l.dialFrom("10.0.0.1")
			_, err := io.WriteString(v, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: 192.0.2.7\r\n\r\n")
			require.NoError(t, err)
			held = append(held, v)
			synctest.Wait()
		}
		third := l.dialFrom("10.0.0.1")
		third.mustAsk(t, 429, "/healthz", "", "X-Forwarded-For: 192.0.2.7\r\n")
		third.mustAsk(t, 200, "/healthz", "", "X-Forwarded-For: 192.0.2.8\r\n")
		resp, err := http.ReadResponse(held[0].in, nil)
		require.NoError(t, err)
		require.Equal(t, 200, resp.StatusCode)
		synctest.Wait()
		third.mustAsk(t, 200, "/healthz", "", "X-Forwarded-For: 192.0.2.7\r\n")
	})
}

// Behind a proxy, the address is the one that it names, and a share counts requests.
func TestBehindAProxyEachCallerHasItsShare(t *testing.T) {
	proxies := callers.Proxies{netip.MustParsePrefix("10.0.0.0/8")}
	visitBehind(t, 4, proxies, false, func(l *listener, g *callers.Guests, _ *bytes.Buffer) {
		var held []*visitor
		for range 2 {
			v := l.dialFrom("10.0.0.1")
			v.begin(t, publishKey)
			held = append(held, v)
		}
		third := l.dialFrom("10.0.0.1")
		third.mustAsk(t, 429, "/v1/stats", publishKey)
		third.mustAsk(t, 200, "/v1/stats", readKey) // the same connection serves others
		third.mustAsk(t, 200, "/healthz", "", "X-Forwarded-For: 192.0.2.7\r\n")
		_, err := io.WriteString(held[0], strings.Repeat(" ", 998)+"}")
		require.NoError(t, err)
		_, err = http.ReadResponse(held[0].in, nil)
		require.NoError(t, err)
		synctest.Wait()
		third.mustAsk(t, 403, "/v1/stats", publishKey)
		third.mustAsk(t, 200, "/healthz", "")
		synctest.Wait()
		for range 20 { // no connection of the proxy is closed for others
			l.dialFrom("192.0.2.8").mustAsk(t, 200, "/healthz", "")
			l.dialFrom("192.0.2.9").mustAsk(t, 200, "/v1/stats", readKey)
			synctest.Wait()
		}
		third.mustAsk(t, 200, "/v1/stats", readKey)
	})
}
