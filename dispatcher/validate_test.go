package dispatcher_test

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

var validateNow = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

func validateLimits() dispatcher.Policy {
	return dispatcher.Policy{MaxBody: 100, Now: func() time.Time { return validateNow }}
}

func validMessage() *dispatcher.Message {
	return &dispatcher.Message{
		ID: "msg_1", Topic: "payment.paid", URL: "https://shop.example/hooks",
		Body: []byte(`{}`), ContentType: "application/json",
	}
}

func TestAMessageIsTaken(t *testing.T) {
	for name, change := range map[string]func(*dispatcher.Message){
		"that is plain":                        func(*dispatcher.Message) {},
		"whose id has 128 characters":          func(m *dispatcher.Message) { m.ID = strings.Repeat("a", 128) },
		"whose topic has 128 characters":       func(m *dispatcher.Message) { m.Topic = strings.Repeat("a.", 63) + "bb" },
		"with a tenant of odd characters":      func(m *dispatcher.Message) { m.Tenant = "merchant:{7}/~!" },
		"with a body of the largest size":      func(m *dispatcher.Message) { m.Body = make([]byte, 100) },
		"without a body":                       func(m *dispatcher.Message) { m.Body = nil },
		"in another charset":                   func(m *dispatcher.Message) { m.ContentType = "text/xml; charset=GBK" },
		"a year ahead":                         func(m *dispatcher.Message) { m.Delay = 365 * 24 * time.Hour },
		"at a time a year ahead":               func(m *dispatcher.Message) { m.DeliverAt = validateNow.AddDate(1, 0, 0) },
		"at a time in the past":                func(m *dispatcher.Message) { m.DeliverAt = validateNow.AddDate(-1, 0, 0) },
		"that expires after its first attempt": func(m *dispatcher.Message) { m.Delay = time.Hour; m.ExpiresAt = validateNow.Add(time.Hour + 1) },
		"with 20 headers":                      func(m *dispatcher.Message) { m.Headers = headers(20, "v") },
		"with 8 KiB of headers": func(m *dispatcher.Message) {
			m.Headers = []dispatcher.Header{{Name: "x", Value: strings.Repeat("v", 8<<10-1)}}
		},
		"with a header in UTF-8": func(m *dispatcher.Message) { m.Headers = []dispatcher.Header{{Name: "x-shop", Value: "Grüße"}} },
		"with an empty header":   func(m *dispatcher.Message) { m.Headers = []dispatcher.Header{{Name: "x-shop", Value: ""}} },
		"with authorization": func(m *dispatcher.Message) {
			m.Headers = []dispatcher.Header{{Name: "Authorization", Value: "Basic eA=="}}
		},
		"with the most attempts":      func(m *dispatcher.Message) { m.MaxAttempts = 101 },
		"with the shortest timeout":   func(m *dispatcher.Message) { m.Timeout = time.Second },
		"to a queue":                  func(m *dispatcher.Message) { m.URL, m.Queue = "", "order.cancel_1" },
		"to a queue for an hour":      func(m *dispatcher.Message) { m.URL, m.Queue, m.Timeout = "", "a", time.Hour },
		"with the longest timeout":    func(m *dispatcher.Message) { m.Timeout = time.Minute },
		"with a header named te-like": func(m *dispatcher.Message) { m.Headers = []dispatcher.Header{{Name: "tea", Value: "green"}} },
	} {
		t.Run(name, func(t *testing.T) {
			m := validMessage()
			change(m)
			require.Empty(t, m.Validate(validateLimits()))
		})
	}
}

func headers(n int, value string) []dispatcher.Header {
	all := make([]dispatcher.Header, n)
	for i := range all {
		all[i] = dispatcher.Header{Name: fmt.Sprintf("x-%d", i), Value: value}
	}
	return all
}

// Servers that hand requests on by way of CGI or WSGI read each of these as the
// name with dashes, and many take the last one, or both.
func TestAHeaderThatReadsAsOursIsRefused(t *testing.T) {
	for _, name := range []string{
		"webhook_id", "Webhook_Signature", "Hookladder_Tenant", "HOOKLADDER.TOPIC", "content_length", "webhook~id", "x_signature",
		"svix-id", "Svix-Signature", "svix_timestamp",
	} {
		require.ErrorContains(t, dispatcher.CheckHeaderName(name), "can't be set", name)
	}
	for _, name := range []string{"X_Shop", "webhookid", "x-webhook-id", "Content-Encoding", "svix", "x-forward", "viable", "Idempotency-Key"} {
		require.NoError(t, dispatcher.CheckHeaderName(name), name)
	}
}

