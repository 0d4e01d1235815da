package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func mustSamples(t testing.TB, text string) samples {
	t.Helper()
	file := filepath.Join(t.TempDir(), "samples.json")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	s, err := readSamples(file)
	require.NoError(t, err)
	return s
}

func TestASampleMayHaveEveryFieldOfAMessage(t *testing.T) {
	s := mustSamples(t, `{"big payment": {"topic": "payment.paid", "tenant": "m7", "raw_body": "<a id='{{id}}'/>", "content_type": "text/xml", "delay": "1d", "ladder": "1s,5s"}}`)
	m, err := s.message("big payment", "", nil)
	require.NoError(t, err)
	require.Equal(t, "payment.paid", m.Topic)
	require.Equal(t, "m7", m.Tenant)
	require.Equal(t, "<a id='"+m.ID+"'/>", *m.RawBody)
	require.Equal(t, 24*time.Hour, time.Duration(m.Delay))
	require.Equal(t, 2, m.Ladder.Len())
	other, err := s.message("big payment", "", nil)
	require.NoError(t, err)
	require.NotEqual(t, m.ID, other.ID)
}

func TestABodyWithoutChangesIsSentAsItIsWritten(t *testing.T) {
	s := mustSamples(t, `{"a": {"body": {"n":  1.50, "big": 12345678901234567890 }}}`)
	m, err := s.message("a", "", nil)
	require.NoError(t, err)
	require.Equal(t, `{"n":  1.50, "big": 12345678901234567890 }`, string(m.Body))
}

func TestFieldsOfTheBodyAreChanged(t *testing.T) {
	s := mustSamples(t, `{"a": {"body": {"z": 1.50, "customer": {"name": "Ann", "tags": ["x", {"y": 2}]}, "a": null}}}`)
	for _, c := range []struct{ sets, want string }{
		{"z=2", `{"z":2,"customer":{"name": "Ann", "tags": ["x", {"y": 2}]},"a":null}`},
		{"customer.name=Bob", `{"z":1.50,"customer":{"name":"Bob","tags":["x", {"y": 2}]},"a":null}`},
		{`customer.tags.1.y="2"`, `{"z":1.50,"customer":{"name":"Ann","tags":["x",{"y":"2"}]},"a":null}`},
		{"customer.tags.0=", `{"z":1.50,"customer":{"name":"Ann","tags":["",{"y": 2}]},"a":null}`},
		{"a={\"b\":[1,2]}", `{"z":1.50,"customer":{"name": "Ann", "tags": ["x", {"y": 2}]},"a":{"b":[1,2]}}`},
		{"new=a=b", `{"z":1.50,"customer":{"name": "Ann", "tags": ["x", {"y": 2}]},"a":null,"new":"a=b"}`},
		{"customer=1;a=2", `{"z":1.50,"customer":1,"a":2}`},
	} {
		m, err := s.message("a", "", strings.Split(c.sets, ";"))
		require.NoError(t, err)
		require.Equal(t, c.want, string(m.Body), c.sets)
	}
	m, err := s.message("a", "", []string{"z={{id}}"})
	require.NoError(t, err)
	require.Contains(t, string(m.Body), `"z":"`+m.ID+`"`)
}

func TestAMistakeIsTold(t *testing.T) {
	s := mustSamples(t, `{"a": {"body": {"z": 1, "list": [1]}}, "text": {"raw_body": "x"}, "typo": {"bdy": 1}, "own": {"id": "x", "body": 1}, "odd": {"body": 1, "delay": "soon"}}`)
	for _, c := range []struct{ name, set, want string }{
		{"b", "", `no sample is called "b"; there are: a, text, typo, own, odd`},
		{"a", "z", `must be as in path=value`},
		{"a", "=1", `must be as in path=value`},
		{"a", "y.x=1", `there is no "y" among ["z" "list"]`},
		{"a", "z.x=1", `there is no "x" in 1`},
		{"a", "list.1=1", `there is no "1" among ["0"]`},
		{"text", "a=1", `there is no "body" among ["raw_body"]`},
		{"typo", "", `unknown field "bdy"`},
		{"own", "", "leave out its id"},
		{"odd", "", `sample "odd"`},
	} {
		var sets []string
		if c.set != "" {
			sets = []string{c.set}
		}
		_, err := s.message(c.name, "", sets)
		require.ErrorContains(t, err, c.want, c.name+" "+c.set)
	}
	many := mustSamples(t, manySamples(25))
	_, err := many.message("b", "", nil)
	require.ErrorContains(t, err, "s18, s19 and 5 more")
	for text, want := range map[string]string{
		"":                            "must be a JSON object",
		"[]":                          "must be a JSON object",
		`{"a":{"body":1},"a":{}}`:     "duplicate",
		`{"a":{"body":1}} {}`:         "must be a JSON object",
		strings.Repeat(" ", 16<<20+1): "larger than 16 MiB",
	} {
		file := filepath.Join(t.TempDir(), "samples.json")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		_, err := readSamples(file)
		require.ErrorContains(t, err, want)
	}
}

func manySamples(n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf(`"s%d":{"body":1}`, i)
	}
	return "{" + strings.Join(all, ",") + "}"
}
