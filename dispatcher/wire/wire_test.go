package wire_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

func TestTimesAreUTCWithMilliseconds(t *testing.T) {
	at := time.Date(2026, 1, 31, 12, 0, 0, 5_600_000, time.FixedZone("", 5*3600+1800))
	b, err := json.Marshal(wire.Time{Time: at})
	require.NoError(t, err)
	require.Equal(t, `"2026-01-31T06:30:00.005Z"`, string(b))
	b, err = json.Marshal(wire.Time{})
	require.NoError(t, err)
	require.Equal(t, `null`, string(b))

	var got wire.Time
	require.NoError(t, json.Unmarshal([]byte(`"2026-01-31T12:00:00.0056+05:30"`), &got))
	require.True(t, got.Equal(at))
	require.NoError(t, json.Unmarshal([]byte(`null`), &got))
	require.True(t, got.IsZero())
	require.Error(t, json.Unmarshal([]byte(`1770000000`), &got))
}

func TestTimesAreWrittenAsGoWritesThem(t *testing.T) {
	const layout = `"2006-01-02T15:04:05.000Z07:00"`
	rapid.Check(t, func(t *rapid.T) {
		at := time.UnixMicro(rapid.Int64Range(-9e16, 3e17).Draw(t, "at")).In(time.FixedZone("", rapid.IntRange(-50_000, 50_000).Draw(t, "zone")))
		require.Equal(t, at.UTC().Format(layout), string(wire.Time{Time: at}.AppendTo(nil)))
	})
	for _, at := range []time.Time{time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC), time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)} {
		require.Equal(t, at.UTC().Format(layout), string(wire.Time{Time: at}.AppendTo(nil)))
	}
}

func BenchmarkTime(b *testing.B) {
	b.ReportAllocs()
	at, text := wire.Time{Time: time.UnixMilli(1_770_000_000_123)}, []byte(nil)
	for b.Loop() {
		text = at.AppendTo(text[:0])
	}
}

func TestDurationsAreTextsOrSeconds(t *testing.T) {
	for text, want := range map[string]time.Duration{
		`"15s"`: 15 * time.Second, `"1d"`: 24 * time.Hour, `1.5`: 1500 * time.Millisecond, `0`: 0, `1e2`: 100 * time.Second,
		`0.1`: 100 * time.Millisecond, `-1`: -time.Second, `1.001`: 1001 * time.Millisecond,
	} {
		var d wire.Duration
		require.NoError(t, json.Unmarshal([]byte(text), &d), text)
		require.Equal(t, want, time.Duration(d), text)
	}
	for _, text := range []string{`"soon"`, `true`, `{}`, `1e300`, `-1e300`, `1e999`, `null`} {
		_, err := wire.ParseDuration([]byte(text))
		require.Error(t, err, text)
	}
	b, err := json.Marshal(wire.Duration(90 * time.Second))
	require.NoError(t, err)
	require.Equal(t, `"1m30s"`, string(b))
}

func TestAProblemReadsAsOneLine(t *testing.T) {
	p := &wire.Problem{Title: "Some fields are wrong", Detail: "nothing was changed", Errors: []wire.FieldError{{Path: "$.url", Detail: "is needed"}}}
	require.EqualError(t, p, "Some fields are wrong: nothing was changed: $.url: is needed")
	require.EqualError(t, &wire.Problem{Title: "Gone"}, "Gone")
}

func TestAMessageThatNamesNoDestinationHasToMatchAnEndpoint(t *testing.T) {
	body := json.RawMessage(`1`)
	for text, m := range map[string]wire.Message{
		`{"topic":"t","require_match":true,"body":1}`:  {Topic: "t", Body: body},
		`{"topic":"t","require_match":false,"body":1}`: {Topic: "t", Body: body, RequireMatch: new(false)},
		`{"topic":"t","url":"http://a","body":1}`:      {Topic: "t", Body: body, URL: "http://a"},
		`{"topic":"t","endpoint":"a","body":1}`:        {Topic: "t", Body: body, Endpoint: "a"},
		`{"topic":"t","queue":"a","body":1}`:           {Topic: "t", Body: body, Queue: "a"},
	} {
		b, err := m.Append(nil)
		require.NoError(t, err)
		require.Equal(t, text, string(b))
	}
}

func ExampleMessage_Append() {
	m := wire.Message{Topic: "payment.paid", URL: "https://shop.example/hooks", Body: json.RawMessage(`{ "amount": 1.00 }`)}
	b, err := m.Append(nil)
	fmt.Println(string(b), err)
	// Output: {"topic":"payment.paid","url":"https://shop.example/hooks","body":{ "amount": 1.00 }} <nil>
}
