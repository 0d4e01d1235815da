package client_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// step answers one try.
type step func(r *http.Request) (*http.Response, error)

// steps answer the tries of calls one after the other, the last one all that follow.
type steps struct {
	all    []step
	bodies []string
	at     []time.Duration // since the test began
	closed bool            // its idle connections were
	began  time.Time
}

func (s *steps) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
	}
	s.bodies = append(s.bodies, string(body))
	s.at = append(s.at, time.Since(s.began))
	return s.all[min(len(s.bodies), len(s.all))-1](r)
}

func (s *steps) CloseIdleConnections() { s.closed = true }

// newTestSteps is a client on steps.
func newTestSteps(t testing.TB, r client.Repeats, all ...step) (*client.Client, *steps) {
	t.Helper()
	s := &steps{all: all, began: time.Now()}
	c, err := client.New("http://a.example", "", client.WithHTTPClient(&http.Client{Transport: s}), client.WithRepeats(r))
	require.NoError(t, err)
	return c, s
}

// answers answers with a status, a body, and a header of pairs.
func answers(status int, body string, header ...string) step {
	return func(*http.Request) (*http.Response, error) {
		h := http.Header{"Content-Type": {"application/json"}}
		if status >= 400 {
			h.Set("Content-Type", "application/problem+json")
		}
		for i := 0; i < len(header); i += 2 {
			h.Set(header[i], header[i+1])
		}
		return &http.Response{StatusCode: status, Status: http.StatusText(status), Header: h, Body: io.NopCloser(strings.NewReader(body))}, nil
	}
}

// refuses answers with a problem.
func refuses(status int, word string, header ...string) step {
	return answers(status, `{"type":"/problems/`+word+`","title":"no"}`, header...)
}

func fails(err error) step {
	return func(*http.Request) (*http.Response, error) { return nil, err }
}

// cutOff answers with a body that breaks off.
func cutOff(*http.Request) (*http.Response, error) {
	r, err := answers(200, "")(nil)
	r.Body = io.NopCloser(io.MultiReader(strings.NewReader(`{"id`), brokenReader{}))
	return r, err
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// hangs answers when the caller has given up.
func hangs(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, context.Cause(r.Context())
}

var (
	done  = answers(200, `{}`)
	unmet = fails(&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED})
)

// calls are by what a repeat of them would do.
var calls = map[string]map[string]func(context.Context, *client.Client) error{
	"safe": {
		"publish": func(ctx context.Context, c *client.Client) error { _, err := c.Publish(ctx, payment()); return err },
		"stats":   func(ctx context.Context, c *client.Client) error { _, err := c.Stats(ctx); return err },
		"cancel":  func(ctx context.Context, c *client.Client) error { _, err := c.Cancel(ctx, "a", ""); return err },
		"patch": func(ctx context.Context, c *client.Client) error {
			_, err := c.PatchEndpoint(ctx, "a", payment())
			return err
		},
		"create with a uid": func(ctx context.Context, c *client.Client) error {
			_, _, err := c.CreateEndpoint(ctx, &wire.Endpoint{UID: "a"})
			return err
		},
		"stop job": func(ctx context.Context, c *client.Client) error { _, err := c.StopJob(ctx, "a"); return err },
		"survey": func(ctx context.Context, c *client.Client) error {
			_, err := c.SurveyJob(ctx, client.JobRetry, wire.JobRequest{})
			return err
		},
	},
	"once": {
		"retry":  func(ctx context.Context, c *client.Client) error { _, err := c.Retry(ctx, "a", ""); return err },
		"resend": func(ctx context.Context, c *client.Client) error { _, err := c.Resend(ctx, "a"); return err },
		"create": func(ctx context.Context, c *client.Client) error {
			_, _, err := c.CreateEndpoint(ctx, &wire.Endpoint{})
			return err
		},
		"delete": func(ctx context.Context, c *client.Client) error { _, err := c.DeleteEndpoint(ctx, "a"); return err },
		"pause":  func(ctx context.Context, c *client.Client) error { _, err := c.PauseEndpoint(ctx, "a"); return err },
		"resume": func(ctx context.Context, c *client.Client) error { _, err := c.ResumeEndpoint(ctx, "a"); return err },
		"rotate": func(ctx context.Context, c *client.Client) error {
			_, err := c.RotateSecret(ctx, "a", wire.Rotation{})
			return err
		},
		"test":  func(ctx context.Context, c *client.Client) error { _, err := c.TestEndpoint(ctx, "a"); return err },
		"lane":  func(ctx context.Context, c *client.Client) error { _, err := c.ResumeLane(ctx, "a", ""); return err },
		"go on": func(ctx context.Context, c *client.Client) error { _, err := c.ResumeJob(ctx, "a"); return err },
		"tenants": func(ctx context.Context, c *client.Client) error {
			_, err := c.PauseTenants(ctx, "http://a", "")
			return err
		},
		"start job": func(ctx context.Context, c *client.Client) error {
			_, err := c.StartJob(ctx, client.JobRetry, wire.JobRequest{All: true})
			return err
		},
	},
	"never": {
		"ready": func(ctx context.Context, c *client.Client) error { _, err := c.Ready(ctx); return err },
	},
}

