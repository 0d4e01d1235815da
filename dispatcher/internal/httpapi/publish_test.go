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
	"github.com/hookladder/hookladder/dispatcher/wire"
)

func TestAPublishIsAnsweredAsTheContractSays(t *testing.T) {
	f := &Fake{}
	w := Post(newTestAPI(t, f), "/v1/messages", Message(`"id":"msg_1"`))
	require.Equal(t, 202, w.Code)
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	lane := f.The(t).ID // below, the lane is read from the answer instead
	require.Equal(t, "msg_1", lane)
	got := DecodeAnswer[wire.Published](t, w, 202)
	dest := got.Deliveries[0].Destination
	require.Equal(t, `{"id":"msg_1","topic":"payment.paid","created_at":"2026-01-31T11:00:00.123Z","duplicate":false,"matched":1,`+
		`"deliveries":[{"id":"`+dest+`:msg_1","destination":"`+dest+`","url":"https://shop.example/hooks","status":"ready",`+
		`"next_attempt_at":"2026-01-31T11:00:00.123Z"}]}`, w.Body.String())
}

func TestARepeatIs200AndAConflict409(t *testing.T) {
	f := &Fake{OnPublish: func(batch []*dispatcher.Message) ([]dispatcher.Published, error) {
		p := Accepted(batch[0])
		p.Result = dispatcher.Duplicate
		p.Deliveries[0].Due = time.Time{}
		return []dispatcher.Published{p}, nil
	}}
	h := newTestAPI(t, f)
	w := Post(h, "/v1/messages", Message(`"id":"a"`))
	got := DecodeAnswer[wire.Published](t, w, 200)
	require.True(t, got.Duplicate)
	require.Contains(t, w.Body.String(), `"next_attempt_at":null`)

	f.OnPublish = func([]*dispatcher.Message) ([]dispatcher.Published, error) {
		return []dispatcher.Published{{Result: dispatcher.Duplicate}}, nil
	}
	w = Post(h, "/v1/messages", Message(`"id":"a"`))
	require.Equal(t, `{"id":"a","topic":"payment.paid","duplicate":true,"deliveries":[]}`, w.Body.String(), "only its digest is known")
	DecodeAnswer[wire.Published](t, w, 200)

	f.OnPublish = func([]*dispatcher.Message) ([]dispatcher.Published, error) {
		return []dispatcher.Published{{Result: dispatcher.Conflict}}, nil
	}
	p := RequireProblem(t, Post(h, "/v1/messages", Message(`"id":"a"`)), 409, "conflict")
	require.Contains(t, p.Detail, "no longer kept whole")
	f.OnPublish = func([]*dispatcher.Message) ([]dispatcher.Published, error) {
		return []dispatcher.Published{{Result: dispatcher.Conflict, Differs: []string{"topic", "body"}}}, nil
	}
	p = RequireProblem(t, Post(h, "/v1/messages", Message(`"id":"a"`)), 409, "conflict")
	require.Contains(t, p.Detail, "topic, body not as in the first")
}

func TestAMessageIsPublishedToAQueue(t *testing.T) {
	const body = `{"topic":"t","queue":"order.cancel","timeout":"1h","body":1}`
	f := &Fake{}
	h := newTestAPI(t, f, func(o *httpapi.Options) { o.Policy.Unsigned = true }) // no SIGNING_SECRET is needed
	require.Equal(t, 202, Post(h, "/v1/messages", body).Code)
	require.Equal(t, "order.cancel", f.The(t).Queue)
	require.Equal(t, time.Hour, f.The(t).Timeout)
	require.Equal(t, 202, Post(newTestAPI(t, f), "/v1/messages/batch", Batch(body)).Code)
	RequireField(t, Post(newTestAPI(t, f), "/v1/messages", `{"topic":"t","endpoint":"a","timeout":"1h","body":1}`), "$.timeout", "1s to 60s")
}

