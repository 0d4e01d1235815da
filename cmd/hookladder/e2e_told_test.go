package main

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

var asJSON = http.Header{"Content-Type": {"application/json"}}

// refusedWith calls and wants a problem of a type; it answers the problem.
func (i *instance) refusedWith(status int, word, method, path, body string) wire.Problem {
	i.t.Helper()
	res, text := i.call(method, path, body, asJSON.Clone())
	require.Equal(i.t, status, res.StatusCode, text)
	var p wire.Problem
	require.NoError(i.t, json.Unmarshal([]byte(text), &p), text)
	require.Equal(i.t, "/problems/"+word, p.Type, text)
	return p
}

// answered calls and reads the answer into to.
func (i *instance) answered(status int, to any, method, path, body string) {
	i.t.Helper()
	res, text := i.call(method, path, body, asJSON.Clone())
	require.Equal(i.t, status, res.StatusCode, text)
	require.NoError(i.t, json.Unmarshal([]byte(text), to), text)
}

func TestE2EAWrongSuccessIsToldByItsPart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve()
	for success, path := range map[string]string{
		`{"stats":["2xx"]}`:                   "$.success.stats",
		`{"status":["2xx","9xx"]}`:            "$.success.status[1]",
		`{"body":{"path":"a","eqals":1}}`:     "$.success.body.eqals",
		`{"body":{"path":"$..a","equals":1}}`: "$.success.body.path",
	} {
		for to, body := range map[string]string{
			"/v1/messages":  `{"topic":"t","url":"` + w.receiver.URL + `","body":1,"success":` + success + `}`,
			"/v1/endpoints": `{"url":"` + w.receiver.URL + `","success":` + success + `}`,
		} {
			p := i.refusedWith(422, "invalid", "POST", to, body)
			require.Equal(t, path, p.Errors[0].Path)
			require.NotRegexp(t, `\bGo\b|json|dispatcher`, p.Errors[0].Detail)
		}
	}

	w.receiver.answers(func(rw http.ResponseWriter, _ *http.Request, _ string, _ int) {
		_, _ = rw.Write([]byte(`{"code":"SUCCESS"}`))
	})
	i.publish(wire.Message{ID: "dollar", URL: w.receiver.URL, Success: &wire.Success{Body: []byte(`{"path":"$.code","equals":"SUCCESS"}`)}})
	i.until("dollar", "delivered")
}

func TestE2ENullIsLeftOutAndAPatchMayRepeatAnAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.serve()
	url := `"url":"` + w.receiver.URL + `"`
	message := `{"id":"nulls",` + url + `,"topic":"t","tenant":null,"endpoint":null,"delay":null,"ladder":null,"success":null,"raw_body":null,"body":null}`
	w.receiver.expect("nulls", &wire.Message{Body: []byte("null")})
	var p wire.Published
	i.answered(202, &p, "POST", "/v1/messages", message)
	require.Equal(t, "null", w.receiver.wait("nulls", 1).body)
	i.refusedWith(422, "invalid", "POST", "/v1/messages", `{"topic":null,"body":1}`)

	var e map[string]any
	i.answered(201, &e, "POST", "/v1/endpoints", `{`+url+`,"secret":"`+w.secret.Reveal()+`","uid":"shop","tenant":"m7","topics":["a"],"rate":null,"headers":{"x-key":"hunter2"},"metadata":{"a":"1"},"timeout":"5s"}`)
	i.answered(200, &e, "GET", "/v1/endpoints/shop", "")
	e["description"], e["state"], e["timeout"] = "changed", "paused", nil
	delete(e, "secret") // of the first answer
	text, err := json.Marshal(e)
	require.NoError(t, err)
	var after wire.EndpointView
	i.answered(200, &after, "PATCH", "/v1/endpoints/shop", string(text))
	require.Equal(t, "changed", after.Description)
	require.Equal(t, "active", after.State)
	require.Zero(t, after.Timeout, "null is the default")
	for _, other := range []string{`{"uid":"shop2"}`, `{"uid":null}`, `{"tenant":"m8"}`, `{"kind":"pull"}`} {
		i.refusedWith(422, "invalid", "PATCH", "/v1/endpoints/shop", other)
	}
	i.publish(wire.Message{ID: "m1", Tenant: "m7", Topic: "a"})
	require.Equal(t, "hunter2", w.receiver.wait("m1", 1).header.Get("x-key"), "*** kept it")
}
