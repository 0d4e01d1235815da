package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/input"
)

// maxText bounds the text of an error in bytes, because each failed attempt stores one.
const maxText = 300

// fault is an error whose text is safe to store and to show. It has no URL, no query, and
// no byte that the receiver sent. Its cause is there for errors.Is.
type fault struct {
	text  string
	cause error
}

func (f *fault) Error() string { return f.text }
func (f *fault) Unwrap() error { return f.cause }

// failed sets the Answer of a call without a response.
func (t *callState) failed(err error) {
	err = input.Cause(err)
	class, text := t.classify(err)
	t.answer = dispatcher.Answer{Class: class, Err: &fault{input.Printable(text, maxText, ""), err}, Address: t.address, ShortHello: t.short}
}

// classify returns the class of an error and its text.
func (t *callState) classify(err error) (dispatcher.Class, string) {
	var refused *RefusedError
	var stage *stageError
	switch {
	case errors.As(err, &refused):
		return dispatcher.ClassRefused, refused.Error()
	case errors.Is(err, context.Canceled):
		return dispatcher.ClassInternal, "the attempt was cancelled"
	case exhausted(err):
		return dispatcher.ClassInternal, err.Error()
	case errors.As(err, &stage):
		return stage.classify()
	case late(err):
		return t.late()
	case broken(err):
		return dispatcher.ClassReset, "the connection was reset before an answer"
	case closed(err), errors.Is(err, io.ErrUnexpectedEOF):
		return dispatcher.ClassReset, "the connection was closed before an answer"
	case !t.connected: // the request was refused before there was a connection
		return dispatcher.ClassInternal, err.Error()
	case alert(err):
		return dispatcher.ClassTLS, err.Error()
	case errors.Is(err, errHTTP2):
		return dispatcher.ClassProtocol, err.Error()
	default:
		return dispatcher.ClassProtocol, malformed(err)
	}
}

// classify returns the class of a failed dial and its text.
func (e *stageError) classify() (dispatcher.Class, string) {
	class, text := e.kind()
	var silent *unanswered
	if errors.As(e.err, &silent) {
		text += silent.hint()
	}
	return class, text
}

// kind is classify without the hint about the ClientHello.
func (e *stageError) kind() (dispatcher.Class, string) {
	var dns *net.DNSError
	switch {
	case errors.As(e.err, &dns):
		return dispatcher.ClassDNS, e.text + ": " + lookupFault(dns)
	case e.class == dispatcher.ClassDNS:
		return dispatcher.ClassDNS, e.Error()
	case late(e.err):
		return dispatcher.ClassTimeout, e.text + ": timed out"
	case e.class == dispatcher.ClassTLS && broken(e.err):
		return dispatcher.ClassReset, "the connection was reset during the TLS handshake"
	case e.class == dispatcher.ClassTLS && closed(e.err):
		return dispatcher.ClassReset, "the connection was closed during the TLS handshake"
	case e.class == dispatcher.ClassTLS && plaintext(e.err):
		return dispatcher.ClassTLS, "TLS handshake: the receiver does not speak TLS"
	case e.class == dispatcher.ClassTLS && strings.Contains(e.err.Error(), "no application protocol"):
		return e.class, e.Error() + ": " + errHTTP2.Error()
	default:
		return e.class, e.Error() + validity(e.err)
	}
}

// validity returns the dates of a certificate that was refused; empty: the error is another one.
func validity(err error) string {
	var refused *tls.CertificateVerificationError
	if !errors.As(err, &refused) || len(refused.UnverifiedCertificates) == 0 {
		return ""
	}
	leaf := refused.UnverifiedCertificates[0]
	return "; its certificate is for " + leaf.NotBefore.UTC().Format(time.DateOnly) + " to " + leaf.NotAfter.UTC().Format(time.DateOnly)
}

// errHTTP2 names the cure for a receiver that does not speak HTTP/1.1.
var errHTTP2 = errors.New("the receiver speaks only HTTP/2: have it take HTTP/1.1 too")

// lookupFault returns the reason of a failed lookup without the resolver's address, which
// is before the last colon.
func lookupFault(dns *net.DNSError) string {
	return strings.TrimSpace(dns.Err[strings.LastIndex(dns.Err, ": ")+1:])
}

// late returns the class and the text of a timeout, which depend on the stage of the call.
func (t *callState) late() (dispatcher.Class, string) {
	switch {
	case t.connected:
		return dispatcher.ClassTimeout, "timed out waiting for the answer"
	case t.stage == stageLookup:
		return dispatcher.ClassDNS, "lookup: timed out"
	case t.stage == stageProxy:
		return dispatcher.ClassTimeout, "timed out waiting for the proxy"
	case t.stage == stageHandshake:
		return dispatcher.ClassTimeout, "timed out during the TLS handshake"
	default:
		return dispatcher.ClassTimeout, "timed out connecting"
	}
}

func late(err error) bool {
	var timeout interface{ Timeout() bool } // a net.Error, or the system's ETIMEDOUT
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}

// plaintext reports whether the receiver responded to a TLS handshake without TLS.
func plaintext(err error) bool {
	var header tls.RecordHeaderError
	return errors.As(err, &header) || errors.Is(err, http.ErrSchemeMismatch)
}

// alert reports whether TLS failed after its handshake. A missing client certificate is
// reported that late.
func alert(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && (op.Op == "remote error" || op.Op == "local error")
}

// malformed returns the text of an error about a response that is not HTTP.
func malformed(err error) string { return "not a valid answer: " + withoutQuotes(err) }

// withoutQuotes returns the text of net/http's error about a response, without the quoted
// response, because receivers may send our own headers back. These errors have no types, so only
// their text can be used.
func withoutQuotes(err error) string {
	text := err.Error()
	for _, prefix := range []string{"net/http: ", "http: "} {
		text = strings.TrimPrefix(text, prefix)
	}
	if end := strings.IndexAny(text, "\"[:;"); end >= 0 {
		text = text[:end]
	}
	return strings.TrimSpace(text)
}
