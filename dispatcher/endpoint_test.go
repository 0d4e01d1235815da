package dispatcher_test

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	d "github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/success"
	"github.com/hookladder/hookladder/signer"
)

func TestPatternsMeanTopics(t *testing.T) {
	cases := []struct {
		pattern, topic string
		want           bool
	}{
		{"*", "payment", true},
		{"*", "payment.refund.done", true},
		{"payment", "payment", true},
		{"payment", "payment.captured", false},
		{"payment.captured", "payment.captured", true},
		{"payment.captured", "payment", false},
		{"payment.captured", "payment.capturedx", false},
		{"payment.*", "payment.captured", true},
		{"payment.*", "payment.refund.done", true},
		{"payment.*", "payment", false},
		{"payment.*", "payments.captured", false},
		{"payment.*", "xpayment.captured", false},
		{"payment.*", "refund.payment.captured", false},
		{"payment.refund.*", "payment.refund.done", true},
		{"payment.refund.*", "payment.refund.a.b", true},
		{"payment.refund.*", "payment.refund", false},
		{"payment.refund.*", "payment.refunds", false},
		{"payment.refund.*", "payment.captured", false},
		{"Payment.*", "payment.captured", false},
	}
	for _, c := range cases {
		t.Run(c.pattern+" and "+c.topic, func(t *testing.T) {
			require.True(t, d.ValidPattern(c.pattern))
			require.True(t, d.ValidTopic(c.topic))
			require.Equal(t, c.want, d.MatchTopic(c.pattern, c.topic))
		})
	}
}

func TestAnEndpointMatchesByAnyOfItsPatterns(t *testing.T) {
	e := &d.Endpoint{Topics: []string{"payment.captured", "refund.*"}}
	require.True(t, e.Matches("payment.captured"))
	require.True(t, e.Matches("refund.done"))
	require.False(t, e.Matches("payment.refunded"))
	require.False(t, (&d.Endpoint{}).Matches("payment.captured"), "without a pattern nothing goes there by itself")
}

func TestNoticesGoOnlyWhereTheyAreNamed(t *testing.T) {
	opened, dead := string(d.NoticeOpened), string(d.NoticeDead)
	for _, c := range []struct {
		pattern      string
		opened, dead bool
	}{
		{"*", false, false}, {"hookladder.*", true, false}, {"hookladder.lane.*", true, false}, {opened, true, false},
		{dead, false, true}, {"hookladder.delivery.*", false, false}, {"hookladder.store.*", false, false}, {"hookladder", false, false},
	} {
		e := &d.Endpoint{Topics: []string{c.pattern}}
		require.Equal(t, c.opened, e.Matches(opened), c.pattern)
		require.Equal(t, c.dead, e.Matches(dead), c.pattern)
	}
	require.True(t, (&d.Endpoint{Topics: []string{"*"}}).Matches("hookladders.new"), "that is a caller's")
}

func TestANoticesDeliveryIsKnownByItsID(t *testing.T) {
	for _, n := range d.Notices() {
		require.True(t, d.DeliveryID{Message: n.ID("u_1", "17")}.OfNotice(), n)
		require.True(t, d.ValidID(n.ID("u_1", "17")))
		require.True(t, d.ValidTopic(string(n)))
	}
	require.Equal(t, "hl_opened_u_1_17", d.NoticeOpened.ID("u_1", "17"))
	require.False(t, d.DeliveryID{Message: "hl_open_1"}.OfNotice(), "a caller's")
	require.False(t, d.DeliveryID{Message: "opened_1"}.OfNotice())
}

func TestPatternsThatAreNone(t *testing.T) {
	for _, pattern := range []string{
		"", ".", ".*", "**", "*.*", "*.captured", "payment*", "payment.", "payment.*.done", "payment.**", "payment..*", "pay ment.*",
		"payment.*.", " *", "* ", "zahlung.größe", strings.Repeat("a", 129), strings.Repeat("a", 127) + ".*",
	} {
		require.False(t, d.ValidPattern(pattern), "%q", pattern)
	}
	require.True(t, d.ValidPattern(strings.Repeat("a", 126)+".*"))
	require.True(t, d.ValidPattern(strings.Repeat("a", 128)))
}