func TestAPrefixForOurHeaders(t *testing.T) {
	for text, want := range map[string]string{
		"x-": "", "x-pay-": "", "hookladder-": "", "0-": "", strings.Repeat("a", 31) + "-": "", "x-forwarded-": "",
		"": "2 to 32", "-": "2 to 32", "x": "2 to 32", "x-pay": "at its end", "X-": "a-z", "x_": "a-z", "é-": "a-z", strings.Repeat("a", 32) + "-": "2 to 32",
		"webhook-": "webhook-", "webhook-our-": "webhook-", "svix-": "svix-", "proxy-": "proxy-", "content-": "content-", "sec-": "sec-",
	} {
		p, err := dispatcher.ParseHeaderPrefix(text)
		if want != "" {
			require.ErrorContains(t, err, want, text)
			continue
		}
		require.NoError(t, err, text)
		require.Equal(t, dispatcher.HeaderPrefix(text), p)
	}
	require.Equal(t, dispatcher.CallbackHeaders{Topic: "Hookladder-Topic", Attempt: "Hookladder-Attempt", Tenant: "Hookladder-Tenant", Resend: "Hookladder-Resend"}, dispatcher.HeaderPrefix("").Headers())
	const own = dispatcher.HeaderPrefix("x-pay-")
	require.Equal(t, "X-Pay-Resend", own.Headers().Resend)
	for _, name := range []string{"x-pay-topic", "X_Pay_Attempt", "x-pay.tenant", "X-PAY-RESEND", "hookladder-topic", "hookladder-more", "webhook-id"} {
		require.ErrorContains(t, own.CheckName(name), "can't be set", name)
	}
	for _, name := range []string{"x-pay-order", "x-pay-", "x-pay-topics", "x-topic", "topic"} {
		require.NoError(t, own.CheckName(name), name)
		require.NoError(t, dispatcher.HeaderPrefix("").CheckName(name), name)
	}
}

func TestAMessageIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*dispatcher.Message)
		path   string
		says   string
	}{
		"without an id":                      {func(m *dispatcher.Message) { m.ID = "" }, "$.id", "1 to 128"},
		"with too long an id":                {func(m *dispatcher.Message) { m.ID = strings.Repeat("a", 129) }, "$.id", "1 to 128"},
		"without a topic":                    {func(m *dispatcher.Message) { m.Topic = "" }, "$.topic", "needed"},
		"with too long a topic":              {func(m *dispatcher.Message) { m.Topic = strings.Repeat("a", 129) }, "$.topic", "128"},
		"with an empty word in its topic":    {func(m *dispatcher.Message) { m.Topic = "a..b" }, "$.topic", "dots"},
		"with a dot at its topic's end":      {func(m *dispatcher.Message) { m.Topic = "a." }, "$.topic", "dots"},
		"with a topic of our own":            {func(m *dispatcher.Message) { m.Topic = "hookladder.test" }, "$.topic", "Hookladder itself"},
		"with a star in its topic":           {func(m *dispatcher.Message) { m.Topic = "payment.*" }, "$.topic", "words"},
		"with a space in its tenant":         {func(m *dispatcher.Message) { m.Tenant = "a b" }, "$.tenant", "ASCII"},
		"with a letter of its own in tenant": {func(m *dispatcher.Message) { m.Tenant = "é" }, "$.tenant", "ASCII"},
		"with too long a tenant":             {func(m *dispatcher.Message) { m.Tenant = strings.Repeat("a", 129) }, "$.tenant", "128"},
		"with too large a body":              {func(m *dispatcher.Message) { m.Body = make([]byte, 101) }, "$.body", "MAX_BODY"},
		"without a content type":             {func(m *dispatcher.Message) { m.ContentType = "" }, "$.content_type", "needed"},
		"with half a content type":           {func(m *dispatcher.Message) { m.ContentType = "json" }, "$.content_type", "media type"},
		"with a broken content type":         {func(m *dispatcher.Message) { m.ContentType = "text/plain; charset" }, "$.content_type", "media type"},
		"with two lines of content type":     {func(m *dispatcher.Message) { m.ContentType = "text/plain\r\nx: y" }, "$.content_type", "printable"},
		"with too long a content type":       {func(m *dispatcher.Message) { m.ContentType = "a/" + strings.Repeat("b", 255) }, "$.content_type", "256"},
		"with a url and an endpoint":         {func(m *dispatcher.Message) { m.Endpoint = "ep_abcdefghi" }, "$.endpoint", "not both"},
		"with an endpoint that can be none":  {func(m *dispatcher.Message) { m.URL, m.Endpoint = "", "u_abc" }, "$.endpoint", "uid"},
		"with a url and a queue":             {func(m *dispatcher.Message) { m.Queue = "orders" }, "$.queue", "one of url, endpoint and queue"},
		"with an endpoint and a queue":       {func(m *dispatcher.Message) { m.URL, m.Endpoint, m.Queue = "", "ep_abcdefghi", "orders" }, "$.queue", "one of url"},
		"with an endpoint as its queue":      {func(m *dispatcher.Message) { m.URL, m.Queue = "", "ep_abcdefghi" }, "$.queue", "give endpoint"},
		"with a lane as its queue":           {func(m *dispatcher.Message) { m.URL, m.Queue = "", "q_orders" }, "$.queue", "as lanes do"},
		"with a space in its queue":          {func(m *dispatcher.Message) { m.URL, m.Queue = "", "my orders" }, "$.queue", "1 to 64"},
		"with too long a queue":              {func(m *dispatcher.Message) { m.URL, m.Queue = "", strings.Repeat("q", 65) }, "$.queue", "1 to 64"},
		"with over an hour for a queue":      {func(m *dispatcher.Message) { m.URL, m.Queue, m.Timeout = "", "a", time.Hour+1 }, "$.timeout", "1s to 1h"},
		"with too little for a queue":        {func(m *dispatcher.Message) { m.URL, m.Queue, m.Timeout = "", "a", time.Second-1 }, "$.timeout", "1s to 1h"},
		"with a long subject":                {func(m *dispatcher.Message) { m.Subject = strings.Repeat("ä", 129) }, "$.subject", "128 characters"},
		"with a control character in it":     {func(m *dispatcher.Message) { m.Subject = "order\x1b[2J" }, "$.subject", "control"},
		"with a subject that is no UTF-8":    {func(m *dispatcher.Message) { m.Subject = "order\xff" }, "$.subject", "control"},
		"with a space in its ordering key":   {func(m *dispatcher.Message) { m.OrderingKey = "a b" }, "$.ordering_key", "spaces"},
		"with too long an ordering key":      {func(m *dispatcher.Message) { m.OrderingKey = strings.Repeat("k", 129) }, "$.ordering_key", "128"},
		"with delay and time":                {func(m *dispatcher.Message) { m.Delay = 1; m.DeliverAt = validateNow }, "$.delay", "not both"},
		"with a negative delay":              {func(m *dispatcher.Message) { m.Delay = -1 }, "$.delay", "negative"},
		"two years ahead":                    {func(m *dispatcher.Message) { m.Delay = 2 * 365 * 24 * time.Hour }, "$.delay", "year"},
		"at a time two years ahead":          {func(m *dispatcher.Message) { m.DeliverAt = validateNow.AddDate(2, 0, 0) }, "$.deliver_at", "year"},
		"that expired":                       {func(m *dispatcher.Message) { m.ExpiresAt = validateNow.Add(-1) }, "$.expires_at", "after"},
		"that expires with its attempt":      {func(m *dispatcher.Message) { m.Delay = time.Hour; m.ExpiresAt = validateNow.Add(time.Hour) }, "$.expires_at", "after"},
		"that expires before its time": {func(m *dispatcher.Message) {
			m.DeliverAt, m.ExpiresAt = validateNow.Add(2), validateNow.Add(1)
		}, "$.expires_at", "after"},
		"with 21 headers":          {func(m *dispatcher.Message) { m.Headers = headers(21, "v") }, "$.headers", "20"},
		"with over 8 KiB":          {func(m *dispatcher.Message) { m.Headers = headers(20, strings.Repeat("v", 500)) }, "$.headers", "8192"},
		"with too many attempts":   {func(m *dispatcher.Message) { m.MaxAttempts = 102 }, "$.max_attempts", "101"},
		"with negative attempts":   {func(m *dispatcher.Message) { m.MaxAttempts = -1 }, "$.max_attempts", "101"},
		"with too short a timeout": {func(m *dispatcher.Message) { m.Timeout = time.Second - 1 }, "$.timeout", "1s"},
		"with too long a timeout":  {func(m *dispatcher.Message) { m.Timeout = time.Minute + 1 }, "$.timeout", "60s"},
	} {
		t.Run(name, func(t *testing.T) {
			m := validMessage()
			c.change(m)
			wrong := m.Validate(validateLimits())
			require.Len(t, wrong, 1)
			require.Equal(t, c.path, wrong[0].Path)
			require.Contains(t, wrong[0].Detail, c.says)
		})
	}
}

func TestAllMistakesAreToldAtOnce(t *testing.T) {
	m := &dispatcher.Message{ID: "a.b", URL: "ftp://x", Delay: -1, Timeout: 1, MaxAttempts: -1}
	var paths []string
	for _, w := range m.Validate(validateLimits()) {
		paths = append(paths, w.Path)
	}
	require.Equal(t, []string{"$.id", "$.topic", "$.content_type", "$.url", "$.delay", "$.max_attempts", "$.timeout"}, paths)
}

