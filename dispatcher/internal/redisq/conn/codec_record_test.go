package conn_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/seal"
	"github.com/hookladder/hookladder/dispatcher/success"
	"github.com/hookladder/hookladder/dispatcher/trace"
	"github.com/hookladder/hookladder/ladder"
)

func mustSuccess(t testing.TB, text string) *success.Rule {
	t.Helper()
	s, err := success.Parse(text)
	require.NoError(t, err)
	return s
}

func entryOf(m *dispatcher.Message) dispatcher.Entry {
	return dispatcher.Entry{Message: m, Digest: m.Digest(), Lanes: []dispatcher.Lane{"u_abcdefghij"}}
}

func TestARecordKeepsEverythingOfAMessage(t *testing.T) {
	none := ladder.Ladder{}
	steps := ladder.Default()
	at := time.Date(2026, 3, 4, 5, 6, 7, int(890*time.Millisecond), time.UTC)
	for name, m := range map[string]dispatcher.Message{
		"a plain one":      {ID: "m1", Topic: "order.paid", URL: "https://example.com/hook", Body: []byte(`{"n": 12345678901234567890}`), ContentType: "application/json"},
		"one with all":     {ID: "m2", Topic: "t", Tenant: "acme", URL: "http://example.com", Body: []byte("\x00\xff\n"), ContentType: "text/xml; charset=gbk", ExpiresAt: at.Add(time.Hour), Headers: []dispatcher.Header{{Name: "X-One", Value: "1"}, {Name: "X-Two", Value: ""}}, Ladder: &steps, MaxAttempts: 7, Timeout: 2500 * time.Millisecond, Success: mustSuccess(t, `{"status":["2xx"],"body":"success"}`)},
		"of a trace":       {ID: "m9", Topic: "t", URL: "https://example.com/hook", Trace: &trace.Context{TraceID: [16]byte{1, 15: 2}, SpanID: [8]byte{3}, Flags: 1}, Body: []byte("{}"), ContentType: "application/json"},
		"to an endpoint":   {ID: "m8", Topic: "t", Tenant: "acme", Subject: "Bestellung №7", Endpoint: "ep_000000001", OrderingKey: "order 17", Body: []byte("{}"), ContentType: "application/json"},
		"an empty body":    {ID: "m3", Topic: "t", URL: "http://example.com", ContentType: "application/json"},
		"no content type":  {ID: "m5", Topic: "t", URL: "http://example.com", Body: []byte("x")},
		"an empty ladder":  {ID: "m4", Topic: "t", URL: "http://example.com", ContentType: "application/json", Ladder: &none},
		"a long URL":       {ID: "m6", Topic: "t", URL: "http://example.com/" + strings.Repeat("a", 2000), ContentType: "application/json"},
		"headers of 8 KiB": {ID: "m7", Topic: "t", URL: "http://example.com", ContentType: "application/json", Headers: []dispatcher.Header{{Name: "X", Value: strings.Repeat("v", 8<<10)}}},
	} {
		t.Run(name, func(t *testing.T) {
			m.CreatedAt = at
			record := string(conn.EncodeWhole(entryOf(&m), at.Add(time.Minute)))
			m.DeliverAt = at.Add(time.Minute)
			got, err := conn.DecodeRecord(m.ID, record)
			require.NoError(t, err)
			if m.Success != nil {
				require.Equal(t, m.Success.String(), got.Success.String())
				m.Success, got.Success = nil, nil
			}
			require.Equal(t, m, *got)
			digest := m.Digest()
			require.Equal(t, string(digest[:]), record[:dispatcher.DigestSize])
		})
	}
}

// Scripts put deliveries in line by these 8 bytes. Zeros mean no key.
func TestARecordHasTheHashOfItsOrderingKey(t *testing.T) {
	hash := func(key string) string {
		m := &dispatcher.Message{ID: "m", Topic: "t", OrderingKey: key}
		return string(conn.EncodeWhole(entryOf(m), time.Now())[34:42])
	}
	sum := sha256.Sum256([]byte("order 17"))
	require.Equal(t, string(sum[:8]), hash("order 17"))
	require.Equal(t, strings.Repeat("\x00", 8), hash(""))
}

// With this head a waiting message of 1 KiB stays in the memory class of its
// body. The next class costs 256 bytes more.
func TestTheHeadOfAPlainMessageIsSmall(t *testing.T) {
	m := &dispatcher.Message{ID: "msg_01J", Topic: "payment.refund.created", Tenant: "merchant_1234567890", URL: "https://hooks.merchant-example.com/webhooks/payments?source=hookladder", Body: []byte("{}"), ContentType: "application/json"}
	require.LessOrEqual(t, len(conn.EncodeWhole(entryOf(m), time.Now()))-len(m.Body), 240)
}

