package home_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/home"
	"github.com/hookladder/hookladder/dispatcher/internal/seal"
	"github.com/hookladder/hookladder/dispatcher/success"
	"github.com/hookladder/hookladder/ladder"
	"github.com/hookladder/hookladder/signer"
)

// keptRecord is what some store has by now: it must be read for good.
const keptRecord = `7 {"uid":"main","tenant":"shop","url":"https://example.com/hook","topics":["payment.*"],"about":"Käse",` +
	`"meta":{"a":"1","b":"2","c":"3","d":"4","e":"5"},"sig":"standard","secrets":[{"p":"whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"},` +
	`{"p":"whsec_QUJDREVGR0hJSktMTU5PUFFSU1RVVldY","until":1772366400000}],"ladder":"15s,3m","timeout":1500000000,"max":7,` +
	`"rate":"20/s","headers":[{"n":"X-A","p":"1"},{"n":"X-B","b":"/w=="},{"n":"X-C"}],"success":"{\"status\":[\"200\"]}",` +
	`"ordered":true,"paused":true,"disabled":true,"created":1772280000007,"updated":1772280000008}`

func keptEndpoint(t testing.TB) *dispatcher.Endpoint {
	t.Helper()
	rungs, err := ladder.New(15*time.Second, 3*time.Minute)
	require.NoError(t, err)
	success, err := success.Parse("200")
	require.NoError(t, err)
	return &dispatcher.Endpoint{
		ID: "ep_a", Version: 7, UID: "main", Tenant: "shop", URL: "https://example.com/hook",
		Topics: []string{"payment.*"}, Description: "Käse",
		Metadata:  map[string]string{"a": "1", "b": "2", "c": "3", "d": "4", "e": "5"},
		Signature: signer.Standard,
		Secrets: []dispatcher.EndpointSecret{
			{Secret: mustSecret(t, "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz")},
			{Secret: mustSecret(t, "whsec_QUJDREVGR0hJSktMTU5PUFFSU1RVVldY"), Until: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)},
		},
		Ladder: &rungs, Timeout: 1500 * time.Millisecond, MaxInFlight: 7, Rate: dispatcher.Rate{Count: 20, Per: time.Second},
		Headers: []dispatcher.Header{{Name: "X-A", Value: "1"}, {Name: "X-B", Value: "\xff"}, {Name: "X-C"}},
		Success: success, Ordered: true, Paused: true, Disabled: true,
		CreatedAt: time.Date(2026, 2, 28, 12, 0, 0, int(7*time.Millisecond), time.UTC),
		UpdatedAt: time.Date(2026, 2, 28, 12, 0, 0, int(8*time.Millisecond), time.UTC),
	}
}

func mustSecret(t testing.TB, text string) signer.Secret {
	t.Helper()
	s, err := signer.ParseSecret(text)
	require.NoError(t, err)
	return s
}

func TestWhatIsStoredOfAnEndpointStaysReadable(t *testing.T) {
	want := keptEndpoint(t)
	got, err := home.DecodeEndpoint("ep_a", keptRecord, nil)
	require.NoError(t, err)
	require.Equal(t, want, got)

	record, err := home.EncodeEndpoint(want, nil)
	require.NoError(t, err)
	require.Equal(t, keptRecord, "7 "+string(record))
}

// heldRecord is what 0.2.0 stored of an endpoint whose URL a link had set.
const heldRecord = `3 {"url":"https://example.com/new","linked":true,"sig":"standard","secrets":[{"p":"whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"}],` +
	`"headers":[{"n":"X-A","p":"1"},{"n":"authorization","p":"2"}],"headers_for":"https://example.com/old","created":1772280000007,"updated":1772280000008}`

func TestAllHeadersThatAnEarlierVersionHeldAreHeldForItsURL(t *testing.T) {
	e, err := home.DecodeEndpoint("ep_a", heldRecord, nil)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"x-a": "https://example.com/old", "authorization": "https://example.com/old"}, e.HeadersFor)
	require.Equal(t, []string{"X-A", "authorization"}, e.HeldHeaders())
}

// In a roll-out, an instance of 0.2.0 reads what a newer one wrote. It knows only headers_for, and
// releases all headers if the endpoint gets that URL.
func TestAnEarlierVersionHoldsAllHeadersWhileOneIsHeld(t *testing.T) {
	const old, other = "https://example.com/old", "https://example.com/other"
	for want, held := range map[string]map[string]string{
		`"headers_for":"` + old + `"`: {"x-a": old, "authorization": old},
		`"headers_for":"-"`:           {"x-a": old, "authorization": other},
		`"headers_for":"-",`:          {"x-a": ""},
		`"headers_for":"` + other:     {"x-a": other},
	} {
		e, err := home.DecodeEndpoint("ep_a", heldRecord, nil)
		require.NoError(t, err)
		e.HeadersFor = held
		record, err := home.EncodeEndpoint(e, nil)
		require.NoError(t, err)
		require.Contains(t, string(record), want)
	}
	e, err := home.DecodeEndpoint("ep_a", heldRecord, nil)
	require.NoError(t, err)
	e.HeadersFor = nil
	record, err := home.EncodeEndpoint(e, nil)
	require.NoError(t, err)
	require.NotContains(t, string(record), "_for")
}