func TestUIDsCanBeToldFromLanesAndStandInAPath(t *testing.T) {
	for _, uid := range []string{"a", "shop-1", "shop_1:main", "main@shop.example", "EP_1", "u-1", "...", "a..b", strings.Repeat("u", 128)} {
		require.True(t, d.ValidUID(uid), "%q", uid)
		require.True(t, d.ValidName(uid), "%q", uid)
	}
	for _, uid := range []string{"", ".", "..", "ep_", "ep_000000001", "u_", "u_AbCd", "q_jobs", "a/b", "a b", "*", "a?b", "a#b", "a%2f", "käse", "a\n", "https://shop.example", strings.Repeat("u", 129)} {
		require.False(t, d.ValidUID(uid), "%q", uid)
	}
	require.True(t, d.ValidName("ep_000000001"))
	require.False(t, d.ValidName("ep_00000000000001"), "longer than a lane")
	require.False(t, d.ValidName("ep_.."))
	require.False(t, d.ValidName("u_AbCd"))
	require.False(t, d.ValidName(""))
}

// newTestEndpoint is one that is valid, and not stored.
func newTestEndpoint(with ...func(*d.Endpoint)) *d.Endpoint {
	e := &d.Endpoint{Tenant: "acme", URL: "https://acme.example/hook", Topics: []string{"payment.*"}, Signature: signer.Standard}
	for _, change := range with {
		change(e)
	}
	return e
}

func TestAnEndpointThatIsValid(t *testing.T) {
	require.Empty(t, newTestEndpoint().Validate(d.Policy{}))
	require.Empty(t, newTestEndpoint().Validate(d.Policy{Unsigned: true}), "it has a secret of its own")
	all := newTestEndpoint(func(e *d.Endpoint) {
		e.UID, e.Tenant = strings.Repeat("u", 128), strings.Repeat("t", 128)
		e.Topics = make([]string, 64)
		for i := range e.Topics {
			e.Topics[i] = fmt.Sprintf("topic_%d.*", i)
		}
		e.Description = "Käse & Co,\n\tzweite Zeile"
		e.Metadata = map[string]string{}
		for i := range 16 {
			e.Metadata[fmt.Sprint("name ", i)] = strings.Repeat("x", 200)
		}
		e.Signature = signer.GitHub
		e.Secrets = []d.EndpointSecret{{Secret: signer.GitHub.NewSecret()}, {Secret: signer.GitHub.NewSecret(), Until: time.Now()}}
		e.Headers = []d.Header{{Name: "X-Shop", Value: "7"}}
		e.Timeout, e.MaxInFlight, e.Rate = time.Minute, 65536, d.Rate{Count: 100_000, Per: time.Second}
		e.Ordered, e.Paused, e.Disabled = true, true, true
	})
	require.Empty(t, all.Validate(d.Policy{}))
	require.Empty(t, newTestEndpoint(formed(func(f *signer.Form) {
		*f = signer.Form{Header: "X-Convoy-Signature", Hash: signer.SHA512, Encoding: signer.Base64, Content: signer.TimeCommaBody}
	})).Validate(d.Policy{}))
	require.Empty(t, newTestEndpoint(formed(func(f *signer.Form) { *f = signer.Form{Header: "x-outpost-signature", Prefix: "v0="} })).Validate(d.Policy{}))
	for _, scheme := range signer.Schemes() {
		require.Empty(t, newTestEndpoint(func(e *d.Endpoint) { e.Signature = scheme }).Validate(d.Policy{}))
	}
}

// wrongEndpoints has each field wrong once.
// hexIn has an endpoint signed by hmac-hex in a header.
func hexIn(name string) func(*d.Endpoint) {
	return func(e *d.Endpoint) {
		e.Signature, e.Form.Header, e.Secrets = signer.HMACHex, name, []d.EndpointSecret{{Secret: signer.HMACHex.NewSecret()}}
	}
}

// formed has an endpoint signed by a form of hmac.
func formed(change func(*signer.Form)) func(*d.Endpoint) {
	return func(e *d.Endpoint) {
		change(&e.Form)
		e.Signature, e.Secrets = signer.HMAC, []d.EndpointSecret{{Secret: signer.HMAC.NewSecret()}}
	}
}

