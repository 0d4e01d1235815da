package egress_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// hostile is one receiver with everything that receivers do wrong: in plain HTTP
// by the path that is called, in TLS also by the name (hostile_tls_test.go).
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
