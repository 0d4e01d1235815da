package egress_test

import (
	"net/http"
	"slices"
	"strings"

	"github.com/hookladder/hookladder/dispatcher"
)

// row is what one call of the hostile receiver must come to.
type row struct {
	url    string // of hostile.test where it is a path only
	status int
	class  dispatcher.Class // where status is 0
	text   string           // a part of the error's, or of what could not be read
	body   string           // where status is set
	cut    bool
	slow   bool             // only the end of its time ends it
	kept   bool             // its connection serves the next call
	big    bool             // 8 MiB are sent
	again  bool             // connected to again, since nothing was sent
	or     dispatcher.Class // what it may be as well, by chance
}

// The sentences that more than one row ends with.
const (
	waiting   = "timed out waiting for the answer"
	torn      = "the connection was "
	invalid   = "not a valid answer: "
	malformed = invalid + "malformed "
	tooMany   = "server response headers exceeded 100 lines"
	tooLong   = "server response headers exceeded 16384 bytes"
	only2     = "the receiver speaks only HTTP/2: have it take HTTP/1.1 too"
	notTLS    = "TLS handshake: the receiver does not speak TLS"
)

func late(path string) row {
	return row{url: path, class: dispatcher.ClassTimeout, text: waiting, slow: true}
}

func breaks(path string) row { return row{url: path, class: dispatcher.ClassReset, text: torn} }

func protocol(path, text string) row {
	return row{url: path, class: dispatcher.ClassProtocol, text: text}
}

func untrusted(host, text string) row {
	return row{url: "https://" + host + "/ok", class: dispatcher.ClassTLS, text: text}
}

func ok(path string) row   { return row{url: path, status: 200, body: "ok"} }
func kept(path string) row { return row{url: path, status: 200, body: "ok", kept: true} }

func cut(path, body string) row { return row{url: path, status: 200, body: body, cut: true} }

// statusAlone is a response of which only the status could be read.
func statusAlone(path, why string) row {
	return row{url: path, status: 200, cut: true, text: why}
}

func bare(path string, status int) row { return row{url: path, status: status, kept: true} }

// rows are all that the receiver does: each ends as one answer, by itself or
// when its time is over.
func rows() []row {
	return slices.Concat(endlessRows(), oddRows(), brokenRows(), tlsRows(), statusRows())
}

// endlessRows are slow or without an end.
func endlessRows() []row {
	return []row{
		late("/silent"), late("/read-silent"), late("/drip-status"), late("/drip-header"),
		{url: "/never-reads", class: dispatcher.ClassTimeout, text: waiting, slow: true, big: true},
		{url: "/drip-body", status: 200, body: "a", cut: true, slow: true},
		{url: "/drip-chunk", status: 200, body: "a", cut: true, slow: true},
		{url: "/hang-body", status: 200, body: "ok", cut: true, slow: true},
		{url: "/huge-length", status: 200, body: "ok", cut: true, slow: true},
		cut("/infinite", long), cut("/chunks", long), cut("/tiny-chunks", "x"),
		cut("/gzip", strings.Repeat("\x00", len(long))),
		protocol("/status-line", tooLong), statusAlone("/header-line", tooLong), statusAlone("/headers", tooLong),
		cut("/chunk-line", ""), cut("/trailers", "ok"), cut("/trailer", "ok"),
	}
}

// oddRows are announcements, redirects, and answers all the same.
func oddRows() []row {
	return []row{
		protocol("/100-flood", tooMany), protocol("/103-flood", tooMany),
		late("/100-silent"), late("/103-silent"), kept("/103-ok"),
		{url: "/101", status: 101}, {url: "/101-bare", status: 101}, {url: "/101-flood", status: 101},
		bare("/nonsense", 302), bare("/elsewhere", 307),
		kept("/ok"), kept("/no-reason"), kept("/bare-lf"), ok("/1.0"), kept("/cookie"), kept("/same-twice"),
		{url: "/204-body", status: 204}, {url: "/304-body", status: 304}, bare("/busy", 503),
		ok("/te-and-cl"), ok("/two-answers"), ok("/half-answer"),
		{url: "/limit", status: 200, body: long, kept: true},
		{url: "/limit-chunk", status: 200, body: long, kept: true},
		{url: "/one-more", status: 200, body: "x" + long[1:], cut: true, kept: true},
		{url: "/escapes", status: 200, body: "\x1b[2J\x00<b>\r", kept: true},
		{url: "/early-413", status: 413, body: "no", big: true},
		{url: "/413-closes", status: 413, body: "no", big: true, or: dispatcher.ClassReset},
	}
}

