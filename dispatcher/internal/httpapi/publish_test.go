package httpapi_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
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

func TestABatchTakesTheGoodOnesInOneCall(t *testing.T) {
	f := &Fake{OnPublish: func(all []*dispatcher.Message) ([]dispatcher.Published, error) {
		out := make([]dispatcher.Published, len(all))
		for i, m := range all {
			out[i] = Accepted(m)
		}
		out[1].Result = dispatcher.Duplicate
		out[2] = dispatcher.Published{Result: dispatcher.Conflict}
		out[3] = dispatcher.Published{Err: fmt.Errorf("schedule: %w", dispatcher.ErrFull)}
		return out, nil
	}}
	big := strings.Repeat("a", 256<<10)
	w := Post(newTestAPI(t, f), "/v1/messages/batch", Batch(
		Message(`"id":"new"`), Message(`"id":"bad","delay":-1`), Message(`"id":"again"`), `7`,
		Message(`"id":"taken"`), Message(`"raw_body":"`+big+`x","id":"big"`), Message(`"id":"full"`),
	))
	got := DecodeAnswer[wire.Results](t, w, 202).Results
	require.Equal(t, []string{"publish"}, f.Calls)
	var ids []string
	for _, m := range f.Published {
		ids = append(ids, m.ID)
	}
	require.Equal(t, []string{"new", "again", "taken", "full"}, ids)

	var statuses []int
	for i, r := range got {
		statuses = append(statuses, r.Status)
		require.Equal(t, r.Status >= 400, r.Problem != nil, i)
		require.Equal(t, r.Status < 400, r.Published != nil, i)
		if r.Problem != nil {
			require.Equal(t, r.Status, r.Problem.Status)
		}
	}
	require.Equal(t, []int{202, 422, 200, 422, 409, 413, 503}, statuses)
	require.Equal(t, "new", got[0].ID)
	require.Len(t, got[0].Deliveries, 1)
	require.True(t, got[2].Duplicate)
	require.Equal(t, "$.messages[1].delay", got[1].Problem.Errors[0].Path)
	require.Equal(t, []wire.FieldError{{Path: "$.messages[3]", Detail: "must be an object"}}, got[3].Problem.Errors)
}

func TestABatchOfWhichNothingCouldBeStoredIs503(t *testing.T) {
	var errs []error
	f := &Fake{OnPublish: func(all []*dispatcher.Message) ([]dispatcher.Published, error) {
		out := make([]dispatcher.Published, len(all))
		for i := range all {
			if out[i].Err = errs[i]; errs[i] == nil {
				out[i] = Accepted(all[i])
			}
		}
		return out, nil
	}}
	h := newTestAPI(t, f)
	two := Batch(Message(`"id":"a"`), Message(`"id":"b"`), Message(`"delay":-1`))
	errs = []error{dispatcher.ErrUnavailable, dispatcher.ErrFull}
	w := Post(h, "/v1/messages/batch", two)
	require.Equal(t, 503, w.Code)
	require.Equal(t, "10", w.Header().Get("Retry-After"), "the one that takes longest")
	require.Equal(t, "application/problem+json", w.Header().Get("Content-Type"))
	var answer wire.Problem
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer))
	require.Equal(t, "/problems/full", answer.Type)
	require.Equal(t, 503, answer.Status)
	var statuses []int
	for _, r := range answer.Results {
		statuses = append(statuses, r.Status)
	}
	require.Equal(t, []int{503, 503, 422}, statuses)

	errs = []error{dispatcher.ErrUnavailable, nil}
	require.Equal(t, 202, Post(h, "/v1/messages/batch", two).Code, "one of them was")
	errs = []error{dispatcher.ErrNoEndpoint, dispatcher.ErrNoEndpoint}
	require.Equal(t, 202, Post(h, "/v1/messages/batch", two).Code, "to send it again would not help")
}

func TestABatchWithNothingGoodAsksNothingOfTheEngine(t *testing.T) {
	f := &Fake{}
	w := Post(newTestAPI(t, f), "/v1/messages/batch", Batch(`{}`))
	require.Equal(t, 422, DecodeAnswer[wire.Results](t, w, 202).Results[0].Status)
	require.Empty(t, f.Calls)
}