var wrongEndpoints = []struct {
	name   string
	path   string
	says   string
	change func(*d.Endpoint)
}{
	{"a uid that looks like a lane", "$.uid", "ep_", func(e *d.Endpoint) { e.UID = "ep_000000001" }},
	{"a uid of other characters", "$.uid", "must be of", func(e *d.Endpoint) { e.UID = "a/b" }},
	{"a uid that is a step", "$.uid", "path", func(e *d.Endpoint) { e.UID = ".." }},
	{"a long uid", "$.uid", "128", func(e *d.Endpoint) { e.UID = strings.Repeat("u", 129) }},
	{"a tenant with a space", "$.tenant", "128 printable", func(e *d.Endpoint) { e.Tenant = "a b" }},
	{"a long tenant", "$.tenant", "128 printable", func(e *d.Endpoint) { e.Tenant = strings.Repeat("t", 129) }},
	{"no URL", "$.url", "needed", func(e *d.Endpoint) { e.URL = "" }},
	{"a URL that is none", "$.url", "", func(e *d.Endpoint) { e.URL = "shop.example/hook" }},
	{"a URL of another scheme", "$.url", "http", func(e *d.Endpoint) { e.URL = "ftp://shop.example" }},
	{"too many topics", "$.topics", "64", func(e *d.Endpoint) { e.Topics = make([]string, 65) }},
	{"a topic that is no pattern", "$.topics[1]", "last word is *", func(e *d.Endpoint) { e.Topics = []string{"*", "payment*"} }},
	{"a long description", "$.description", "1024", func(e *d.Endpoint) { e.Description = strings.Repeat("d", 1025) }},
	{"a description with a control character", "$.description", "control", func(e *d.Endpoint) { e.Description = "a\x00b" }},
	{"a description that is no UTF-8", "$.description", "control", func(e *d.Endpoint) { e.Description = "\xff" }},
	{"too much metadata", "$.metadata", "16", func(e *d.Endpoint) {
		e.Metadata = map[string]string{}
		for i := range 17 {
			e.Metadata[fmt.Sprint(i)] = ""
		}
	}},
	{"large metadata", "$.metadata", "4096", func(e *d.Endpoint) { e.Metadata = map[string]string{"a": strings.Repeat("x", 4096)} }},
	{"metadata without a name", "$.metadata", "names", func(e *d.Endpoint) { e.Metadata = map[string]string{"": "x"} }},
	{"metadata with a control character", "$.metadata", "control", func(e *d.Endpoint) { e.Metadata = map[string]string{"a": "\x1b[2J"} }},
	{"a header for another signature than hmac-hex", "$.signature_header", "only for the signatures hmac and hmac-hex", func(e *d.Endpoint) { e.Form.Header = "x-sign" }},
	{"a hash for another signature than hmac", "$.signature_hash", "only for the signature hmac", func(e *d.Endpoint) { e.Form.Hash = signer.SHA512 }},
	{"an encoding for hmac-hex", "$.signature_encoding", "only for the signature hmac", func(e *d.Endpoint) {
		hexIn("x-sign")(e)
		e.Form.Encoding = signer.Base64
	}},
	{"a hash that is none", "$.signature_hash", "must be one of sha256, sha512", formed(func(f *signer.Form) { f.Hash = "md5" })},
	{"an encoding that is none", "$.signature_encoding", "must be one of hex, base64", formed(func(f *signer.Form) { f.Encoding = "rot13" })},
	{"a prefix beside a time", "$.signature_prefix", "must be empty, because the content t.body", formed(func(f *signer.Form) { f.Prefix, f.Content = "v0=", signer.TimeDotBody })},
	{"a long prefix", "$.signature_prefix", "at most 16", formed(func(f *signer.Form) { f.Prefix, f.Content = strings.Repeat("v", 17), "" })},
	{"a content that is none", "$.signature_content", "must be one of body, t.body, t-comma-body", formed(func(f *signer.Form) { f.Content = "id.body" })},
	{"a header for the signature that is no name", "$.signature_header", "not a header's name", hexIn("x sign")},
	{"a long name for the signature's header", "$.signature_header", "at most 64", hexIn("x-" + strings.Repeat("s", 63))},
	{"a header of ours for the signature", "$.signature_header", "names that begin with webhook-", hexIn("webhook-signature")},
	{"the same header twice", "$.signature_header", "one of headers too", func(e *d.Endpoint) {
		hexIn("x-Sign")(e)
		e.Headers = []d.Header{{Name: "X-sign", Value: "7"}}
	}},
	{"no signature", "$.signature", "want one of", func(e *d.Endpoint) { e.Signature = "" }},
	{"a signature that is none", "$.signature", "want one of", func(e *d.Endpoint) { e.Signature = "md5" }},
	{"a secret of another scheme", "$.secret", "does not fit the signature stripe", func(e *d.Endpoint) {
		e.Signature, e.Secrets = signer.Stripe, []d.EndpointSecret{{Secret: signer.NewSecret()}}
	}},
	{"an old secret of another scheme", "$.secret", "does not fit", func(e *d.Endpoint) {
		e.Secrets = []d.EndpointSecret{{Secret: signer.NewSecret()}, {Secret: signer.GitHub.NewSecret(), Until: time.Now()}}
	}},
	{"a shared secret for Ed25519", "$.secret", "does not fit the signature standard-ed25519", func(e *d.Endpoint) {
		e.Signature, e.Secrets = signer.StandardEd25519, []d.EndpointSecret{{Secret: signer.NewSecret()}}
	}},
	{"a secret that is none", "$.secret", "does not fit", func(e *d.Endpoint) { e.Secrets = []d.EndpointSecret{{}} }},
	{"a header of ours", "$.headers.Webhook-Id", "", func(e *d.Endpoint) { e.Headers = []d.Header{{Name: "Webhook-Id", Value: "1"}} }},
	{"a header of another scheme", "$.headers.X-Signature", "", func(e *d.Endpoint) { e.Headers = []d.Header{{Name: "X-Signature", Value: "1"}} }},
	{"a header that breaks the request", "$.headers.X-A", "", func(e *d.Endpoint) { e.Headers = []d.Header{{Name: "X-A", Value: "1\r\nX-B: 2"}} }},
	{"a short timeout", "$.timeout", "1s to 60s", func(e *d.Endpoint) { e.Timeout = time.Second - 1 }},
	{"a long timeout", "$.timeout", "1s to 60s", func(e *d.Endpoint) { e.Timeout = time.Minute + 1 }},
	{"a negative timeout", "$.timeout", "1s to 60s", func(e *d.Endpoint) { e.Timeout = -time.Second }},
	{"fewer than none in flight", "$.max_in_flight", "1 to 65536", func(e *d.Endpoint) { e.MaxInFlight = -1 }},
	{"too many in flight", "$.max_in_flight", "1 to 65536", func(e *d.Endpoint) { e.MaxInFlight = 65537 }},
	{"a rate without a time", "$.rate", "100/s", func(e *d.Endpoint) { e.Rate = d.Rate{Count: 1} }},
	{"a negative rate", "$.rate", "100/s", func(e *d.Endpoint) { e.Rate = d.Rate{Count: -1, Per: time.Second} }},
	{"a rate of more than a lane counts", "$.rate", "100/s", func(e *d.Endpoint) { e.Rate = d.Rate{Count: 2_000_000, Per: time.Second} }},
}