func TestIdsThatCouldForgeAKeyAreRefused(t *testing.T) {
	for _, id := range []string{
		"", "{", "}", "{}", "a}b{c", "*", "?", "a\nb", "a b", "a\x00", "a:b", "../a", "a.b", "[a]", `a\b`,
		"\u00e9", "e\u0301", "\u202eabc", "😀", "\xff", strings.Repeat("a", 129),
	} {
		require.False(t, dispatcher.ValidID(id), "%q", id)
	}
	for _, id := range []string{"a", "A-z_0", "-", strings.Repeat("a", 128)} {
		require.True(t, dispatcher.ValidID(id), "%q", id)
	}
}

func TestHeadersThatAreOursAreRefused(t *testing.T) {
	for _, name := range []string{
		"host", "Host", "CONTENT-LENGTH", "Transfer-Encoding", "connection", "keep-alive", "TE", "trailer",
		"upgrade", "expect", "proxy-authorization", "Proxy-Connection", "accept-encoding", "cookie", "content-type",
		"user-agent", "webhook-id", "WebHook-Signature", "webhook-", "hookladder-topic", "Hookladder-Anything",
		"x-signature", "Stripe-Signature", "x-hub-signature-256", "", "a b", "a:b", "a\r\nb", "é", "a\x00",
	} {
		require.Error(t, dispatcher.CheckHeaderName(name), "%q", name)
	}
	for _, value := range []string{"a\r\nx: y", "a\n", "a\x00b", "a\tb", "\x7f", " a", "a "} {
		require.Error(t, dispatcher.CheckHeaderValue(value), "%q", value)
	}
	m := validMessage()
	m.Headers = []dispatcher.Header{{Name: "X-Shop", Value: "1"}, {Name: "x-shop", Value: "2"}, {Name: "a\r\nb", Value: ""}}
	wrong := m.Validate(validateLimits())
	require.Len(t, wrong, 2)
	require.Contains(t, wrong[0].Detail, "twice")
	require.Equal(t, "$.headers.x-shop", wrong[0].Path)
	require.Equal(t, "$.headers", wrong[1].Path)
	require.NotContains(t, wrong[1].Detail, "\n")
}

func TestURLsAreTaken(t *testing.T) {
	for _, raw := range []string{
		"http://a", "https://shop.example/hooks?a=b&c=%20", "http://localhost:8080/", "http://127.0.0.1:1/",
		"http://[::1]:65535/x", "https://xn--bcher-kva.example/", "http://my_service:80/a", "HTTPS://Shop.Example/",
		"https://a/" + strings.Repeat("p", 2048-len("https://a/")), `https://a/?q="x"&r=<y>`, "https://0x.example/", "https://1a/",
	} {
		u, err := dispatcher.ParseURL(raw)
		require.NoError(t, err, raw)
		require.Contains(t, []string{"http", "https"}, u.Scheme)
	}
}

func TestURLsAreRefused(t *testing.T) {
	for raw, says := range map[string]string{
		"shop.example/hooks": "absolute", "//shop.example": "absolute", "/hooks": "absolute", "": "absolute",
		"ftp://a": "absolute", "javascript:alert(1)": "absolute", "http:a": "no host", "http://": "no host",
		"http:///a": "no host", "http://:80/": "no host", "http://user@a/": "user", "http://user:pass@a/": "user",
		"http://@a/": "user", "http://a/#f": "fragment", "http://a/#": "fragment", "http://a b/": "spaces",
		`http://a\b/`: "backslashes", `http://a\@b/`: "backslashes", "http://a/\n": "control", "http://a/\x00": "control",
		"\thttp://a": "control", "http://a/\x7f": "control", "http://a:0/": "port", "http://a:65536/": "port",
		"http://a:99999999999/": "port", "http://a:080/": "port", "http://a:/": "empty port", "http://a:x/": "not a URL",
		"http://a:-1/": "not a URL", "http://b\u00fccher.example/": "punycode", "http://a/\u00e9": "percent-encode",
		"http://a/?q=\u00e9": "percent-encode", "http://%61.example/": "percent sign", "http://[fe80::1%25eth0]/": "percent sign",
		"http://a..b/": "empty label", "http://.a/": "empty label", "http://a../": "empty label", "http://./": "empty label", "http://1.2.3.4./": "looks like an address",
		"http://" + strings.Repeat("a", 64) + "/":     "label of 64",
		"http://" + strings.Repeat("abc.", 64) + "a/": "host of 257", "http://a,b/": "other characters", "http://a*/": "other characters",
		"http://2130706433/": "looks like an address", "http://0x7f000001/": "looks like an address",
		"http://127.1/": "looks like an address", "http://127.0.0.0x1/": "looks like an address",
		"http://010.0.0.1/": "looks like an address", "http://256.0.0.1/": "looks like an address",
		"http://[v1.x]/": "not a URL", "http://[::1/": "not a URL", "http://[127.0.0.1]/": "not a URL", "http://[]/": "not a URL", "http://::1/": "not a URL",
		"https://a/" + strings.Repeat("p", 2049-len("https://a/")): "2049 bytes", "http://a/%zz": "not a URL",
	} {
		_, err := dispatcher.ParseURL(raw)
		require.ErrorContains(t, err, says, "%q", raw)
	}
}

