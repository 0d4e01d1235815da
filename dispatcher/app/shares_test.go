package app_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher/app"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/internal/callers"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// The keys of those that take all they can get, and of one beside them.
const (
	tickKey     = "tick-tick-tick-tick"
	takerKey    = "taker-taker-taker-t"
	followerKey = "follow-follow-follo"
)

// crowdedOptions are those of a process with few connections.
func crowdedOptions(t testing.TB) app.Options {
	o := peoplesOptions(t, redistest.Start(t).URL())
	o.Keys = mustParseKeys(t, fmt.Sprintf("%s:admin:boss,%s:publish:shop,%s:tick:tick,%s:consume@qa:taker,%s:read:follower",
		peoplesKeys["boss"], peoplesKeys["shop"], tickKey, takerKey, followerKey))
	o.MaxConnections = 8
	return o
}

// raw is a connection to the API of which a test writes each byte.
type raw struct {
	net.Conn
	in *bufio.Reader
}

func (p *process) mustDial() *raw {
	p.t.Helper()
	var d net.Dialer
	c, err := d.DialContext(p.t.Context(), "tcp", strings.TrimPrefix(p.api, "http://"))
	require.NoError(p.t, err)
	p.t.Cleanup(func() { _ = c.Close() })
	return &raw{c, bufio.NewReader(c)}
}

// send makes a request without reading the answer.
func (r *raw) send(method, path, key, body string) error {
	_, err := fmt.Fprintf(r, "%s %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		method, path, key, len(body), body)
	return err
}

// answer reads an answer.
func (r *raw) answer() (status int, text string, err error) {
	resp, err := http.ReadResponse(r.in, nil)
	if err != nil {
		return 0, "", err
	}
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

// requireOthersServed asks as an admin, a publisher, a merchant and a stranger.
func (p *process) requireOthersServed(merchant *person) {
	p.t.Helper()
	_, err := p.boss().Stats(p.t.Context())
	require.NoError(p.t, err)
	shop, err := client.New(p.api, peoplesKeys["shop"], client.WithRepeats(client.Repeats{Tries: 1}))
	require.NoError(p.t, err)
	_, err = shop.Publish(p.t.Context(), &wire.Message{Topic: "a.b", URL: "http://127.0.0.1:1/", Body: []byte("1")})
	require.NoError(p.t, err)
	require.Equal(p.t, http.StatusOK, merchant.get("/link/").StatusCode)
	require.Equal(p.t, http.StatusOK, newPerson(p.t, p.api).get("/healthz").StatusCode)
}

func TestTheWeakestKeyShutsNobodyOutOfTheConnections(t *testing.T) {
	for name, hold := range map[string]func(r *raw) error{
		"idle": func(r *raw) error {
			if err := r.send("GET", "/v1/stats", tickKey, ""); err != nil {
				return err
			}
			_, _, err := r.answer()
			return err
		},
		"within a request": func(r *raw) error {
			_, err := fmt.Fprintf(r, "POST /v1/tick HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Length: 1000\r\n\r\n{", tickKey)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := start(t, crowdedOptions(t))
			path, _ := p.mustLink(wire.LinkRequest{Tenant: "A"})
			merchant := p.openedLink(path)
			for range 70 {
				_ = hold(p.mustDial()) // it fails where it is refused
			}
			for range 3 {
				p.requireOthersServed(merchant)
			}
			require.NoError(t, p.end())
		})
	}
}

// Strangers hold all places with requests that do not end, from the address of everybody else.
func TestStrangersThatHoldAllPlacesShutNobodyOut(t *testing.T) {
	const places = 64
	for name, request := range map[string]string{
		"bodies that never come":         "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 200000\r\n\r\n",
		"bodies that a key may not send": "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + tickKey + "\r\nContent-Length: 200000\r\n\r\n",
		"bodies of a health check":       "GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 200000\r\n\r\n",
		"keys that nobody types":         "POST /console/sign-in HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 4000\r\n\r\nkey=",
		"documents that nobody reads":    strings.Repeat("GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n", 30),
		"pages that nobody reads":        strings.Repeat("GET /docs/publish HTTP/1.1\r\nHost: localhost\r\n\r\n", 60),
	} {
		t.Run(name, func(t *testing.T) {
			o := crowdedOptions(t)
			o.MaxConnections = places
			p := start(t, o)
			path, _ := p.mustLink(wire.LinkRequest{Tenant: "A"})
			merchant := p.openedLink(path)
			for range places + callers.Overflow {
				r := p.mustDial()
				_ = r.Conn.(*net.TCPConn).SetReadBuffer(2048)
				_, _ = io.WriteString(r, request)
			}
			for range 96 {
				p.requireServed("/v1/stats", peoplesKeys["boss"])
				p.requireServed("/healthz", "")
				p.requireServed("/readyz", "")
			}
			p.requireOthersServed(merchant)
			require.NoError(t, p.end())
		})
	}
}

// requireServed asks on a new connection. On a busy machine the store may be too slow for a request
// that needs it. That is an answer too: the connection got its place.
func (p *process) requireServed(path, key string) {
	p.t.Helper()
	r := p.mustDial()
	require.NoError(p.t, r.send("GET", path, key, ""))
	status, text, err := r.answer()
	require.NoError(p.t, err)
	if path == "/healthz" || status != http.StatusServiceUnavailable {
		require.Equal(p.t, http.StatusOK, status, text)
	}
	require.NoError(p.t, r.Close())
}

// An address connects as fast as it can, and says nothing.
func TestHealthChecksAreAnsweredInAFloodOfConnections(t *testing.T) {
	o := crowdedOptions(t)
	o.MaxConnections = 256
	p := start(t, o)
	flood, end := context.WithCancel(t.Context())
	ended, full := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 66)}}
		var open [400]net.Conn
		for n := 0; flood.Err() == nil; n++ {
			one := &open[n%len(open)]
			if *one != nil {
				_ = (*one).Close()
			}
			*one, _ = from.DialContext(flood, "tcp", strings.TrimPrefix(p.api, "http://"))
			if n == len(open) {
				close(full)
			}
		}
		for _, one := range open {
			if one != nil {
				_ = one.Close()
			}
		}
	}()
	<-full
	for range 40 {
		p.requireServed("/healthz", "")
		p.requireServed("/readyz", "")
		p.requireServed("/v1/stats", peoplesKeys["boss"])
	}
	end()
	<-ended
	require.NoError(t, p.end())
}

