package egress_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/egress"
	"github.com/hookladder/hookladder/dispatcher/internal/wait"
)

const (
	// brief is the time of a call that is meant to run out.
	brief = time.Second
	// patient is the same where an answer must have begun by then, on a busy
	// machine too.
	patient = 4 * time.Second
)

// call is the row's. Its URL holds what no error may repeat.
func (r row) call(t testing.TB, port string) dispatcher.Call {
	t.Helper()
	text := r.url
	if strings.HasPrefix(text, "/") {
		text = "http://hostile.test" + text
	}
	u := mustURL(t, text+"?token=hunter2")
	u.User = url.UserPassword("merchant", "hunter2")
	u.Host += ":" + port
	call := newTestCall(u)
	if r.big {
		call.Body = make([]byte, 8<<20)
	}
	return call
}

// judge holds an answer against the row.
func (r row) judge(t testing.TB, a dispatcher.Answer) {
	t.Helper()
	if r.or != "" && a.Class == r.or {
		r.class, r.status, r.body, r.text = r.or, 0, "", torn
	}
	require.Equal(t, r.status, a.Status, "%v", a.Err)
	require.Equal(t, r.class, a.Class, "%v", a.Err)
	require.LessOrEqual(t, len(a.Body), dispatcher.AnswerLimit)
	require.Equal(t, r.cut, a.Cut)
	text := a.Unread
	if r.status != 0 {
		require.NoError(t, a.Err)
		r.judgeBody(t, string(a.Body))
	} else {
		require.Nil(t, a.Body)
		text = a.Err.Error()
	}
	require.Contains(t, text, r.text)
	require.LessOrEqual(t, len(text), 300)
	require.NotContains(t, text, "hunter2", "a secret of the URL's")
	require.NotContains(t, text, "c2lnbmF0dXJl", "what the receiver gives back")
	require.NotContains(t, text, "127.0.0.1")
	require.NotContains(t, text, "\x1b")
	if r.slow && r.status == 0 {
		require.ErrorIs(t, a.Err, context.DeadlineExceeded)
	}
}

// judgeBody compares bodies. How much of one came is chance where it drips, or
// where its connection was torn down.
func (r row) judgeBody(t testing.TB, got string) {
	t.Helper()
	switch {
	case strings.HasPrefix(r.url, "/drip-"):
		require.Equal(t, r.body, got[:min(len(got), len(r.body))])
	case r.url == "/tiny-chunks":
		require.Empty(t, strings.Trim(got, r.body))
	default:
		require.Equal(t, r.body, got)
	}
}

// hostileOptions are those of a client that knows the receiver's names.
func hostileOptions(t testing.TB) egress.Options {
	known := names{"hostile.test": {"127.0.0.1"}}
	for name := range handshakes() {
		known[name] = []string{"127.0.0.1"}
	}
	return egress.Options{
		Guard:        egress.NewGuard(mustPrefixes(t, "127.0.0.1/32")),
		Resolver:     known,
		RootCAs:      authority().pool,
		QuickRetries: 3,
	}
}

// ways are the two ways through this package. The first takes the short one where it may, the
// second never does. A receiver notices no difference.
var ways = []struct {
	name string
	take func(*egress.Client)
}{{"short", func(*egress.Client) {}}, {"long", egress.TakeLongWay}}

// eachWay runs a test for each row and each way.
func eachWay(t *testing.T, test func(t *testing.T, r row, way func(*egress.Client))) {
	t.Helper()
	for _, w := range ways {
		for _, r := range rows() {
			t.Run(w.name+"/"+strings.TrimPrefix(r.url, "/"), func(t *testing.T) { test(t, r, w.take) })
		}
	}
}

// TestHostileReceiver: whatever a receiver does ends as one answer, of one
// request, and leaves no connection open.
func TestHostileReceiver(t *testing.T) {
	t.Parallel()
	for _, r := range rows() {
		t.Run(strings.TrimPrefix(r.url, "/"), func(t *testing.T) {
			t.Parallel()
			short, long := r.try(t, ways[0].take), r.try(t, ways[1].take)
			short(t)
			long(t)
		})
	}
}

