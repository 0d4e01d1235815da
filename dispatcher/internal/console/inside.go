package console

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/hookladder/hookladder/dispatcher/client"
)

// maxAnswer limits an API response that a page reads.
const maxAnswer = 32 << 20

var errTooLong = errors.New("the answer is too long")

// inside returns a client of this process's API, without a connection. It has no retries,
// because the visitor can reload a page.
func inside(api http.Handler) (*client.Client, error) {
	return client.New("http://localhost", "", client.WithHTTPClient(&http.Client{Transport: insideTransport{api}}),
		client.WithRepeats(client.Repeats{Tries: 1}))
}

// insideTransport passes requests to a handler.
type insideTransport struct{ api http.Handler }

// RoundTrip serves a request. It returns when the request's context ends, even if the
// handler still runs.
func (t insideTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	served := r.Clone(r.Context())
	served.RequestURI, served.RemoteAddr = served.URL.RequestURI(), "127.0.0.1:0"
	if served.Body == nil {
		served.Body = http.NoBody
	}
	w := &heldAnswer{header: http.Header{}, status: http.StatusOK}
	done := make(chan error, 1)
	go func() {
		defer func() {
			if v := recover(); v != nil {
				done <- fmt.Errorf("the call was cut off: %v", v)
			}
		}()
		t.api.ServeHTTP(w, served)
		done <- w.err
	}()
	select {
	case <-r.Context().Done():
		return nil, r.Context().Err()
	case err := <-done:
		if err != nil {
			return nil, err
		}
	}
	return &http.Response{
		Status: fmt.Sprintf("%d %s", w.status, http.StatusText(w.status)), StatusCode: w.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: w.header,
		Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: r,
	}, nil
}

// within runs a call of the store and returns when ctx ends, even if the call still runs.
// So a store that hangs blocks no page.
func within[T any](ctx context.Context, call func() (T, error)) (T, error) {
	type storeAnswer struct {
		value T
		err   error
	}
	done := make(chan storeAnswer, 1)
	go func() {
		value, err := call()
		done <- storeAnswer{value, err}
	}()
	select {
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	case r := <-done:
		return r.value, r.err
	}
}

// ending wraps a call of the store so that it returns when its context ends.
func ending[A, T any](call func(context.Context, A) (T, error)) func(context.Context, A) (T, error) {
	return func(ctx context.Context, a A) (T, error) {
		return within(ctx, func() (T, error) { return call(ctx, a) })
	}
}

// heldAnswer is a response in memory.
type heldAnswer struct {
	header http.Header
	status int
	begun  bool
	body   bytes.Buffer
	err    error
}

func (w *heldAnswer) Header() http.Header { return w.header }

func (w *heldAnswer) WriteHeader(status int) {
	if !w.begun {
		w.status, w.begun = status, true
	}
}

func (w *heldAnswer) Write(b []byte) (int, error) {
	w.begun = true
	if w.body.Len()+len(b) > maxAnswer {
		w.err = errTooLong
		return 0, errTooLong
	}
	return w.body.Write(b)
}
