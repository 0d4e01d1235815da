package main

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
	publishers = 64   // goroutines that publish, or send the requests of the bare loop
	many       = 100  // destinations of measurements with many
	inBatch    = 100  // messages in a measured batch
	bodySize   = 1024 // bytes
)

// payload is the JSON text of most message bodies.
var payload = `{"order":12345678901234567890,"pad":"` + strings.Repeat("x", bodySize-39) + `"}`

// uniqueHead is the part of a unique body before its number.
const uniqueHead = `{"number":"`

// uniqueBody returns a JSON text of the same size that equals no other body. A store
// therefore cannot save memory by keeping equal bodies once.
func uniqueBody(n int) string {
	text := make([]byte, 0, bodySize)
	text = append(text, uniqueHead...)
	text = strconv.AppendInt(text, int64(n), 10)
	text = append(text, `","pad":"`...)
	state := uint64(n)*0x9E3779B97F4A7C15 + 1 // splitmix64, but any generator works
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

// genuine reports whether a body is the payload or a unique body.
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

// message returns a message as JSON. If id is empty, the API makes an id. more has
// further fields, each after a comma.
func message(id, url, more string) string { return messageWith(id, url, more, payload) }

// messageWith returns a message with a given body.
func messageWith(id, url, more, body string) string {
	if id != "" {
		id = `"id":"` + id + `",`
	}
	return `{` + id + `"topic":"order.paid","url":"` + url + `"` + more + `,"body":` + body + `}`
}

// callers publish messages and send the requests of the bare loop.
type callers struct{ http *http.Client }

func newCallers() *callers {
	return &callers{&http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: publishers}}}
}

func (c *callers) close() { c.http.CloseIdleConnections() }

// each makes n calls from a number of goroutines, until a call returns an error.
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

// post sends one request and reads its response. It takes no context, because a
// context would cost the bare loop a goroutine or a lock. If the bench is cancelled,
// the process that should respond is killed.
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

// asJSON is the header of each publish. It never changes.
var asJSON = http.Header{"Content-Type": {"application/json"}}

// publish publishes one message, which must be new.
func (c *callers) publish(api, message string) error {
	if _, err := c.post(api+"/v1/messages", asJSON, message, http.StatusAccepted); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	return nil
}

// accepted is in the response to a batch once for each accepted message.
var accepted = []byte(`"status":202`)

// publishBatch publishes several messages in one call. Each must be new.
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

// work describes how many messages to publish, and how.
type work struct {
	publishers int // goroutines
	n          int // messages
	batch      int // messages in a call; 1: each in a call of its own
}

// publishAll publishes the messages that text returns.
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