func TestAThousandMessagesAreABatch(t *testing.T) {
	f := &Fake{}
	h := newTestAPI(t, f)
	all := make([]string, 1000)
	for i := range all {
		all[i] = Message(fmt.Sprintf(`"id":"m%d"`, i))
	}
	got := DecodeAnswer[wire.Results](t, Post(h, "/v1/messages/batch", Batch(all...)), 202).Results
	require.Len(t, got, 1000)
	for i, r := range got {
		require.Equal(t, fmt.Sprintf("m%d", i), r.ID)
	}
	f.Calls = nil
	RequireField(t, Post(h, "/v1/messages/batch", Batch(append(all, Message(""), `{"a":`+`1}`)...)), "$.messages", "1 to 1000")
	require.Empty(t, f.Calls)
}

func TestABadEnvelopeIsRefusedAsAWhole(t *testing.T) {
	f := &Fake{}
	h := newTestAPI(t, f)
	for body, want := range map[string][2]string{
		`[]`: {"$", "object"}, `{}`: {"$.messages", "1 to 1000"}, `{"messages":[]}`: {"$.messages", "1 to 1000"},
		`{"messages":{}}`: {"$.messages", "list"}, `{"messages":null}`: {"$.messages", "list"},
		`{"messages":[` + Message("") + `],"x":1}`: {"$.x", "unknown"},
	} {
		RequireField(t, Post(h, "/v1/messages/batch", body), want[0], want[1])
	}
	for _, body := range []string{
		`{"messages":[` + Message(""), `{"messages":[` + Message("") + `]}}`, `{"messages":[],"messages":[]}`,
		Batch(Message("") + " " + Message("")), Batch(Message(`"id":"a","id":"b"`)), `{"messages":[,]}`,
	} {
		RequireProblem(t, Post(h, "/v1/messages/batch", body), 400, "malformed")
	}
	require.Empty(t, f.Calls)
}

