package httpapi_test

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/apitest"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

func TestAPublishIsAnsweredAsTheContractSays(t *testing.T) {
	f := &apitest.Fake{}
	w := apitest.Post(apitest.New(t, f), "/v1/messages", apitest.Message(`"id":"msg_1"`))
	require.Equal(t, 202, w.Code)
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	lane := f.The(t).ID // below, the lane is read from the answer instead
	require.Equal(t, "msg_1", lane)
	got := apitest.DecodeAnswer[wire.Published](t, w, 202)
	dest := got.Deliveries[0].Destination
	require.Equal(t, `{"id":"msg_1","topic":"payment.paid","created_at":"2026-01-31T11:00:00.123Z","duplicate":false,"matched":1,`+
		`"deliveries":[{"id":"`+dest+`:msg_1","destination":"`+dest+`","url":"https://shop.example/hooks","status":"ready",`+
		`"next_attempt_at":"2026-01-31T11:00:00.123Z"}]}`, w.Body.String())
}

func TestARepeatIs200AndAConflict409(t *testing.T) {
	f := &apitest.Fake{OnPublish: func(batch []*dispatcher.Message) ([]dispatcher.Published, error) {
		p := apitest.Accepted(batch[0])
		p.Result = dispatcher.Duplicate
		p.Deliveries[0].Due = time.Time{}
		return []dispatcher.Published{p}, nil
	}}
	h := apitest.New(t, f)
	w := apitest.Post(h, "/v1/messages", apitest.Message(`"id":"a"`))
	got := apitest.DecodeAnswer[wire.Published](t, w, 200)
	require.True(t, got.Duplicate)
	require.Contains(t, w.Body.String(), `"next_attempt_at":null`)

	f.OnPublish = func([]*dispatcher.Message) ([]dispatcher.Published, error) {
		return []dispatcher.Published{{Result: dispatcher.Duplicate}}, nil
	}
	w = apitest.Post(h, "/v1/messages", apitest.Message(`"id":"a"`))
	require.Equal(t, `{"id":"a","topic":"payment.paid","duplicate":true,"deliveries":[]}`, w.Body.String(), "only its digest is known")
	apitest.DecodeAnswer[wire.Published](t, w, 200)

	f.OnPublish = func([]*dispatcher.Message) ([]dispatcher.Published, error) {
		return []dispatcher.Published{{Result: dispatcher.Conflict}}, nil
	}
	p := apitest.RequireProblem(t, apitest.Post(h, "/v1/messages", apitest.Message(`"id":"a"`)), 409, "conflict")
	require.Contains(t, p.Detail, "no longer kept whole")
	f.OnPublish = func([]*dispatcher.Message) ([]dispatcher.Published, error) {
		return []dispatcher.Published{{Result: dispatcher.Conflict, Differs: []string{"topic", "body"}}}, nil
	}
	p = apitest.RequireProblem(t, apitest.Post(h, "/v1/messages", apitest.Message(`"id":"a"`)), 409, "conflict")
	require.Contains(t, p.Detail, "topic, body not as in the first")
}

func TestAMessageIsPublishedToAQueue(t *testing.T) {
	const body = `{"topic":"t","queue":"order.cancel","timeout":"1h","body":1}`
	f := &apitest.Fake{}
	h := apitest.New(t, f, func(o *httpapi.Options) { o.Policy.Unsigned = true }) // no SIGNING_SECRET is needed
	require.Equal(t, 202, apitest.Post(h, "/v1/messages", body).Code)
	require.Equal(t, "order.cancel", f.The(t).Queue)
	require.Equal(t, time.Hour, f.The(t).Timeout)
	require.Equal(t, 202, apitest.Post(apitest.New(t, f), "/v1/messages/batch", apitest.Batch(body)).Code)
	apitest.RequireField(t, apitest.Post(apitest.New(t, f), "/v1/messages", `{"topic":"t","endpoint":"a","timeout":"1h","body":1}`), "$.timeout", "1s to 60s")
}

