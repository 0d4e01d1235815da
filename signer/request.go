package signer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// DefaultMaxBody is the default limit of a body that a Verifier reads: 1 MiB, four times
// the largest body that Hookladder sends by default.
const DefaultMaxBody = 1 << 20

// VerifyRequest verifies a request and returns its body, which can be read again from
// r.Body. It reads the body only if the headers are valid, and at most MaxBody bytes.
func (v *Verifier) VerifyRequest(r *http.Request) (body []byte, err error) {
	switch {
	case v == nil:
		return nil, ErrNoSecret
	case r == nil:
		return nil, fmt.Errorf("%w: there is no request", ErrBody)
	}
	l, err := v.Scheme.formed(v.Form)
	if err != nil {
		return nil, err
	}
	id, timestamp, signature, err := headers(&l, r.Header)
	if err != nil {
		return nil, err
	}
	c, err := v.check(&l, id, timestamp, signature)
	if err != nil {
		return nil, err
	}
	body, err = v.readBody(r)
	if err != nil {
		return nil, err
	}
	if err := v.match(&l, c, body); err != nil {
		return nil, err
	}
	return body, nil
}

// headers returns the headers that the scheme needs.
func headers(l *layout, h http.Header) (id, timestamp, signature string, err error) {
	if !l.id {
		signature, err = single(h, l.header)
		return "", "", signature, err
	}
	if id, err = single(h, HeaderID); err != nil {
		return "", "", "", err
	}
	if timestamp, err = single(h, HeaderTimestamp); err != nil {
		return "", "", "", err
	}
	// This header is a list, and a list may have several lines.
	return id, timestamp, strings.Join(h.Values(HeaderSignature), " "), nil
}

// single returns the value of a header that must not be repeated. Otherwise the verified
// value and the value that a handler reads could differ.
func single(h http.Header, name string) (string, error) {
	values := h.Values(name)
	switch len(values) {
	case 0:
		return "", nil // Verify returns the error for it
	case 1:
		return values[0], nil
	default:
		return "", fmt.Errorf("%s: %w", name, ErrRepeated)
	}
}

// readBody reads the whole body and puts it back.
func (v *Verifier) readBody(r *http.Request) ([]byte, error) {
	limit := v.MaxBody
	if limit <= 0 {
		limit = DefaultMaxBody
	}
	if r.ContentLength > limit {
		return nil, tooLarge(limit)
	}
	if r.Body == nil { // a request that was built, not received
		r.Body = http.NoBody
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, limit))
	var over *http.MaxBytesError // from this limit, or from another reader around the body
	switch {
	case errors.As(err, &over):
		return nil, tooLarge(over.Limit)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrBody, err)
	}
	r.Body = struct {
		io.Reader
		io.Closer
	}{bytes.NewReader(body), r.Body}
	return body, nil
}

func tooLarge(limit int64) error {
	return fmt.Errorf("%w: more than %d bytes", ErrBodyTooLarge, limit)
}

// Middleware passes a verified request to next, with its body unread. It responds to any
// other with the reason in one line, and the status:
//
//   - 401: the signature is missing, wrong or not fresh.
//   - 413: the body is too large.
//   - 400: the request is malformed.
//   - 500: the Verifier has no key for its scheme.
func (v *Verifier) Middleware(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = r.WithContext(r.Context()) // a copy, so the caller's request keeps its own Body
		if _, err := v.VerifyRequest(r); err != nil {
			status, text := answer(err)
			http.Error(w, text, status)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// answer returns the response to the sender. No error contains a secret or a signature.
// The cause of a failed read of the body is left out, because it is internal to the
// receiver.
func answer(err error) (status int, text string) {
	switch {
	case errors.Is(err, ErrNoSecret):
		return http.StatusInternalServerError, ErrNoSecret.Error()
	case errors.Is(err, ErrMisfit), errors.Is(err, ErrScheme), errors.Is(err, ErrForm):
		return http.StatusInternalServerError, "no signing secret that fits its scheme"
	case errors.Is(err, ErrBody):
		return http.StatusBadRequest, ErrBody.Error()
	case errors.Is(err, ErrBodyTooLarge):
		return http.StatusRequestEntityTooLarge, err.Error()
	case errors.Is(err, ErrNoSignature), errors.Is(err, ErrMismatch),
		errors.Is(err, ErrTooOld), errors.Is(err, ErrTooNew):
		return http.StatusUnauthorized, err.Error()
	default:
		return http.StatusBadRequest, err.Error()
	}
}
