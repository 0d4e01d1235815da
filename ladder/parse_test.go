package ladder_test

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/ladder"
)

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"15s":          15 * time.Second,
		"1h30m":        90 * time.Minute,
		"1.5h":         90 * time.Minute,
		"1d":           24 * time.Hour,
		"1d12h":        36 * time.Hour,
		"12h1d":        36 * time.Hour,
		"0.5d":         12 * time.Hour,
		"365d":         ladder.MaxDuration,
		"8760h":        ladder.MaxDuration,
		"31536000":     ladder.MaxDuration,
		"10":           10 * time.Second,
		"0.5":          500 * time.Millisecond,
		".5":           500 * time.Millisecond,
		"5.":           5 * time.Second,
		"0":            0,
		"0s":           0,
		"0d":           0,
		"007":          7 * time.Second,
		"100ms":        100 * time.Millisecond,
		"5us":          5 * time.Microsecond,
		"5µs":          5 * time.Microsecond, // the micro sign
		"5μs":          5 * time.Microsecond, // the Greek letter
		"7ns":          7,
		"1d1h1m1s1ms":  25*time.Hour + time.Minute + time.Second + time.Millisecond,
		"0.0000000019": 1, // cut, not rounded
	} {
		got, err := ladder.ParseDuration(text)
		require.NoError(t, err, "%q", text)
		require.Equal(t, want, got, "%q", text)
	}
}

func TestParseDurationRefuses(t *testing.T) {
	for text, why := range map[string]string{
		"":                           "missing",
		"-1":                         "negative",
		"-5s":                        "negative",
		"-0s":                        "negative",
		"+5s":                        "not a duration",
		" 5s":                        "not a duration",
		"5s ":                        "not a unit of time: s ",
		"5 s":                        "not a unit of time:  s",
		".":                          "not a duration",
		"..5":                        "not a duration",
		"1.2.3":                      "not a duration",
		"1.2.3s":                     "not a duration",
		"s":                          "not a duration",
		"soon":                       "not a duration",
		"NaN":                        "not a duration",
		"inf":                        "not a duration",
		"Infinity":                   "not a duration",
		"1e3":                        "not a unit of time: e",
		"1e3s":                       "not a unit of time: e",
		"0x10":                       "not a unit of time: x",
		"1_000":                      "not a unit of time: _",
		"1h-30m":                     "not a unit of time: h-",
		"15S":                        "not a unit of time: S",
		"1D":                         "not a unit of time: D",
		"1w":                         "not a unit of time: w",
		"15 s":                       "not a unit of time:  s",
		"15s,3m":                     "not a unit of time: s,",
		"1h30":                       "a number without its unit",
		"１５s":                        "not a duration", // other digits than ASCII's
		"366d":                       "longer than 365 days",
		"365d1ns":                    "longer than 365 days",
		"364d24h1s":                  "longer than 365 days",
		"31536000.1":                 "longer than 365 days",
		"99999999999999999999":       "longer than 365 days",
		"99999999999999999999d":      "longer than 365 days",
		"200000d":                    "longer than 365 days",
		strings.Repeat("200d", 1000): "longer than 365 days",
	} {
		_, err := ladder.ParseDuration(text)
		var bad *ladder.Error
		require.ErrorAs(t, err, &bad, "%q", text)
		require.Equal(t, why, bad.Why, "%q", text)
		require.Equal(t, text, bad.Text)
		require.Zero(t, bad.Rung)
		require.ErrorContains(t, err, "use a duration such as 15s, 1h30m or 1d, or a number of seconds")
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"":                    "",
		" \t\n":               "",
		"15s":                 "15s",
		"15s/3m/10m":          "15s,3m,10m",
		"10 30 60":            "10s,30s,1m",
		"15s, 3m / 10m\t1d\n": "15s,3m,10m,1d",
		"15s , 3m":            "15s,3m",
		"0,0s,0.5":            "0s,0s,500ms",
		"90,3600,86400":       "1m30s,1h,1d",
		"36h 48h 1h0m30s":     "1d12h,2d,1h30s",
		"1h5m 100m 1d1ns":     "1h5m,1h40m,1d1ns",
	} {
		l, err := ladder.Parse(text)
		require.NoError(t, err, "%q", text)
		require.Equal(t, want, l.String(), "%q", text)
	}
}

