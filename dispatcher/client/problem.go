package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

// ErrUnreachable says that no answer came: nothing listens there, or the
// connection broke. Whether the call had an effect is unknown.
var ErrUnreachable = errors.New("hookladder can't be reached")

// What a *Problem is, for errors.Is. Its Type is more exact.
var (
	ErrInvalid     = errors.New("invalid")       // 422: its Errors name the fields
	ErrDenied      = errors.New("denied")        // 401 or 403: the key is unknown, or lacks the scope
	ErrNotFound    = errors.New("not found")     // 404
	ErrConflict    = errors.New("conflict")      // 409: as an id that another message has
	ErrBusy        = errors.New("busy")          // 429: nothing was done; ask again after RetryAfter
	ErrUnavailable = errors.New("not available") // 502, 503 or 504
)

// statuses are what these errors stand for.
var statuses = map[error][]int{
	ErrInvalid:     {http.StatusUnprocessableEntity},
	ErrDenied:      {http.StatusUnauthorized, http.StatusForbidden},
	ErrNotFound:    {http.StatusNotFound},
	ErrConflict:    {http.StatusConflict},
	ErrBusy:        {http.StatusTooManyRequests},
	ErrUnavailable: {http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout},
}

// Problem is an error that the API answered. errors.Is finds ErrNotFound and the others
// above in it.
type Problem struct {
	wire.Problem
	RetryAfter time.Duration // when to ask again; 0: the API did not say
}

// Is reports whether target stands for the status of the problem.
func (p *Problem) Is(target error) bool { return slices.Contains(statuses[target], p.Status) }

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

// unreachable keeps the cause without the URL, which callers know.
func unreachable(err error) error {
	var at *url.Error
	if errors.As(err, &at) {
		err = at.Err
	}
	return fmt.Errorf("%w: %w", ErrUnreachable, err)
}