// brokenRows are connections that end too soon, and what is not HTTP as we
// speak it.
func brokenRows() []row {
	return []row{
		breaks("/fin"), breaks("/rst"), breaks("/fin-unread"), breaks("/rst-unread"), breaks("/half-close"),
		breaks("/fin-header"), breaks("/rst-header"), breaks("/fin-103"),
		cut("/fin-body", "ok"), cut("/rst-body", "ok"), cut("/fin-chunk", "ok"),
		protocol("/garbage", malformed), protocol("/http09", malformed), protocol("/smtp", malformed),
		protocol("/redis", malformed), protocol("/ssh", malformed), protocol("/h2-settings", only2), protocol("/h2-goaway", only2), protocol("/alert", malformed),
		cut("/bad-chunk", "ok"), cut("/huge-chunk", ""),
		statusAlone("/two-lengths", "message cannot contain multiple Content-Length headers"), statusAlone("/minus-length", "bad Content-Length"), statusAlone("/length-20", "bad Content-Length"),
		statusAlone("/unknown-te", "unsupported transfer encoding"), statusAlone("/two-te", "too many transfer encodings"),
		protocol("/two-digits", malformed), protocol("/four-digits", malformed), protocol("/minus-status", malformed),
		protocol("/status-000", "malformed HTTP status"),
		statusAlone("/no-colon", "malformed MIME header"), kept("/space-in-name"),
		protocol("/unknown-proto", malformed), protocol("/unknown-digits", malformed),
	}
}

// tlsRows are what may go wrong before anything is sent, and some of the rest
// once more.
func tlsRows() []row {
	return []row{
		kept("https://good.test/ok"), kept("https://tls12.test/ok"), kept("https://asks.test/ok"),
		{url: "https://good.test/silent", class: dispatcher.ClassTimeout, text: waiting, slow: true},
		{url: "https://good.test/hang-body", status: 200, body: "ok", cut: true, slow: true},
		{url: "https://good.test/infinite", status: 200, body: long, cut: true},
		{url: "https://good.test/fin", class: dispatcher.ClassReset, text: torn},
		{url: "https://good.test/garbage", class: dispatcher.ClassProtocol, text: malformed},
		{url: "https://good.test/101", status: 101},
		untrusted("expired.test", "expired or is not yet valid"), untrusted("expired.test", "; its certificate is for 1990-01-01 to 1999-01-01"),
		untrusted("future.test", "; its certificate is for 2150-01-01 to 2190-01-01"),
		untrusted("wrong.test", "not wrong.test"), untrusted("self.test", "unknown authority"),
		untrusted("tls10.test", "protocol version"), untrusted("tls11.test", "protocol version"),
		// A TLS 1.3 server says what it thinks of a certificate after the handshake, and our request may run into its closing.
		{url: "https://wants.test/ok", class: dispatcher.ClassTLS, text: "certificate required", or: dispatcher.ClassReset},
		untrusted("wants12.test", "handshake failure"),
		untrusted("h2.test", "no application protocol: "+only2), untrusted("refuses.test", "handshake failure"),
		untrusted("plain.test", notTLS), untrusted("mail.test", notTLS), untrusted("garbage.test", notTLS),
		untrusted("floods.test", "TLS handshake: "),
		{url: "https://closes.test/ok", class: dispatcher.ClassReset, text: torn, again: true},
		{url: "https://resets.test/ok", class: dispatcher.ClassReset, text: torn, again: true},
		{url: "https://hangs.test/ok", class: dispatcher.ClassTimeout, text: "TLS handshake", slow: true, again: true},
		{url: "https://drips.test/ok", class: dispatcher.ClassTimeout, text: "TLS handshake", slow: true},
	}
}

// statusRows are statuses, of which none is special here.
func statusRows() []row {
	all := []row{bare("/nowhere", http.StatusNotFound)}
	for _, code := range strings.Fields("200 201 202 206 226 299 300 301 302 303 304 305 306 307 308 400 401 404 408 410 418 421 425 429 451 500 502 503 504 511 599 600 799 999") {
		r := bare("/status/"+code, 0)
		for _, digit := range code {
			r.status = r.status*10 + int(digit-'0')
		}
		all = append(all, r)
	}
	return all
}