// FuzzPublish holds what is taken against what was sent.
func FuzzPublish(f *testing.F) {
	f.Add(Message(""))
	f.Add(Message(`"raw_body":"a","id":"x","delay":1e3,"headers":{"x":"y"},"ladder":"1/2","success":{"status":["*"]}`))
	f.Add(Message(`"body":{"a":[1,{"b":null}],"a":2}`))
	f.Add(Batch(Message(""), Message(`"x":1`)))
	f.Add(`{"topic":"` + "\xff" + `"}`)
	service := &Fake{}
	h := newTestAPI(f, service)
	f.Fuzz(func(t *testing.T, text string) {
		service.Published = nil
		for _, path := range []string{"/v1/messages", "/v1/messages/batch"} {
			r := newTestRequest("POST", path, text)
			r.Header.Set("Content-Type", "application/json")
			w := Serve(h, r)
			require.Contains(t, []int{202, 400, 413, 422}, w.Code)
			require.True(t, json.Valid(w.Body.Bytes()))
			if !json.Valid([]byte(text)) {
				require.Equal(t, 400, w.Code)
			}
		}
		for _, m := range service.Published {
			require.Empty(t, m.Validate(Policy()))
			if m.ContentType == "application/json" && json.Valid(m.Body) && !strings.Contains(text, `"raw_body`) && !strings.Contains(text, `\`) {
				require.Contains(t, text, string(m.Body))
			}
		}
	})
}

func TestABodyTooLargeIs413(t *testing.T) {
	f := &Fake{}
	h := newTestAPI(t, f)
	fits := Message(`"body":"` + strings.Repeat("a", 256<<10-2) + `"`)
	require.Equal(t, 202, Post(h, "/v1/messages", fits).Code)
	f.Calls = nil
	p := RequireProblem(t, Post(h, "/v1/messages", Message(`"body":"`+strings.Repeat("a", 256<<10-1)+`"`)), 413, "too-large")
	require.Contains(t, p.Detail, "MAX_BODY")
	require.Contains(t, p.Detail, "raise the setting")
	for name, most := range map[string]string{ // each of 256 KiB as JSON writes it at worst
		"quotes":             strings.Repeat(`\"`, 256<<10),
		"control characters": strings.Repeat(`\u0001`, 256<<10),
		"Chinese":            strings.Repeat(`\u4e2d`, 256<<10/3),
	} {
		require.Equal(t, 202, Post(h, "/v1/messages", Message(`"raw_body":"`+most+`"`)).Code, name)
		chunked := newTestRequest("POST", "/v1/messages", Message(`"raw_body":"`+most+`"`))
		chunked.ContentLength = -1
		require.Equal(t, 202, Serve(h, chunked).Code, name)
		p := RequireProblem(t, Post(h, "/v1/messages", Message(`"raw_body":"`+most+`\u4e2d"`)), 413, "too-large")
		require.Contains(t, p.Detail, "the message's body has")
	}
	for _, m := range f.Published {
		require.LessOrEqual(t, cap(m.Body), 2*len(m.Body)+bytes.MinRead, "its escapes hold no memory")
	}
	f.Calls = nil
	huge := Message(`"body":"` + strings.Repeat("a", 4<<20) + `"`)
	RequireProblem(t, Post(h, "/v1/messages", huge), 413, "too-large")
	chunked := newTestRequest("POST", "/v1/messages", huge)
	chunked.ContentLength = -1
	p = RequireProblem(t, Serve(h, chunked), 413, "too-large")
	require.Contains(t, p.Detail, "the request has more", "it was not read to its end")
	require.Contains(t, p.Detail, "262144 (MAX_BODY)")
	batch := `{"messages":[` + Message(`"raw_body":"`+strings.Repeat("a", 4<<20)+`"`) + `]}`
	RequireProblem(t, Post(h, "/v1/messages/batch", batch), 413, "too-large")
	require.Empty(t, f.Calls)
}

// What no key may hold of the budget could never be read: it is told at once.
func TestARequestStaysWithinTheBudget(t *testing.T) {
	h := newTestAPI(t, &Fake{}, WithKeys(t, PublishKey+":publish,"+OtherKey+":publish"), func(o *httpapi.Options) { o.Bodies = httpapi.NewBodies(1<<20, o.Policy.MaxBody) })
	call := func(n int) *httptest.ResponseRecorder {
		r := newTestRequest("POST", "/v1/messages", Message(`"raw_body":"`+strings.Repeat(`\u0001`, n)+`"`))
		r.Header.Set("Authorization", "Bearer "+PublishKey)
		return Serve(h, r)
	}
	require.Equal(t, 202, call(80_000).Code)
	RequireProblem(t, call(90_000), 413, "too-large")
}

func TestTheLargestMessageFitsHoweverSmallTheBudget(t *testing.T) {
	limits := Policy()
	limits.MaxBody = 4 << 20
	addr := newTestServer(t, &Fake{}, WithLimits(limits), WithKeys(t, PublishKey+":publish,"+OtherKey+":publish"), func(o *httpapi.Options) { o.Bodies = httpapi.NewBodies(8<<20, o.Policy.MaxBody) })
	text := Message(`"raw_body_base64":"` + base64.StdEncoding.EncodeToString(make([]byte, 4<<20)) + `"`)
	r, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+addr+"/v1/messages", strings.NewReader(text))
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+PublishKey)
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer answer.Body.Close() //nolint:errcheck // nothing of it is read
	require.Equal(t, 202, answer.StatusCode)
}

type brokenReader struct{ err error }

func (b brokenReader) Read([]byte) (int, error) { return 0, b.err }
func (b brokenReader) Close() error             { return nil }

func TestABodyThatDoesNotArriveIsAProblem(t *testing.T) {
	f := &Fake{}
	h := newTestAPI(t, f)
	r := newTestRequest("POST", "/v1/messages", Message(""))
	r.Body = brokenReader{os.ErrDeadlineExceeded}
	RequireProblem(t, Serve(h, r), 408, "timeout")
	r = newTestRequest("POST", "/v1/messages", Message(""))
	r.Body = brokenReader{io.ErrUnexpectedEOF}
	RequireProblem(t, Serve(h, r), 400, "malformed")
	RequireField(t, Post(h, "/v1/messages?id=a", Message("")), "query.id", "unknown")
	require.Empty(t, f.Calls)
}

func TestOtherContentTypesAre415(t *testing.T) {
	f := &Fake{}
	h := newTestAPI(t, f)
	for _, media := range []string{"", "text/plain", "application/x-www-form-urlencoded", "application/jsonp", "application/json; charset=latin1", "application/json; charset=utf-16", "application/json; charset=utf88", "application/json; charset", "a,b"} {
		r := newTestRequest("POST", "/v1/messages", Message(""))
		r.Header.Set("Content-Type", media)
		require.Contains(t, RequireProblem(t, Serve(h, r), 415, "unsupported-media-type").Title+" UTF-8", "application/json")
	}
	form := newTestRequest("POST", "/v1/messages", Message(""))
	form.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	p := RequireProblem(t, Serve(h, form), 415, "unsupported-media-type")
	require.Contains(t, p.Detail, "send the header Content-Type: application/json")
	none := newTestRequest("POST", "/v1/messages", Message(""))
	none.Header.Del("Content-Type")
	RequireProblem(t, Serve(h, none), 415, "unsupported-media-type")
	packed := newTestRequest("POST", "/v1/messages", Message(""))
	packed.Header.Set("Content-Encoding", "gzip")
	RequireProblem(t, Serve(h, packed), 415, "unsupported-media-type")
	require.Empty(t, f.Calls)
	for _, media := range []string{"application/json", "application/json; charset=UTF-8", "application/json;charset=UTF8", `application/json; charset="utf8"`, "Application/JSON;x=y"} {
		r := newTestRequest("POST", "/v1/messages", Message(""))
		r.Header.Set("Content-Type", media)
		require.Equal(t, 202, Serve(h, r).Code, media)
	}
}

// TestAPublishAllocatesLittle: most callers publish one message at a time, and
// what each of them costs besides the network's work is mostly this.
func TestAPublishAllocatesLittle(t *testing.T) {
	h := newTestAPI(t, &Fake{}, withBench, WithKeys(t, Keys()))
	c := newBenchCaller("/v1/messages", Message(`"body":{"text":"`+strings.Repeat("x", 1000)+`"},"id":"msg_1"`))
	c.call(h)
	require.Equal(t, 202, c.status)
	// It is 9; some more under the race detector, for which a pool forgets some of
	// what it was given. It was 19 with a framework between.
	require.LessOrEqual(t, testing.AllocsPerRun(200, func() { c.call(h) }), 16.0)
}

func TestAMessageGoesToAnEndpointOrToAllThatMatch(t *testing.T) {
	to := func(lane dispatcher.Lane, m *dispatcher.Message, status dispatcher.Status) dispatcher.Delivery {
		return dispatcher.Delivery{ID: dispatcher.DeliveryID{Lane: lane, Message: m.ID}, URL: "http://a", Status: status}
	}
	f := &Fake{OnPublish: func(all []*dispatcher.Message) ([]dispatcher.Published, error) {
		m := all[0]
		p := dispatcher.Published{Result: dispatcher.Accepted, CreatedAt: Now}
		if m.Endpoint != "" {
			p.Deliveries = []dispatcher.Delivery{to("ep_1", m, dispatcher.StatusInFlight)}
		} else {
			p.Deliveries = []dispatcher.Delivery{to("ep_1", m, dispatcher.StatusReady), to("ep_2", m, dispatcher.StatusDead)}
		}
		return []dispatcher.Published{p}, nil
	}}
	h := newTestAPI(t, f)
	got := DecodeAnswer[wire.Published](t, Post(h, "/v1/messages", Bare+`,"endpoint":"merchant:7","ordering_key":"order-7"}`), 202)
	require.Equal(t, 1, got.Matched)
	require.Equal(t, "merchant:7", f.Published[0].Endpoint)
	require.Equal(t, "order-7", f.Published[0].OrderingKey)

	got = DecodeAnswer[wire.Published](t, Post(h, "/v1/messages", Bare+`}`), 202)
	require.Equal(t, 2, got.Matched)
	require.Equal(t, "ep_2", got.Deliveries[1].Destination)
	require.Equal(t, "dead", got.Deliveries[1].Status)
	require.Empty(t, f.Published[1].URL+f.Published[1].Endpoint)

	f.OnPublish = func([]*dispatcher.Message) ([]dispatcher.Published, error) {
		return []dispatcher.Published{{Result: dispatcher.Accepted, CreatedAt: Now}}, nil
	}
	w := Post(h, "/v1/messages", Bare+`,"id":"a"}`)
	require.Equal(t, 200, w.Code, "a 202 means kept")
	require.Contains(t, w.Body.String(), `"matched":0,"deliveries":[]`)
	all := DecodeAnswer[wire.Results](t, Post(h, "/v1/messages/batch", `{"messages":[`+Bare+`,"id":"a"}]}`), 202)
	require.Equal(t, 200, all.Results[0].Status)
}

func TestWhyADestinationTakesNothing(t *testing.T) {
	for _, c := range []struct {
		published dispatcher.Published
		status    int
		word      string
		path      string
	}{
		{dispatcher.Published{Err: fmt.Errorf("publish a: %w", dispatcher.ErrNoEndpoint)}, 422, "invalid", "endpoint"},
		{dispatcher.Published{Err: fmt.Errorf("publish a: %w", dispatcher.ErrTenant)}, 422, "invalid", "endpoint"},
		{dispatcher.Published{Err: fmt.Errorf("publish a: %w", dispatcher.ErrFanOut)}, 422, "too-many-endpoints", ""},
		{dispatcher.Published{Result: dispatcher.LaneFull}, 429, "lane-full", ""},
	} {
		f := &Fake{OnPublish: func(all []*dispatcher.Message) ([]dispatcher.Published, error) {
			if len(all) == 1 {
				return []dispatcher.Published{c.published}, nil
			}
			return []dispatcher.Published{Accepted(all[0]), c.published}, nil
		}}
		h := newTestAPI(t, f)
		w := Post(h, "/v1/messages", Bare+`,"endpoint":"a"}`)
		p := RequireProblem(t, w, c.status, c.word)
		require.Equal(t, c.status == 429, w.Header().Get("Retry-After") != "")
		results := DecodeAnswer[wire.Results](t, Post(h, "/v1/messages/batch", Batch(Message(""), Bare+`,"endpoint":"a"}`)), 202).Results
		require.Equal(t, 202, results[0].Status)
		require.Equal(t, c.status, results[1].Status)
		require.Equal(t, "/problems/"+c.word, results[1].Problem.Type)
		if c.path != "" {
			require.Equal(t, "$."+c.path, p.Errors[0].Path)
			require.Equal(t, "$.messages[1]."+c.path, results[1].Problem.Errors[0].Path)
		}
	}
}

func TestAMessageReadTellsItsEndpoint(t *testing.T) {
	f := &Fake{View: dispatcher.MessageView{Message: dispatcher.Message{
		ID: "a", Topic: "t", Endpoint: "ep_1", OrderingKey: "k", Body: []byte("1"), ContentType: "application/json",
	}}}
	w := Get(newTestAPI(t, f), "/v1/messages/a")
	got := DecodeAnswer[wire.MessageView](t, w, 200)
	require.Equal(t, "ep_1", got.Endpoint)
	require.Equal(t, "k", got.OrderingKey)
	require.NotContains(t, w.Body.String(), `"url"`)
}

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

var rowPolicy = dispatcher.Policy{MaxBody: 100, Now: time.Now}

func TestARowOfAnOutboxIsReadAsAPublish(t *testing.T) {
	for name, row := range map[string]struct{ message, body, contentType, want string }{
		"a body of JSON":             {`{"topic":"t"}`, "{ \"a\": 1.0 }\n", "application/json", "{ \"a\": 1.0 }\n"},
		"a body of any bytes":        {`{"topic":"t","content_type":"text/csv"}`, "\xff\x00", "text/csv", "\xff\x00"},
		"an empty body":              {`{"topic":"t","content_type":"text/plain"}`, "", "text/plain", ""},
		"a body in the message":      {`{"topic":"t","body":{"a":1}}`, "none", "application/json", `{"a":1}`},
		"a raw body in the message":  {`{"topic":"t","raw_body":"x"}`, "none", "text/plain; charset=utf-8", "x"},
		"the id in the message too":  {`{"topic":"t","id":"row-1"}`, "1", "application/json", "1"},
		"fields that are left out":   {`{"topic":"t","id":null,"delay":null}`, "1", "application/json", "1"},
		"a body without any content": {`{"topic":"t","raw_body":""}`, "none", "text/plain; charset=utf-8", ""},
	} {
		t.Run(name, func(t *testing.T) {
			body := []byte(row.body)
			if row.body == "none" {
				body = nil
			}
			m, _, problem := httpapi.ReadRow("row-1", []byte(row.message), body, rowPolicy)
			require.Empty(t, string(problem))
			require.Equal(t, "row-1", m.ID)
			require.Equal(t, "t", m.Topic)
			require.Equal(t, row.want, string(m.Body))
			require.Equal(t, row.contentType, m.ContentType)
		})
	}
}

func TestABadRowOfAnOutboxHasTheProblemOfAPublish(t *testing.T) {
	const none = "none"
	for name, row := range map[string]struct {
		message, body string
		status        int
		says          string
	}{
		"no object":           {`[]`, "1", 422, "$: must be an object"},
		"an unknown field":    {`{"topic":"t","colour":1}`, "1", 422, "$.colour: is unknown"},
		"several bad fields":  {`{"topic":"t t","max_attempts":0}`, "1", 422, "$.max_attempts: must be a whole number"},
		"another id":          {`{"topic":"t","id":"row-2"}`, "1", 422, "$.id: is not the id of the row"},
		"no body":             {`{"topic":"t"}`, none, 422, "$.body: one of body"},
		"two bodies":          {`{"topic":"t","body":1}`, "1", 422, "$.body: give the body in the message or beside it"},
		"no JSON":             {`{"topic":"t"}`, "a=b", 422, "$.body: is not JSON: give the content_type"},
		"more than one JSON":  {`{"topic":"t"}`, "1 2", 422, "$.body: is not JSON"},
		"an empty body":       {`{"topic":"t"}`, "", 422, "$.body: is not JSON"},
		"a repeated name":     {`{"topic":"t"}`, `{"a":1,"a":2}`, 422, "$.body: is not JSON"},
		"bytes in JSON":       {`{"topic":"t"}`, "\"\xff\"", 422, "$.body: is not JSON"},
		"a large body":        {`{"topic":"t"}`, `"` + strings.Repeat("x", 100) + `"`, 413, "MAX_BODY"},
		"a message that ends": {`{"topic":"t"`, "1", 400, "not JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			body := []byte(row.body)
			if row.body == none {
				body = nil
			}
			m, status, text := httpapi.ReadRow("row-1", []byte(row.message), body, rowPolicy)
			require.Nil(t, m)
			require.Equal(t, row.status, status)
			var problem wire.Problem
			require.NoError(t, json.Unmarshal(text, &problem))
			require.Equal(t, row.status, problem.Status)
			require.Contains(t, problem.Error(), row.says)
		})
	}
	deep := rowPolicy
	deep.MaxBody = 1000
	_, status, text := httpapi.ReadRow("row-1", []byte(`{"topic":"t"}`), []byte(strings.Repeat("[", 65)+strings.Repeat("]", 65)), deep)
	require.Equal(t, 422, status)
	require.Contains(t, string(text), "nests deeper than 64")
	_, status, text = httpapi.ReadRow("row-1", nil, nil, rowPolicy)
	require.Equal(t, 413, status)
	require.Contains(t, string(text), "MAX_BODY")
}

