package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/fields"
)

// maxText bounds an error's text in bytes: each failed attempt keeps one.
const maxText = 300

// fault is an error whose text is fit to be kept and shown: no URL, no query,
// nothing that the receiver sent. Its cause is there for errors.Is.
type fault struct {
	text  string
	cause error
}

func (f *fault) Error() string { return f.text }
func (f *fault) Unwrap() error { return f.cause }

// failed makes an Answer of a call that got none.
func (t *callState) failed(err error) dispatcher.Answer {
	var withURL *url.Error
	if errors.As(err, &withURL) {
		err = withURL.Err
	}
	class, text := t.classify(err)
	return dispatcher.Answer{Class: class, Err: &fault{fields.Printable(text, maxText, ""), err}, Address: t.address}
}

// classify finds the class of a failure and its sentence.
func (t *callState) classify(err error) (dispatcher.Class, string) {
	var refused *RefusedError
	var stage *stageError
	switch {
	case errors.As(err, &refused):
		return dispatcher.ClassRefused, refused.Error()
	case errors.Is(err, context.Canceled):
		return dispatcher.ClassInternal, "the attempt was called off"
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
	case !t.got: // the request was refused before there was a connection
		return dispatcher.ClassInternal, err.Error()
	case alert(err):
		return dispatcher.ClassTLS, err.Error()
	case errors.Is(err, errHTTP2):
		return dispatcher.ClassProtocol, err.Error()
	default:
		return dispatcher.ClassProtocol, malformed(err)
	}
}

// classify finds the class of a dial that failed.
func (e *stageError) classify() (dispatcher.Class, string) {
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
		return e.class, e.Error()
	}
}

// errHTTP2 says what to change at a receiver that HTTP/1.1 gets nowhere with.
var errHTTP2 = errors.New("the receiver speaks only HTTP/2: have it take HTTP/1.1 too")

// lookupFault is why a lookup failed, without the resolver's address, which comes
// before the last colon where there is one.
func lookupFault(dns *net.DNSError) string {
	return strings.TrimSpace(dns.Err[strings.LastIndex(dns.Err, ": ")+1:])
}

// late says what a call was waiting for when its time was over.
func (t *callState) late() (dispatcher.Class, string) {
	switch {
	case t.got:
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
	var timeout interface{ Timeout() bool } // net.Error, and what the system calls ETIMEDOUT
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}

// plaintext reports whether the far side answered a handshake with something else.
func plaintext(err error) bool {
	var header tls.RecordHeaderError
	return errors.As(err, &header) || errors.Is(err, http.ErrSchemeMismatch)
}

// alert reports whether TLS failed after its handshake, as it does where a
// client certificate is wanted.
func alert(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && (op.Op == "remote error" || op.Op == "local error")
}

// malformed is the text of net/http's error about an answer that is not HTTP, up
// to where it quotes the answer: receivers may send our own headers back. These
// errors have no types, so the text is all there is.
func malformed(err error) string {
	text := err.Error()
	for _, prefix := range []string{"net/http: ", "http: "} {
		text = strings.TrimPrefix(text, prefix)
	}
	if end := strings.IndexAny(text, "\"[:;"); end >= 0 {
		text = text[:end]
	}
	return "not a valid answer: " + strings.TrimSpace(text)
}
