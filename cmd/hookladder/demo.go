package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
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

// demoEndpoint is an endpoint of a merchant, at a path of the receiver.
type demoEndpoint struct {
	uid, tenant, path, description string
	topics                         []string
}

var demoEndpoints = []demoEndpoint{
	{"demo-acorn-orders", "acorn-books", "/ok", "Order system", []string{"payment.*", "refund.*"}},
	{"demo-acorn-books", "acorn-books", "/fail", "Bookkeeping", []string{"payment.*"}},
	{"demo-birch-till", "birch-coffee", "/flaky", "Till", []string{"payment.*"}},
}

// demoNotifications are published one after the other, every few seconds, so a person can
// watch them.
var demoNotifications = []struct {
	tenant, topic, subject string
	amount                 int
}{
	{"acorn-books", "payment.paid", "order-1001", 2490},
	{"birch-coffee", "payment.paid", "order-2001", 380},
	{"acorn-books", "payment.paid", "order-1002", 1250},
	{"birch-coffee", "payment.paid", "order-2002", 720},
	{"acorn-books", "refund.created", "order-1001", 2490},
	{"birch-coffee", "payment.paid", "order-2003", 460},
	{"acorn-books", "payment.paid", "order-1003", 6900},
}

// notifyEvery is the time between two notifications.
const notifyEvery = 4 * time.Second

// publishMerchants creates the endpoints of two merchants, and publishes to them. If the key is not
// allowed to create endpoints, it does nothing.
func publishMerchants(ctx context.Context, c *client.Client, receiver string, secret signer.Secret) error {
	for _, e := range demoEndpoints {
		err := registerDemo(ctx, c, e, receiver, secret)
		if errors.Is(err, client.ErrDenied) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	for i, n := range demoNotifications {
		body, err := json.Marshal(map[string]any{"order": n.subject, "amount": n.amount, "currency": "EUR"})
		if err != nil {
			return err
		}
		_, err = c.Publish(ctx, &wire.Message{
			ID:     fmt.Sprintf("%s_%s_%d", n.tenant, n.subject, i+1),
			Tenant: n.tenant, Topic: n.topic, Subject: n.subject, Body: body, Delay: wire.Duration(time.Duration(i) * notifyEvery),
		})
		if err != nil && !errors.Is(err, client.ErrConflict) { // a message of an earlier run, in DATA_DIR
			return err
		}
	}
	return nil
}

// registerDemo creates an endpoint. If it exists from an earlier run, it gets the new secret.
func registerDemo(ctx context.Context, c *client.Client, e demoEndpoint, receiver string, secret signer.Secret) error {
	_, _, err := c.CreateEndpoint(ctx, &wire.Endpoint{
		UID: e.uid, Tenant: e.tenant, Topics: e.topics, Description: e.description, URL: "http://" + receiver + e.path, Secret: secret.Reveal(),
	})
	if !errors.Is(err, client.ErrConflict) {
		return err
	}
	_, err = c.RotateSecret(ctx, e.uid, wire.Rotation{Secret: secret.Reveal(), Overlap: new(wire.Duration)})
	if errors.Is(err, client.ErrInvalid) { // it has this secret already
		return nil
	}
	return err
}

// demoFailing is a path that fails until a person repairs it.
type demoFailing struct{ mended atomic.Bool }

// ServeHTTP receives a message.
func (f *demoFailing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f.mended.Load() {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	http.Error(w, "this path fails until you mend it: open http://"+r.Host+"/ and press Mend", http.StatusInternalServerError)
}

// show serves a page with the switch.
func (f *demoFailing) show(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = switchPage.Execute(w, f.mended.Load())
}

// turn serves the button of that page.
func (f *demoFailing) turn(to bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		f.mended.Store(to)
		http.Redirect(w, r, "/", http.StatusSeeOther)
	}
}

var switchPage = template.Must(template.New("switch").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
<title>Demo receiver</title>
<style>body{font:16px/24px system-ui,sans-serif;max-width:34rem;margin:12vh auto;padding:0 16px}button{font:inherit;padding:6px 16px}</style></head>
<body><h1>Demo receiver</h1>
<p><code>/ok</code> takes everything, <code>/flaky</code> fails twice for each message, <code>/slow</code> answers after two seconds.</p>
{{if .}}<p><code>/fail</code> is <strong>mended</strong>: it takes everything. What died there is delivered when you send it again.</p>
<form method="post" action="/break"><button>Break it again</button></form>
{{else}}<p><code>/fail</code> <strong>fails</strong>.</p>
<form method="post" action="/mend"><button>Mend it</button></form>{{end}}
</body></html>
`))
