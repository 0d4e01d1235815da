package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

const (
	publishers = 64   // goroutines that publish, or make the bare loop's requests
	many       = 100  // destinations, where there are many
	inBatch    = 100  // messages in a batch that is measured
	bodySize   = 1024 // bytes
)

// payload is the JSON text that most messages have as their body.
var payload = `{"order":12345678901234567890,"pad":"` + strings.Repeat("x", bodySize-39) + `"}`

// uniqueHead is what a unique body has before its number.
const uniqueHead = `{"number":"`

// uniqueBody is a JSON text of the same size that has its like nowhere, so that
// nothing can be saved by keeping equal ones once.
func uniqueBody(n int) string {
	text := make([]byte, 0, bodySize)
	text = append(text, uniqueHead...)
	text = strconv.AppendInt(text, int64(n), 10)
	text = append(text, `","pad":"`...)
	state := uint64(n)*0x9E3779B97F4A7C15 + 1 // splitmix64: any generator does
	for len(text) < bodySize-2 {
		state += 0x9E3779B97F4A7C15
		z := state
		z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
		z = (z ^ z>>27) * 0x94D049BB133111EB
		z ^= z >> 31
		for i := 0; i < 16 && len(text) < bodySize-2; i++ {
			text = append(text, "0123456789abcdef"[z&15])
			z >>= 4
		}
	}
	return string(append(text, `"}`...))
}

// genuine reports whether a body is one of those above.
func genuine(body []byte) bool {
	if string(body) == payload {
		return true
	}
	rest, ok := bytes.CutPrefix(body, []byte(uniqueHead))
	if !ok {
		return false
	}
	digits, _, _ := bytes.Cut(rest, []byte(`"`))
	n, err := strconv.Atoi(string(digits))
	return err == nil && string(body) == uniqueBody(n)
}

// message is one to publish, as JSON. Without an id it gets one; more are further
// fields, each after a comma.
func message(id, url, more string) string { return messageWith(id, url, more, payload) }

// messageWith is one with another body.
func messageWith(id, url, more, body string) string {
	if id != "" {
		id = `"id":"` + id + `",`
	}
	return `{` + id + `"topic":"order.paid","url":"` + url + `"` + more + `,"body":` + body + `}`
}

// callers publish, and make the bare loop's requests.
type callers struct{ http *http.Client }

func newCallers() *callers {
	return &callers{&http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: publishers}}}
}

func (c *callers) close() { c.http.CloseIdleConnections() }

// each has that many goroutines make n calls in all, until one fails.
func (c *callers) each(ctx context.Context, goroutines, n int, call func(i int) error) error {
	var wg sync.WaitGroup
	var failed atomic.Pointer[error]
	for first := range goroutines {
		wg.Go(func() {
			for i := first; i < n && failed.Load() == nil && ctx.Err() == nil; i += goroutines {
				if err := call(i); err != nil {
					failed.CompareAndSwap(nil, &err)
				}
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// post makes one request and reads its answer. It takes no context, which would
// cost the bare loop a goroutine or a lock: when a bench is given up, the process
// that would answer is ended.
func (c *callers) post(url string, header http.Header, body string, status int) (answer []byte, err error) {
	req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header = header
	res, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, res.Body.Close()) }()
	answer, err = io.ReadAll(res.Body)
	if err == nil && res.StatusCode != status {
		err = fmt.Errorf("%s: %s", res.Status, answer)
	}
	return answer, err
}

// asJSON is the header of what is published. It never changes.
var asJSON = http.Header{"Content-Type": {"application/json"}}

// publish publishes one message, which must be new.
func (c *callers) publish(api, message string) error {
	if _, err := c.post(api+"/v1/messages", asJSON, message, http.StatusAccepted); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	return nil
}

// accepted is what the answer to a batch has for each message that was taken.
var accepted = []byte(`"status":202`)

// publishBatch publishes several in one call; each must be new.
func (c *callers) publishBatch(api string, messages []string) error {
	body := `{"messages":[` + strings.Join(messages, ",") + `]}`
	answer, err := c.post(api+"/v1/messages/batch", asJSON, body, http.StatusAccepted)
	if err != nil {
		return fmt.Errorf("publish a batch: %w", err)
	}
	if n := bytes.Count(answer, accepted); n != len(messages) {
		return fmt.Errorf("publish a batch: %d of %d were taken: %.500s", n, len(messages), answer)
	}
	return nil
}

// work is how many messages are published, and how.
type work struct {
	publishers int // goroutines
	n          int // messages
	batch      int // messages in a call; 1: each in a call of its own
}

// publishAll publishes messages, which text makes.
func (c *callers) publishAll(ctx context.Context, api string, w work, text func(i int) string) error {
	return c.each(ctx, w.publishers, (w.n+w.batch-1)/w.batch, func(i int) error {
		if w.batch == 1 {
			return c.publish(api, text(i))
		}
		batch := make([]string, 0, w.batch)
		for j := i * w.batch; j < min((i+1)*w.batch, w.n); j++ {
			batch = append(batch, text(j))
		}
		return c.publishBatch(api, batch)
	})
}
