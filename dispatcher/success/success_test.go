package success_test

import (
	v1 "encoding/json"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/hookladder/hookladder/dispatcher/success"
	"github.com/stretchr/testify/require"
)

func mustSuccess(t testing.TB, text string) *success.Rule {
	t.Helper()
	s, err := success.Parse(text)
	require.NoError(t, err, text)
	return s
}

func TestSuccessIsKeptInOneForm(t *testing.T) {
	for text, want := range map[string]string{
		"2xx":                     `{"status":["2xx"]}`,
		" 200 , 204 ":             `{"status":["200","204"]}`,
		"2XX,*":                   `{"status":["2xx","*"]}`,
		`{}`:                      `{"status":["2xx"]}`,
		`{"status":["*"]}`:        `{"status":["*"]}`,
		` {"body" : "success" } `: `{"status":["2xx"],"body":"success"}`,
		`{"body":"\u0073uccess","status":["200"]}`:                `{"status":["200"],"body":"success"}`,
		`{"body":{"equals":"SUCCESS","path":"code"}}`:             `{"status":["2xx"],"body":{"path":"code","equals":"SUCCESS"}}`,
		`{"body":{"path":"a.0.b","equals":0}}`:                    `{"status":["2xx"],"body":{"path":"a.0.b","equals":0}}`,
		`{"body":{"path":"ok","equals":true}}`:                    `{"status":["2xx"],"body":{"path":"ok","equals":true}}`,
		`{"body":{"path":"n","equals":12345678901234567890}}`:     `{"status":["2xx"],"body":{"path":"n","equals":12345678901234567890}}`,
		`{"body":{"path":"n","equals":""}}`:                       `{"status":["2xx"],"body":{"path":"n","equals":""}}`,
		`{"body":{"matches":"^(?i)ok\\b"},"status":["5xx"]}`:      `{"status":["5xx"],"body":{"matches":"^(?i)ok\\b"}}`,
		`{"body":"<\u00e9\u2028>"}`:                               "{\"status\":[\"2xx\"],\"body\":\"<é\u2028>\"}",
		`{"body":{"matches":"` + strings.Repeat("a", 256) + `"}}`: `{"status":["2xx"],"body":{"matches":"` + strings.Repeat("a", 256) + `"}}`,
	} {
		s := mustSuccess(t, text)
		require.Equal(t, want, s.String())
		require.True(t, s.Equal(mustSuccess(t, want)), "reads back to an equal value: %s", want)
	}
}

func TestSuccessThatMakesNoSenseIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                      "is no pattern",
		"2x":                    "is no pattern",
		"20x":                   "is no pattern",
		"2xx,":                  `status[1]: "" is no pattern`,
		"0xx":                   "is no pattern",
		"２００":                   "is no pattern",
		"1xx":                   "never holds",
		"101":                   "never holds",
		"2xx,9xx":               "status[1]: 9xx never holds",
		"600":                   "never holds",
		`["2xx"]`:               "is no pattern",
		`{"status":[]}`:         "the list is empty",
		`{"status":"2xx"}`:      "not a list",
		`{"status":[200]}`:      "not a list of texts",
		`{"status":[null]}`:     "is no pattern",
		`{"statuses":["2xx"]}`:  "statuses",
		`{"Status":["2xx"]}`:    "Status",
		`{"body":"a","body":""`: "duplicate",
		`{"status":["2xx"]}{}`:  "after top-level value",
		`{"status":["2xx"]`:     "unexpected EOF",
		`{"body":7}`:            "neither a word nor an object",
		`{"body":""}`:           "is empty",
		`{"body":" ok"}`:        "has space around it",
		"{\"body\":\"\xff\"}":   "UTF-8",
		`{"body":"\ud800"}`:     "surrogate",
		`{"body":"` + strings.Repeat("é", 257) + `"}`: "longer than 256 characters",
		`{"body":{}}`:                                                         "needs path and equals, or matches alone",
		`{"body":{"path":"a"}}`:                                               "needs path and equals",
		`{"body":{"equals":"a"}}`:                                             "needs path and equals",
		`{"body":{"path":"a","equals":1,"matches":"x"}}`:                      "matches alone",
		`{"body":{"path":"a","equals":1,"path":"b"}}`:                         "duplicate",
		`{"body":{"path":"a","equals":1,"else":2}}`:                           "else",
		`{"body":{"path":1,"equals":1}}`:                                      "path: not a text",
		`{"body":{"path":"","equals":1}}`:                                     "path: is empty",
		`{"body":{"path":"a..b","equals":1}}`:                                 "empty step",
		`{"body":{"path":"a.","equals":1}}`:                                   "empty step",
		`{"body":{"path":"a","equals":null}}`:                                 "needs path and equals",
		`{"body":{"path":"a","equals":[]}}`:                                   "equals: neither",
		`{"body":{"path":"a","equals":"` + strings.Repeat("a", 257) + `"}}`:   "equals: longer than 256 characters",
		`{"body":{"path":"a","equals":` + strings.Repeat("1", 257) + `}}`:     "equals: longer than 256 characters",
		`{"body":{"matches":1}}`:                                              "matches: not a text",
		`{"body":{"matches":"("}}`:                                            "matches: error parsing regexp",
		`{"body":{"matches":"(?=a)"}}`:                                        "matches: error parsing regexp",
		`{"body":{"matches":"` + strings.Repeat("a", 257) + `"}}`:             "matches: longer than 256 characters",
		`{"body":{"matches":"((a{1000}){1000}){1000}"}}`:                      "matches: error parsing regexp",
		strings.Repeat("200,", 16) + "200":                                    "more than 16 patterns",
		`{"status":["2xx"],"body":"ok",` + strings.Repeat(" ", 20_000) + `"}`: "longer than 16384 bytes",
	} {
		_, err := success.Parse(text)
		require.ErrorContains(t, err, want, text)
		require.ErrorContains(t, err, "success: ", text)
	}
}