func TestAURLErrorKeepsItsSecret(t *testing.T) {
	for _, raw := range []string{"http://a:x/?token=hunter2", "http://a/%zz?token=hunter2", "http://u:hunter2@a/"} {
		_, err := dispatcher.ParseURL(raw)
		require.Error(t, err)
		require.NotContains(t, err.Error(), "hunter2")
	}
}

func TestLimitsSayWhichURLsMayBeUsed(t *testing.T) {
	private := errors.New("10.1.2.3 is private; allow it with ALLOW_NETS=10.1.2.3/32")
	for name, c := range map[string]struct {
		limits dispatcher.Policy
		url    string
		says   string
	}{
		"without a secret nothing goes to a bare URL": {dispatcher.Policy{Unsigned: true}, "https://a/", "SIGNING_SECRET"},
		"plain http where https is asked for":         {dispatcher.Policy{HTTPSOnly: true}, "http://a/", "HTTPS_ONLY"},
		"an address that the guard refuses":           {dispatcher.Policy{CheckURL: func(*url.URL) error { return private }}, "http://10.1.2.3/", "ALLOW_NETS=10.1.2.3/32"},
	} {
		t.Run(name, func(t *testing.T) {
			m := validMessage()
			m.URL = c.url
			wrong := m.Validate(c.limits)
			require.Len(t, wrong, 1)
			require.Equal(t, "$.url", wrong[0].Path)
			require.Contains(t, wrong[0].Detail, c.says)
			require.Contains(t, wrong[0].Error(), "$.url: ")
		})
	}
	m := validMessage()
	require.Empty(t, m.Validate(dispatcher.Policy{HTTPSOnly: true, CheckURL: func(*url.URL) error { return nil }}))
}

func TestAURLThatPassedIsNotLookedAtAgain(t *testing.T) {
	looked := 0
	l := validateLimits()
	l.Passed = &dispatcher.Passed{}
	l.CheckURL = func(u *url.URL) error {
		looked++
		if u.Hostname() == "10.1.2.3" {
			return errors.New("private")
		}
		return nil
	}
	faults := func(raw string) int {
		m := validMessage()
		m.URL = raw
		return len(m.Validate(l))
	}
	for range 3 {
		require.Zero(t, faults("https://shop.example/a"))
	}
	require.Equal(t, 1, looked)
	l.Passed.Clear()
	require.Zero(t, faults("https://shop.example/a"))
	require.Equal(t, 2, looked)
	looked = 1
	require.Zero(t, faults("https://shop.example/b"))
	require.Equal(t, 2, looked, "another URL is another one")
	for range 3 {
		require.Equal(t, 1, faults("https://10.1.2.3/a"))
		require.Equal(t, 1, faults("no URL"))
	}
	require.Equal(t, 5, looked, "what was refused is looked at each time")
	for i := range 10_000 { // far more than are remembered
		require.Zero(t, faults("https://shop.example/"+strconv.Itoa(i)))
	}
	looked = 0
	require.Zero(t, faults("https://shop.example/a"))
	require.Equal(t, 1, looked, "not all are remembered")

	l.Unsigned = true
	require.Equal(t, 1, faults("https://shop.example/a"), "it passed where it may be signed")
}

func TestLanes(t *testing.T) {
	for _, lane := range []string{"", "a:b", strings.Repeat("a", 17), "a b", "*"} {
		require.False(t, dispatcher.ValidLane(lane), "%q", lane)
	}
	u, err := dispatcher.ParseURL("https://shop.example/hooks")
	require.NoError(t, err)
	require.True(t, dispatcher.ValidLane(string(dispatcher.URLLane(u, ""))))
}

func FuzzParseURL(f *testing.F) {
	for _, s := range []string{"http://a", "https://u:p@[::1%25x]:80/a?b#c", `http://a\b`, "http://127.1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := dispatcher.ParseURL(raw)
		if err != nil {
			return
		}
		// What was taken is read in the same way once more, and names one place.
		again, err := dispatcher.ParseURL(u.String())
		require.NoError(t, err)
		require.Equal(t, dispatcher.URLLane(u, ""), dispatcher.URLLane(again, ""))
		require.NotContains(t, raw, "#")
		require.Nil(t, u.User)
	})
}

func BenchmarkValidate(b *testing.B) {
	m, l := validMessage(), validateLimits()
	b.ReportAllocs()
	for b.Loop() {
		if len(m.Validate(l)) != 0 {
			b.Fatal("refused")
		}
	}
}

