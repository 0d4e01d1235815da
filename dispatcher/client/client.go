// Package client calls the HTTP API of Hookladder.
//
//	c, err := client.New("http://localhost:8080", key)
//	published, err := c.Publish(ctx, &wire.Message{
//		Topic: "payment.paid",
//		URL:   "https://shop.example/hooks",
//		Body:  json.RawMessage(`{"amount":12345678901234567890}`),
//	})
//
// # Errors
//
// An error response of the API is returned as a *Problem, which has its type, its status and
// the wrong fields. If no response came, the error wraps ErrUnreachable, and also the error
// of a ctx that has ended:
//
//	var p *client.Problem
//	switch {
//	case errors.Is(err, client.ErrNotFound): // and other statuses
//	case errors.As(err, &p) && p.Type == "/problems/lane-full":
//	case errors.Is(err, client.ErrUnreachable):
//	}
//
// # Retries
//
// The client retries a failed call if that is safe. This depends on the failure:
//
//   - The API did nothing, because there was no connection, or it returned 429 with
//     Retry-After, or 503 because it is overloaded. Every call is retried.
//   - The response was lost, because the connection broke, the try timed out, or the status
//     was 502, 503 or 504. The call may have had its effect. A call is retried only if the
//     effect of two calls is the same as of one: every read, Publish, PublishBatch, Cancel,
//     PatchEndpoint, StopJob, SurveyJob, and CreateEndpoint with a UID.
//   - The API refused the call. It is not retried. Ready and Follow are never retried.
//
// A message without an ID gets one before the first try, so the API recognizes a retry. Other
// calls, such as Retry, StartJob and RotateSecret, would do their work a second time. If
// their response is lost, read the result before you call again. After a retried
// CreateEndpoint, created may be false and the secret missing: EndpointSecret returns it.
//
// The backoff before a retry starts at 0.1 s and doubles up to 5 s, and half of it is random.
// Retry-After is added. WithRepeats limits the tries and the time. If the next try would be
// after that time, or after the deadline of ctx, the last error is returned at once.
package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/hookladder/hookladder/dispatcher/internal/input"
)

const (
	// maxAnswer bounds a response. A page of 500 deliveries, or a message with a large
	// body and histories, has a few MiB.
	maxAnswer = 32 << 20

	// patience is the timeout of a call that is not safe to retry and whose context has
	// no deadline, because the server gives up after 60 s.
	patience = 65 * time.Second
)

// Client calls the API of one Hookladder. It is safe for concurrent use.
type Client struct {
	base    string
	key     *string // a pointer, so that fmt does not print the key
	http    *http.Client
	repeats Repeats
}

// Option configures a Client.
type Option func(*Client)

// WithHTTPClient makes the calls with h, which should not follow redirects. The client
// does not change h. A service that calls from many goroutines should set a transport
// with a higher MaxIdleConnsPerHost than Go's 2, because otherwise most calls open a
// connection.
func WithHTTPClient(h *http.Client) Option {
	return func(c *Client) { c.http = h }
}

// New returns a client for the API at baseURL, such as http://localhost:8080. The key may
// be empty if the API needs none.
func New(baseURL, key string, opts ...Option) (*Client, error) {
	u, err := input.ParseURL(baseURL, "http", "https")
	switch {
	case err != nil:
		return nil, fmt.Errorf("api url: %w, as in http://localhost:8080", err)
	case u.Host == "":
		return nil, errors.New("api url: must be a URL such as http://localhost:8080, with its scheme")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("api url: must have no user, query or fragment")
	}
	if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errors.New("api key: has other characters than printable ASCII without spaces")
	}
	c := &Client{
		base: strings.TrimRight(baseURL, "/"),
		key:  &key,
		http: &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse // the API never redirects, and the key must not be sent elsewhere
		}},
	}
	for _, o := range opts {
		o(c)
	}
	h := *c.http
	if h.Transport == nil {
		h.Transport = http.DefaultTransport
	}
	h.Transport = ownTransport{h.Transport}
	c.http, c.repeats = &h, c.repeats.filled()
	return c, nil
}

// apiRequest is one call of the API.
type apiRequest struct {
	verb     string // for errors: publish, cancel …
	method   string
	path     string
	query    url.Values
	body     []byte        // nil: none
	media    string        // of the body; empty: JSON
	patience time.Duration // timeout of one try; 0: the default
	repeats  repetition
	status   *int // set to the status of the response; nil: not needed
}

// call makes a call and decodes its response.
func call[T any](ctx context.Context, c *Client, q apiRequest) (T, error) {
	return callIn[T](ctx, c, c.newTries(), q)
}

// callIn is call with tries that several calls share.
func callIn[T any](ctx context.Context, c *Client, t *tries, q apiRequest) (out T, err error) {
	if q.method == http.MethodGet && q.repeats == untaken {
		q.repeats = safe
	}
	body, err := c.exchange(ctx, q, t)
	if err != nil {
		return out, fmt.Errorf("%s: %w", q.verb, err)
	}
	if err := json.Unmarshal(body, &out); err != nil {
		return out, fmt.Errorf("%s: read answer: %w", q.verb, err)
	}
	return out, nil
}

// send is call with a value as the body.
func send[T any](ctx context.Context, c *Client, q apiRequest, value any) (out T, err error) {
	if q.body, err = json.Marshal(value); err != nil {
		return out, fmt.Errorf("%s: %w", q.verb, err)
	}
	return call[T](ctx, c, q)
}

var errZero = errors.New("the client was not made by client.New")

// request returns the HTTP request of a call without its body.
func (c *Client) request(ctx context.Context, q apiRequest) (*http.Request, error) {
	if c == nil || c.http == nil {
		return nil, errZero
	}
	target := c.base + q.path
	if len(q.query) > 0 {
		target += "?" + q.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, q.method, target, http.NoBody)
	if err != nil {
		return nil, err
	}
	if q.body != nil {
		req.Header.Set("Content-Type", cmp.Or(q.media, "application/json"))
	}
	if *c.key != "" {
		req.Header.Set("Authorization", "Bearer "+*c.key)
	}
	if s := trace.SpanContextFromContext(ctx); s.IsValid() {
		req.Header.Set("Traceparent", fmt.Sprintf("00-%s-%s-%s", s.TraceID(), s.SpanID(), s.TraceFlags()))
	}
	return req, nil
}

// read returns the body of a response, or the problem in it.
func (q *apiRequest) read(resp *http.Response) ([]byte, error) {
	defer resp.Body.Close() //nolint:errcheck // it was read
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, unreachable(err)
	}
	if len(body) > maxAnswer {
		return nil, fmt.Errorf("the answer has more than %d bytes", maxAnswer)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return nil, problem(resp, body)
	}
	if q.status != nil {
		*q.status = resp.StatusCode
	}
	return body, nil
}

// page returns the query parameters of a page.
func page(limit int, cursor string) url.Values {
	q := url.Values{}
	if limit != 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	if cursor != "" {
		q.Set("cursor", cursor)
	}
	return q
}