// try begins the row's call. The function that it returns waits for the answer and judges it.
func (r row) try(t *testing.T, way func(*egress.Client)) (judge func(*testing.T)) {
	t.Helper()
	h, port := newTestHostile(t)
	c := egress.New(hostileOptions(t))
	way(c)
	limit := safety
	switch {
	case r.slow && r.status != 0:
		limit = patient
	case r.slow:
		limit = brief
		r.text = "timed out" // how far it came by then is the machine's affair here
	}
	answered := make(chan dispatcher.Answer, 1)
	call := r.call(t, port)
	go func() {
		ctx := wait.NewUntil(context.Background(), time.Now().Add(limit))
		defer ctx.Stop()
		answered <- c.Send(ctx, call)
	}()
	return func(t *testing.T) {
		t.Helper()
		defer c.Close()
		var a dispatcher.Answer
		select {
		case a = <-answered:
		case <-time.After(limit + safety):
			t.Fatal("the call did not end with its context")
		}
		close(h.over)
		r.judge(t, a)
		if !r.again {
			require.LessOrEqual(t, h.accepted.Load(), int64(1), "an answer is not asked for twice")
		}
		require.LessOrEqual(t, h.requests.Load(), int64(1), "an answer is not asked for twice")
		if r.kept {
			require.EqualValues(t, 1, h.open.Load())
			c.Close()
		}
		require.Eventually(t, func() bool { return h.open.Load() == 0 }, safety, time.Millisecond, "a connection was left open")
	}
}

// TestHostileReceiverIsBoundedInTimeAndBytes does the same where time is
// simulated and the wire holds nothing, so that both are exact. That it ends at
// all shows that no goroutine is left either.
func TestHostileReceiverIsBoundedInTimeAndBytes(t *testing.T) {
	eachWay(t, func(t *testing.T, r row, way func(*egress.Client)) {
		synctest.Test(t, func(t *testing.T) {
			h := &hostile{over: make(chan struct{})}
			r.bounded(t, h, h.serve, hostileOptions(t), way)
		})
	})
}

// TestHostileReceiverBehindAProxy: a tunnel changes nothing of that.
func TestHostileReceiverBehindAProxy(t *testing.T) {
	eachWay(t, func(t *testing.T, r row, way func(*egress.Client)) {
		synctest.Test(t, func(t *testing.T) {
			h := &hostile{over: make(chan struct{})}
			o := hostileOptions(t)
			o.Proxy = mustURL(t, "http://proxy.test:3128")
			r.bounded(t, h, func(c net.Conn) {
				if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
					_, _ = io.WriteString(c, "HTTP/1.1 200 Connected\r\n\r\n")
				}
				h.serve(c)
			}, o, way)
		})
	})
}

// bounded makes the row's call in memory and in simulated time.
func (r row) bounded(t *testing.T, h *hostile, serve func(net.Conn), o egress.Options, way func(*egress.Client)) {
	t.Helper()
	const limit = 15 * time.Second
	// most is the header's and the body's limit, and what is read ahead of them
	// or comes with it: buffers, a handshake, frames.
	const most = 64<<10 + dispatcher.AnswerLimit + 32<<10
	var running sync.WaitGroup
	c := egress.NewOver(o, pipes(serve, &running))
	way(c)
	ctx := wait.NewUntil(t.Context(), time.Now().Add(limit))
	defer ctx.Stop()
	a := c.Send(ctx, r.call(t, "443"))
	close(h.over)
	if r.slow {
		require.Equal(t, limit, a.Took)
	} else {
		require.Less(t, a.Took, time.Second)
	}
	r.judge(t, a)
	c.Close()
	running.Wait()
	require.Zero(t, h.open.Load())
	require.LessOrEqual(t, h.wrote.Load(), int64(most))
}

// TestHoardedConnectionsAreLetGo: a receiver that keeps every connection busy
// gets no more of them than there are calls.
func TestHoardedConnectionsAreLetGo(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/hang-body", "/infinite", "/101", "/one-more"} {
		t.Run(strings.TrimPrefix(path, "/"), func(t *testing.T) {
			t.Parallel()
			h, port := newTestHostile(t)
			c := egress.New(hostileOptions(t))
			defer c.Close()
			var calls sync.WaitGroup
			for range 20 {
				calls.Go(func() { sendWithin(t, c, row{url: path}.call(t, port), brief) })
			}
			calls.Wait()
			require.LessOrEqual(t, h.accepted.Load(), int64(20))
			require.Eventually(t, func() bool {
				c.Close() // what is idle: a call may have ended before its connection was there
				return h.open.Load() == 0
			}, safety, time.Millisecond)
		})
	}
}