func TestStatusHoldsWhereAPatternHasIt(t *testing.T) {
	cases := []struct {
		text   string
		holds  []int
		breaks []int
	}{
		{"2xx", []int{200, 204, 299}, []int{0, 99, 100, 101, 199, 300, 404, 500}},
		{"200,204", []int{200, 204}, []int{201, 299, 400}},
		{"2xx,302,5xx", []int{200, 302, 500, 599}, []int{301, 404, 600}},
		{"*", []int{200, 302, 410, 503, 999}, []int{0, 100, 101, 199}},
	}
	for _, tc := range cases {
		s := mustSuccess(t, tc.text)
		for _, code := range tc.holds {
			require.True(t, s.Status(code), "%s: %d", tc.text, code)
		}
		for _, code := range tc.breaks {
			require.False(t, s.Status(code), "%s: %d", tc.text, code)
		}
	}
}

func TestNoSuccessMeansAny2xx(t *testing.T) {
	var none *success.Rule
	for _, s := range []*success.Rule{none, {}, success.Stored(""), mustSuccess(t, "2xx")} {
		require.True(t, s.Status(204))
		require.False(t, s.Status(302))
		require.False(t, s.Status(101))
		require.True(t, s.Body([]byte("anything")))
		require.Equal(t, `{"status":["2xx"]}`, s.String())
		require.True(t, s.Equal(none))
	}
}