func TestAFanOutThatHasToMatchAndDoesNotIsRefused(t *testing.T) {
	f := &apitest.Fake{OnPublish: func(batch []*dispatcher.Message) ([]dispatcher.Published, error) {
		require.True(t, batch[0].RequireMatch)
		return []dispatcher.Published{{Err: fmt.Errorf("publish: %w", dispatcher.ErrUnmatched)}}, nil
	}}
	h := apitest.New(t, f)
	p := apitest.RequireProblem(t, apitest.Post(h, "/v1/messages", `{"topic":"t","body":1,"require_match":true}`), 422, "unmatched")
	require.Contains(t, p.Detail, "nothing was stored")
	got := apitest.DecodeAnswer[wire.Results](t, apitest.Post(h, "/v1/messages/batch", apitest.Batch(`{"topic":"t","body":1,"require_match":true}`)), 202)
	require.Equal(t, "/problems/unmatched", got.Results[0].Problem.Type)
	apitest.RequireField(t, apitest.Post(h, "/v1/messages", apitest.Message(`"require_match":"yes"`)), "$.require_match", "true or false")
}

func TestABodyArrivesByteForByte(t *testing.T) {
	for _, body := range []string{
		`12345678901234567890`, `{ "a" : 1.0 , "b":[ ]	}`, `{"a":1e400,"<>&":"\u003c\/"}`, `null`, `""`, `"ü "`, "[\n1,\r\n2]",
		`{"a":{"id":1},"b":{"id":2}}`, `false`, `-0`, strings.Repeat("[", 64) + strings.Repeat("]", 64),
		"[" + strings.Repeat(`{"a":[]},`, 99) + "0]", `{"a":"\"` + strings.Repeat("{[", 99) + `\\"}`,
	} {
		f := &apitest.Fake{}
		w := apitest.Post(apitest.New(t, f), "/v1/messages", `{"topic":"t","url":"http://a", "body" : `+body+"\n}\n")
		require.Equal(t, 202, w.Code, w.Body.String())
		require.Equal(t, body, string(f.The(t).Body))
		require.Equal(t, "application/json", f.The(t).ContentType)
	}
}

// The engine may keep a message after its request has ended, and the buffer of
// the request serves the next one.
func TestAMessageOutlivesItsRequest(t *testing.T) {
	f := &apitest.Fake{}
	h := apitest.New(t, f)
	want := func(i int) string { return fmt.Sprintf(`{"n":"%03d"}`, i) }
	for i := range 100 {
		more := fmt.Sprintf(`"body":%s,"id":"m%03d","headers":{"x":"v%03d"},"success":{"body":"w%03d"}`, want(i), i, i, i)
		require.Equal(t, 202, apitest.Post(h, "/v1/messages", apitest.Message(more)).Code)
	}
	for i, m := range f.Published {
		require.Equal(t, want(i), string(m.Body))
		require.Equal(t, fmt.Sprintf("m%03d", i), m.ID)
		require.Equal(t, []dispatcher.Header{{Name: "x", Value: fmt.Sprintf("v%03d", i)}}, m.Headers)
		require.True(t, m.Success.Body(fmt.Appendf(nil, "w%03d", i)))
	}
}

func TestABodyMayBeTextOrBytes(t *testing.T) {
	for name, c := range map[string]struct{ members, body, media string }{
		"text":             {`"raw_body":"a=1&b=\u00fc\n"`, "a=1&b=ü\n", "text/plain; charset=utf-8"},
		"an empty text":    {`"raw_body":""`, "", "text/plain; charset=utf-8"},
		"a form":           {`"raw_body":"a=1","content_type":"application/x-www-form-urlencoded"`, "a=1", "application/x-www-form-urlencoded"},
		"bytes":            {`"raw_body_base64":"AP8="`, "\x00\xff", "application/octet-stream"},
		"GBK":              {`"raw_body_base64":"xOO6ww==","content_type":"text/xml; charset=GBK"`, "\xc4\xe3\xba\xc3", "text/xml; charset=GBK"},
		"JSON of a kind":   {`"body":{},"content_type":"application/vnd.shop+json"`, "{}", "application/vnd.shop+json"},
		"an escaped field": {`"raw\u005fbody":"x"`, "x", "text/plain; charset=utf-8"},
	} {
		t.Run(name, func(t *testing.T) {
			f := &apitest.Fake{}
			w := apitest.Post(apitest.New(t, f), "/v1/messages", apitest.Message(c.members))
			require.Equal(t, 202, w.Code, w.Body.String())
			require.Equal(t, c.body, string(f.The(t).Body))
			require.Equal(t, c.media, f.The(t).ContentType)
		})
	}
}