func TestParseNamesTheOffender(t *testing.T) {
	const accepted = "; use a duration such as 15s, 1h30m or 1d, or a number of seconds such as 0.5"
	for text, want := range map[string]string{
		"15s,3 minutes":                 `rung 3 "minutes": not a duration` + accepted,
		"15s/3x/10m":                    `rung 2 "3x": not a unit of time: x` + accepted,
		"15s,,3m":                       `rung 2 "": missing` + accepted,
		",15s":                          `rung 1 "": missing` + accepted,
		"15s, ":                         `rung 2 "": missing` + accepted,
		"/":                             `rung 1 "": missing` + accepted,
		"1h 2h -3h":                     `rung 3 "-3h": negative` + accepted,
		"1 x" + strings.Repeat("é", 99): `rung 2 "x` + strings.Repeat("é", 19) + `…": not a duration` + accepted,
	} {
		_, err := ladder.Parse(text)
		require.EqualError(t, err, want, "%q", text)
	}
	_, err := ladder.Parse(strings.Repeat("1 ", 100))
	require.NoError(t, err)
	_, err = ladder.Parse(strings.Repeat("1 ", 101))
	require.EqualError(t, err, "ladder has 101 rungs; at most 100 are accepted")
}

func TestFormatDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", time.Second: "1s", time.Minute: "1m", 10 * time.Minute: "10m", time.Hour: "1h", 20 * time.Hour: "20h",
		24 * time.Hour: "1d", 25 * time.Hour: "1d1h", 36 * time.Hour: "1d12h", 120 * time.Hour: "5d", 720 * time.Hour: "30d", 90 * time.Second: "1m30s",
		time.Hour + time.Second: "1h1s", 1500 * time.Millisecond: "1.5s", -time.Minute: "-1m",
		-25 * time.Hour: "-1d1h", 500 * time.Millisecond: "500ms", time.Minute + 5*time.Millisecond: "1m5ms", time.Microsecond: "1µs",
		math.MinInt64: "-106751d23h47m16.854775808s",
	} {
		require.Equal(t, want, ladder.FormatDuration(d))
	}
}

func TestLadderAsJSON(t *testing.T) {
	for text, want := range map[string]string{
		`[]`:                            `[]`,
		`""`:                            `[]`,
		`"15s, 3m/10m"`:                 `["15s","3m","10m"]`,
		`["15s", 180, 0.5, "10", "1d"]`: `["15s","3m","500ms","10s","1d"]`,
		` [ 0.1 , 12345678 ] `:          `["100ms","142d21h21m18s"]`,
		`["15s"]`:                       `["15s"]`,
	} {
		var got struct{ Ladder *ladder.Ladder }
		require.NoError(t, json.Unmarshal([]byte(`{"ladder":`+text+`}`), &got), text)
		out, err := json.Marshal(got.Ladder)
		require.NoError(t, err)
		require.JSONEq(t, want, string(out), text)
	}

	var absent struct{ Ladder *ladder.Ladder }
	require.NoError(t, json.Unmarshal([]byte(`{"ladder":null}`), &absent))
	require.Nil(t, absent.Ladder)
	kept := ladder.Default()
	require.NoError(t, json.Unmarshal([]byte(`null`), &kept))
	require.Equal(t, ladder.Default(), kept)
}