// A consumer takes all places to wait. Others get theirs, and its oldest take returns nothing.
func TestTheOldestWaitOfTheCallerWithTheMostEnds(t *testing.T) {
	o := crowdedOptions(t)
	o.MaxConnections = 16
	p := start(t, o)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, kit.Until(ctx, "this instance may lease", func() error {
		_, err := p.boss().Take(ctx, "qa", wire.Take{})
		return err
	}))
	var takes []*raw
	for range 9 {
		r := p.mustDial()
		require.NoError(t, r.send("POST", "/v1/queues/qa/take", takerKey, `{"wait":"30s"}`))
		takes = append(takes, r)
	}
	answers := make(chan string, len(takes))
	for _, r := range takes {
		go func() {
			status, text, err := r.answer()
			answers <- fmt.Sprint(status, " ", text, err)
		}()
	}
	require.Contains(t, <-answers, "429 ", "one of nine is refused, since there are eight places")
	stream := p.mustDial()
	_, err := fmt.Fprintf(stream, "GET /v1/attempts HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nAccept: text/event-stream\r\n\r\n", followerKey)
	require.NoError(t, err)
	resp, err := http.ReadResponse(stream.in, nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Equal(t, "200 {\"data\":[]}<nil>", strings.ReplaceAll(<-answers, "\n", ""))
	_, err = p.boss().Tick(t.Context(), 0)
	require.NoError(t, err, "a third one has its own")
}

// A reader takes all places with streams. Where another caller needs one, its oldest ends.
func TestAStreamEndsForACallerThatHasFewer(t *testing.T) {
	p := start(t, crowdedOptions(t))
	var streams []*http.Response
	for range 4 {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.api+"/v1/attempts", nil)
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+followerKey)
		r.Header.Set("Accept", "text/event-stream")
		resp, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		defer resp.Body.Close() //nolint:errcheck // it was read
		require.Equal(t, http.StatusOK, resp.StatusCode)
		streams = append(streams, resp)
	}
	_, err := p.boss().Tick(t.Context(), 0)
	require.NoError(t, err)
	text, err := io.ReadAll(streams[0].Body)
	require.NoError(t, err)
	require.Contains(t, string(text), `{"reason":"busy"}`)
	require.NoError(t, p.end())
}

// A link's tests hold up no test of the operator.
func TestALinkHasTwoTestsAtATime(t *testing.T) {
	p := start(t, crowdedOptions(t))
	begun, end := make(chan struct{}, 10), make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		begun <- struct{}{}
		<-end
	}))
	t.Cleanup(slow.Close)
	id := p.mustEndpoint("A", slow.URL)
	other := p.mustEndpoint("B", newTestTaker(t))
	path, _ := p.mustLink(wire.LinkRequest{Tenant: "A", Manage: true})
	merchant := p.openedLink(path)
	done := make(chan int, 2)
	for range 2 {
		go func() { done <- merchant.post("/link/endpoints/"+id+"/test", url.Values{}).StatusCode }()
		<-begun
	}
	require.Equal(t, http.StatusTooManyRequests, merchant.post("/link/endpoints/"+id+"/test", url.Values{}).StatusCode)
	_, err := p.boss().TestEndpoint(t.Context(), other)
	require.NoError(t, err)
	close(end)
	for range 2 {
		require.Equal(t, http.StatusOK, <-done)
	}
}

// Without keys, all who reach the process are the operator. So it does not start where a
// proxy is likely.
func TestWithoutKeysThePublicURLIsThisHost(t *testing.T) {
	for host, starts := range map[string]bool{"localhost": true, "localhost:8080": true, "127.0.0.1": true, "[::1]:1": true, "hooks.example": false, "10.0.0.1": false, "localhost.example": false} {
		o := newTestOptions(redistest.Start(t).URL())
		o.Console.PublicURL = &url.URL{Scheme: "https", Host: host}
		err := o.Check()
		if starts {
			require.NoError(t, err, host)
			continue
		}
		require.ErrorContains(t, err, "set API_KEYS=hk_", host)
		o.Keys = mustParseKeys(t, peoplesKeys["boss"]+":admin")
		require.NoError(t, o.Check(), host)
	}
}