func TestTheOutcomeOfARowIsThatOfAPublish(t *testing.T) {
	for _, row := range []struct {
		p      dispatcher.Published
		status int
		word   string
	}{
		{dispatcher.Published{Result: dispatcher.Accepted, Deliveries: make([]dispatcher.Delivery, 1)}, http.StatusAccepted, ""},
		{dispatcher.Published{Result: dispatcher.Accepted}, http.StatusOK, ""},
		{dispatcher.Published{Result: dispatcher.Duplicate}, http.StatusOK, ""},
		{dispatcher.Published{Result: dispatcher.Conflict, Differs: []string{"body"}}, 409, "/problems/conflict"},
		{dispatcher.Published{Result: dispatcher.LaneFull}, 429, "/problems/lane-full"},
		{dispatcher.Published{Err: dispatcher.ErrNoEndpoint}, 422, "/problems/invalid"},
		{dispatcher.Published{Err: dispatcher.ErrUnmatched}, 422, "/problems/unmatched"},
		{dispatcher.Published{Err: dispatcher.ErrFull}, 503, "/problems/full"},
		{dispatcher.Published{}, 500, "/problems/internal"},
	} {
		status, text := httpapi.RowOutcome(&row.p)
		require.Equal(t, row.status, status)
		require.Equal(t, row.word != "", len(text) > 0)
		require.Contains(t, string(text), row.word)
	}
}
