package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/hookladder/hookladder/dispatcher/internal/input"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// ErrUnreachable means that no response came, because no server listens there or the
// connection broke. It is unknown whether the call had an effect.
var ErrUnreachable = errors.New("hookladder can't be reached")

// The kinds of a *Problem, for errors.Is. Its Type is more exact.
var (
	ErrInvalid     = errors.New("invalid")       // 422: Errors names the fields
	ErrDenied      = errors.New("denied")        // 401 or 403: the key is unknown, or lacks the scope
	ErrNotFound    = errors.New("not found")     // 404
	ErrConflict    = errors.New("conflict")      // 409: for example, another message has the id
	ErrBusy        = errors.New("busy")          // 429: nothing was done; retry after RetryAfter
	ErrUnavailable = errors.New("not available") // 502, 503 or 504
)

// statuses maps these errors to HTTP statuses.
var statuses = map[error][]int{
	ErrInvalid:     {http.StatusUnprocessableEntity},
	ErrDenied:      {http.StatusUnauthorized, http.StatusForbidden},
	ErrNotFound:    {http.StatusNotFound},
	ErrConflict:    {http.StatusConflict},
	ErrBusy:        {http.StatusTooManyRequests},
	ErrUnavailable: {http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout},
}

// Problem is an error response of the API. errors.Is compares its status with ErrNotFound
// and the others above.
type Problem struct {
	wire.Problem
	RetryAfter time.Duration // the wait before a retry; 0: the API returned none
}

// Is reports whether the status of the problem belongs to target.
func (p *Problem) Is(target error) bool { return slices.Contains(statuses[target], p.Status) }

// problem reads an error response. It may come from another server, such as a proxy.
func problem(resp *http.Response, body []byte) *Problem {
	p := &Problem{}
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if media != "application/problem+json" || json.Unmarshal(body, &p.Problem) != nil || p.Title == "" {
		p.Problem = wire.Problem{Type: "about:blank", Title: "the response is " + resp.Status}
	}
	p.Status = resp.StatusCode
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && seconds > 0 {
		p.RetryAfter = time.Duration(min(seconds, 24*3600)) * time.Second
	}
	return p
}

// unreachable wraps the cause without the URL, because callers know it.
func unreachable(err error) error {
	return fmt.Errorf("%w: %w", ErrUnreachable, input.Cause(err))
}