func TestJSONThatIsNoLadder(t *testing.T) {
	for text, want := range map[string]string{
		`{}`:                                   `want a list such as ["15s", 180] or a text such as "15s,3m"`,
		`15`:                                   `want a list`,
		`true`:                                 `want a list`,
		`["15s",-1]`:                           `rung 2 "-1": negative`,
		`["15s",1e400]`:                        `rung 2 "1e400": not a unit of time: e`,
		`["15s",1e9]`:                          `rung 2 "1e9": not a unit of time: e`,
		`[null]`:                               `rung 1 "null": not a duration`,
		`[["15s"]]`:                            `rung 1 "[\"15s\"]": not a duration`,
		`["15s,3m"]`:                           `rung 1 "15s,3m": not a unit of time: s,`,
		`["15s", ""]`:                          `rung 2 "": missing`,
		`"15s,never"`:                          `rung 2 "never": not a duration`,
		`[1` + strings.Repeat(",1", 100) + `]`: `ladder has 101 rungs`,
	} {
		l := ladder.Default()
		require.ErrorContains(t, json.Unmarshal([]byte(text), &l), want, text)
		require.Equal(t, ladder.Default(), l, "a refused text changes nothing")
	}
	var l ladder.Ladder
	for _, text := range []string{``, `"`, `[`, `["15s"`} { // as a decoder would never hand it on
		require.Error(t, l.UnmarshalJSON([]byte(text)), "%q", text)
	}
}

func TestLadderAsText(t *testing.T) {
	text, err := ladder.Default().MarshalText()
	require.NoError(t, err)
	var l ladder.Ladder
	require.NoError(t, l.UnmarshalText(text))
	require.Equal(t, ladder.Default(), l)
	require.Error(t, l.UnmarshalText([]byte("soon")))
	require.Equal(t, ladder.Default(), l)
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "15s,3m,10m", "1d12h/0.5 7", "1.5h,5µs", "-1", "1e3", "365d", ",", "99999999999999999999"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, err := ladder.Parse(text)
		if err != nil {
			require.Zero(t, l)
			return
		}
		require.LessOrEqual(t, l.Len(), ladder.MaxRungs)
		for attempt := 1; attempt <= l.Len(); attempt++ {
			wait, ok := l.Next(attempt)
			require.True(t, ok)
			require.GreaterOrEqual(t, wait, time.Duration(0))
			require.LessOrEqual(t, wait, ladder.MaxDuration)
		}
		again, err := ladder.Parse(l.String())
		require.NoError(t, err)
		require.Equal(t, l, again)

		out, err := json.Marshal(l)
		require.NoError(t, err)
		var decoded ladder.Ladder
		require.NoError(t, json.Unmarshal(out, &decoded))
		require.Equal(t, l, decoded)
	})
}

// FuzzParseDuration holds the reader against Go's own: what both take means the same.
func FuzzParseDuration(f *testing.F) {
	for _, seed := range []string{"15s", "1h30m", "1.5h", "0.5", "1d", "5µs", "-1s", "8760h"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ladder.ParseDuration(text)
		want, goErr := time.ParseDuration(text)
		switch {
		case err == nil && goErr == nil:
			require.Equal(t, want, got)
		case err != nil && goErr == nil:
			signed := strings.HasPrefix(text, "-") || strings.HasPrefix(text, "+")
			require.True(t, signed || want > ladder.MaxDuration, "Go takes %q", text)
		}
		var bad *ladder.Error
		require.Equal(t, err != nil, errors.As(err, &bad))
	})
}

func FuzzFormatDuration(f *testing.F) {
	f.Add(int64(0))
	f.Add(int64(ladder.MaxDuration))
	f.Add(int64(61 * time.Minute))
	f.Fuzz(func(t *testing.T, n int64) {
		if n < 0 || n > int64(ladder.MaxDuration) {
			return
		}
		got, err := ladder.ParseDuration(ladder.FormatDuration(time.Duration(n)))
		require.NoError(t, err)
		require.Equal(t, time.Duration(n), got)
	})
}

func TestAnExponentIsANumberOfSeconds(t *testing.T) {
	var l ladder.Ladder
	require.NoError(t, json.Unmarshal([]byte(`[1e3, 25E-1, 10]`), &l))
	require.Equal(t, "16m40s,2.5s,10s", l.String())
}