func TestBodyHoldsAsAskedFor(t *testing.T) {
	word := `{"body":"success"}`
	code := `{"body":{"path":"code","equals":"SUCCESS"}}`
	deep := `{"body":{"path":"data.1.ok","equals":true}}`
	zero := `{"body":{"path":"code","equals":0}}`
	big := `{"body":{"path":"n","equals":12345678901234567890}}`
	match := `{"body":{"matches":"(?i)^ok\\b"}}`
	fill := strings.Repeat(" ", success.AnswerLimit)
	long := strings.Repeat("x", success.AnswerLimit)
	cases := []struct {
		name, success, body string
		want                bool
	}{
		{"the word itself", word, "success", true},
		{"the word with space around it", word, " \r\nsuccess\t\n", true},
		{"the word in other letters", word, "SUCCESS", false},
		{"the word and more", word, "success!", false},
		{"the word quoted", word, `"success"`, false},
		{"the word after a byte order mark", word, "\ufeffsuccess", true},
		{"the word after a byte order mark and space", word, "\ufeff\r\n success", true},
		{"the word after two byte order marks", word, "\ufeff\ufeffsuccess", false},
		{"the word before a byte order mark", word, "success\ufeff", false},
		{"half a byte order mark", word, "\xef\xbbsuccess", false},
		{"the word in UTF-16", word, "\xff\xfes\x00u\x00c\x00c\x00e\x00s\x00s\x00", false},
		{"JSON after a byte order mark", code, "\ufeff{\"code\":\"SUCCESS\"}", true},
		{"a match after a byte order mark", match, "\ufeffOK", true},
		{"JSON cut at the limit, after a byte order mark", code, "\ufeff{\"code\":\"SUCCESS\",\"a\":\"" + long, true},
		{"nothing", word, "", false},
		{"the word after the limit", word, fill + "success", false},
		{"the word before the limit and more after it", word, "success" + fill + "no", true},
		{"a member that is equal", code, `{"a":[{}],"code":"SUCCESS"}`, true},
		{"a member that is escaped", code, `{"\u0063ode":"S\u0055CCESS"}`, true},
		{"a member that differs", code, `{"code":"FAIL"}`, false},
		{"a member that is missing", code, `{"status":"SUCCESS"}`, false},
		{"a member further down", code, `{"a":{"code":"SUCCESS"}}`, false},
		{"the first of two members", code, `{"code":"SUCCESS","code":"FAIL"}`, false},
		{"the last of two members", code, `{"code":"FAIL","code":"SUCCESS"}`, true},
		{"the last of two members is of another kind", code, `{"code":"SUCCESS","code":{"code":"SUCCESS"}}`, false},
		{"the last of two objects", deep, `{"data":[0,{"ok":true}],"data":[0,{"ok":false}]}`, false},
		{"the last of two objects lacks the member", deep, `{"data":[0,{"ok":true}],"data":[]}`, false},
		{"a member that breaks off after one that is equal", code, `{"code":"SUCCESS","code":"` + long, false},
		{"a number that breaks off", `{"body":{"path":"n","equals":1}}`, `{"a":"` + long[:success.AnswerLimit-len(`{"a":"","n":1`)] + `","n":12}`, false},
		{"a body that is not JSON", code, `code=SUCCESS`, false},
		{"JSON with something after it", code, `{"code":"SUCCESS"} <html>`, false},
		{"JSON that breaks off", code, `{"code":"SUCCESS","a":`, false},
		{"JSON cut at the limit", code, `{"code":"SUCCESS","a":"` + long, true},
		{"JSON cut before the member", code, `{"a":"` + long + `","code":"SUCCESS"}`, false},
		{"JSON with bytes that are no UTF-8", code, "{\"msg\":\"\xb3\xc9\",\"code\":\"SUCCESS\"}", true},
		{"nothing at all", code, ``, false},
		{"a list", code, `["SUCCESS"]`, false},
		{"an element that is equal", deep, `{"data":[{"ok":false},{"ok":true}]}`, true},
		{"an element that differs", deep, `{"data":[{"ok":true},{"ok":false}]}`, false},
		{"an element that is missing", deep, `{"data":[{"ok":true}]}`, false},
		{"a member with a number for its name", deep, `{"data":{"1":{"ok":true}}}`, true},
		{"an element of no list", deep, `{"data":7}`, false},
		{"the word for true", deep, `{"data":[0,{"ok":"true"}]}`, false},
		{"zero", zero, `{"code":0}`, true},
		{"zero in other words", zero, `{"code":-0.00e7}`, true},
		{"a text that looks like zero", zero, `{"code":"0"}`, false},
		{"one", zero, `{"code":1}`, false},
		{"null", zero, `{"code":null}`, false},
		{"a large number", big, `{"n":12345678901234567890}`, true},
		{"a large number in other words", big, `{"n":1234567890123456789.0e+1}`, true},
		{"the neighbour of a large number", big, `{"n":12345678901234567891}`, false},
		{"a number that nobody should compute", big, `{"n":1e999999999}`, false},
		{"a number with an absurd exponent", big, `{"n":1e99999999999999999999999}`, false},
		{"ten as a power", `{"body":{"path":"n","equals":10}}`, `{"n":1e1}`, true},
		{"ten as a fraction", `{"body":{"path":"n","equals":10.0}}`, `{"n":0.001E4}`, true},
		{"a hundred for ten", `{"body":{"path":"n","equals":10}}`, `{"n":100}`, false},
		{"a number of the other sign", big, `{"n":-12345678901234567890}`, false},
		{"a match", match, "OK, thanks", true},
		{"no match", match, "not ok", false},
		{"a match after the limit", `{"body":{"matches":"y"}}`, long + "y", false},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			require.Equal(t, tc.want, mustSuccess(t, tc.success).Body([]byte(tc.body)))
		})
	}
}