// TestCookiesAreNotKept nor is anything else that one answer says for the next call.
func TestCookiesAreNotKept(t *testing.T) {
	var asked []string
	r := newTestReceiver(t, func(r *receiver, c *net.TCPConn, _ int) {
		for b := bufio.NewReader(c); ; {
			req := r.request(b)
			if req == nil {
				return
			}
			asked = append(asked, req.Header.Get("Cookie")+req.Header.Get("Authorization"))
			_, _ = io.WriteString(c, "HTTP/1.1 401 No\r\nSet-Cookie: session=1\r\nWWW-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n")
		}
	})
	c := newTestClient(t)
	for range 3 {
		require.Equal(t, 401, send(t, c, newTestCall(r.url(t))).Status)
	}
	c.Close()
	r.wait(t)
	require.Equal(t, []string{"", "", ""}, asked)
}

// TestMain fails where the tests together leave a call behind that goes on.
func TestMain(m *testing.M) {
	code := m.Run()
	if left := leftBehind(); code == 0 && left != "" {
		fmt.Fprintf(os.Stderr, "calls go on after the last test:\n%s\n", left)
		code = 1
	}
	os.Exit(code)
}

// leftBehind is the goroutines of calls, after it waited for them to end.
func leftBehind() string {
	for end := time.Now().Add(safety); ; time.Sleep(5 * time.Millisecond) {
		stacks := make([]byte, 1<<20)
		all := string(stacks[:runtime.Stack(stacks, true)])
		switch {
		case !strings.Contains(all, "egress.(*exchange)") && !strings.Contains(all, "egress.(*dialer)"):
			return ""
		case time.Now().After(end):
			return all
		}
	}
}

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

// hostile is one receiver with everything that receivers do wrong: in plain HTTP
// by the path that is called, in TLS also by the name.
type hostile struct {
	over     chan struct{} // closed by the test when its call is over
	accepted atomic.Int64  // connections
	requests atomic.Int64  // requests, of which the header was read
	open     atomic.Int64  // connections
	wrote    atomic.Int64  // bytes that got away, TLS and all
}

// peer is one connection of the receiver, with the request that is to be answered.
type peer struct {
	net.Conn
	read *bufio.Reader
	req  *http.Request
	over <-chan struct{}
}

// behaviour answers a request, or does something else. The connection goes on
// to the next request only where again is true.
type behaviour func(p *peer) (again bool)

// serve does with a connection what it asks for, and closes it.
func (h *hostile) serve(c net.Conn) {
	h.accepted.Add(1)
	h.open.Add(1)
	defer h.open.Add(-1)
	defer c.Close()
	p := &peer{Conn: &counted{c, &h.wrote}, over: h.over}
	p.read = bufio.NewReader(p.Conn)
	if first, err := p.read.Peek(1); err != nil || first[0] == 0x16 && !p.shake() {
		return
	}
	for again := true; again; {
		req, err := http.ReadRequest(p.read)
		if err != nil {
			return
		}
		h.requests.Add(1)
		p.req = req
		again = behaviourOf(req.URL.Path)(p)
	}
}

// counted counts what is written.
type counted struct {
	net.Conn
	wrote *atomic.Int64
}

func (c *counted) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.wrote.Add(int64(n))
	return n, err
}

// body reads the request's body.
func (p *peer) body() { _, _ = io.Copy(io.Discard, p.req.Body) }

// hang waits until the other side closes.
func (p *peer) hang() bool {
	_, _ = io.Copy(io.Discard, p.read)
	return false
}

// say writes a text once the request is read.
func (p *peer) say(text string) bool {
	p.body()
	_, err := io.WriteString(p, text)
	return err == nil
}

// raw is the connection without what is around it.
func (p *peer) raw() net.Conn {
	if c, ok := p.Conn.(*counted); ok {
		return c.Conn
	}
	return p.Conn
}

