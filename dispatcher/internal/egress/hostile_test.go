package egress_test

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/egress"
)

// brief is the time of a call that is meant to run out.
const brief = 150 * time.Millisecond

// TestReceiverThatNeverEndsIsCutOff: each of these would go on for ever.
func TestReceiverThatNeverEndsIsCutOff(t *testing.T) {
	cases := []struct {
		name   string
		handle func(*receiver, *net.TCPConn, int)
		want   dispatcher.Class
		text   string
	}{
		{
			"silent after accepting",
			func(_ *receiver, c *net.TCPConn, _ int) { _, _ = io.Copy(io.Discard, c) },
			dispatcher.ClassTimeout, "timed out waiting for the answer",
		},
		{
			"header that comes slowly",
			func(r *receiver, c *net.TCPConn, _ int) {
				r.request(bufio.NewReader(c))
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nX-Slow: ")
				_, _ = io.Copy(io.Discard, c)
			},
			dispatcher.ClassTimeout, "timed out waiting for the answer",
		},
		{
			"announcement without an answer",
			say("HTTP/1.1 103 Early Hints\r\n\r\n"),
			dispatcher.ClassTimeout, "timed out waiting for the answer",
		},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newTestReceiver(t, tc.handle)
			a := sendWithin(t, newTestClient(t, quickRetries(3)), newTestCall(r.url(t)), brief)
			require.Equal(t, tc.want, a.Class)
			require.EqualError(t, a.Err, tc.text)
			require.Zero(t, a.Status)
			require.ErrorIs(t, a.Err, context.DeadlineExceeded)
			require.EqualValues(t, 1, r.accepted.Load(), "what took long is not repeated")
			r.wait(t)
		})
	}
}

// TestAnswerThatIsNoneHasItsClass: each ends by itself, and long before the call's time.
func TestAnswerThatIsNoneHasItsClass(t *testing.T) {
	cases := []struct {
		name   string
		handle func(*receiver, *net.TCPConn, int)
		want   dispatcher.Class
		text   string
	}{
		{"closed before the request is read", func(_ *receiver, c *net.TCPConn, _ int) { _ = c.Close() }, dispatcher.ClassReset, "the connection was "},
		{"closed before an answer", sayAndClose(""), dispatcher.ClassReset, "the connection was closed before an answer"},
		{"closed inside the header", sayAndClose("HTTP/1.1 200 OK\r\nX-Half: "), dispatcher.ClassReset, "the connection was closed before an answer"},
		{
			"reset before an answer",
			func(r *receiver, c *net.TCPConn, _ int) {
				r.request(bufio.NewReader(c))
				reset(c)
			},
			dispatcher.ClassReset, "the connection was reset before an answer",
		},
		{"garbage", say("\x00\x01\x1b[31m v1,c2lnbmF0dXJl\r\n\r\n"), dispatcher.ClassProtocol, "not a valid answer: malformed HTTP "},
		{"a mail server's banner", say("220 mail.example ESMTP\r\n"), dispatcher.ClassProtocol, "not a valid answer: malformed HTTP "},
		{"HTTP/0.9", sayAndClose("<html>hello</html>\n"), dispatcher.ClassProtocol, "not a valid answer: malformed HTTP response"},
		{"status of two digits", say("HTTP/1.1 20 OK\r\n\r\n"), dispatcher.ClassProtocol, "not a valid answer: malformed HTTP status code"},
		{"status 000", say("HTTP/1.1 000 None\r\nContent-Length: 0\r\n\r\n"), dispatcher.ClassProtocol, "malformed HTTP status"},
		{"header line that is none", say("HTTP/1.1 200 OK\r\nwebhook-signature v1,c2lnbmF0dXJl\r\n\r\n"), dispatcher.ClassProtocol, "not a valid answer: malformed MIME header"},
		{"two lengths", say("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nok"), dispatcher.ClassProtocol, "not a valid answer: "},
		{"unknown transfer encoding", say("HTTP/1.1 200 OK\r\nTransfer-Encoding: br\r\n\r\nok"), dispatcher.ClassProtocol, "not a valid answer: "},
		{"endless header line", repeat("HTTP/1.1 200 OK\r\nX-Long: ", strings.Repeat("a", 4096)), dispatcher.ClassProtocol, "not a valid answer: server response headers exceeded 65536 bytes"},
		{"endless header lines", repeat("HTTP/1.1 200 OK\r\n", "X-Many: "+strings.Repeat("a", 512)+"\r\n"), dispatcher.ClassProtocol, "not a valid answer: server response headers exceeded 65536 bytes"},
		{"flood of announcements", repeat("", "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"), dispatcher.ClassProtocol, "not a valid answer: server response headers exceeded 65536 bytes"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newTestReceiver(t, tc.handle)
			a := send(t, newTestClient(t), newTestCall(r.url(t)))
			require.Equal(t, tc.want, a.Class, "%v", a.Err)
			require.ErrorContains(t, a.Err, tc.text)
			require.NotContains(t, a.Err.Error(), "c2lnbmF0dXJl", "what the receiver gives back is not repeated")
			require.NotContains(t, a.Err.Error(), "127.0.0.1")
			require.Zero(t, a.Status)
			require.Nil(t, a.Body)
			r.wait(t)
		})
	}
}