func TestEveryFieldReachesTheEngine(t *testing.T) {
	f := &apitest.Fake{}
	w := apitest.Post(apitest.New(t, f), "/v1/messages", apitest.Message(`"id":"a","tenant":"m:7","delay":"1d","expires_at":"2026-06-01T02:00:00+02:00",
		"headers":{"x-b":"2","x-a":"1"},"ladder":["1s",2.5],"max_attempts":3,"timeout":"2s","success":{"status":["200"],"body":"success"}`))
	require.Equal(t, 202, w.Code, w.Body.String())
	m := f.The(t)
	require.Equal(t, "a", m.ID)
	require.Equal(t, "m:7", m.Tenant)
	require.Equal(t, 24*time.Hour, m.Delay)
	require.True(t, m.ExpiresAt.Equal(time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)))
	require.Equal(t, []dispatcher.Header{{Name: "x-b", Value: "2"}, {Name: "x-a", Value: "1"}}, m.Headers)
	wait, ok := m.Ladder.Next(2)
	require.True(t, ok)
	require.Equal(t, 2500*time.Millisecond, wait)
	require.Equal(t, 2, m.Ladder.Len())
	require.Equal(t, 3, m.MaxAttempts)
	require.Equal(t, 2*time.Second, m.Timeout)
	require.False(t, m.Success.Status(201))
}

func TestDelaysAndTimes(t *testing.T) {
	for text, want := range map[string]time.Duration{
		`"delay":"15s"`: 15 * time.Second, `"delay":1.5`: 1500 * time.Millisecond, `"delay":1e3`: 1000 * time.Second,
		`"delay":0`: 0, `"delay":0.001`: time.Millisecond, `"delay":1.001`: 1001 * time.Millisecond,
		`"ladder":"10 30 60"`: 0, `"ladder":[]`: 0, `"ladder":""`: 0, `"ladder":"15s/3m"`: 0,
	} {
		f := &apitest.Fake{}
		w := apitest.Post(apitest.New(t, f), "/v1/messages", apitest.Message(text))
		require.Equal(t, 202, w.Code, text+w.Body.String())
		require.Equal(t, want, f.The(t).Delay, text)
	}
	for text, want := range map[string]time.Time{
		`"deliver_at":"2026-02-01T00:00:00.25+05:30"`: time.Date(2026, 1, 31, 18, 30, 0, 25e7, time.UTC),
		`"deliver_at":"0001-01-01T00:00:00Z"`:         time.Unix(0, 0).UTC(),
	} {
		f := &apitest.Fake{}
		require.Equal(t, 202, apitest.Post(apitest.New(t, f), "/v1/messages", apitest.Message(text)).Code)
		require.Equal(t, want, f.The(t).DeliverAt)
	}
}

func TestIdsAreMadeOrTakenFromTheHeader(t *testing.T) {
	f := &apitest.Fake{}
	h := apitest.New(t, f)
	seen := map[string]bool{}
	for range 100 {
		id := apitest.DecodeAnswer[wire.Published](t, apitest.Post(h, "/v1/messages", apitest.Message("")), 202).ID
		require.Regexp(t, "^msg_[0-9A-HJKMNP-TV-Z]{26}$", id)
		seen[id] = true
	}
	require.Len(t, seen, 100)

	keyed := func(body string, keys ...string) *http.Request {
		r := apitest.NewRequest("POST", "/v1/messages", body)
		r.Header["Idempotency-Key"] = keys
		return r
	}
	require.Equal(t, "k-1", apitest.DecodeAnswer[wire.Published](t, apitest.Serve(h, keyed(apitest.Message(""), "k-1")), 202).ID)
	require.Equal(t, "k-1", apitest.DecodeAnswer[wire.Published](t, apitest.Serve(h, keyed(apitest.Message(`"id":"k-1"`), "k-1")), 202).ID)
	require.Equal(t, "k-2", apitest.DecodeAnswer[wire.Published](t, apitest.Serve(h, keyed(apitest.Message(`"id":"k-2"`), "k-1")), 202).ID, "the message's own wins")
	for key, id := range map[string]string{
		`"k-3"`: "k-3", "a.b:c": "idk_" + hash("a.b:c"), `"a b"`: "idk_" + hash("a b"), "ü": "idk_" + hash("ü"), `"`: "idk_" + hash(`"`),
		strings.Repeat("k", 128): strings.Repeat("k", 128), strings.Repeat("k", 129): "idk_" + hash(strings.Repeat("k", 129)),
		strings.Repeat("ü", 255): "idk_" + hash(strings.Repeat("ü", 255)),
	} {
		require.Equal(t, id, apitest.DecodeAnswer[wire.Published](t, apitest.Serve(h, keyed(apitest.Message(""), key)), 202).ID)
	}
	apitest.RequireField(t, apitest.Serve(h, keyed(apitest.Message(""), "k-1", "k-1")), "header.Idempotency-Key", "once")
	for _, bad := range []string{"", `""`, "a\tb", "\xff", strings.Repeat("a", 256)} {
		apitest.RequireField(t, apitest.Serve(h, keyed(apitest.Message(""), bad)), "header.Idempotency-Key", "1 to 255")
	}
	batch := keyed(`{"messages":[`+apitest.Message("")+`]}`, "k-1")
	batch.URL.Path = "/v1/messages/batch"
	apitest.RequireField(t, apitest.Serve(h, batch), "header.Idempotency-Key", "each message")
}