// tear resets the connection, or closes it where there is nothing to reset.
func (p *peer) tear() bool {
	if c, ok := p.raw().(*net.TCPConn); ok {
		_ = c.SetLinger(0)
	}
	_ = p.Close()
	return false
}

// halve closes the one direction, or both where there are none.
func (p *peer) halve() {
	if c, ok := p.raw().(*net.TCPConn); ok {
		_ = c.CloseWrite()
		return
	}
	_ = p.Close()
}

// says answers and goes on.
func says(text string) behaviour { return func(p *peer) bool { return p.say(text) } }

// saysAndHangs answers and is silent from then on.
func saysAndHangs(text string) behaviour {
	return func(p *peer) bool { return p.say(text) && p.hang() }
}

// saysAndCloses answers and closes.
func saysAndCloses(text string) behaviour {
	return func(p *peer) bool {
		p.say(text)
		return false
	}
}

// saysAndTears answers, and resets the connection once the answer has arrived: a
// client that gets the reset before may not see the answer.
func saysAndTears(text string) behaviour {
	return func(p *peer) bool {
		p.say(text)
		<-time.After(20 * time.Millisecond)
		return p.tear()
	}
}

// repeats answers and then says the same for ever.
func repeats(head, piece string) behaviour {
	return func(p *peer) bool {
		for ok := p.say(head); ok; {
			_, err := io.WriteString(p, piece)
			ok = err == nil
		}
		return false
	}
}

// drips answers and then says a letter now and then, for ever.
func drips(head string) behaviour {
	return func(p *peer) bool {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for ok := p.say(head); ok; <-tick.C {
			_, err := io.WriteString(p, "a")
			ok = err == nil
		}
		return false
	}
}

const (
	okHead  = "HTTP/1.1 200 OK\r\n"
	chunked = okHead + "Transfer-Encoding: chunked\r\n\r\n"

	// h2Settings is the first frame of a receiver that speaks HTTP/2 only.
	h2Settings = "\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x64"
)

