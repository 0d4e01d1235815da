package main

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/signer"
)

const (
	// flakyFails is the number of failures of /flaky for each message: enough to see two
	// rungs of the ladder.
	flakyFails = 2
	// slowAnswer is the response time of /slow: a person notices it, and it is far below
	// any timeout.
	slowAnswer = 2 * time.Second
	// flakyKnown limits the messages that /flaky stores. After that it starts again, and
	// fails for known messages once more.
	flakyKnown = 100_000
)

// demoPaths are the paths of the receiver.
var demoPaths = []string{"/ok", "/flaky", "/fail", "/slow"}

// newDemoReceiver returns the demo receiver. It verifies webhooks as any receiver should, and
// then accepts them or fails. It reads bodies of up to maxBody bytes. The path that fails
// can be repaired on its own page.
func newDemoReceiver(secrets []signer.Secret, maxBody int64) http.Handler {
	verifier := &signer.Verifier{Secrets: secrets, MaxBody: maxBody}
	flaky, fails := &demoFlaky{failed: map[string]int{}}, &demoFailing{}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /ok", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.Handle("POST /flaky", flaky)
	mux.Handle("POST /fail", fails)
	mux.HandleFunc("POST /slow", func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-time.After(slowAnswer):
			w.WriteHeader(http.StatusNoContent)
		}
	})
	outer := http.NewServeMux()
	outer.Handle("/", verifier.Middleware(mux))
	outer.HandleFunc("GET /{$}", fails.show)
	own := http.NewCrossOriginProtection() // pages of other sites can't change it
	outer.Handle("POST /mend", own.Handler(fails.turn(true)))
	outer.Handle("POST /break", own.Handler(fails.turn(false)))
	return outer
}

// demoFlaky fails the first attempts of each message.
type demoFlaky struct {
	mu     sync.Mutex // guards failed
	failed map[string]int
}

// ServeHTTP fails twice for each message, then accepts it.
func (f *demoFlaky) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f.fails(r.Header.Get(signer.HeaderID)) {
		http.Error(w, "not yet, try again", http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (f *demoFlaky) fails(id string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.failed) >= flakyKnown {
		clear(f.failed)
	}
	if f.failed[id] >= flakyFails {
		return false
	}
	f.failed[id]++
	return true
}

// publishDemo publishes one message to each path of the receiver, and then the messages of two
// merchants, whose endpoints have this secret.
func publishDemo(ctx context.Context, api, key, receiver string, secret signer.Secret) error {
	c, err := client.New("http://"+api, key)
	if err != nil {
		return err
	}
	for _, path := range demoPaths {
		name := strings.TrimPrefix(path, "/")
		_, err := c.Publish(ctx, &wire.Message{
			ID:    "demo_" + name,
			Topic: "demo." + name,
			URL:   "http://" + receiver + path,
			Body:  json.RawMessage(`{"amount":100}`),
		})
		if err != nil {
			return err
		}
	}
	return publishMerchants(ctx, c, receiver, secret)
}