func hash(s string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(s)))[:32] }

func TestABadFieldIs422AndNothingIsPublished(t *testing.T) {
	for body, want := range map[string][2]string{
		`[]`: {"$", "object"}, `"x"`: {"$", "object"}, `null`: {"$", "object"}, `7`: {"$", "object"},
		apitest.Message(`"color":"red"`):                                                         {"$.color", "unknown"},
		apitest.Message(`"ID":"a"`):                                                              {"$.ID", "unknown"},
		apitest.Message(`"a\nb":1`):                                                              {`$["a\nb"]`, "unknown"},
		apitest.Message(`"id":""`):                                                               {"$.id", "1 to 128"},
		apitest.Message(`"id":7`):                                                                {"$.id", "text"},
		apitest.Message(`"id":"a{b}"`):                                                           {"$.id", "1 to 128"},
		apitest.Message(`"id":"a.b"`):                                                            {"$.id", "1 to 128"},
		apitest.Message(`"id":"e\u0301"`):                                                        {"$.id", "1 to 128"},
		apitest.Message(`"id":"a\u0000"`):                                                        {"$.id", "1 to 128"},
		apitest.Message(`"tenant":""`):                                                           {"$.tenant", "empty"},
		apitest.Message(`"delay":31536001`):                                                      {"$.delay", "365 days"},
		apitest.Message(`"delay":"31536001s"`):                                                   {"$.delay", "365 days"},
		apitest.Message(`"delay":"366d"`):                                                        {"$.delay", "365 days"},
		apitest.Message(`"tenant":"a b"`):                                                        {"$.tenant", "spaces"},
		apitest.Message(`"endpoint":"ep_1"`):                                                     {"$.endpoint", "not both"},
		`{"topic":"t","endpoint":"","body":1}`:                                                   {"$.endpoint", "empty"},
		`{"topic":"t","endpoint":"u_1","body":1}`:                                                {"$.endpoint", "id or the uid"},
		`{"topic":"t","endpoint":7,"body":1}`:                                                    {"$.endpoint", "text"},
		apitest.Message(`"queue":"q"`):                                                           {"$.queue", "give one of url, endpoint and queue"},
		`{"topic":"t","queue":"","body":1}`:                                                      {"$.queue", "empty"},
		`{"topic":"t","queue":7,"body":1}`:                                                       {"$.queue", "text"},
		`{"topic":"t","queue":"q_a","body":1}`:                                                   {"$.queue", "1 to 64"},
		`{"topic":"t","queue":"ep_1","body":1}`:                                                  {"$.queue", "give endpoint"},
		apitest.Message(`"ordering_key":""`):                                                     {"$.ordering_key", "empty"},
		apitest.Message(`"ordering_key":"a b"`):                                                  {"$.ordering_key", "spaces"},
		`{"topic":"t","url":"","body":1}`:                                                        {"$.url", "empty"},
		`{"url":"http://a","body":1}`:                                                            {"$.topic", "needed"},
		`{"topic":7,"url":"http://a","body":1}`:                                                  {"$.topic", "text"},
		`{"topic":"a..b","url":"http://a","body":1}`:                                             {"$.topic", "dots"},
		`{"topic":"t","url":"ftp://a","body":1}`:                                                 {"$.url", "http"},
		`{"topic":"t","url":["http://a"],"body":1}`:                                              {"$.url", "text"},
		`{"topic":"t","url":"http://10.1.2.3","body":1}`:                                         {"$.url", "ALLOW_NETS=10.1.2.3/32"},
		`{"topic":"t","url":"http://u:p@a","body":1}`:                                            {"$.url", "user"},
		`{"topic":"t","url":"http://a"}`:                                                         {"$.body", "one of"},
		apitest.Message(`"body":1,"raw_body":"x"`):                                               {"$.body", "not several"},
		apitest.Message(`"raw_body":"x","raw_body_base64":"eA=="`):                               {"$.body", "not several"},
		apitest.Message(`"raw_body":{}`):                                                         {"$.raw_body", "text"},
		apitest.Message(`"raw_body_base64":"e-_"`):                                               {"$.raw_body_base64", "base64"},
		apitest.Message(`"raw_body_base64":"eA"`):                                                {"$.raw_body_base64", "padding"},
		apitest.Message(`"raw_body_base64":"eA==\n"`):                                            {"$.raw_body_base64", "base64"},
		apitest.Message(`"raw_body_base64":"eB=="`):                                              {"$.raw_body_base64", "base64"},
		apitest.Message(`"body":` + strings.Repeat(`{"a":`, 65) + `1` + strings.Repeat("}", 65)): {"$.body", "deeper than 64"},
		apitest.Message(`"content_type":""`):                                                     {"$.content_type", "needed"},
		apitest.Message(`"content_type":"text/plain\r\nx: y"`):                                   {"$.content_type", "printable"},
		apitest.Message(`"content_type":"json"`):                                                 {"$.content_type", "media type"},
		apitest.Message(`"delay":-1`):                                                            {"$.delay", "negative"},
		apitest.Message(`"delay":"-1s"`):                                                         {"$.delay", "negative"},
		apitest.Message(`"delay":1e300`):                                                         {"$.delay", "range"},
		apitest.Message(`"delay":1e999`):                                                         {"$.delay", ""},
		apitest.Message(`"delay":"400d"`):                                                        {"$.delay", ""},
		apitest.Message(`"delay":31708800`):                                                      {"$.delay", "year"},
		apitest.Message(`"delay":"99999999999999h"`):                                             {"$.delay", ""},
		apitest.Message(`"delay":"NaN"`):                                                         {"$.delay", ""},
		apitest.Message(`"delay":"soon"`):                                                        {"$.delay", ""},
		apitest.Message(`"delay":true`):                                                          {"$.delay", "seconds"},
		apitest.Message(`"delay":0,"deliver_at":"2026-02-01T00:00:00Z"`):                         {"$.delay", "not both"},
		apitest.Message(`"deliver_at":"2027-03-01T00:00:00Z"`):                                   {"$.deliver_at", "year"},
		apitest.Message(`"deliver_at":"10000-01-01T00:00:00Z"`):                                  {"$.deliver_at", "time"},
		apitest.Message(`"deliver_at":"2026-02-01"`):                                             {"$.deliver_at", "time"},
		apitest.Message(`"deliver_at":1770000000`):                                               {"$.deliver_at", "time"},
		apitest.Message(`"expires_at":"2026-01-31T11:00:00Z"`):                                   {"$.expires_at", "after"},
		apitest.Message(`"expires_at":"0001-01-01T00:00:00Z"`):                                   {"$.expires_at", "after"},
		apitest.Message(`"delay":60,"expires_at":"2026-01-31T11:01:00Z"`):                        {"$.expires_at", "after"},
		apitest.Message(`"headers":[]`):                                                          {"$.headers", "object"},
		apitest.Message(`"headers":{"x":1}`):                                                     {"$.headers.x", "text"},
		apitest.Message(`"headers":{"a b":1}`):                                                   {`$.headers["a b"]`, "text"},
		apitest.Message(`"headers":{"Host":"a"}`):                                                {"$.headers.Host", "can't be set"},
		apitest.Message(`"headers":{"WEBHOOK-ID":"a"}`):                                          {"$.headers.WEBHOOK-ID", "reserved"},
		apitest.Message(`"headers":{"x":"a\r\nb: c"}`):                                           {"$.headers.x", "control"},
		apitest.Message(`"headers":{"x":"1","X":"2"}`):                                           {"$.headers.X", "twice"},
		apitest.Message(`"headers":{"a b":"1"}`):                                                 {"$.headers", "name"},
		apitest.Message(`"headers":{` + apitest.ManyHeaders(21) + `}`):                           {"$.headers", "20"},
		apitest.Message(`"headers":{"x":"` + strings.Repeat("v", 8<<10) + `"}`):                  {"$.headers", "8192"},
		apitest.Message(`"ladder":["1s","-1s"]`):                                                 {"$.ladder", "negative"},
		apitest.Message(`"ladder":"1s,,2s"`):                                                     {"$.ladder", ""},
		apitest.Message(`"ladder":7`):                                                            {"$.ladder", ""},
		apitest.Message(`"ladder":"` + strings.Repeat("1 ", 101) + `"`):                          {"$.ladder", "100"},
		apitest.Message(`"max_attempts":0`):                                                      {"$.max_attempts", "1 to 101"},
		apitest.Message(`"max_attempts":102`):                                                    {"$.max_attempts", "1 to 101"},
		apitest.Message(`"max_attempts":1.5`):                                                    {"$.max_attempts", "1 to 101"},
		apitest.Message(`"max_attempts":"3"`):                                                    {"$.max_attempts", "1 to 101"},
		apitest.Message(`"timeout":0`):                                                           {"$.timeout", "1s to 60s"},
		apitest.Message(`"timeout":"61s"`):                                                       {"$.timeout", "1s to 60s"},
		apitest.Message(`"timeout":"999ms"`):                                                     {"$.timeout", "1s to 60s"},
		apitest.Message(`"success":"2xx"`):                                                       {"$.success", ""},
		apitest.Message(`"success":{"status":["9yy"]}`):                                          {"$.success.status[0]", "write 2xx"},
		apitest.Message(`"success":{"status":["2xx","9xx"]}`):                                    {"$.success.status[1]", "599"},
		apitest.Message(`"success":{"status":["600"]}`):                                          {"$.success.status[0]", "599"},
		apitest.Message(`"success":{"status":"2xx"}`):                                            {"$.success.status", "list"},
		apitest.Message(`"success":{"stats":["2xx"]}`):                                           {"$.success.stats", "is unknown; known are body, status"},
		apitest.Message(`"success":{"body":7}`):                                                  {"$.success.body", "word"},
		apitest.Message(`"success":{"body":{"paht":"a","equals":1}}`):                            {"$.success.body.paht", "is unknown; known are equals, matches, path"},
		apitest.Message(`"success":{"body":{"path":["a"],"equals":1}}`):                          {"$.success.body.path", "text"},
		apitest.Message(`"success":{"body":{"path":"$","equals":1}}`):                            {"$.success.body.path", "data.0.code"},
		apitest.Message(`"success":{"body":{"path":"$.a[*]","equals":1}}`):                       {"$.success.body.path", "data.0.code"},
		apitest.Message(`"success":{"body":{"path":"a","equals":{}}}`):                           {"$.success.body.equals", "text"},
		apitest.Message(`"success":{"body":{"path":"a"}}`):                                       {"$.success.body", "path and equals"},
		apitest.Message(`"success":{"body":{"matches":"("}}`):                                    {"$.success.body.matches", ""},
		apitest.Message(`"success":{"a b":1}`):                                                   {`$.success["a b"]`, "unknown"},
	} {
		f := &apitest.Fake{}
		w := apitest.Post(apitest.New(t, f), "/v1/messages", body)
		t.Run(apitest.ClipName(body), func(t *testing.T) { apitest.RequireField(t, w, want[0], want[1]) })
		require.Empty(t, f.Calls, body)
	}
}