// behaviourOf finds what is done at a path. /status/n answers with any status.
func behaviourOf(path string) behaviour {
	if status, ok := strings.CutPrefix(path, "/status/"); ok {
		return says("HTTP/1.1 " + status + " Odd\r\nLocation: " + path + "\r\nContent-Length: 0\r\n\r\n")
	}
	if b, ok := behaviours[path]; ok {
		return b
	}
	return says("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
}

var behaviours = map[string]behaviour{
	// Slow or without an end.
	"/silent":      (*peer).hang,
	"/never-reads": func(p *peer) bool { <-p.over; return p.hang() },
	"/read-silent": saysAndHangs(""),
	"/drip-status": drips("HTTP/1.1 200 "),
	"/drip-header": drips(okHead + "X-Slow: "),
	"/drip-body":   drips(okHead + "Content-Length: 1000000\r\n\r\n"),
	"/drip-chunk":  drips(chunked + "fffff\r\n"),
	"/hang-body":   saysAndHangs(okHead + "Content-Length: 9\r\n\r\nok"),
	"/huge-length": saysAndHangs(okHead + "Content-Length: 9223372036854775807\r\n\r\nok"),
	"/infinite":    repeats(okHead+"\r\n", long),
	"/chunks":      repeats(chunked, "10000\r\n"+long+"\r\n"),
	"/tiny-chunks": repeats(chunked, "1;"+strings.Repeat("x", 100)+"\r\nx\r\n"),
	"/gzip":        saysAndCloses(okHead + "Content-Encoding: gzip\r\n\r\n" + packed()),
	"/status-line": repeats("HTTP/1.1 200 ", long),
	"/header-line": repeats(okHead+"X-Long: ", long),
	"/headers":     repeats(okHead, "X-Many: "+strings.Repeat("a", 512)+"\r\n"),
	"/chunk-line":  repeats(chunked+"2;", long),
	"/trailers":    repeats(chunked+"2\r\nok\r\n0\r\n", "X-Many: aaaaaaaa\r\n"),
	"/trailer":     repeats(chunked+"2\r\nok\r\n0\r\nX-Long: ", long),

	// Announcements and redirects.
	"/100-flood":  repeats("", "HTTP/1.1 100 Continue\r\n\r\n"),
	"/103-flood":  repeats("", "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"),
	"/100-silent": saysAndHangs("HTTP/1.1 100 Continue\r\n\r\n"),
	"/103-silent": saysAndHangs("HTTP/1.1 103 Early Hints\r\n\r\n"),
	"/103-ok":     says("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + plainOK),
	"/101":        saysAndHangs("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: tea\r\n\r\n"),
	"/101-bare":   saysAndHangs("HTTP/1.1 101 Switching Protocols\r\n\r\n"),
	"/101-flood":  repeats("HTTP/1.1 101 Switching Protocols\r\n\r\n", long),
	"/nonsense":   says("HTTP/1.1 302 Found\r\nLocation: ://%zz\r\nContent-Length: 0\r\n\r\n"),
	"/elsewhere":  says("HTTP/1.1 307 Again\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n"),

	// Answers that are odd and answers all the same.
	"/ok":          says(plainOK),
	"/no-reason":   says("HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok"),
	"/bare-lf":     says("HTTP/1.1 200 OK\nContent-Length: 2\n\nok"),
	"/1.0":         saysAndCloses("HTTP/1.0 200 OK\r\n\r\nok"),
	"/204-body":    says("HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\nno"),
	"/304-body":    says("HTTP/1.1 304 Not Modified\r\nContent-Length: 2\r\n\r\nno"),
	"/busy":        says("HTTP/1.1 503 Busy\r\nRetry-After: 120\r\nContent-Length: 0\r\n\r\n"),
	"/cookie":      says("HTTP/1.1 200 OK\r\nSet-Cookie: session=1; Path=/\r\nContent-Length: 2\r\n\r\nok"),
	"/te-and-cl":   says(okHead + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"),
	"/same-twice":  says(okHead + "Content-Length: 2\r\nContent-Length: 2\r\n\r\nok"),
	"/two-answers": says(plainOK + plainOK),
	"/limit":       says(okHead + "Content-Length: 65536\r\n\r\n" + long),
	"/limit-chunk": says(chunked + "10000\r\n" + long + "\r\n0\r\n\r\n"),
	"/one-more":    says(okHead + "Content-Length: 65537\r\n\r\nx" + long),
	"/escapes":     says(okHead + "Content-Length: 9\r\n\r\n\x1b[2J\x00<b>\r"),
	"/early-413":   func(p *peer) bool { return early(p) && p.hang() },
	"/413-closes":  func(p *peer) bool { return early(p) && false },
	"/half-answer": func(p *peer) bool {
		p.say(plainOK)
		p.halve()
		return p.hang()
	},

	// Connections that end too soon.
	"/fin":        saysAndCloses(""),
	"/rst":        func(p *peer) bool { p.body(); return p.tear() },
	"/fin-unread": func(*peer) bool { return false },
	"/rst-unread": (*peer).tear,
	"/half-close": func(p *peer) bool { p.body(); p.halve(); return p.hang() },
	"/fin-header": saysAndCloses(okHead + "X-Half: "),
	"/rst-header": saysAndTears(okHead + "X-Half: "),
	"/fin-body":   saysAndCloses(okHead + "Content-Length: 9\r\n\r\nok"),
	"/rst-body":   saysAndTears(okHead + "Content-Length: 9\r\n\r\nok"),
	"/fin-chunk":  saysAndCloses(chunked + "9\r\nok"),
	"/fin-103":    saysAndCloses("HTTP/1.1 103 Early Hints\r\n\r\n"),

	// What is not HTTP as we speak it.
	"/garbage":        saysAndHangs("\x00\x01\x1b[31m v1,c2lnbmF0dXJl\r\n\r\n"),
	"/http09":         saysAndCloses("<html>hello</html>\n"),
	"/smtp":           saysAndHangs("220 mail.example ESMTP\r\n"),
	"/redis":          saysAndHangs("-ERR unknown command 'POST', with args beginning with: \r\n"),
	"/ssh":            saysAndHangs("SSH-2.0-OpenSSH_9.6\r\n"),
	"/h2-settings":    saysAndHangs(h2Settings),
	"/h2-goaway":      saysAndCloses(h2Settings + "\x00\x00\x08\x07\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01"),
	"/alert":          saysAndHangs("\x15\x03\x01\x00\x02\x02\x28\r\n"),
	"/bad-chunk":      saysAndHangs(chunked + "2\r\nok\r\nzzz\r\n"),
	"/huge-chunk":     saysAndHangs(chunked + "fffffffffffffffff\r\nok"),
	"/two-lengths":    saysAndHangs(okHead + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nok"),
	"/minus-length":   saysAndHangs(okHead + "Content-Length: -1\r\n\r\nok"),
	"/length-20":      saysAndHangs(okHead + "Content-Length: 99999999999999999999\r\n\r\nok"),
	"/unknown-te":     saysAndHangs(okHead + "Transfer-Encoding: br\r\n\r\nok"),
	"/two-te":         saysAndHangs(okHead + "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\nok"),
	"/two-digits":     saysAndHangs("HTTP/1.1 20 OK\r\n\r\n"),
	"/four-digits":    saysAndHangs("HTTP/1.1 2000 OK\r\n\r\n"),
	"/minus-status":   saysAndHangs("HTTP/1.1 -20 OK\r\n\r\n"),
	"/status-000":     saysAndHangs("HTTP/1.1 000 None\r\nContent-Length: 0\r\n\r\n"),
	"/no-colon":       saysAndHangs(okHead + "webhook-signature v1,c2lnbmF0dXJl\r\n\r\n"),
	"/space-in-name":  says(okHead + "X Bad : v1,c2lnbmF0dXJl\r\nContent-Length: 2\r\n\r\nok"),
	"/unknown-proto":  saysAndHangs("HTTQ/1.1 200 OK\r\n\r\n"),
	"/unknown-digits": saysAndHangs("HTTP/x.y 200 OK\r\n\r\n"),
}

// long is as much of a body as is ever kept.
var long = strings.Repeat("x", 64<<10)

// packed is little that unpacks to much.
var packed = sync.OnceValue(func() string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(make([]byte, 16<<20))
	_ = z.Close()
	return b.String()
})

// early answers before the body was read.
func early(p *peer) bool {
	_, err := io.WriteString(p, "HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno")
	return err == nil
}

// newTestHostile listens on loopback.
func newTestHostile(t testing.TB) (h *hostile, port string) {
	t.Helper()
	h = &hostile{over: make(chan struct{})}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() { h.serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		running.Wait()
	})
	_, port, err = net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	return h, port
}

// testCA is an authority of the tests' own, and the client's certificate by it.
type testCA struct {
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
	pool   *x509.CertPool
	client tls.Certificate
}

// authority is made once: keys take time.
var authority = sync.OnceValue(func() *testCA {
	ca := &testCA{key: newKey(), pool: x509.NewCertPool()}
	of := newTemplate("hostile authority")
	of.IsCA, of.BasicConstraintsValid = true, true
	of.KeyUsage = x509.KeyUsageCertSign
	ca.cert = sign(of, of, ca.key, ca.key)
	ca.pool.AddCert(ca.cert)
	ca.client = ca.issue("client.test", nil)
	return ca
})

func newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	return key
}

func newTemplate(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: name},
		// Bubbles of synctest live in 2000.
		NotBefore: time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC),
		NotAfter:  time.Date(2190, 1, 1, 0, 0, 0, 0, time.UTC),
	}
}