func TestWhatALaterVersionAddsToAnEndpointIsPassedOver(t *testing.T) {
	later := `7 {"colour":"red","deep":{"a":[1,{"b":null}]},` + keptRecord[3:len(keptRecord)-1] + `,"z":1.5e300}`
	got, err := home.DecodeEndpoint("ep_a", later, nil)
	require.NoError(t, err)
	require.Equal(t, keptEndpoint(t), got)
}

func TestARateWithoutATextIsNotLost(t *testing.T) {
	e := keptEndpoint(t)
	e.Rate = dispatcher.Rate{Count: 1, Per: time.Millisecond}
	_, err := home.EncodeEndpoint(e, nil)
	require.ErrorContains(t, err, "rate")
}

// dice throws what an endpoint may hold.
type dice struct{ *rand.Rand }

// text is of any characters, half the time none.
func (d dice) text() string {
	var out []rune
	for range d.IntN(2) * d.IntN(12) {
		out = append(out, []rune{d.Int32N(0x80), d.Int32N(0x800), 0x4e00 + d.Int32N(0x5000), 0x1f300 + d.Int32N(0x300)}[d.IntN(4)])
	}
	return string(out)
}

func (d dice) bytes() string {
	out := make([]byte, d.IntN(12))
	for i := range out {
		out[i] = byte(d.Uint32())
	}
	return string(out)
}

func (d dice) time() time.Time { return time.UnixMilli(1 + d.Int64N(1<<42)).UTC() }

func (d dice) coin() bool { return d.IntN(2) == 0 }

// endpoint is any that the engine may want to keep.
func (d dice) endpoint(t testing.TB) *dispatcher.Endpoint {
	t.Helper()
	e := &dispatcher.Endpoint{
		ID: "ep_a", Version: 1 + d.Int64N(1<<53), UID: d.text(), Tenant: d.text(), URL: d.text(), Description: d.text(), Form: signer.Form{Header: d.text(), Hash: signer.Hash(d.text()), Encoding: signer.Encoding(d.text()), Prefix: d.text(), Content: signer.Content(d.text())},
		Signature: signer.Schemes()[d.IntN(len(signer.Schemes()))],
		Timeout:   time.Duration(d.Int64()), MaxInFlight: d.Int(), Pull: d.coin(),
		Ordered: d.coin(), Paused: d.coin(), Disabled: d.coin(), Unverified: d.coin(),
		Linked: d.coin(), CreatedAt: d.time(), UpdatedAt: d.time(),
	}
	for range d.IntN(4) {
		e.Topics = append(e.Topics, d.text())
		e.Headers = append(e.Headers, dispatcher.Header{Name: d.text(), Value: d.bytes()})
		e.Secrets = append(e.Secrets, dispatcher.EndpointSecret{Secret: e.Signature.NewSecret(), Until: d.time()})
	}
	if d.coin() {
		e.HeadersFor = map[string]string{d.text(): d.text(), d.text(): d.text()}
	}
	if d.coin() {
		e.TopicsAllowed, e.TopicsGiven = []string{}, []string{d.text()}
	}
	if d.coin() {
		e.Metadata = map[string]string{d.text(): d.text(), d.text(): d.text()}
	}
	if d.coin() {
		rungs := make([]time.Duration, d.IntN(4))
		for i := range rungs {
			rungs[i] = time.Duration(d.Int64N(int64(ladder.MaxDuration)))
		}
		l, err := ladder.New(rungs...)
		require.NoError(t, err)
		e.Ladder = &l
	}
	if d.coin() {
		per := []time.Duration{time.Second, time.Minute, time.Hour}[d.IntN(3)]
		e.Rate = dispatcher.Rate{Count: 1 + d.IntN(100_000), Per: per}
	}
	return e
}

func TestAnyEndpointIsReadAsItWasWritten(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	d := dice{rand.New(rand.NewPCG(seed, 0))}
	boxes := []*seal.Box{nil, newTestBox(t)}
	for range 2000 {
		e, box := d.endpoint(t), boxes[d.IntN(2)]
		record, err := home.EncodeEndpoint(e, box)
		require.NoError(t, err)
		got, err := home.DecodeEndpoint(e.ID, fmt.Sprint(e.Version, " ", string(record)), box)
		require.NoError(t, err)
		require.Equal(t, e, got)
	}
}

func FuzzDecodeEndpoint(f *testing.F) {
	box := newTestBox(f)
	f.Add(keptRecord)
	record, err := home.EncodeEndpoint(testEndpoint("ep_a"), box)
	require.NoError(f, err)
	f.Add("1 " + string(record))
	f.Add(`1 {"secrets":[{"x":"seal1.."}]}`)
	f.Fuzz(func(t *testing.T, stored string) {
		e, err := home.DecodeEndpoint("ep_a", stored, box)
		require.NotNil(t, e)
		require.Equal(t, "ep_a", e.ID)
		if err != nil {
			require.Empty(t, e.Secrets)
			for _, h := range e.Headers {
				require.Empty(t, h.Value)
			}
		}
	})
}