// TestRefusedBodyNamesTheWayOut: what body can't hold may still be sent.
func TestRefusedBodyNamesTheWayOut(t *testing.T) {
	const out = "; raw_body sends any text as it is, and raw_body_base64 any bytes"
	batch := func(message string) string { return `{"messages":[` + apitest.Message("") + "," + message + `]}` }
	for body, named := range map[string]bool{
		apitest.Message(`"body":"\ud800"`):                                                    true,
		apitest.Message(`"body":{"title":"a\ud83d"}`):                                         true,
		apitest.Message(`"body":{"a":1,"a":2}`):                                               true,
		apitest.Message("\"body\":{\"a\":\"\xc3\x28\"}"):                                      true,
		apitest.Message(`"body":` + strings.Repeat("[", 10001)):                               true,
		apitest.Message(`"body":` + strings.Repeat("[", 65) + strings.Repeat("]", 65)):        true,
		batch(apitest.Message(`"body":"\ud800"`)):                                             true,
		batch(apitest.Message(`"body":[{"a":1,"a":2}]`)):                                      true,
		batch(apitest.Message(`"body":` + strings.Repeat("[", 65) + strings.Repeat("]", 65))): true,
		apitest.Message(`"tenant":"\ud800"`):                                                  false,
		apitest.Message(`"headers":{"body":"1","body":"2"}`):                                  false,
		apitest.Message(`"body":1,"body":2`):                                                  false,
		batch(apitest.Message(`"headers":{"body":"\ud800"}`)):                                 false,
		apitest.Message(`"bodies":{"a":1,"a":2}`):                                             false,
		"nonsense": false,
	} {
		path := "/v1/messages"
		if strings.HasPrefix(body, `{"messages"`) {
			path += "/batch"
		}
		w := apitest.Post(apitest.New(t, &apitest.Fake{}), path, body)
		require.GreaterOrEqual(t, w.Code, 200, body)
		require.Equal(t, named, strings.Contains(w.Body.String(), out), "%.60s: %s", body, w.Body)
	}
}