// TestWhatIsNotVisibleInABodyIsNamed: a person who reads the body sees the word that was asked for.
func TestWhatIsNotVisibleInABodyIsNamed(t *testing.T) {
	word, code, match := `{"body":"success"}`, `{"body":{"path":"code","equals":0}}`, `{"body":{"matches":"^OK"}}`
	const noWord, noCode, noMatch = `the body is not "success"`, `code in the body is not 0`, `the body does not match the pattern asked for`
	for _, tc := range []struct{ success, body, why string }{
		{word, "fail", noWord},
		{word, "\ufefffail", noWord},
		{word, "", noWord},
		{word, "\ufeff\n", noWord},
		{word, `"success"`, noWord + ": the word is in quotes"},
		{word, "'success'\n", noWord + ": the word is in quotes"},
		{word, `"`, noWord},
		{word, "\ufeff\ufeffsuccess", noWord + ": it begins with more than one byte order mark"},
		{word, "success\x00", noWord + ": it has characters that are not visible"},
		{word, "suc\u200bcess", noWord + ": it has characters that are not visible"},
		{word, "success\ufeff", noWord + ": it has characters that are not visible"},
		{word, "\x1f\x8b\x08\x00", noWord + ": it is gzip"},
		{word, "\xff\xfes\x00", noWord + ": it is UTF-16"},
		{word, "\xfe\xff\x00s", noWord + ": it is UTF-16"},
		{word, "s\x00u\x00c\x00c\x00e\x00s\x00s\x00", noWord + ": it is UTF-16"},
		{word, "\x00s\x00u\x00c\x00c\x00e\x00s\x00s", noWord + ": it is UTF-16"},
		{word, "\x00s", noWord},
		{code, `{"code":1}`, noCode},
		{code, "\ufeff\ufeff{\"code\":0}", noCode + ": it begins with more than one byte order mark"},
		{code, `{"code":0} <br />Warning`, noCode + ": text follows the JSON"},
		{code, `{"code":0}{"code":0}`, noCode + ": text follows the JSON"},
		{code, `<br />Warning {"code":0}`, noCode + ": it is not JSON"},
		{code, `{"code":0`, noCode + ": it is not JSON"},
		{code, "\xff\xfe{\x00}\x00", noCode + ": it is UTF-16"},
		{code, "\x1f\x8b\x08\x00", noCode + ": it is gzip"},
		{code, `{"a":"` + strings.Repeat("x", success.AnswerLimit), noCode},
		{match, "no", noMatch},
		{match, "\xff\xfeO\x00K\x00", noMatch + ": it is UTF-16"},
	} {
		result, why := mustSuccess(t, tc.success).Judge(200, []byte(tc.body))
		require.Equal(t, success.WrongBody, result, "%q", tc.body)
		require.Equal(t, tc.why, why, "%.40q", tc.body)
	}
}

func TestNestedAnswerIsReadWithoutHarm(t *testing.T) {
	s := mustSuccess(t, `{"body":{"path":"0.0.0.a","equals":1}}`)
	require.False(t, s.Body([]byte(strings.Repeat("[", success.AnswerLimit))))
	require.False(t, s.Body([]byte(strings.Repeat(`[{"a":`, 9000))))
}

func TestSuccessInsideOtherJSON(t *testing.T) {
	var in struct {
		Success *success.Rule `json:"success,omitzero"`
	}
	text := `{"success":{"status":["*"],"body":"success"}}`
	require.NoError(t, json.Unmarshal([]byte(text), &in))
	out, err := json.Marshal(in)
	require.NoError(t, err)
	require.Equal(t, text, string(out))
	out, err = v1.Marshal(in)
	require.NoError(t, err)
	require.JSONEq(t, text, string(out))

	in.Success = nil
	require.NoError(t, json.Unmarshal([]byte(`{"success":null}`), &in))
	require.Nil(t, in.Success)
	require.ErrorContains(t, json.Unmarshal([]byte(`{"success":"2xx"}`), &in), "not an object")
	require.ErrorContains(t, json.Unmarshal([]byte(`{"success":{"status":["9"]}}`), &in), "is no pattern")
}

// FuzzSuccess: whatever is read is written so that it reads back the same, and
// no answer makes it fail.
func FuzzSuccess(f *testing.F) {
	for _, text := range []string{
		"2xx", "200,204,*", `{"body":"success"}`, `{"status":["*"],"body":{"path":"a.0","equals":-1.50e+3}}`,
		`{"body":{"matches":"^ok"}}`, `{"body":{"path":"code","equals":"S\u0000"}}`,
	} {
		f.Add(text, []byte(`{"code":"SUCCESS","a":[-1500]}`))
	}
	f.Fuzz(func(t *testing.T, text string, answer []byte) {
		s, err := success.Parse(text)
		if err != nil {
			require.Nil(t, s)
			return
		}
		again, err := success.Parse(s.String())
		require.NoError(t, err, "what String wrote: %s", s)
		require.Equal(t, s.String(), again.String())
		require.Equal(t, s.Body(answer), again.Body(answer))
		for code := range 1000 {
			require.Equal(t, s.Status(code), again.Status(code))
		}
	})
}

// What was taken by an earlier version is judged as it was.
func TestAStoredSuccessMayNameAStatusThatNeverComes(t *testing.T) {
	s := success.Stored(`{"status":["2xx","9xx"],"body":{"path":"$.code","equals":"OK"}}`)
	require.NoError(t, s.Check())
	require.True(t, s.Status(204))
	require.True(t, s.Body([]byte(`{"code":"OK"}`)))
}