func TestEachFieldOfAnEndpointMayBeWrong(t *testing.T) {
	for _, c := range wrongEndpoints {
		t.Run(c.name, func(t *testing.T) {
			got := newTestEndpoint(c.change).Validate(d.Policy{})
			require.Len(t, got, 1)
			require.Equal(t, c.path, got[0].Path)
			require.Contains(t, got[0].Detail, c.says)
		})
	}
}

func TestAllThatIsWrongWithAnEndpointIsToldAtOnce(t *testing.T) {
	seen := map[string]bool{}
	all := newTestEndpoint()
	for _, c := range wrongEndpoints {
		field := fieldOf(c.path)
		if !seen[field] && field != "$.secret" { // which is judged by a signature that is one
			seen[field] = true
			c.change(all)
		}
	}
	var fields []string
	for _, fault := range all.Validate(d.Policy{}) {
		fields = append(fields, fieldOf(fault.Path))
	}
	want := []string{}
	for field := range seen {
		want = append(want, field)
	}
	require.Subset(t, fields, want)
	require.Len(t, want, 16)
}

// fieldOf is the field that a path begins with.
func fieldOf(path string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(path, "$."), ".")
	name, _, _ = strings.Cut(name, "[")
	return "$." + name
}

func TestAnEndpointsURLIsCheckedAsAMessagesIs(t *testing.T) {
	refused := errors.New("10.1.2.3 is private; allow it with ALLOW_NETS=10.1.2.3/32")
	l := d.Policy{CheckURL: func(u *url.URL) error {
		if u.Hostname() == "10.1.2.3" {
			return refused
		}
		return nil
	}}
	e := newTestEndpoint(func(e *d.Endpoint) { e.URL = "https://10.1.2.3/hook" })
	require.Equal(t, []d.FieldError{{Path: "$.url", Detail: refused.Error()}}, e.Validate(l))
	plain := newTestEndpoint(func(e *d.Endpoint) { e.URL = "http://shop.example/hook" })
	require.Empty(t, plain.Validate(l))
	l.HTTPSOnly = true
	require.Len(t, plain.Validate(l), 1)
}