func payment() *wire.Message {
	return &wire.Message{Topic: "payment.paid", URL: "https://shop.example/hooks", Body: json.RawMessage(`{"amount":100}`)}
}

func TestACallIsRepeatedWhereItsEffectIsThatOfOne(t *testing.T) {
	for name, first := range map[string]struct {
		step   step
		repeat []string // the calls that are made again
	}{
		"no connection":         {unmet, []string{"safe", "once"}},
		"too many requests":     {refuses(429, "busy", "Retry-After", "1"), []string{"safe", "once"}},
		"too much at once":      {refuses(503, "overloaded", "Retry-After", "1"), []string{"safe", "once"}},
		"a cut connection":      {fails(io.EOF), []string{"safe"}},
		"a reset connection":    {fails(&net.OpError{Op: "read", Err: syscall.ECONNRESET}), []string{"safe"}},
		"a cut answer":          {cutOff, []string{"safe"}},
		"no store":              {refuses(503, "unavailable", "Retry-After", "1"), []string{"safe"}},
		"a full store":          {refuses(503, "full"), []string{"safe"}},
		"a proxy without us":    {answers(502, "<html>"), []string{"safe"}},
		"a proxy that waited":   {answers(504, "<html>"), []string{"safe"}},
		"429 without a time":    {refuses(429, "busy"), nil},
		"a fault of the server": {refuses(500, "internal"), nil},
		"an unknown authority":  {fails(&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}), nil},
		"a wrong field":         {refuses(422, "invalid"), nil},
		"an unknown key":        {refuses(401, "unauthorized"), nil},
	} {
		for sort, some := range calls {
			want := 1
			for _, r := range first.repeat {
				if r == sort {
					want = 2
				}
			}
			for call, do := range some {
				t.Run(name+", "+call, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						c, s := newTestSteps(t, client.Repeats{}, first.step, done)
						err := do(t.Context(), c)
						require.Len(t, s.bodies, want)
						require.Equal(t, want == 2, err == nil, "%v", err)
						require.Equal(t, s.bodies[0], s.bodies[len(s.bodies)-1])
						require.False(t, s.closed, "the connections of other calls were closed")
					})
				})
			}
		}
	}
}

func TestATryThatHangsIsCutAndRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := newTestSteps(t, client.Repeats{Try: 2 * time.Second}, hangs, done)
		_, err := c.Publish(t.Context(), payment())
		require.NoError(t, err)
		require.Len(t, s.at, 2)
		require.GreaterOrEqual(t, s.at[1], 2*time.Second)

		c, s = newTestSteps(t, client.Repeats{Try: 2 * time.Second}, hangs, done)
		_, err = c.Retry(t.Context(), "a", "")
		require.ErrorIs(t, err, client.ErrUnreachable)
		require.Len(t, s.at, 1)
		require.Greater(t, time.Since(s.began), time.Minute, "an answer of the server would come by then")
	})
}

func TestAMessageWithoutAnIDGetsOneBeforeTheFirstTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := newTestSteps(t, client.Repeats{}, fails(io.EOF), func(r *http.Request) (*http.Response, error) {
			return answers(200, `{"id":"x","duplicate":true}`)(r)
		})
		m := payment()
		p, err := c.Publish(t.Context(), m)
		require.NoError(t, err)
		require.False(t, p.Duplicate, "it was not published before this call")
		require.Empty(t, m.ID, "another message may be made of it")
		require.Regexp(t, `"id":"msg_[0-9A-Z]{26}"`, s.bodies[0])
		require.Equal(t, s.bodies[0], s.bodies[1])
		_, err = c.Publish(t.Context(), m)
		require.NoError(t, err)
		require.NotEqual(t, s.bodies[1], s.bodies[2], "two calls are two messages")

		m.ID = "order_17"
		p, err = c.Publish(t.Context(), m)
		require.NoError(t, err)
		require.True(t, p.Duplicate)
	})
}

func TestAFailedPublishTellsTheID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, last := range []step{unmet, fails(io.EOF), refuses(503, "unavailable")} {
			c, s := newTestSteps(t, client.Repeats{}, last)
			p, err := c.Publish(t.Context(), payment())
			require.Error(t, err)
			require.Regexp(t, `^msg_`, p.ID)
			require.Len(t, s.bodies, 5)
			for _, body := range s.bodies {
				require.Contains(t, body, p.ID)
			}
		}
	})
}

