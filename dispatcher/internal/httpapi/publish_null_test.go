package httpapi_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// Many languages write null for what is not set.
func TestNullIsLeftOut(t *testing.T) {
	every := func(names ...string) string {
		for i, name := range names {
			names[i] = `"` + name + `":null`
		}
		return strings.Join(names, ",")
	}
	f := &Fake{}
	h := newTestAPI(t, f)
	w := Post(h, "/v1/messages", `{"topic":"t","url":"http://a","raw_body":"x","headers":{"x":null,"y":"1"},"success":{"status":null,"body":{"matches":"a","path":null}},`+
		every("id", "tenant", "endpoint", "queue", "raw_body_base64", "content_type", "delay", "deliver_at", "expires_at", "ordering_key", "ladder", "max_attempts", "timeout")+`}`)
	require.Equal(t, 202, w.Code, w.Body.String())
	m := f.The(t)
	require.Regexp(t, "^msg_", m.ID)
	require.Equal(t, "text/plain; charset=utf-8", m.ContentType)
	require.Equal(t, []dispatcher.Header{{Name: "y", Value: "1"}}, m.Headers)
	require.Equal(t, `{"status":["2xx"],"body":{"matches":"a"}}`, m.Success.String())
	require.Nil(t, m.Ladder)

	f.Published = nil
	w = Post(h, "/v1/messages/batch", Batch(`{"topic":"t","url":null,"body":null,"success":null,"headers":null}`))
	require.Equal(t, 202, DecodeAnswer[wire.Results](t, w, 202).Results[0].Status)
	require.Equal(t, "null", string(f.The(t).Body), "a body may be null")
	require.Empty(t, f.The(t).URL)
	RequireField(t, Post(h, "/v1/messages", `{"topic":null,"url":"http://a","body":1}`), "$.topic", "needed")
	RequireField(t, Post(h, "/v1/messages", `{"topic":"t","raw_body":null}`), "$.body", "one of")

	w = Post(h, "/v1/endpoints", `{"url":"http://a","metadata":{"a":null,"b":"1"},"headers":{"x":null},`+
		every("uid", "tenant", "topics", "description", "secret", "signature", "ladder", "timeout", "max_in_flight", "rate", "success", "ordered", "disabled", "id")+`}`)
	require.Equal(t, 201, w.Code, w.Body.String())
	require.Equal(t, []string{"*"}, f.There.Topics)
	require.Equal(t, map[string]string{"b": "1"}, f.There.Metadata)
	require.Empty(t, f.There.Headers)
	w = Post(h, "/v1/endpoints/ep_123456789/rotate-secret", `{"overlap":null,"secret":null}`)
	require.Equal(t, 200, w.Code, w.Body.String())
	require.Equal(t, 24*time.Hour, f.Overlap)
}

func TestAPathMayBeginWithADollar(t *testing.T) {
	for path, answer := range map[string]string{
		"$.code": `{"code":"OK"}`, "$.a.0.b": `{"a":[{"b":"OK"}]}`, "$.a[0].b": `{"a":[{"b":"OK"}]}`, "$[1]": `["x","OK"]`, "$.$.a": `{"$":{"a":"OK"}}`,
		"$ref": `{"$ref":"OK"}`, "a[0]": `{"a[0]":"OK"}`,
	} {
		f := &Fake{}
		w := Post(newTestAPI(t, f), "/v1/messages", Message(`"success":{"body":{"path":"`+path+`","equals":"OK"}}`))
		require.Equal(t, 202, w.Code, w.Body.String())
		require.True(t, f.The(t).Success.Body([]byte(answer)), path)
		require.False(t, f.The(t).Success.Body([]byte(`{"code":"NO"}`)), path)
	}
}
