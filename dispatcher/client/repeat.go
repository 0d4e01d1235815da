package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/hookladder/hookladder/dispatcher/internal/input"
	"github.com/hookladder/hookladder/dispatcher/internal/wait"
)

// Repeats limits the retries of a call. The zero value of each field is its default.
type Repeats struct {
	Tries  int           // tries of one call, including the first; 0: 5; 1: no retry
	Within time.Duration // no try begins later than this after the call; 0: 30 s
	Try    time.Duration // timeout of one try of a call that is safe to retry, including its upload; 0: 30 s
}

// WithRepeats sets the limits of retries.
func WithRepeats(r Repeats) Option {
	return func(c *Client) { c.repeats = r }
}

const (
	// The defaults of Repeats. A restart of an instance, or of its store, takes less
	// time, and most people and load balancers still wait.
	defaultTries  = 5
	defaultWithin = 30 * time.Second
	defaultTry    = 30 * time.Second

	// The backoff doubles from firstWait. With these values the third or fourth try
	// reaches a restarted process.
	firstWait = 100 * time.Millisecond
	mostWait  = 5 * time.Second
)

func (r Repeats) filled() Repeats {
	if r.Tries <= 0 {
		r.Tries = defaultTries
	}
	if r.Within <= 0 {
		r.Within = defaultWithin
	}
	if r.Try <= 0 {
		r.Try = defaultTry
	}
	return r
}

// repetition says after which failures a call is retried.
type repetition int

const (
	untaken repetition = iota // only if the call certainly had no effect
	safe                      // also if the response was lost, because two calls have the effect of one
	never                     // never, because the failure is the result
)

// after reports whether a call may be retried after an error.
func (r repetition) after(err error) bool {
	var answered *Problem
	var broken *url.Error
	switch {
	case r == never:
		return false
	case errors.As(err, &answered):
		return answered.nothingDone() || r == safe && answered.away()
	case errors.As(err, &broken), errors.Is(err, ErrUnreachable):
		return r == safe || unsent(err)
	}
	return false // the response came, but can't be read
}

// nothingDone reports whether the API refused the call before it did anything.
func (p *Problem) nothingDone() bool {
	return p.Status == http.StatusTooManyRequests && p.RetryAfter > 0 ||
		p.Status == http.StatusServiceUnavailable && p.Type == "/problems/overloaded"
}

// away reports whether the API, or its store, could not be reached. In a batch single
// messages are retried, not the call.
func (p *Problem) away() bool {
	switch p.Status {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return p.Results == nil
	}
	return false
}

// unsent reports whether there was no connection.
func unsent(err error) bool {
	var at *net.OpError
	return errors.As(err, &at) && at.Op == "dial"
}

// tries counts the tries of one call.
type tries struct {
	Repeats
	began time.Time
	made  int
	wait  time.Duration // before the next try
}

func (c *Client) newTries() *tries {
	if c == nil {
		return &tries{} // the call reports it
	}
	return &tries{Repeats: c.repeats, began: time.Now()}
}

// another counts a failed try, and reports whether another one fits into the limits and
// into ctx. It also sets the backoff before it.
func (t *tries) another(ctx context.Context, err error) bool {
	t.made++
	t.wait = wait.Backoff(t.made, firstWait, mostWait)
	var p *Problem
	if errors.As(err, &p) && p.RetryAfter > 0 {
		t.wait += p.RetryAfter
	}
	next := time.Now().Add(t.wait)
	if t.made >= t.Tries || next.Sub(t.began) > t.Within || ctx.Err() != nil {
		return false
	}
	end, ends := ctx.Deadline()
	return !ends || next.Before(end)
}

// sleep waits until the next try is due, or returns the error of ctx.
func (t *tries) sleep(ctx context.Context) error {
	if !wait.Sleep(ctx, t.wait) {
		return ctx.Err()
	}
	return nil
}

// exchange makes a call with retries, and returns the body of the response or the problem
// in it.
func (c *Client) exchange(ctx context.Context, q apiRequest, t *tries) (body []byte, err error) {
	plain, err := c.request(ctx, q)
	if err != nil {
		return nil, err
	}
	req := &retryablehttp.Request{Request: plain}
	if q.body != nil {
		if err := req.SetBody(q.body); err != nil {
			return nil, err
		}
	}
	req.SetResponseHandler(func(resp *http.Response) (err error) {
		body, err = q.read(resp)
		return err
	})
	var last error
	repeated := retryablehttp.Client{
		HTTPClient: c.within(ctx, q, t),
		RetryMax:   t.Tries,
		CheckRetry: func(ctx context.Context, _ *http.Response, err error) (bool, error) {
			if err == nil {
				return false, nil
			}
			last = err
			sensible, _ := retryablehttp.DefaultRetryPolicy(ctx, nil, err) // a bad certificate is not retried
			return sensible && q.repeats.after(err) && t.another(ctx, err), nil
		},
		Backoff:      func(time.Duration, time.Duration, int, *http.Response) time.Duration { return t.wait },
		ErrorHandler: retryablehttp.PassthroughErrorHandler,
	}
	if _, err := repeated.Do(req); err != nil {
		return nil, failure(ctx, cmp.Or(last, err))
	}
	return body, nil
}

// within returns the HTTP client for the tries of a call, with the timeout of one try.
func (c *Client) within(ctx context.Context, q apiRequest, t *tries) *http.Client {
	h, limit := *c.http, max(q.patience, patience)
	_, ends := ctx.Deadline()
	switch {
	case q.repeats == safe:
		limit = max(q.patience, t.Try)
	case ends:
		return &h
	}
	if h.Timeout == 0 || h.Timeout > limit {
		h.Timeout = limit
	}
	return &h
}

// failure returns the error of a call from the error of its last try. If ctx has ended, it wraps
// the error of ctx, and not ErrUnreachable.
func failure(ctx context.Context, last error) error {
	var answered *Problem
	end := ctx.Err()
	switch {
	case end != nil && errors.As(last, &answered):
		return fmt.Errorf("%w: %w", end, last)
	case end != nil && errors.Is(last, end):
		return end
	case end != nil: // the caller gave up, so the server may be well
		return fmt.Errorf("%w: %s", end, input.Cause(last))
	}
	var broken *url.Error
	if errors.As(last, &broken) {
		last = unreachable(last)
	}
	return last
}

// ownTransport hides the method CloseIdleConnections. Otherwise a failed call would close
// the connections of all calls that use the same transport.
type ownTransport struct{ http.RoundTripper }