func TestAFanOutThatHasToMatchAndDoesNotIsRefused(t *testing.T) {
	f := &Fake{OnPublish: func(batch []*dispatcher.Message) ([]dispatcher.Published, error) {
		require.True(t, batch[0].RequireMatch)
		return []dispatcher.Published{{Err: fmt.Errorf("publish: %w", dispatcher.ErrUnmatched)}}, nil
	}}
	h := newTestAPI(t, f)
	p := RequireProblem(t, Post(h, "/v1/messages", `{"topic":"t","body":1,"require_match":true}`), 422, "unmatched")
	require.Contains(t, p.Detail, "nothing was stored")
	got := DecodeAnswer[wire.Results](t, Post(h, "/v1/messages/batch", Batch(`{"topic":"t","body":1,"require_match":true}`)), 202)
	require.Equal(t, "/problems/unmatched", got.Results[0].Problem.Type)
	RequireField(t, Post(h, "/v1/messages", Message(`"require_match":"yes"`)), "$.require_match", "true or false")
}

func TestABodyArrivesByteForByte(t *testing.T) {
	for _, body := range []string{
		`12345678901234567890`, `{ "a" : 1.0 , "b":[ ]	}`, `{"a":1e400,"<>&":"\u003c\/"}`, `null`, `""`, `"ü "`, "[\n1,\r\n2]",
		`{"a":{"id":1},"b":{"id":2}}`, `false`, `-0`, strings.Repeat("[", 64) + strings.Repeat("]", 64),
		"[" + strings.Repeat(`{"a":[]},`, 99) + "0]", `{"a":"\"` + strings.Repeat("{[", 99) + `\\"}`,
	} {
		f := &Fake{}
		w := Post(newTestAPI(t, f), "/v1/messages", `{"topic":"t","url":"http://a", "body" : `+body+"\n}\n")
		require.Equal(t, 202, w.Code, w.Body.String())
		require.Equal(t, body, string(f.The(t).Body))
		require.Equal(t, "application/json", f.The(t).ContentType)
	}
}

// The engine may keep a message after its request has ended, and the buffer of
// the request serves the next one.
func TestAMessageOutlivesItsRequest(t *testing.T) {
	f := &Fake{}
	h := newTestAPI(t, f)
	want := func(i int) string { return fmt.Sprintf(`{"n":"%03d"}`, i) }
	for i := range 100 {
		more := fmt.Sprintf(`"body":%s,"id":"m%03d","headers":{"x":"v%03d"},"success":{"body":"w%03d"}`, want(i), i, i, i)
		require.Equal(t, 202, Post(h, "/v1/messages", Message(more)).Code)
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
			f := &Fake{}
			w := Post(newTestAPI(t, f), "/v1/messages", Message(c.members))
			require.Equal(t, 202, w.Code, w.Body.String())
			require.Equal(t, c.body, string(f.The(t).Body))
			require.Equal(t, c.media, f.The(t).ContentType)
		})
	}
}