func TestAQueueHasAShortLaneOfItsOwn(t *testing.T) {
	require.Equal(t, dispatcher.Lane("q_order.cancel_"), dispatcher.QueueLane("order.cancel_"))
	long := dispatcher.QueueLane("order_cancellations")
	require.NotEqual(t, long, dispatcher.QueueLane("order_cancellation2"))
	for _, name := range []string{"a", "A-Z.a_z", "fourteen-chars", "fifteen-chars-x", strings.Repeat("q", 64)} {
		lane := dispatcher.QueueLane(name)
		require.True(t, dispatcher.ValidQueue(name), name)
		require.True(t, dispatcher.ValidLane(string(lane)), lane)
		require.True(t, lane.IsQueue())
		require.False(t, dispatcher.ValidQueue(string(lane)), "a lane is no queue's name")
	}
	for _, name := range []string{"", strings.Repeat("q", 65), "a b", "a~b", "a:b", "ep_x", "u_x", "q_x", "ä", "a/b"} {
		require.False(t, dispatcher.ValidQueue(name), name)
	}
}

func TestAQueueIsPartOfTheContent(t *testing.T) {
	digests := map[dispatcher.Digest]string{}
	for _, m := range []dispatcher.Message{
		{Topic: "a", Body: []byte("xy")}, {Topic: "a", Queue: "x", Body: []byte("xy")}, {Topic: "a", Queue: "x", Body: []byte("y")},
		{Topic: "a", Endpoint: "x", Body: []byte("xy")}, {Topic: "a", Subject: "x", Body: []byte("xy")}, {Topic: "a", Subject: "x", Queue: "x", Body: []byte("xy")},
	} {
		text := fmt.Sprintf("%+v", m)
		require.Empty(t, digests[m.Digest()], text)
		digests[m.Digest()] = text
	}
}

// forgingHeaders are the lists of others: the headers that proxies set or remove, and those
// that receivers' libraries believe. A list is as its document has it, unless a remark
// says which kind of name is left out.
var forgingHeaders = map[string][]string{
	// All that Envoy removes or replaces in a request of a stranger.
	"https://www.envoyproxy.io/docs/envoy/latest/configuration/http/http_conn_man/header_sanitizing": {
		"x-envoy-decorator-operation", "x-envoy-downstream-service-cluster", "x-envoy-downstream-service-node",
		"x-envoy-expected-rq-timeout-ms", "x-envoy-external-address", "x-envoy-force-trace", "x-envoy-internal", "x-envoy-ip-tags",
		"x-envoy-max-retries", "x-envoy-retry-grpc-on", "x-envoy-retry-on", "x-envoy-upstream-alt-stat-name",
		"x-envoy-upstream-rq-per-try-timeout-ms", "x-envoy-upstream-rq-timeout-alt-response", "x-envoy-upstream-rq-timeout-ms",
		"x-envoy-upstream-stream-duration-ms", "x-forwarded-client-cert", "x-forwarded-for", "x-forwarded-proto", "x-request-id", "referer",
	},
	// What a widely used library looks for, until it has the client's address.
	"https://github.com/pbojinov/request-ip": {
		"X-Client-IP", "X-Forwarded-For", "CF-Connecting-IP", "Fastly-Client-Ip", "True-Client-Ip", "X-Real-IP", "X-Cluster-Client-IP",
		"X-Forwarded", "Forwarded-For", "Forwarded", "appengine-user-ip", "Cf-Pseudo-IPv4",
	},
	// Its headers that name the client or the way.
	"https://developers.cloudflare.com/fundamentals/reference/http-headers/": {
		"CF-Connecting-IP", "CF-Connecting-IPv6", "CF-Pseudo-IPv4", "True-Client-IP", "X-Forwarded-For", "X-Forwarded-Proto",
	},
	"https://www.fastly.com/documentation/reference/http/http-headers/Fastly-Client-IP": {"Fastly-Client-IP"},
	// Headers that name the client, and the user whom the proxy signed in.
	"https://fly.io/docs/networking/request-headers/":                                              {"Fly-Client-IP", "X-Forwarded-For", "Via"},
	"https://learn.microsoft.com/en-us/azure/frontdoor/front-door-http-headers-protocol":           {"X-Azure-ClientIP", "X-Azure-SocketIP", "X-Azure-FDID", "Via"},
	"https://kubernetes.github.io/ingress-nginx/user-guide/nginx-configuration/configmap/":         {"X-Original-Forwarded-For"},
	"https://www.rfc-editor.org/rfc/rfc8586":                                                       {"CDN-Loop"},
	"https://developers.cloudflare.com/cloudflare-one/access-controls/applications/http-apps/":     {"Cf-Access-Jwt-Assertion", "Cf-Access-Authenticated-User-Email"},
	"https://cloud.google.com/iap/docs/identity-howto":                                             {"X-Goog-IAP-JWT-Assertion", "X-Goog-Authenticated-User-Email", "X-Goog-Authenticated-User-ID"},
	"https://kubernetes.io/docs/reference/access-authn-authz/authentication/#authenticating-proxy": {"X-Remote-User"},
	// The registered ones for proxies.
	"https://www.rfc-editor.org/rfc/rfc7239": {"Forwarded"},
	"https://www.rfc-editor.org/rfc/rfc9110": {"Via", "Proxy-Authorization", "Proxy-Authenticate", "Proxy-Authentication-Info"},
	// CGI turns it into HTTP_PROXY, which many libraries obey.
	"https://httpoxy.org/": {"Proxy"},
	// The example of a proxy that names the client in another header.
	"https://www.yiiframework.com/doc/guide/2.0/en/runtime-requests": {"X-ProxyUser-Ip"},
	// Names of the client that attackers try, and the lists above do not have.
	"https://gist.github.com/SeanPesce/867c408736d891ee39b498fa92e36876": {"Client-IP", "Proxy-Client-IP"},
	// Frameworks take these for the URL and the method.
	"https://github.com/advisories/GHSA-8wgj-6wx8-h5hq":   {"X-Original-URL", "X-Rewrite-URL"},
	"https://github.com/expressjs/method-override#readme": {"X-HTTP-Method", "X-HTTP-Method-Override", "X-Method-Override"},
}