func TestRepeatsKeepToTheirBounds(t *testing.T) {
	busy := refuses(503, "unavailable", "Retry-After", "3")
	soon := func(ctx context.Context) context.Context {
		ctx, stop := context.WithTimeout(ctx, 2*time.Second)
		t.Cleanup(stop)
		return ctx
	}
	for name, c := range map[string]struct {
		bounds client.Repeats
		first  step
		ctx    func(context.Context) context.Context
		tries  int
		took   time.Duration // at least
		most   time.Duration
	}{
		"by default":                       {client.Repeats{}, fails(io.EOF), nil, 5, 700 * time.Millisecond, 2 * time.Second},
		"never":                            {client.Repeats{Tries: 1}, unmet, nil, 1, 0, 0},
		"a few":                            {client.Repeats{Tries: 3}, busy, nil, 3, 6 * time.Second, 7 * time.Second},
		"some time":                        {client.Repeats{Tries: 100, Within: 10 * time.Second}, busy, nil, 4, 9 * time.Second, 10 * time.Second},
		"a Retry-After beyond the time":    {client.Repeats{Within: 2 * time.Second}, busy, nil, 1, 0, 0},
		"a Retry-After beyond the context": {client.Repeats{}, busy, soon, 1, 0, 0},
		"waits that grow":                  {client.Repeats{Tries: 9, Within: time.Hour}, fails(io.EOF), nil, 9, 8 * time.Second, 17 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api, s := newTestSteps(t, c.bounds, c.first)
				ctx := t.Context()
				if c.ctx != nil {
					ctx = c.ctx(ctx)
				}
				_, err := api.Stats(ctx)
				require.Error(t, err)
				require.NoError(t, ctx.Err(), "it ends at once")
				require.Len(t, s.bodies, c.tries)
				require.GreaterOrEqual(t, time.Since(s.began), c.took)
				require.LessOrEqual(t, time.Since(s.began), c.most)
				var p *client.Problem
				if errors.As(err, &p) {
					require.Equal(t, 3*time.Second, p.RetryAfter, "the caller is told when to ask again")
				}
			})
		})
	}
}

func TestACallEndsWithItsContext(t *testing.T) {
	for name, first := range map[string]step{
		"while it waits for an answer": hangs,
		"while it waits for a repeat":  refuses(503, "unavailable", "Retry-After", "20"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, s := newTestSteps(t, client.Repeats{}, first)
				stopped := errors.New("the service stops")
				ctx, stop := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Second, func() { stop(stopped) })
				p, err := c.Publish(ctx, payment())
				require.ErrorIs(t, err, context.Canceled)
				require.NotErrorIs(t, err, client.ErrUnreachable)
				require.NotEmpty(t, p.ID)
				require.Equal(t, time.Second, time.Since(s.began))
				require.Len(t, s.bodies, 1)
				_, err = c.PublishBatch(ctx, []wire.Message{*payment()})
				require.ErrorIs(t, err, context.Canceled)
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		c, _ := newTestSteps(t, client.Repeats{}, hangs)
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		_, err := c.Stats(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, client.ErrUnreachable, "the caller gave up, so the server may be well")
	})
}

func TestProblemsAreToldByTheirStatus(t *testing.T) {
	for status, want := range map[int]error{
		401: client.ErrDenied, 403: client.ErrDenied, 404: client.ErrNotFound, 409: client.ErrConflict, 422: client.ErrInvalid,
		429: client.ErrBusy, 502: client.ErrUnavailable, 503: client.ErrUnavailable, 504: client.ErrUnavailable,
	} {
		c, _ := newTestSteps(t, client.Repeats{Tries: 1}, refuses(status, "x"))
		_, err := c.Stats(t.Context())
		for _, other := range []error{
			client.ErrDenied, client.ErrNotFound, client.ErrConflict, client.ErrInvalid, client.ErrBusy, client.ErrUnavailable, client.ErrUnreachable, io.EOF,
		} {
			require.Equal(t, other == want, errors.Is(err, other), "%d is %v", status, other)
		}
	}
}

// Each method of a Client that New did not make returns an error, whatever its arguments are.
func TestAZeroClientReturnsErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []*client.Client{nil, {}} {
		v := reflect.ValueOf(c)
		for m := range v.NumMethod() {
			method := v.Method(m)
			args := []reflect.Value{}
			for i := range method.Type().NumIn() {
				if method.Type().IsVariadic() && i == method.Type().NumIn()-1 {
					break
				}
				arg := reflect.Zero(method.Type().In(i))
				if method.Type().In(i) == reflect.TypeFor[context.Context]() {
					arg = reflect.ValueOf(t.Context())
				}
				args = append(args, arg)
			}
			name := v.Type().Method(m).Name
			require.NotPanics(t, func() {
				out := method.Call(args)
				last := out[len(out)-1]
				if last.Kind() == reflect.Func { // an iterator, whose last element is the error
					for _, err := range last.Seq2() {
						last = err
					}
				}
				if name != "PublishBatch" { // of no messages
					require.Error(t, last.Interface().(error), name)
				}
			}, name)
		}
	}
}
