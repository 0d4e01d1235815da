package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/hashicorp/go-retryablehttp"
)

// Repeats bound how often a call is repeated. The zero value stands for the defaults.
type Repeats struct {
	Tries  int           // of one call, the first among them; 0: 5; 1: no call is repeated
	Within time.Duration // no try begins later than so long after the call; 0: 30 s
	Try    time.Duration // how long one try of a call that is safe to repeat may take, with its upload; 0: 30 s
}

// WithRepeats gives calls other bounds.
func WithRepeats(r Repeats) Option {
	return func(c *Client) { c.repeats = r }
}

const (
	// The defaults of Repeats. A restart of an instance, or of its store, is over by
	// then, and a person or a load balancer that waits is mostly still there.
	defaultTries  = 5
	defaultWithin = 30 * time.Second
	defaultTry    = 30 * time.Second

	// The waits double from the first. With these a restarted process is met again
	// at the third or fourth try.
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

// repetition says after which failures a call is made again.
type repetition int

const (
	untaken repetition = iota // where it is certain that nothing was done
	safe                      // also where the answer was lost: twice has the effect of once
	never                     // its failure is its answer
)

// after reports whether a call may be made again after a failed try.
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
	return false // the answer is there, and can't be read
}

// nothingDone reports whether the API says that it did not begin with the call.
func (p *Problem) nothingDone() bool {
	return p.Status == http.StatusTooManyRequests && p.RetryAfter > 0 ||
		p.Status == http.StatusServiceUnavailable && p.Type == "/problems/overloaded"
}

// away reports whether the API, or its store, could not be reached. Of a batch single
// messages are repeated, not the call.
func (p *Problem) away() bool {
	switch p.Status {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return p.Results == nil
	}
	return false
}

// unsent reports whether there was not even a connection.
func unsent(err error) bool {
	var at *net.OpError
	return errors.As(err, &at) && at.Op == "dial"
}

// tries are those of one call.
type tries struct {
	Repeats
	began time.Time
	made  int
	wait  time.Duration // before the next
}

func (c *Client) newTries() *tries { return &tries{Repeats: c.repeats, began: time.Now()} }

// another counts a failed try, and reports whether another one fits into the bounds and
// into ctx. It then sets the wait before it, which half of is random.
func (t *tries) another(ctx context.Context, err error) bool {
	wait := min(firstWait<<min(t.made, 16), mostWait)
	t.made++
	t.wait = wait/2 + rand.N(wait/2)
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

// sleep waits until the next try is due, or ctx ends.
func (t *tries) sleep(ctx context.Context) error {
	timer := time.NewTimer(t.wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// exchange makes a call, again where that may help, and reads its answer or the problem
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
			sensible, _ := retryablehttp.DefaultRetryPolicy(ctx, nil, err) // a bad certificate stays one
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

// within is the HTTP client for the tries of a call, each with its time limit.
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

// failure is the error of a call by that of its last try. It always wraps that of a ctx
// that has ended.
func failure(ctx context.Context, last error) error {
	var broken *url.Error
	if errors.As(last, &broken) {
		last = unreachable(last)
	}
	if end := ctx.Err(); end != nil && !errors.Is(last, end) {
		return fmt.Errorf("%w: %w", end, last)
	}
	return last
}

// ownTransport hides the method CloseIdleConnections. A call that fails would else close
// the connections of all others that use the same transport.
type ownTransport struct{ http.RoundTripper }