// allowedHeaders are in one of the lists, though a message may have them: they name
// neither a client nor a way.
var allowedHeaders = []string{"x-request-id", "referer"}

func TestHeadersThatForgeTheWayAreRefused(t *testing.T) {
	names := []string{"client_ip", "X_Real_IP", "PROXY", "true.client.ip"} // CGI reads them as the names with dashes
	for _, list := range forgingHeaders {
		names = append(names, list...)
	}
	for _, name := range names {
		own := []dispatcher.Header{{Name: name, Value: "1.2.3.4"}}
		message := validMessage()
		message.Headers = own
		endpoint := newTestEndpoint(func(e *dispatcher.Endpoint) { e.Headers = own })
		if slices.Contains(allowedHeaders, name) {
			require.Empty(t, message.Validate(validateLimits()), name)
			require.Empty(t, endpoint.Validate(validateLimits()), name)
			continue
		}
		for of, found := range map[string][]dispatcher.FieldError{"message": message.Validate(validateLimits()), "endpoint": endpoint.Validate(validateLimits())} {
			require.Len(t, found, 1, "%s of a %s", name, of)
			require.Contains(t, found[0].Detail, "can't be set", "%s of a %s", name, of)
		}
	}
}

// TestAnAddressIsWrittenInOneWay: each other way would have a lane, a window
// and a breaker of its own.
func TestAnAddressIsWrittenInOneWay(t *testing.T) {
	for raw, says := range map[string]string{
		"http://[0:0:0:0:0:0:0:1]/":           "unusual form: write [::1]",
		"http://[::0:1]/":                     "unusual form: write [::1]",
		"http://[2001:DB8:0:0:0:0:0:1]/":      "unusual form: write [2001:db8::1]",
		"http://[2001:db8::0001]:8080/":       "unusual form: write [2001:db8::1]",
		"http://[2001:db8:0:0:1::1]/":         "unusual form: write [2001:db8::1:0:0:1]",
		"http://[64:ff9b::192.0.2.1]/":        "unusual form: write [64:ff9b::c000:201]",
		"http://[::ffff:192.0.2.1]/":          "is an IPv4-mapped IPv6 address: write 192.0.2.1",
		"http://[::ffff:c000:201]/":           "is an IPv4-mapped IPv6 address: write 192.0.2.1",
		"http://[::FFFF:192.0.2.1]/":          "is an IPv4-mapped IPv6 address: write 192.0.2.1",
		"http://192.0.2.01/":                  "looks like an address",
		"http://192.0.513/":                   "looks like an address",
		"http://3221225985/":                  "looks like an address",
		"http://18446744073709551616/":        "looks like an address",
		"http://" + strings.Repeat("9", 63):   "looks like an address",
		"http://0x" + strings.Repeat("f", 61): "looks like an address",
		"http://a.0x/":                        "looks like an address",
		"http://192.0.2.1:0080/":              "port of 1 to 65535",
		"http://192.0.2.1./":                  "looks like an address",
	} {
		_, err := dispatcher.ParseURL(raw)
		require.ErrorContains(t, err, says, "%q", raw)
	}
	for _, raw := range []string{"http://[2001:db8::1]/", "http://[2001:DB8::1]/", "http://[2001:db8::1:0:0:1]/", "http://[::1]:1/", "http://192.0.2.1/", "http://a.0x1g/", "http://9a/"} {
		_, err := dispatcher.ParseURL(raw)
		require.NoError(t, err, raw)
	}
}