func TestABrokenRecordIsAnErrorAndNeverAPanic(t *testing.T) {
	m := &dispatcher.Message{ID: "m", Topic: "t", URL: "http://example.com", Body: []byte("body"), ContentType: "application/json"}
	record := string(conn.EncodeWhole(entryOf(m), time.Now()))
	head := len(record) - len(m.Body)
	for n := range head {
		_, err := conn.DecodeRecord("m", record[:n])
		require.Error(t, err, "cut after %d bytes", n)
	}
}

// A claim or a list reads hundreds of records. Their success rules are kept as
// text, and parsed when an answer is judged.
func TestReadingARecordCompilesNoPattern(t *testing.T) {
	m := &dispatcher.Message{ID: "m", Topic: "t", URL: "http://example.com", Body: []byte("body"), ContentType: "application/json",
		Success: mustSuccess(t, `{"body":{"matches":"(?:once|twice|\\pL){15}$"}}`)}
	record := string(conn.EncodeWhole(entryOf(m), time.Now()))
	got, err := conn.DecodeRecord("m", record)
	require.NoError(t, err)
	require.Equal(t, m.Success.String(), got.Success.String())

	broken := strings.Replace(record, "){15}", "){9(9", 1) // of the same length
	require.NotEqual(t, record, broken)
	got, err = conn.DecodeRecord("m", broken)
	require.NoError(t, err, "it was not compiled")
	require.Error(t, got.Success.Check())
}

func FuzzDecodeRecord(f *testing.F) {
	m := &dispatcher.Message{ID: "m", Topic: "t", Tenant: "x", URL: "http://example.com", Body: []byte("body"), Headers: []dispatcher.Header{{Name: "A", Value: "b"}}}
	f.Add(string(conn.EncodeWhole(entryOf(m), time.Now())))
	f.Fuzz(func(t *testing.T, record string) {
		m, err := conn.DecodeRecord("m", record)
		if err != nil {
			return
		}
		lane := dispatcher.Lane(record[43 : 43+int(record[42])])
		again := string(conn.EncodeWhole(dispatcher.Entry{Message: m, Digest: dispatcher.Digest([]byte(record[:16])), Lanes: []dispatcher.Lane{lane}}, m.DeliverAt))
		twice, err := conn.DecodeRecord("m", again)
		require.NoError(t, err)
		require.Equal(t, m.Body, twice.Body)
		require.Equal(t, m.URL, twice.URL)
		require.Equal(t, m.Headers, twice.Headers)
	})
}

func mustBox(t testing.TB, fill ...byte) *seal.Box {
	t.Helper()
	var keys []string
	for _, b := range fill {
		keys = append(keys, base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{b}, 32)))
	}
	box, err := seal.ParseKeys(strings.Join(keys, " "))
	require.NoError(t, err)
	return box
}

func withHeaders() *dispatcher.Message {
	return &dispatcher.Message{
		ID: "m1", Topic: "order.paid", Tenant: "acme", Subject: "order 17", URL: "https://example.com/hook", Body: []byte(`{}`), ContentType: "application/json",
		Headers: []dispatcher.Header{{Name: "Authorization", Value: "Bearer hunter2"}, {Name: "X-Empty"}, {Name: "X-Bytes", Value: "\xff\x00hunter3"}},
	}
}

func TestTheHeadersOfARecordAreSealed(t *testing.T) {
	m := withHeaders()
	record := conn.EncodeSealed(entryOf(m), mustBox(t, 1))
	require.NotContains(t, record, "hunter")
	require.Contains(t, record, "Authorization", "the names are told")
	for name, box := range map[string]*seal.Box{"no key": nil, "another key": mustBox(t, 2)} {
		got, err := conn.DecodeRecord("m1", record)
		require.NoError(t, err)
		require.ErrorIs(t, conn.OpenSealed(got, box), dispatcher.ErrSealed, name)
		require.NotEmpty(t, got.Sealed)
		require.Equal(t, []dispatcher.Header{{Name: "Authorization"}, {Name: "X-Empty"}, {Name: "X-Bytes"}}, got.Headers)
	}
	got, err := conn.DecodeRecord("m1", record)
	require.NoError(t, err)
	require.NoError(t, conn.OpenSealed(got, mustBox(t, 2, 1)))
	require.Equal(t, m, got)

	got, err = conn.DecodeRecord("m2", record)
	require.NoError(t, err)
	require.ErrorIs(t, conn.OpenSealed(got, mustBox(t, 1)), dispatcher.ErrSealed, "they are of another message")
	got, err = conn.DecodeRecord("m1", strings.Replace(record, "X-Empty", "X-Other", 1))
	require.NoError(t, err)
	require.ErrorIs(t, conn.OpenSealed(got, mustBox(t, 1)), dispatcher.ErrSealed, "they are of other names")
}

func TestARecordWithoutHeadersIsTheSameWithAKey(t *testing.T) {
	m := withHeaders()
	m.Headers = nil
	require.Equal(t, conn.EncodeSealed(entryOf(m), nil), conn.EncodeSealed(entryOf(m), mustBox(t, 1)))
	large := withHeaders()
	large.Body = bytes.Repeat([]byte("b"), 20<<10)
	require.Less(t, len(conn.EncodeSealed(entryOf(large), mustBox(t, 1))), 1<<10, "its body lies apart")
}