func sign(of, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey) *x509.Certificate {
	der, err := x509.CreateCertificate(rand.Reader, of, parent, &key.PublicKey, parentKey)
	if err != nil {
		panic(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	return cert
}

// issue makes a certificate for a name and addresses, changed before it is signed.
func (ca *testCA) issue(name string, change func(*x509.Certificate), addrs ...net.IP) tls.Certificate {
	of := newTemplate(name)
	of.DNSNames, of.IPAddresses = []string{name}, addrs
	if change != nil {
		change(of)
	}
	key := newKey()
	cert := sign(of, ca.cert, key, ca.key)
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key, Leaf: cert}
}

// hostileTLS is what the receiver does in a handshake for one name.
type hostileTLS struct {
	config  *tls.Config
	instead func(*peer) // nil: shakes hands
}

// handshakes has them by name.
var handshakes = sync.OnceValue(func() map[string]hostileTLS {
	ca := authority()
	with := func(c tls.Certificate, change func(*tls.Config)) hostileTLS {
		config := &tls.Config{Certificates: []tls.Certificate{c}, MinVersion: tls.VersionTLS10}
		if change != nil {
			change(config)
		}
		return hostileTLS{config: config}
	}
	named := func(name string, change func(*tls.Config)) hostileTLS { return with(ca.issue(name, nil), change) }
	dated := func(name string, from, to int) hostileTLS {
		return with(ca.issue(name, func(c *x509.Certificate) {
			c.NotBefore = time.Date(from, 1, 1, 0, 0, 0, 0, time.UTC)
			c.NotAfter = time.Date(to, 1, 1, 0, 0, 0, 0, time.UTC)
		}), nil)
	}
	says := func(text string) hostileTLS {
		return hostileTLS{instead: func(p *peer) { _, _ = io.WriteString(p, text) }}
	}
	self := &testCA{key: newKey()}
	self.cert = newTemplate("self.test")
	return map[string]hostileTLS{
		"good.test":    named("good.test", nil),
		"expired.test": dated("expired.test", 1990, 1999),
		"future.test":  dated("future.test", 2150, 2190),
		"wrong.test":   named("other.test", nil),
		"self.test":    with(self.issue("self.test", nil), nil),
		"tls10.test":   named("tls10.test", func(c *tls.Config) { c.MaxVersion = tls.VersionTLS10 }),
		"tls11.test":   named("tls11.test", func(c *tls.Config) { c.MaxVersion = tls.VersionTLS11 }),
		"tls12.test":   named("tls12.test", func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }),
		"h2.test":      named("h2.test", func(c *tls.Config) { c.NextProtos = []string{"h2c", "h3"} }),
		"asks.test":    named("asks.test", func(c *tls.Config) { c.ClientAuth = tls.RequestClientCert }),
		"wants.test":   named("wants.test", wanting(ca.pool, tls.VersionTLS13)),
		"wants12.test": named("wants12.test", wanting(ca.pool, tls.VersionTLS12)),
		"plain.test":   says("HTTP/1.1 400 Bad Request\r\n\r\n"),
		"mail.test":    says("220 mail.example ESMTP\r\n"),
		"garbage.test": says("\x16\x03\x03\xff\xff\x00"),
		"refuses.test": says("\x15\x03\x03\x00\x02\x02\x28"), // alert: handshake failure
		"closes.test":  {instead: func(*peer) {}},
		"resets.test":  {instead: func(p *peer) { p.tear() }},
		"hangs.test":   {instead: func(p *peer) { p.hang() }},
		"drips.test": {instead: func(p *peer) {
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			_, err := io.WriteString(p, "\x16\x03\x03\x40\x00")
			for ; err == nil; <-tick.C {
				_, err = io.WriteString(p, "\x02")
			}
		}},
		"floods.test": {instead: func(p *peer) { // ends with no message, as none is allowed to be so long
			_, err := io.WriteString(p, "\x16\x03\x03\x40\x00\x02\xff\xff\xff")
			for err == nil {
				_, err = io.WriteString(p, long[:0x4000])
			}
		}},
	}
})

// wanting makes a server ask for a certificate of the pool.
func wanting(pool *x509.CertPool, most uint16) func(*tls.Config) {
	return func(c *tls.Config) {
		c.MaxVersion = most
		c.ClientAuth = tls.RequireAndVerifyClientCert
		c.ClientCAs = pool
	}
}

var errInstead = errors.New("something else is done instead of a handshake")

// shake does the handshake for the name that is asked for, and reports whether
// a request may come next.
func (p *peer) shake() bool {
	conn := tls.Server(&peeked{p.Conn, p.read}, &tls.Config{
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			how := handshakes()[hello.ServerName]
			if how.config == nil {
				if how.instead != nil {
					how.instead(p)
				}
				_ = p.Close() // before an alert can say more
				return nil, errInstead
			}
			return how.config, nil
		},
	})
	if conn.Handshake() != nil {
		return false
	}
	p.Conn, p.read = conn, bufio.NewReader(conn)
	return true
}

// peeked reads what was read ahead first.
type peeked struct {
	net.Conn
	read *bufio.Reader
}

func (p *peeked) Read(b []byte) (int, error) { return p.read.Read(b) }