func TestOnePlaceHasOneLane(t *testing.T) {
	lane := func(raw string) dispatcher.Lane {
		u, err := dispatcher.ParseURL(raw)
		require.NoError(t, err, raw)
		return dispatcher.URLLane(u, "")
	}
	for _, same := range [][]string{
		{"https://shop.example", "https://SHOP.example/", "https://shop.example:443/a?b", "HTTPS://Shop.Example:443", "https://shop.example./", "https://Shop.Example.:443/a"},
		{"http://shop.example/", "http://shop.example:80/x"},
		{"http://[2001:db8::a]/", "http://[2001:DB8::A]:80/"},
	} {
		for _, raw := range same {
			require.Equal(t, lane(same[0]), lane(raw), raw)
		}
	}
	u, err := dispatcher.ParseURL("https://shop.example")
	require.NoError(t, err)
	require.EqualValues(t, "u_3Bq7zSIGh4", dispatcher.URLLane(u, ""), "the lane of an origin keeps its name")
	for raw, name := range map[string]string{"https://Shop.Example./x": "https://shop.example a", "https://shop.example.:8443/": "https://shop.example:8443 a"} {
		u, err := dispatcher.ParseURL(raw)
		require.NoError(t, err)
		require.Equal(t, name, dispatcher.URLLaneName(u, "a"), "the lane is found by its origin")
	}
	apart := map[dispatcher.Lane]string{}
	for _, raw := range []string{"http://shop.example/", "https://shop.example/", "https://shop.example:8443/", "https://www.shop.example/", "http://192.0.2.1/", "http://[2001:db8::1]/"} {
		require.Empty(t, apart[lane(raw)], raw)
		apart[lane(raw)] = raw
	}
	for _, tenant := range []string{"a", "b", "A", "/", ":443"} {
		lane := dispatcher.URLLane(u, tenant)
		require.True(t, dispatcher.ValidLane(string(lane)))
		require.Empty(t, apart[lane], tenant)
		apart[lane] = tenant
	}
}

// TestWhatIsTakenIsSentAsItIs: no part of a URL that is taken changes on its
// way through net/url, so receivers get the path and the query they gave.
func TestWhatIsTakenIsSentAsItIs(t *testing.T) {
	for _, raw := range []string{
		"https://shop.example/a//b/../c/./d", "https://shop.example/a%2Fb%2fc", "https://shop.example/?a=1&a=2&b", "https://shop.example/?q=%C3%A9+x",
		"https://shop.example/;p=1", "https://shop.example/a:b@c", "https://shop.example?x=y", "https://shop.example/?", "https://shop.example/%00",
		`https://shop.example/?q="x"&r=<y>|{z}^`, "https://shop.example/a'b(c)*!~",
	} {
		u, err := dispatcher.ParseURL(raw)
		require.NoError(t, err, raw)
		_, after, _ := strings.Cut(raw, "shop.example")
		if !strings.HasPrefix(after, "/") {
			after = "/" + after
		}
		require.Equal(t, after, u.RequestURI(), raw)
	}
}

func TestNoErrorRepeatsAURL(t *testing.T) {
	for _, raw := range []string{
		"https://hunter2@shop.example/", "https://u:hunter2@shop.example/", "https://u:hunter2@[::1/", "https://shop.example:hunter2/", "https://shop.example/#hunter2",
		"https://shop.example/%zz?hunter2", "hunter2://shop.example/", "https://hunter2_*/", "https://shop.example/hunter2\n", "https://shop.example:0/?hunter2",
		"https://" + strings.Repeat("hunter2", 40) + "/", "https://hunter2..example/", "https://[::0:1]/?hunter2", "https://[::ffff:1.2.3.4]/hunter2",
	} {
		_, err := dispatcher.ParseURL(raw)
		require.Error(t, err, raw)
		require.NotContains(t, err.Error(), "hunter2", raw)
	}
}

// TestParseURLTakesLessThanNetURL: whatever is taken has a scheme, a host and
// no more than that in its authority.
func TestParseURLTakesLessThanNetURL(t *testing.T) {
	parts := []string{"http:", "https:", "//", "/", "@", ":", "\\", "#", "?", "[", "]", "%", ".", "a", "1", "::1", " ", "\n", "\u00e9", "xn--"}
	taken := 0
	for _, scheme := range []string{"http://", "https://"} {
		for _, a := range parts {
			for _, b := range parts {
				for _, c := range parts {
					raw := scheme + a + b + c
					u, err := dispatcher.ParseURL(raw)
					if err != nil {
						continue
					}
					taken++
					plain, err := url.Parse(raw)
					require.NoError(t, err, "%q", raw)
					require.Equal(t, plain.Host, u.Host)
					require.Nil(t, u.User, "%q", raw)
					require.NotEmpty(t, u.Hostname(), "%q", raw)
					require.True(t, strings.HasPrefix(raw[len(scheme):], u.Host), "%q: the host is what stands there", raw)
				}
			}
		}
	}
	require.Positive(t, taken)
}