func TestMalformedJSONIs400(t *testing.T) {
	for body, says := range map[string]string{
		"": "empty", " \n": "empty", "{": "not JSON", apitest.Message("") + "x": "not JSON", apitest.Message("") + apitest.Message(""): "not JSON",
		apitest.Message("") + "null": "not JSON", "\ufeff" + apitest.Message(""): "not JSON", "nonsense": "not JSON", `{"topic":"a",}`: "not JSON",
		"{'topic':1}": "not JSON", `{"topic":"a" "url":1}`: "not JSON", `{topic:"a"}`: "not JSON", `{"topic":01}`: "not JSON",
		`{"topic":"a`: "not JSON", "{\"topic\":\"a\n\"}": "not JSON", `[1,`: "not JSON",
		apitest.Message(`"topic":"b"`): `topic" is there twice`, apitest.Message(`"to\u0070ic":"b"`): `topic" is there twice`,
		apitest.Message(`"body":{"a":1,"a":2}`):                         `a" is there twice`,
		apitest.Message(`"body":{"x":[{"a":1,"\u0061":2}]}`):            "/body/x/0/a",
		apitest.Message(`"headers":{"x":"1","x":"2"}`):                  `x" is there twice`,
		apitest.Message("\"raw_body\":\"\xff\""):                        "UTF-8",
		apitest.Message("\"body\":{\"a\":\"\xc3\x28\"}"):                "UTF-8",
		apitest.Message("\"body\":{\"\xff\":1}"):                        "UTF-8",
		apitest.Message(`"body":"\ud800"`):                              "surrogate",
		apitest.Message(`"body":` + strings.Repeat("[", 10001)):         "not JSON",
		apitest.Message(`"unknown":{"a":1,"a":2}`):                      `a" is there twice`,
		`{"messages":[` + apitest.Message(`"body":{"a":1,"a":2}`) + `]`: `a" is there twice`,
	} {
		f := &apitest.Fake{}
		w := apitest.Post(apitest.New(t, f), "/v1/messages", body)
		if body == "" || strings.TrimSpace(body) == "" {
			r := apitest.NewRequest("POST", "/v1/messages", body)
			r.Header.Set("Content-Type", "application/json")
			w = apitest.Serve(apitest.New(t, f), r)
		}
		t.Run(apitest.ClipName(body), func(t *testing.T) {
			p := apitest.RequireProblem(t, w, 400, "malformed")
			require.Contains(t, p.Detail, says)
		})
		require.Empty(t, f.Calls)
	}
}

func TestAllMistakesOfAMessageAreToldAtOnce(t *testing.T) {
	w := apitest.Post(apitest.New(t, &apitest.Fake{}), "/v1/messages", `{"topic":7,"url":"ftp://a","delay":"soon","x":1,"queue":"q"}`)
	var paths []string
	for _, e := range apitest.RequireProblem(t, w, 422, "invalid").Errors {
		paths = append(paths, e.Path)
	}
	require.ElementsMatch(t, []string{"$.topic", "$.url", "$.delay", "$.x", "$.queue", "$.body"}, paths)

	many := make([]string, 1000)
	for i := range many {
		many[i] = fmt.Sprintf(`"x%d":1`, i)
	}
	p := apitest.RequireProblem(t, apitest.Post(apitest.New(t, &apitest.Fake{}), "/v1/messages", apitest.Message(strings.Join(many, ","))), 422, "invalid")
	require.Len(t, p.Errors, 32)
	require.Contains(t, p.Detail, "1000")
}