func TestARecordIsSealedAnewWithTheFirstKey(t *testing.T) {
	m := withHeaders()
	steps := ladder.Default()
	m.Ladder, m.MaxAttempts, m.OrderingKey = &steps, 7, "order 17"
	old, now := mustBox(t, 1), mustBox(t, 2, 1)
	plain, first := conn.EncodeSealed(entryOf(m), nil), conn.EncodeSealed(entryOf(m), old)
	for name, record := range map[string]string{"plain": plain, "with an older key": first} {
		sealed, err := conn.SealRecord("m1", record, now)
		require.NoError(t, err, name)
		require.NotEqual(t, record, sealed)
		require.NotContains(t, sealed, "hunter")
		require.Equal(t, record[:55], sealed[:55], "its head is the same")
		got, err := conn.DecodeRecord("m1", sealed)
		require.NoError(t, err)
		require.NoError(t, conn.OpenSealed(got, mustBox(t, 2)), "the old key is not needed any more")
		require.Equal(t, m, got)
		again, err := conn.SealRecord("m1", sealed, now)
		require.NoError(t, err)
		require.Equal(t, sealed, again)
	}
	got, err := conn.SealRecord("m1", first, mustBox(t, 3))
	require.ErrorIs(t, err, dispatcher.ErrSealed)
	require.Equal(t, first, got, "it stays as it is")
	digest := plain[:dispatcher.DigestSize]
	got, err = conn.SealRecord("m1", digest, now)
	require.NoError(t, err)
	require.Equal(t, digest, got)
}

func TestInstanceIsReadAsItWasWritten(t *testing.T) {
	i := dispatcher.Instance{Permits: 7, Version: "0.2.0 dirty", StartedAt: time.UnixMilli(1_700_000_000_000).UTC()}
	for _, archives := range []bool{false, true} {
		for _, listens := range [][]netip.AddrPort{nil, {netip.MustParseAddrPort("127.0.0.1:8080")}, {netip.MustParseAddrPort("10.1.2.3:80"), netip.MustParseAddrPort("[fd00::1]:9464")}} {
			text := conn.EncodeInstance(i, listens, archives)
			require.Equal(t, i, conn.ParseInstance(text), text)
			require.Equal(t, archives, conn.InstanceArchives(text), text)
			require.Equal(t, listens, conn.InstanceListens(text), text)
		}
	}
	require.Equal(t, []netip.AddrPort{netip.MustParseAddrPort("[::1]:1")}, conn.InstanceListens("7 1 0.2.0 at x,[::1]:1,,127.0.0.1"), "what is not an address is left out")
}

func TestLimitsThatCantBeReadAreAnError(t *testing.T) {
	got, err := conn.ParseLimits("3 64 50000 1 d")
	require.NoError(t, err)
	require.Equal(t, dispatcher.LaneLimits{
		Version: 3, MaxInFlight: 64, Interval: 50 * time.Millisecond, Ordered: true, Mode: dispatcher.LaneDisabled,
	}, got)
	for _, bad := range []string{"3", "3 64 50000 1 y", "3 64 50000 1", "a 0 0 0 -"} {
		_, err := conn.ParseLimits(bad)
		require.Error(t, err, bad)
	}
}

func TestTextsThatTheScriptsCantReadAreNotWhole(t *testing.T) {
	for text, whole := range map[string]bool{
		"3 64 50000 1 d": true, "3 64 50000 1 - t": true, "": false, "3 64 50000 2 d": false, "9007199254740992 64 0 1 d": false,
	} {
		require.Equal(t, whole, conn.LimitsWhole(text), text)
	}
	for text, whole := range map[string]bool{
		"0 0 0 0 0 0 0 0 0": true, "0 0 0 0 0 0 0 0 0 ~s5": true, "0 0 0 0 0 0 0 0": false, "0 0 0 0 0 0 0 0 9007199254740992": false,
	} {
		require.Equal(t, whole, conn.LaneWhole(text), text)
	}
}

func BenchmarkEncode(b *testing.B) {
	e := entryOf(&dispatcher.Message{
		ID: "m1", Topic: "order.paid", URL: "https://example.com/hook", ContentType: "application/json",
		Body: bytes.Repeat([]byte("x"), 1024), CreatedAt: time.Now(),
	})
	b.ReportAllocs()
	for b.Loop() {
		conn.EncodeWhole(e, e.Message.CreatedAt)
	}
}

func BenchmarkDecode(b *testing.B) {
	e := entryOf(&dispatcher.Message{
		ID: "m1", Topic: "order.paid", URL: "https://example.com/hook", ContentType: "application/json",
		Body: bytes.Repeat([]byte("x"), 1024), CreatedAt: time.Now(),
	})
	record := string(conn.EncodeWhole(e, e.Message.CreatedAt))
	b.ReportAllocs()
	for b.Loop() {
		_, err := conn.DecodeRecord(e.Message.ID, record)
		require.NoError(b, err)
	}
}
