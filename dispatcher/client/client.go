// Package client calls the HTTP API of a Hookladder.
//
//	c, err := client.New("http://localhost:8080", key)
//	answer, err := c.Publish(ctx, &wire.Message{
//		Topic: "payment.paid",
//		URL:   "https://shop.example/hooks",
//		Body:  json.RawMessage(`{"amount":12345678901234567890}`),
//	})
//
// A refusal of the API is a *Problem. Where no answer came, the error wraps
// ErrUnreachable:
//
//	var p *client.Problem
//	switch {
//	case errors.As(err, &p) && p.Status == http.StatusNotFound:
//	case errors.Is(err, client.ErrUnreachable):
//	}
//
// The client never repeats a call. To publish again is safe where the message has an
// id: the answer to the same content is that it is a duplicate.
package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

const (
	// maxAnswer bounds an answer. A page of 500 deliveries, or a message with a large
	// body and histories, has a few MiB.
	maxAnswer = 32 << 20

	// patience bounds a call whose context has no deadline: the server gives up after
	// 60 s.
	patience = 65 * time.Second
)

// ErrUnreachable says that no answer came: nothing listens there, or the
// connection broke. Whether the call had an effect is unknown.
var ErrUnreachable = errors.New("hookladder can't be reached")

// Problem is an error that the API answered.
type Problem struct {
	wire.Problem
	RetryAfter time.Duration // when to ask again; 0: the API did not say
}

// Client calls one Hookladder. It may be used from several goroutines.
type Client struct {
	base string
	key  string
	http *http.Client
}

// Option changes how a Client works.
type Option func(*Client)

// WithHTTPClient makes the calls with h, which should follow no redirects. The client
// does not change h.
func WithHTTPClient(h *http.Client) Option {
	return func(c *Client) { c.http = h }
}

// New makes a client of the API at baseURL, such as http://localhost:8080. The
// key may be empty where the API needs none.
func New(baseURL, key string, opts ...Option) (*Client, error) {
	u, err := url.Parse(baseURL)
	switch {
	case err != nil:
		return nil, errors.New("api url: is not a URL")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, errors.New("api url: must be as in http://localhost:8080")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("api url: must have no user, query or fragment")
	}
	if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errors.New("api key: has other characters than printable ASCII without spaces")
	}
	c := &Client{
		base: strings.TrimRight(baseURL, "/"),
		key:  key,
		http: &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse // the API never redirects, and the key must not go elsewhere
		}},
	}
	for _, o := range opts {
		o(c)
	}
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
	patience time.Duration // where the context has no deadline; 0: the default
	status   *int          // set to the answer's status; nil: it is not needed
}

// call makes a call and decodes its answer.
func call[T any](ctx context.Context, c *Client, q apiRequest) (out T, err error) {
	if _, ends := ctx.Deadline(); !ends {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, cmp.Or(q.patience, patience))
		defer stop()
	}
	body, err := c.exchange(ctx, q)
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

// request makes the request of a call.
func (c *Client) request(ctx context.Context, q apiRequest) (*http.Request, error) {
	target := c.base + q.path
	if len(q.query) > 0 {
		target += "?" + q.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, q.method, target, bytes.NewReader(q.body))
	if err != nil {
		return nil, err
	}
	if q.body != nil {
		req.Header.Set("Content-Type", cmp.Or(q.media, "application/json"))
	}
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	return req, nil
}

// exchange sends a request and reads its answer, or the problem in it.
func (c *Client) exchange(ctx context.Context, q apiRequest) ([]byte, error) {
	req, err := c.request(ctx, q)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, unreachable(err)
	}
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

// page is the query for a page of a list.
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

// unreachable keeps the cause without the URL, which callers know.
func unreachable(err error) error {
	var at *url.Error
	if errors.As(err, &at) {
		err = at.Err
	}
	return fmt.Errorf("%w: %w", ErrUnreachable, err)
}

// problem reads an error. Something else than the API, such as a proxy, may
// have answered it.
func problem(resp *http.Response, body []byte) *Problem {
	p := &Problem{}
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if media != "application/problem+json" || json.Unmarshal(body, &p.Problem) != nil || p.Title == "" {
		p.Problem = wire.Problem{Type: "about:blank", Title: "the answer is " + resp.Status}
	}
	p.Status = resp.StatusCode
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && seconds > 0 {
		p.RetryAfter = time.Duration(min(seconds, 24*3600)) * time.Second
	}
	return p
}
