package httpapi_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi"
)

// fakeCounter counts what it is told.
type fakeCounter struct {
	mu      sync.Mutex // guards what follows
	asked   map[string]int
	refused int
}

func (c *fakeCounter) Requested(call string, status int) {
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
	f := &fakeService{}
	h := newTestAPI(t, f, withKeys(t, publishKey+":publish:shop,"+otherKey+":admin:boss"), func(o *httpapi.Options) { o.Counter = c })
	call := func(key, method, target, body string) {
		r := newRequest(method, target, body)
		if key != "" {
			r.Header.Set("Authorization", "Bearer "+key)
		}
		serve(h, r)
	}
	call(publishKey, "POST", "/v1/messages", message(""))
	require.Zero(t, c.refused)
	call(publishKey, "POST", "/v1/messages", message(`"delay":-1`)) // one
	call(publishKey, "POST", "/v1/messages", `{`)                   // one
	call("", "POST", "/v1/messages", message(""))                   // one
	call(otherKey, "GET", "/v1/messages/m", "")
	call(publishKey, "GET", "/v1/messages/m", "")
	call(publishKey, "POST", "/v1/messages/batch", batch(message(""), message(`"delay":-1`), `7`)) // two
	require.Equal(t, 5, c.refused)
	f.publish = func([]*dispatcher.Message) ([]dispatcher.Published, error) {
		return []dispatcher.Published{{Result: dispatcher.Conflict}}, nil
	}
	call(publishKey, "POST", "/v1/messages", message(""))
	require.Equal(t, 5, c.refused, "the engine counts what it saw")
	f.panics = "oops"
	call(otherKey, "GET", "/v1/stats", "")
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
		h := newTestAPI(t, &fakeService{}, withKeys(t, publishKey+":publish:shop,"+otherKey+":read:boss"), func(o *httpapi.Options) {
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
			r := newRequest("POST", "/v1/messages", body)
			r.RemoteAddr = address
			if key != "" {
				r.Header.Set("Authorization", "Bearer "+key)
			}
			serve(h, r)
		}
		for range 5 {
			call(publishKey, "192.0.2.1:1", message(`"delay":"hunter2"`))
		}
		said(1, "level=INFO", `msg="call refused"`, "call=publish", "status=422", "key=shop", "field=$.delay", "missed=0")
		time.Sleep(time.Minute)
		call(publishKey, "192.0.2.1:1", message(`"url":7`))
		said(1, "missed=4")
		call(otherKey, "192.0.2.1:1", message(""))
		said(1, "status=403", "key=boss", "scope publish")
		for n := range 1000 {
			call("a-stranger-hunter2", fmt.Sprintf("192.0.%d.%d:1", n/250, n%250), message(""))
		}
		require.LessOrEqual(t, strings.Count(log.String(), "\n"), 65, "as many strangers as there are tell no more")
		require.Contains(t, log.String(), "address=192.0.0.7")
		log.Reset()
		call(publishKey, "192.0.2.1:1", message(""))
		call(otherKey, "192.0.2.1:1", "")
		r := newRequest("GET", "/v1/deliveries?color=red", "")
		r.Header.Set("Authorization", "Bearer "+otherKey)
		require.Equal(t, 422, serve(h, r).Code)
		said(0)
	})
}

func TestAtDebugARefusedCallSaysSo(t *testing.T) {
	var log bytes.Buffer
	h := newTestAPI(t, &fakeService{}, withLog(&log))
	require.Equal(t, 422, get(h, "/v1/deliveries?color=red").Code)
	require.Contains(t, log.String(), `msg="request refused" call=list-deliveries status=422 problem=invalid key=local field=query.color`)
}