// TestAnswerIsTakenWhateverItsBody: the status was said, so it is an answer.
func TestAnswerIsTakenWhateverItsBody(t *testing.T) {
	long := strings.Repeat("x", dispatcher.AnswerLimit)
	cases := []struct {
		name   string
		handle func(*receiver, *net.TCPConn, int)
		want   dispatcher.Answer
	}{
		{"a word", say(plainOK), dispatcher.Answer{Status: 200, Body: []byte("ok")}},
		{"no content", say("HTTP/1.1 204 No Content\r\n\r\n"), dispatcher.Answer{Status: 204}},
		{"no content, with a body all the same", say("HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\nno"), dispatcher.Answer{Status: 204}},
		{"without a length", sayAndClose("HTTP/1.0 200 OK\r\n\r\nsuccess"), dispatcher.Answer{Status: 200, Body: []byte("success")}},
		{"a status that nobody knows", say("HTTP/1.1 799 Odd\r\nContent-Length: 0\r\n\r\n"), dispatcher.Answer{Status: 799}},
		{"Retry-After as sent", say("HTTP/1.1 503 Busy\r\nRetry-After: 120\r\nContent-Length: 0\r\n\r\n"), dispatcher.Answer{Status: 503, RetryAfter: "120"}},
		{"exactly the limit", say("HTTP/1.1 200 OK\r\nContent-Length: 65536\r\n\r\n" + long), dispatcher.Answer{Status: 200, Body: []byte(long)}},
		{"exactly the limit, in chunks", say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10000\r\n" + long + "\r\n0\r\n\r\n"), dispatcher.Answer{Status: 200, Body: []byte(long)}},
		{"one more than the limit", say("HTTP/1.1 200 OK\r\nContent-Length: 65537\r\n\r\nx" + long), dispatcher.Answer{Status: 200, Body: []byte(long), Cut: true}},
		{"without an end", repeat("HTTP/1.1 200 OK\r\n\r\n", long), dispatcher.Answer{Status: 200, Body: []byte(long), Cut: true}},
		{"a chunk that is none", say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\nzzz\r\n"), dispatcher.Answer{Status: 200, Body: []byte("ok"), Cut: true}},
		{"shorter than its length", sayAndClose("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok"), dispatcher.Answer{Status: 200, Body: []byte("ok"), Cut: true}},
		{"redirect", say("HTTP/1.1 302 Found\r\nLocation: /hook\r\nContent-Length: 0\r\n\r\n"), dispatcher.Answer{Status: 302}},
		{"redirect that asks for the same again", say("HTTP/1.1 307 Again\r\nLocation: /hook\r\nContent-Length: 0\r\n\r\n"), dispatcher.Answer{Status: 307}},
		{"redirect to nonsense", say("HTTP/1.1 302 Found\r\nLocation: ://%zz\r\nContent-Length: 0\r\n\r\n"), dispatcher.Answer{Status: 302}},
		{"switching protocols", say("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: tea\r\n\r\n"), dispatcher.Answer{Status: 101}},
		{"switching protocols to nothing", say("HTTP/1.1 101 Switching Protocols\r\n\r\n"), dispatcher.Answer{Status: 101}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newTestReceiver(t, tc.handle)
			c := newTestClient(t, quickRetries(1))
			got := send(t, c, newTestCall(r.url(t)))
			require.Positive(t, got.Took)
			got.Took = 0
			require.Equal(t, tc.want, got)
			require.EqualValues(t, 1, r.accepted.Load(), "an answer is not asked for twice")
			require.EqualValues(t, 1, r.requests.Load(), "an answer is not asked for twice")
			c.Close()
			r.wait(t)
		})
	}
}

func TestBodyThatComesSlowlyIsCutOff(t *testing.T) {
	r := newTestReceiver(t, say("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\nsucc"))
	a := sendWithin(t, newTestClient(t), newTestCall(r.url(t)), brief)
	require.Equal(t, 200, a.Status)
	require.Equal(t, "succ", string(a.Body))
	require.True(t, a.Cut)
	r.wait(t)
}

func TestPackedAnswerIsNotUnpacked(t *testing.T) {
	var packed strings.Builder
	z := gzip.NewWriter(&packed)
	_, err := z.Write(make([]byte, 16<<20))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	r := newTestReceiver(t, sayAndClose("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n"+packed.String()))
	a := send(t, newTestClient(t), newTestCall(r.url(t)))
	require.Equal(t, packed.String(), string(a.Body))
}

func TestReceiverThatIsNotThereIsNoConnection(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	u := mustURL(t, "http://user:pass@"+l.Addr().String()+"/path?token=secret")
	a := send(t, newTestClient(t, quickRetries(1)), newTestCall(u))
	require.Equal(t, dispatcher.ClassConnect, a.Class)
	require.EqualError(t, a.Err, "connect to "+l.Addr().String()+": connection refused")
}

func TestCallThatIsCalledOffSaysSo(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	r := newTestReceiver(t, func(_ *receiver, c *net.TCPConn, _ int) {
		stop()
		_, _ = io.Copy(io.Discard, c)
	})
	a := newTestClient(t, quickRetries(1)).Send(ctx, newTestCall(r.url(t)))
	require.ErrorIs(t, a.Err, context.Canceled)
	require.EqualError(t, a.Err, "the attempt was called off")
	require.Zero(t, a.Status)
}

func TestCallThatCannotBeMadeIsOurOwnFault(t *testing.T) {
	c := newTestClient(t)
	call := newTestCall(mustURL(t, "http://127.0.0.1:1/"))
	call.Header = http.Header{"X-Bad": {"line\r\nbreak"}}
	a := send(t, c, call)
	require.Equal(t, dispatcher.ClassInternal, a.Class)
	require.ErrorContains(t, a.Err, "X-Bad")
	require.NotContains(t, a.Err.Error(), "break")

	for _, u := range []string{"ftp://127.0.0.1/", "http:///x", "127.0.0.1"} {
		a := send(t, c, newTestCall(mustURL(t, u)))
		require.Equal(t, dispatcher.ClassInternal, a.Class, u)
		require.Error(t, a.Err, u)
	}
}

// names is a resolver that knows a few names and no network.
type names map[string][]string

func (n names) LookupNetIP(ctx context.Context, _, host string) ([]netip.Addr, error) {
	if host == "slow.example" {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	texts, ok := n[host]
	if !ok {
		return nil, &net.DNSError{Err: "no such host", Name: host, Server: "192.0.2.53:53", IsNotFound: true}
	}
	var found []netip.Addr
	for _, s := range texts {
		found = append(found, netip.MustParseAddr(s))
	}
	return found, nil
}

func known(n names) func(*egress.Options) {
	return func(o *egress.Options) { o.Resolver = n }
}

func TestNameThatIsNotResolved(t *testing.T) {
	c := newTestClient(t, known(names{"empty.example": nil}))
	a := send(t, c, newTestCall(mustURL(t, "http://nobody.example/")))
	require.Equal(t, dispatcher.ClassDNS, a.Class)
	require.EqualError(t, a.Err, "lookup nobody.example: no such host")

	a = send(t, c, newTestCall(mustURL(t, "http://empty.example/")))
	require.Equal(t, dispatcher.ClassDNS, a.Class)
	require.EqualError(t, a.Err, "lookup empty.example: no addresses")

	a = sendWithin(t, c, newTestCall(mustURL(t, "http://slow.example/")), brief)
	require.Equal(t, dispatcher.ClassDNS, a.Class)
	require.ErrorContains(t, a.Err, "lookup")
}

func TestAddressThatMayNotBeCalledIsRefused(t *testing.T) {
	r := newTestReceiver(t, serve(plainOK))
	port := r.url(t).Port()
	c := egress.New(egress.Options{QuickRetries: 2, Resolver: names{
		"inside.example": {"10.1.2.3", "fd00::1"},
		"loop.example":   {"127.0.0.1"},
		"mapped.example": {"::ffff:127.0.0.1"},
	}})
	defer c.Close()
	for host, want := range map[string]string{
		"127.0.0.1":              "127.0.0.1 is loopback; allow it with ALLOW_NETS=127.0.0.1/32",
		"2130706433":             "127.0.0.1 is loopback; allow it with ALLOW_NETS=127.0.0.1/32",
		"0x7f.1":                 "127.0.0.1 is loopback; allow it with ALLOW_NETS=127.0.0.1/32",
		"[::ffff:127.0.0.1]":     "127.0.0.1 is loopback; allow it with ALLOW_NETS=127.0.0.1/32",
		"loop.example":           "127.0.0.1 is loopback; allow it with ALLOW_NETS=127.0.0.1/32",
		"mapped.example":         "127.0.0.1 is loopback; allow it with ALLOW_NETS=127.0.0.1/32",
		"inside.example":         "10.1.2.3 is private; allow it with ALLOW_NETS=10.1.2.3/32",
		"[64:ff9b::169.254.1.1]": "64:ff9b::a9fe:101 (169.254.1.1) is link-local; allow it with ALLOW_NETS=169.254.1.1/32",
	} {
		a := send(t, c, newTestCall(mustURL(t, "http://"+host+":"+port+"/")))
		require.Equal(t, dispatcher.ClassRefused, a.Class, host)
		require.EqualError(t, a.Err, want, host)
		var refused *egress.RefusedError
		require.True(t, errors.As(a.Err, &refused))
	}
	require.Zero(t, r.accepted.Load())
}

func TestNameWithSomeAddressesRefusedUsesTheOthers(t *testing.T) {
	r := newTestReceiver(t, serve(plainOK))
	port := r.url(t).Port()
	c := newTestClient(t, known(names{
		"mixed.example": {"10.1.2.3", "::1", "127.0.0.1"},
		"twice.example": {"127.0.0.2", "127.0.0.1"},
		"dead.example":  {"10.1.2.3", "127.0.0.2", "127.0.0.3"},
	}), allowed(t, "127.0.0.0/8"))
	for _, host := range []string{"mixed.example", "twice.example"} {
		a := send(t, c, newTestCall(mustURL(t, "http://"+host+":"+port+"/")))
		require.NoError(t, a.Err, host)
		require.Equal(t, 200, a.Status, host)
	}
	a := send(t, c, newTestCall(mustURL(t, "http://dead.example:"+port+"/")))
	require.Equal(t, dispatcher.ClassConnect, a.Class, "a refused address beside one that is down does not end the delivery")
	require.EqualError(t, a.Err, "connect to 127.0.0.2:"+port+": connection refused")
}

func TestHTTPIsRefusedWhereOnlyHTTPSMay(t *testing.T) {
	c := newTestClient(t, func(o *egress.Options) { o.HTTPSOnly = true })
	a := send(t, c, newTestCall(mustURL(t, "http://127.0.0.1:1/")))
	require.Equal(t, dispatcher.ClassRefused, a.Class)
	require.ErrorContains(t, a.Err, "HTTPS_ONLY")
}

func allowed(t testing.TB, nets ...string) func(*egress.Options) {
	return func(o *egress.Options) { o.Guard = egress.NewGuard(mustPrefixes(t, nets...)) }
}

// TestNothingIsLeftBehind runs last in this file, but beside nothing: whatever
// other tests left would fail it too.
func TestNothingIsLeftBehind(t *testing.T) {
	require.Eventually(t, func() bool {
		stacks := make([]byte, 1<<20)
		all := string(stacks[:runtime.Stack(stacks, true)])
		return !strings.Contains(all, "net/http.(*persistConn)") && !strings.Contains(all, "egress.(*dialer)")
	}, safety, 5*time.Millisecond)
}
