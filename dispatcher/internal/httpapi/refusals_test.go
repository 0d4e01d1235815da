package httpapi_test

import (
	"bytes"
	"fmt"
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

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/callers"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi"
)

// fakeCounter counts what it is told.
type fakeCounter struct {
	mu      sync.Mutex // guards what follows
	asked   map[string]int
	refused int
}

func (c *fakeCounter) Requested(call string, status int, _ time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked == nil {
		c.asked = map[string]int{}
	}
	c.asked[fmt.Sprint(call, " ", status)]++
}

func (c *fakeCounter) Refused(messages int) { c.refused += messages }

func TestEveryCallIsCountedByNameAndStatus(t *testing.T) {
	c := &fakeCounter{}
	f := &Fake{}
	h := newTestAPI(t, f, WithKeys(t, PublishKey+":publish:shop,"+OtherKey+":admin:boss"), func(o *httpapi.Options) { o.Counter = c })
	call := func(key, method, target, body string) {
		r := newTestRequest(method, target, body)
		if key != "" {
			r.Header.Set("Authorization", "Bearer "+key)
		}
		Serve(h, r)
	}
	call(PublishKey, "POST", "/v1/messages", Message(""))
	require.Zero(t, c.refused)
	call(PublishKey, "POST", "/v1/messages", Message(`"delay":-1`)) // one
	call(PublishKey, "POST", "/v1/messages", `{`)                   // one
	call("", "POST", "/v1/messages", Message(""))                   // one
	call(OtherKey, "GET", "/v1/messages/m", "")
	call(PublishKey, "GET", "/v1/messages/m", "")
	call(PublishKey, "POST", "/v1/messages/batch", Batch(Message(""), Message(`"delay":-1`), `7`)) // two
	require.Equal(t, 5, c.refused)
	f.OnPublish = func([]*dispatcher.Message) ([]dispatcher.Published, error) {
		return []dispatcher.Published{{Result: dispatcher.Conflict}}, nil
	}
	call(PublishKey, "POST", "/v1/messages", Message(""))
	require.Equal(t, 5, c.refused, "the engine counts what it saw")
	f.Panics = "oops"
	call(OtherKey, "GET", "/v1/stats", "")
	call("", "GET", "/healthz", "")
	call("", "GET", "/openapi.json", "")
	call("", "GET", "/nothing", "")
	call("", "PUT", "/v1/messages", "")
	require.Equal(t, map[string]int{
		"publish 202": 1, "publish 422": 1, "publish 400": 1, "publish 401": 1, "publish 409": 1, "publish-batch 202": 1,
		"get-message 200": 1, "get-message 403": 1, "stats 500": 1, "healthz 200": 1, "openapi 200": 1, "other 404": 1, "other 405": 1,
	}, c.asked)
	calls := httpapi.Calls()
	for asked := range c.asked {
		name, _, _ := strings.Cut(asked, " ")
		require.Contains(t, calls, name)
	}
	require.Subset(t, calls["publish"], []int{200, 202, 400, 401, 403, 409, 413, 415, 422, 429, 500, 503})
}

func TestARefusedCallerIsLoggedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		h := newTestAPI(t, &Fake{}, WithKeys(t, PublishKey+":publish:shop,"+OtherKey+":read:boss"), func(o *httpapi.Options) {
			o.Log = slog.New(slog.NewTextHandler(&log, nil))
		})
		said := func(n int, words ...string) {
			t.Helper()
			require.Equal(t, n, strings.Count(log.String(), "\n"), log.String())
			for _, word := range words {
				require.Contains(t, log.String(), word)
			}
			require.NotContains(t, log.String(), "hunter2")
			log.Reset()
		}
		call := func(key, address, body string) {
			r := newTestRequest("POST", "/v1/messages", body)
			r.RemoteAddr = address
			if key != "" {
				r.Header.Set("Authorization", "Bearer "+key)
			}
			Serve(h, r)
		}
		for range 5 {
			call(PublishKey, "192.0.2.1:1", Message(`"delay":"hunter2"`))
		}
		said(1, "level=INFO", `msg="call refused"`, "call=publish", "status=422", "key=shop", "field=$.delay", "missed=0")
		time.Sleep(time.Minute)
		call(PublishKey, "192.0.2.1:1", Message(`"url":7`))
		said(1, "missed=4")
		call(OtherKey, "192.0.2.1:1", Message(""))
		said(1, "status=403", "key=boss", "scope publish")
		for n := range 1000 {
			call("a-stranger-hunter2", fmt.Sprintf("192.0.%d.%d:1", n/250, n%250), Message(""))
		}
		require.LessOrEqual(t, strings.Count(log.String(), "\n"), 65, "as many strangers as there are tell no more")
		require.Contains(t, log.String(), "address=192.0.0.7")
		log.Reset()
		call(PublishKey, "192.0.2.1:1", Message(""))
		call(OtherKey, "192.0.2.1:1", "")
		r := newTestRequest("GET", "/v1/deliveries?color=red", "")
		r.Header.Set("Authorization", "Bearer "+OtherKey)
		require.Equal(t, 422, Serve(h, r).Code)
		said(0)
	})
}

// Behind a proxy, the log names the caller and not the proxy, at a rate of its own.
func TestTheLogNamesTheCallerBehindAProxy(t *testing.T) {
	var log bytes.Buffer
	h := newTestAPI(t, &Fake{}, WithKeys(t, PublishKey+":publish:shop"), func(o *httpapi.Options) {
		o.Log = slog.New(slog.NewTextHandler(&log, nil))
	})
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := callers.Server(h, slog.New(slog.DiscardHandler))
	served := make(chan error, 1)
	go func() {
		served <- s.Serve(callers.New(8, callers.Proxies{netip.MustParsePrefix("127.0.0.0/8")}, slog.New(slog.DiscardHandler)).Listen(ln))
	}()
	for _, address := range []string{"203.0.113.50", "203.0.113.51", "203.0.113.51"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+ln.Addr().String()+"/v1/stats", nil)
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer a-stranger-hunter2")
		r.Header.Set("X-Forwarded-For", address)
		resp, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusUnauthorized, resp.StatusCode)
	}
	require.NoError(t, s.Close())
	<-served
	require.Equal(t, 1, strings.Count(log.String(), "address=203.0.113.50"), log.String())
	require.Equal(t, 1, strings.Count(log.String(), "address=203.0.113.51"), log.String())
	require.NotContains(t, log.String(), "127.0.0.1")
}

func TestAtDebugARefusedCallSaysSo(t *testing.T) {
	var log bytes.Buffer
	h := newTestAPI(t, &Fake{}, WithLog(&log))
	require.Equal(t, 422, Get(h, "/v1/deliveries?color=red").Code)
	require.Contains(t, log.String(), `msg="request refused" call=list-deliveries status=422 problem=invalid key=local field=query.color`)
}