func TestWhatIsWrongWithASecretDoesNotTellIt(t *testing.T) {
	secret := signer.Stripe.NewSecret()
	e := newTestEndpoint(func(e *d.Endpoint) { e.Secrets = []d.EndpointSecret{{Secret: secret}} })
	got := e.Validate(d.Policy{})
	require.Len(t, got, 1)
	require.NotContains(t, got[0].Error(), secret.Reveal())
}

func TestAnEndpointOfKindPullHasNothingThatIsAboutACall(t *testing.T) {
	pull := func(e *d.Endpoint) { e.Pull, e.URL = true, "" }
	require.Empty(t, newTestEndpoint(pull).Validate(d.Policy{HTTPSOnly: true}))
	e := newTestEndpoint(pull, func(e *d.Endpoint) { e.URL, e.Timeout, e.Success = "https://a.example", time.Second, &success.Rule{} })
	var paths []string
	for _, fault := range e.Validate(d.Policy{}) {
		paths = append(paths, fault.Path)
		require.Contains(t, fault.Detail, "kind pull")
	}
	require.Equal(t, []string{"$.url", "$.success", "$.timeout"}, paths)

	require.True(t, newTestEndpoint(pull).Limits().Pull)
	require.False(t, newTestEndpoint().Limits().Pull)
	require.True(t, newTestEndpoint(pull).Same(newTestEndpoint(pull)))
	require.False(t, newTestEndpoint(pull).Same(newTestEndpoint(pull, func(e *d.Endpoint) { e.Pull = false })))
}

func TestALaneKnowsTheLimitsOfItsEndpoint(t *testing.T) {
	e := newTestEndpoint(func(e *d.Endpoint) {
		e.ID, e.Version, e.MaxInFlight, e.Ordered = "ep_000000001", 7, 5, true
		e.Rate = d.Rate{Count: 20, Per: time.Second}
	})
	require.Equal(t, d.Lane("ep_000000001"), e.Lane())
	require.True(t, e.Lane().IsEndpoint())
	require.False(t, d.Lane("u_ep_0").IsEndpoint())
	want := d.LaneLimits{Version: 7, MaxInFlight: 5, Interval: 50 * time.Millisecond, Ordered: true}
	require.Equal(t, want, e.Limits())
	e.Paused, want.Mode = true, d.LanePaused
	require.Equal(t, want, e.Limits())
	e.Disabled, want.Mode = true, d.LaneDisabled
	require.Equal(t, want, e.Limits(), "disabled goes before paused")
	e.Paused = false
	require.Equal(t, want, e.Limits())
}

func TestTheStateOfALaneIsTheFirstThatHolds(t *testing.T) {
	cases := map[string]struct {
		state d.LaneState
		want  d.EndpointState
	}{
		"nothing":                    {d.LaneState{}, d.StateActive},
		"it waits for a time":        {d.LaneState{Until: time.Now().Add(time.Hour), Fails: 19}, d.StateActive},
		"its breaker is open":        {d.LaneState{Opened: 1}, d.StateOpen},
		"paused, its breaker open":   {d.LaneState{Opened: 1, Limits: d.LaneLimits{Mode: d.LanePaused}}, d.StatePaused},
		"disabled, its breaker open": {d.LaneState{Opened: 1, Limits: d.LaneLimits{Mode: d.LaneDisabled}}, d.StateDisabled},
		"deleted":                    {d.LaneState{Limits: d.LaneLimits{Mode: d.LaneDeleted}}, d.StateDisabled},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, c.state.State()) })
	}
}

func TestACloneIsChangedAlone(t *testing.T) {
	e := newTestEndpoint(func(e *d.Endpoint) {
		e.Metadata, e.Headers = map[string]string{"a": "1"}, []d.Header{{Name: "X-A", Value: "1"}}
		e.Secrets = []d.EndpointSecret{{Secret: signer.NewSecret()}}
	})
	before := e.Secrets[0].Secret
	c := e.Clone()
	require.Equal(t, e, c)
	c.Topics[0], c.Metadata["a"], c.Headers[0].Value, c.Secrets[0].Secret = "x", "x", "x", signer.NewSecret()
	require.Equal(t, "payment.*", e.Topics[0])
	require.Equal(t, "1", e.Metadata["a"])
	require.Equal(t, "1", e.Headers[0].Value)
	require.True(t, e.Secrets[0].Secret.Equal(before))
}