func TestEveryFieldReachesTheEngine(t *testing.T) {
	f := &Fake{}
	w := Post(newTestAPI(t, f), "/v1/messages", Message(`"id":"a","tenant":"m:7","delay":"1d","expires_at":"2026-06-01T02:00:00+02:00",
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
		f := &Fake{}
		w := Post(newTestAPI(t, f), "/v1/messages", Message(text))
		require.Equal(t, 202, w.Code, text+w.Body.String())
		require.Equal(t, want, f.The(t).Delay, text)
	}
	for text, want := range map[string]time.Time{
		`"deliver_at":"2026-02-01T00:00:00.25+05:30"`: time.Date(2026, 1, 31, 18, 30, 0, 25e7, time.UTC),
		`"deliver_at":"0001-01-01T00:00:00Z"`:         time.Unix(0, 0).UTC(),
	} {
		f := &Fake{}
		require.Equal(t, 202, Post(newTestAPI(t, f), "/v1/messages", Message(text)).Code)
		require.Equal(t, want, f.The(t).DeliverAt)
	}
}

func TestIdsAreMadeOrTakenFromTheHeader(t *testing.T) {
	f := &Fake{}
	h := newTestAPI(t, f)
	seen := map[string]bool{}
	for range 100 {
		id := DecodeAnswer[wire.Published](t, Post(h, "/v1/messages", Message("")), 202).ID
		require.Regexp(t, "^msg_[0-9A-HJKMNP-TV-Z]{26}$", id)
		seen[id] = true
	}
	require.Len(t, seen, 100)

	keyed := func(body string, keys ...string) *http.Request {
		r := newTestRequest("POST", "/v1/messages", body)
		r.Header["Idempotency-Key"] = keys
		return r
	}
	require.Equal(t, "k-1", DecodeAnswer[wire.Published](t, Serve(h, keyed(Message(""), "k-1")), 202).ID)
	require.Equal(t, "k-1", DecodeAnswer[wire.Published](t, Serve(h, keyed(Message(`"id":"k-1"`), "k-1")), 202).ID)
	require.Equal(t, "k-2", DecodeAnswer[wire.Published](t, Serve(h, keyed(Message(`"id":"k-2"`), "k-1")), 202).ID, "the message's own wins")
	for key, id := range map[string]string{
		`"k-3"`: "k-3", "a.b:c": "idk_" + hash("a.b:c"), `"a b"`: "idk_" + hash("a b"), "ü": "idk_" + hash("ü"), `"`: "idk_" + hash(`"`),
		strings.Repeat("k", 128): strings.Repeat("k", 128), strings.Repeat("k", 129): "idk_" + hash(strings.Repeat("k", 129)),
		strings.Repeat("ü", 255): "idk_" + hash(strings.Repeat("ü", 255)),
	} {
		require.Equal(t, id, DecodeAnswer[wire.Published](t, Serve(h, keyed(Message(""), key)), 202).ID)
	}
	RequireField(t, Serve(h, keyed(Message(""), "k-1", "k-1")), "header.Idempotency-Key", "once")
	for _, bad := range []string{"", `""`, "a\tb", "\xff", strings.Repeat("a", 256)} {
		RequireField(t, Serve(h, keyed(Message(""), bad)), "header.Idempotency-Key", "1 to 255")
	}
	batch := keyed(`{"messages":[`+Message("")+`]}`, "k-1")
	batch.URL.Path = "/v1/messages/batch"
	RequireField(t, Serve(h, batch), "header.Idempotency-Key", "each message")
}

func hash(s string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(s)))[:32] }

func TestABadFieldIs422AndNothingIsPublished(t *testing.T) {
	for body, want := range map[string][2]string{
		`[]`: {"$", "object"}, `"x"`: {"$", "object"}, `null`: {"$", "object"}, `7`: {"$", "object"},
		Message(`"color":"red"`):                           {"$.color", "unknown"},
		Message(`"ID":"a"`):                                {"$.ID", "unknown"},
		Message(`"a\nb":1`):                                {`$["a\nb"]`, "unknown"},
		Message(`"id":""`):                                 {"$.id", "1 to 128"},
		Message(`"id":7`):                                  {"$.id", "text"},
		Message(`"id":"a{b}"`):                             {"$.id", "1 to 128"},
		Message(`"id":"a.b"`):                              {"$.id", "1 to 128"},
		Message(`"id":"e\u0301"`):                          {"$.id", "1 to 128"},
		Message(`"id":"a\u0000"`):                          {"$.id", "1 to 128"},
		Message(`"tenant":""`):                             {"$.tenant", "empty"},
		Message(`"delay":31536001`):                        {"$.delay", "365 days"},
		Message(`"delay":"31536001s"`):                     {"$.delay", "365 days"},
		Message(`"delay":"366d"`):                          {"$.delay", "365 days"},
		Message(`"tenant":"a b"`):                          {"$.tenant", "spaces"},
		Message(`"endpoint":"ep_1"`):                       {"$.endpoint", "not both"},
		`{"topic":"t","endpoint":"","body":1}`:             {"$.endpoint", "empty"},
		`{"topic":"t","endpoint":"u_1","body":1}`:          {"$.endpoint", "id or the uid"},
		`{"topic":"t","endpoint":7,"body":1}`:              {"$.endpoint", "text"},
		Message(`"queue":"q"`):                             {"$.queue", "give one of url, endpoint and queue"},
		`{"topic":"t","queue":"","body":1}`:                {"$.queue", "empty"},
		`{"topic":"t","queue":7,"body":1}`:                 {"$.queue", "text"},
		`{"topic":"t","queue":"q_a","body":1}`:             {"$.queue", "1 to 64"},
		`{"topic":"t","queue":"ep_1","body":1}`:            {"$.queue", "give endpoint"},
		Message(`"ordering_key":""`):                       {"$.ordering_key", "empty"},
		Message(`"ordering_key":"a b"`):                    {"$.ordering_key", "spaces"},
		`{"topic":"t","url":"","body":1}`:                  {"$.url", "empty"},
		`{"url":"http://a","body":1}`:                      {"$.topic", "needed"},
		`{"topic":7,"url":"http://a","body":1}`:            {"$.topic", "text"},
		`{"topic":"a..b","url":"http://a","body":1}`:       {"$.topic", "dots"},
		`{"topic":"t","url":"ftp://a","body":1}`:           {"$.url", "http"},
		`{"topic":"t","url":["http://a"],"body":1}`:        {"$.url", "text"},
		`{"topic":"t","url":"http://10.1.2.3","body":1}`:   {"$.url", "ALLOW_NETS=10.1.2.3/32"},
		`{"topic":"t","url":"http://u:p@a","body":1}`:      {"$.url", "user"},
		`{"topic":"t","url":"http://a"}`:                   {"$.body", "one of"},
		Message(`"body":1,"raw_body":"x"`):                 {"$.body", "not several"},
		Message(`"raw_body":"x","raw_body_base64":"eA=="`): {"$.body", "not several"},
		Message(`"raw_body":{}`):                           {"$.raw_body", "text"},
		Message(`"raw_body_base64":"e-_"`):                 {"$.raw_body_base64", "base64"},
		Message(`"raw_body_base64":"eA"`):                  {"$.raw_body_base64", "padding"},
		Message(`"raw_body_base64":"eA==\n"`):              {"$.raw_body_base64", "base64"},
		Message(`"raw_body_base64":"eB=="`):                {"$.raw_body_base64", "base64"},
		Message(`"body":` + strings.Repeat(`{"a":`, 65) + `1` + strings.Repeat("}", 65)): {"$.body", "deeper than 64"},
		Message(`"content_type":""`):                                    {"$.content_type", "needed"},
		Message(`"content_type":"text/plain\r\nx: y"`):                  {"$.content_type", "printable"},
		Message(`"content_type":"json"`):                                {"$.content_type", "media type"},
		Message(`"delay":-1`):                                           {"$.delay", "negative"},
		Message(`"delay":"-1s"`):                                        {"$.delay", "negative"},
		Message(`"delay":1e300`):                                        {"$.delay", "range"},
		Message(`"delay":1e999`):                                        {"$.delay", ""},
		Message(`"delay":"400d"`):                                       {"$.delay", ""},
		Message(`"delay":31708800`):                                     {"$.delay", "year"},
		Message(`"delay":"99999999999999h"`):                            {"$.delay", ""},
		Message(`"delay":"NaN"`):                                        {"$.delay", ""},
		Message(`"delay":"soon"`):                                       {"$.delay", ""},
		Message(`"delay":true`):                                         {"$.delay", "seconds"},
		Message(`"delay":0,"deliver_at":"2026-02-01T00:00:00Z"`):        {"$.delay", "not both"},
		Message(`"deliver_at":"2027-03-01T00:00:00Z"`):                  {"$.deliver_at", "year"},
		Message(`"deliver_at":"10000-01-01T00:00:00Z"`):                 {"$.deliver_at", "time"},
		Message(`"deliver_at":"2026-02-01"`):                            {"$.deliver_at", "time"},
		Message(`"deliver_at":1770000000`):                              {"$.deliver_at", "time"},
		Message(`"expires_at":"2026-01-31T11:00:00Z"`):                  {"$.expires_at", "after"},
		Message(`"expires_at":"0001-01-01T00:00:00Z"`):                  {"$.expires_at", "after"},
		Message(`"delay":60,"expires_at":"2026-01-31T11:01:00Z"`):       {"$.expires_at", "after"},
		Message(`"headers":[]`):                                         {"$.headers", "object"},
		Message(`"headers":{"x":1}`):                                    {"$.headers.x", "text"},
		Message(`"headers":{"a b":1}`):                                  {`$.headers["a b"]`, "text"},
		Message(`"headers":{"Host":"a"}`):                               {"$.headers.Host", "can't be set"},
		Message(`"headers":{"WEBHOOK-ID":"a"}`):                         {"$.headers.WEBHOOK-ID", "reserved"},
		Message(`"headers":{"x":"a\r\nb: c"}`):                          {"$.headers.x", "control"},
		Message(`"headers":{"x":"1","X":"2"}`):                          {"$.headers.X", "twice"},
		Message(`"headers":{"a b":"1"}`):                                {"$.headers", "name"},
		Message(`"headers":{` + ManyHeaders(21) + `}`):                  {"$.headers", "20"},
		Message(`"headers":{"x":"` + strings.Repeat("v", 8<<10) + `"}`): {"$.headers", "8192"},
		Message(`"ladder":["1s","-1s"]`):                                {"$.ladder", "negative"},
		Message(`"ladder":"1s,,2s"`):                                    {"$.ladder", ""},
		Message(`"ladder":7`):                                           {"$.ladder", ""},
		Message(`"ladder":"` + strings.Repeat("1 ", 101) + `"`):         {"$.ladder", "100"},
		Message(`"max_attempts":0`):                                     {"$.max_attempts", "1 to 101"},
		Message(`"max_attempts":102`):                                   {"$.max_attempts", "1 to 101"},
		Message(`"max_attempts":1.5`):                                   {"$.max_attempts", "1 to 101"},
		Message(`"max_attempts":"3"`):                                   {"$.max_attempts", "1 to 101"},
		Message(`"timeout":0`):                                          {"$.timeout", "1s to 60s"},
		Message(`"timeout":"61s"`):                                      {"$.timeout", "1s to 60s"},
		Message(`"timeout":"999ms"`):                                    {"$.timeout", "1s to 60s"},
		Message(`"success":"2xx"`):                                      {"$.success", ""},
		Message(`"success":{"status":["9yy"]}`):                         {"$.success.status[0]", "write 2xx"},
		Message(`"success":{"status":["2xx","9xx"]}`):                   {"$.success.status[1]", "599"},
		Message(`"success":{"status":["600"]}`):                         {"$.success.status[0]", "599"},
		Message(`"success":{"status":"2xx"}`):                           {"$.success.status", "list"},
		Message(`"success":{"stats":["2xx"]}`):                          {"$.success.stats", "is unknown; known are body, status"},
		Message(`"success":{"body":7}`):                                 {"$.success.body", "word"},
		Message(`"success":{"body":{"paht":"a","equals":1}}`):           {"$.success.body.paht", "is unknown; known are equals, matches, path"},
		Message(`"success":{"body":{"path":["a"],"equals":1}}`):         {"$.success.body.path", "text"},
		Message(`"success":{"body":{"path":"$","equals":1}}`):           {"$.success.body.path", "data.0.code"},
		Message(`"success":{"body":{"path":"$.a[*]","equals":1}}`):      {"$.success.body.path", "data.0.code"},
		Message(`"success":{"body":{"path":"a","equals":{}}}`):          {"$.success.body.equals", "text"},
		Message(`"success":{"body":{"path":"a"}}`):                      {"$.success.body", "path and equals"},
		Message(`"success":{"body":{"matches":"("}}`):                   {"$.success.body.matches", ""},
		Message(`"success":{"a b":1}`):                                  {`$.success["a b"]`, "unknown"},
	} {
		f := &Fake{}
		w := Post(newTestAPI(t, f), "/v1/messages", body)
		t.Run(ClipName(body), func(t *testing.T) { RequireField(t, w, want[0], want[1]) })
		require.Empty(t, f.Calls, body)
	}
}

// TestRefusedBodyNamesTheWayOut: what body can't hold may still be sent.
func TestRefusedBodyNamesTheWayOut(t *testing.T) {
	const out = "; raw_body sends any text as it is, and raw_body_base64 any bytes"
	batch := func(message string) string { return `{"messages":[` + Message("") + "," + message + `]}` }
	for body, named := range map[string]bool{
		Message(`"body":"\ud800"`):                                                    true,
		Message(`"body":{"title":"a\ud83d"}`):                                         true,
		Message(`"body":{"a":1,"a":2}`):                                               true,
		Message("\"body\":{\"a\":\"\xc3\x28\"}"):                                      true,
		Message(`"body":` + strings.Repeat("[", 10001)):                               true,
		Message(`"body":` + strings.Repeat("[", 65) + strings.Repeat("]", 65)):        true,
		batch(Message(`"body":"\ud800"`)):                                             true,
		batch(Message(`"body":[{"a":1,"a":2}]`)):                                      true,
		batch(Message(`"body":` + strings.Repeat("[", 65) + strings.Repeat("]", 65))): true,
		Message(`"tenant":"\ud800"`):                                                  false,
		Message(`"headers":{"body":"1","body":"2"}`):                                  false,
		Message(`"body":1,"body":2`):                                                  false,
		batch(Message(`"headers":{"body":"\ud800"}`)):                                 false,
		Message(`"bodies":{"a":1,"a":2}`):                                             false,
		"nonsense":                                                                    false,
	} {
		path := "/v1/messages"
		if strings.HasPrefix(body, `{"messages"`) {
			path += "/batch"
		}
		w := Post(newTestAPI(t, &Fake{}), path, body)
		require.GreaterOrEqual(t, w.Code, 200, body)
		require.Equal(t, named, strings.Contains(w.Body.String(), out), "%.60s: %s", body, w.Body)
	}
}

func TestMalformedJSONIs400(t *testing.T) {
	for body, says := range map[string]string{
		"": "empty", " \n": "empty", "{": "not JSON", Message("") + "x": "not JSON", Message("") + Message(""): "not JSON",
		Message("") + "null": "not JSON", "\ufeff" + Message(""): "not JSON", "nonsense": "not JSON", `{"topic":"a",}`: "not JSON",
		"{'topic':1}": "not JSON", `{"topic":"a" "url":1}`: "not JSON", `{topic:"a"}`: "not JSON", `{"topic":01}`: "not JSON",
		`{"topic":"a`: "not JSON", "{\"topic\":\"a\n\"}": "not JSON", `[1,`: "not JSON",
		Message(`"topic":"b"`): `topic" is there twice`, Message(`"to\u0070ic":"b"`): `topic" is there twice`,
		Message(`"body":{"a":1,"a":2}`):                         `a" is there twice`,
		Message(`"body":{"x":[{"a":1,"\u0061":2}]}`):            "/body/x/0/a",
		Message(`"headers":{"x":"1","x":"2"}`):                  `x" is there twice`,
		Message("\"raw_body\":\"\xff\""):                        "UTF-8",
		Message("\"body\":{\"a\":\"\xc3\x28\"}"):                "UTF-8",
		Message("\"body\":{\"\xff\":1}"):                        "UTF-8",
		Message(`"body":"\ud800"`):                              "surrogate",
		Message(`"body":` + strings.Repeat("[", 10001)):         "not JSON",
		Message(`"unknown":{"a":1,"a":2}`):                      `a" is there twice`,
		`{"messages":[` + Message(`"body":{"a":1,"a":2}`) + `]`: `a" is there twice`,
	} {
		f := &Fake{}
		w := Post(newTestAPI(t, f), "/v1/messages", body)
		if body == "" || strings.TrimSpace(body) == "" {
			r := newTestRequest("POST", "/v1/messages", body)
			r.Header.Set("Content-Type", "application/json")
			w = Serve(newTestAPI(t, f), r)
		}
		t.Run(ClipName(body), func(t *testing.T) {
			p := RequireProblem(t, w, 400, "malformed")
			require.Contains(t, p.Detail, says)
		})
		require.Empty(t, f.Calls)
	}
}

func TestAllMistakesOfAMessageAreToldAtOnce(t *testing.T) {
	w := Post(newTestAPI(t, &Fake{}), "/v1/messages", `{"topic":7,"url":"ftp://a","delay":"soon","x":1,"queue":"q"}`)
	var paths []string
	for _, e := range RequireProblem(t, w, 422, "invalid").Errors {
		paths = append(paths, e.Path)
	}
	require.ElementsMatch(t, []string{"$.topic", "$.url", "$.delay", "$.x", "$.queue", "$.body"}, paths)

	many := make([]string, 1000)
	for i := range many {
		many[i] = fmt.Sprintf(`"x%d":1`, i)
	}
	p := RequireProblem(t, Post(newTestAPI(t, &Fake{}), "/v1/messages", Message(strings.Join(many, ","))), 422, "invalid")
	require.Len(t, p.Errors, 32)
	require.Contains(t, p.Detail, "1000")
}
