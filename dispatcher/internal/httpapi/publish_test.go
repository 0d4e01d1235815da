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
	f := &fakeService{}
	w := post(newTestAPI(t, f), "/v1/messages", message(`"id":"msg_1"`))
	require.Equal(t, 202, w.Code)
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	lane := string(f.the(t).ID) // below, the lane is read from the answer instead
	require.Equal(t, "msg_1", lane)
	got := decodeAnswer[wire.Published](t, w, 202)
	dest := got.Deliveries[0].Destination
	require.Equal(t, `{"id":"msg_1","topic":"payment.paid","created_at":"2026-01-31T11:00:00.123Z","duplicate":false,"matched":1,`+
		`"deliveries":[{"id":"`+dest+`:msg_1","destination":"`+dest+`","url":"https://shop.example/hooks","status":"ready",`+
		`"next_attempt_at":"2026-01-31T11:00:00.123Z"}]}`, w.Body.String())
}

func TestARepeatIs200AndAConflict409(t *testing.T) {
	f := &fakeService{publish: func(batch []*dispatcher.Message) ([]dispatcher.Published, error) {
		p := accepted(batch[0])
		p.Result = dispatcher.Duplicate
		p.Deliveries[0].Due = time.Time{}
		return []dispatcher.Published{p}, nil
	}}
	h := newTestAPI(t, f)
	w := post(h, "/v1/messages", message(`"id":"a"`))
	got := decodeAnswer[wire.Published](t, w, 200)
	require.True(t, got.Duplicate)
	require.Contains(t, w.Body.String(), `"next_attempt_at":null`)

	f.publish = func([]*dispatcher.Message) ([]dispatcher.Published, error) {
		return []dispatcher.Published{{Result: dispatcher.Duplicate}}, nil
	}
	w = post(h, "/v1/messages", message(`"id":"a"`))
	require.Equal(t, `{"id":"a","topic":"payment.paid","duplicate":true,"deliveries":[]}`, w.Body.String(), "only its digest is known")
	decodeAnswer[wire.Published](t, w, 200)

	f.publish = func([]*dispatcher.Message) ([]dispatcher.Published, error) {
		return []dispatcher.Published{{Result: dispatcher.Conflict}}, nil
	}
	p := requireProblem(t, post(h, "/v1/messages", message(`"id":"a"`)), 409, "conflict")
	require.Contains(t, p.Detail, "no longer kept whole")
	f.publish = func([]*dispatcher.Message) ([]dispatcher.Published, error) {
		return []dispatcher.Published{{Result: dispatcher.Conflict, Differs: []string{"topic", "body"}}}, nil
	}
	p = requireProblem(t, post(h, "/v1/messages", message(`"id":"a"`)), 409, "conflict")
	require.Contains(t, p.Detail, "topic, body not as in the first")
}

func TestAMessageIsPublishedToAQueue(t *testing.T) {
	const body = `{"topic":"t","queue":"order.cancel","timeout":"1h","body":1}`
	f := &fakeService{}
	h := newTestAPI(t, f, func(o *httpapi.Options) { o.Policy.Unsigned = true }) // no SIGNING_SECRET is needed
	require.Equal(t, 202, post(h, "/v1/messages", body).Code)
	require.Equal(t, "order.cancel", f.the(t).Queue)
	require.Equal(t, time.Hour, f.the(t).Timeout)
	require.Equal(t, 202, post(newTestAPI(t, f), "/v1/messages/batch", batch(body)).Code)
	requireField(t, post(newTestAPI(t, f), "/v1/messages", `{"topic":"t","endpoint":"a","timeout":"1h","body":1}`), "$.timeout", "1s to 60s")
}

func TestAFanOutThatHasToMatchAndDoesNotIsRefused(t *testing.T) {
	f := &fakeService{publish: func(batch []*dispatcher.Message) ([]dispatcher.Published, error) {
		require.True(t, batch[0].RequireMatch)
		return []dispatcher.Published{{Err: fmt.Errorf("publish: %w", dispatcher.ErrUnmatched)}}, nil
	}}
	h := newTestAPI(t, f)
	p := requireProblem(t, post(h, "/v1/messages", `{"topic":"t","body":1,"require_match":true}`), 422, "unmatched")
	require.Contains(t, p.Detail, "nothing was stored")
	got := decodeAnswer[wire.Results](t, post(h, "/v1/messages/batch", batch(`{"topic":"t","body":1,"require_match":true}`)), 202)
	require.Equal(t, "/problems/unmatched", got.Results[0].Problem.Type)
	requireField(t, post(h, "/v1/messages", message(`"require_match":"yes"`)), "$.require_match", "true or false")
}

func TestABodyArrivesByteForByte(t *testing.T) {
	for _, body := range []string{
		`12345678901234567890`, `{ "a" : 1.0 , "b":[ ]	}`, `{"a":1e400,"<>&":"\u003c\/"}`, `null`, `""`, `"ü "`, "[\n1,\r\n2]",
		`{"a":{"id":1},"b":{"id":2}}`, `false`, `-0`, strings.Repeat("[", 64) + strings.Repeat("]", 64),
		"[" + strings.Repeat(`{"a":[]},`, 99) + "0]", `{"a":"\"` + strings.Repeat("{[", 99) + `\\"}`,
	} {
		f := &fakeService{}
		w := post(newTestAPI(t, f), "/v1/messages", `{"topic":"t","url":"http://a", "body" : `+body+"\n}\n")
		require.Equal(t, 202, w.Code, w.Body.String())
		require.Equal(t, body, string(f.the(t).Body))
		require.Equal(t, "application/json", f.the(t).ContentType)
	}
}

// The engine may keep a message after its request has ended, and the buffer of
// the request serves the next one.
func TestAMessageOutlivesItsRequest(t *testing.T) {
	f := &fakeService{}
	h := newTestAPI(t, f)
	want := func(i int) string { return fmt.Sprintf(`{"n":"%03d"}`, i) }
	for i := range 100 {
		more := fmt.Sprintf(`"body":%s,"id":"m%03d","headers":{"x":"v%03d"},"success":{"body":"w%03d"}`, want(i), i, i, i)
		require.Equal(t, 202, post(h, "/v1/messages", message(more)).Code)
	}
	for i, m := range f.published {
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
			f := &fakeService{}
			w := post(newTestAPI(t, f), "/v1/messages", message(c.members))
			require.Equal(t, 202, w.Code, w.Body.String())
			require.Equal(t, c.body, string(f.the(t).Body))
			require.Equal(t, c.media, f.the(t).ContentType)
		})
	}
}

func TestEveryFieldReachesTheEngine(t *testing.T) {
	f := &fakeService{}
	w := post(newTestAPI(t, f), "/v1/messages", message(`"id":"a","tenant":"m:7","delay":"1d","expires_at":"2026-06-01T02:00:00+02:00",
		"headers":{"x-b":"2","x-a":"1"},"ladder":["1s",2.5],"max_attempts":3,"timeout":"2s","success":{"status":["200"],"body":"success"}`))
	require.Equal(t, 202, w.Code, w.Body.String())
	m := f.the(t)
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
		f := &fakeService{}
		w := post(newTestAPI(t, f), "/v1/messages", message(text))
		require.Equal(t, 202, w.Code, text+w.Body.String())
		require.Equal(t, want, f.the(t).Delay, text)
	}
	for text, want := range map[string]time.Time{
		`"deliver_at":"2026-02-01T00:00:00.25+05:30"`: time.Date(2026, 1, 31, 18, 30, 0, 25e7, time.UTC),
		`"deliver_at":"0001-01-01T00:00:00Z"`:         time.Unix(0, 0).UTC(),
	} {
		f := &fakeService{}
		require.Equal(t, 202, post(newTestAPI(t, f), "/v1/messages", message(text)).Code)
		require.Equal(t, want, f.the(t).DeliverAt)
	}
}

func TestIdsAreMadeOrTakenFromTheHeader(t *testing.T) {
	f := &fakeService{}
	h := newTestAPI(t, f)
	seen := map[string]bool{}
	for range 100 {
		id := decodeAnswer[wire.Published](t, post(h, "/v1/messages", message("")), 202).ID
		require.Regexp(t, "^msg_[0-9A-HJKMNP-TV-Z]{26}$", id)
		seen[id] = true
	}
	require.Len(t, seen, 100)

	keyed := func(body string, keys ...string) *http.Request {
		r := newRequest("POST", "/v1/messages", body)
		r.Header["Idempotency-Key"] = keys
		return r
	}
	require.Equal(t, "k-1", decodeAnswer[wire.Published](t, serve(h, keyed(message(""), "k-1")), 202).ID)
	require.Equal(t, "k-1", decodeAnswer[wire.Published](t, serve(h, keyed(message(`"id":"k-1"`), "k-1")), 202).ID)
	require.Equal(t, "k-2", decodeAnswer[wire.Published](t, serve(h, keyed(message(`"id":"k-2"`), "k-1")), 202).ID, "the message's own wins")
	for key, id := range map[string]string{
		`"k-3"`: "k-3", "a.b:c": "idk_" + hash("a.b:c"), `"a b"`: "idk_" + hash("a b"), "ü": "idk_" + hash("ü"), `"`: "idk_" + hash(`"`),
		strings.Repeat("k", 128): strings.Repeat("k", 128), strings.Repeat("k", 129): "idk_" + hash(strings.Repeat("k", 129)),
		strings.Repeat("ü", 255): "idk_" + hash(strings.Repeat("ü", 255)),
	} {
		require.Equal(t, id, decodeAnswer[wire.Published](t, serve(h, keyed(message(""), key)), 202).ID)
	}
	requireField(t, serve(h, keyed(message(""), "k-1", "k-1")), "header.Idempotency-Key", "once")
	for _, bad := range []string{"", `""`, "a\tb", "\xff", strings.Repeat("a", 256)} {
		requireField(t, serve(h, keyed(message(""), bad)), "header.Idempotency-Key", "1 to 255")
	}
	batch := keyed(`{"messages":[`+message("")+`]}`, "k-1")
	batch.URL.Path = "/v1/messages/batch"
	requireField(t, serve(h, batch), "header.Idempotency-Key", "each message")
}

func hash(s string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(s)))[:32] }

func TestABadFieldIs422AndNothingIsPublished(t *testing.T) {
	for body, want := range map[string][2]string{
		`[]`: {"$", "object"}, `"x"`: {"$", "object"}, `null`: {"$", "object"}, `7`: {"$", "object"},
		message(`"color":"red"`):                           {"$.color", "unknown"},
		message(`"ID":"a"`):                                {"$.ID", "unknown"},
		message(`"a\nb":1`):                                {`$["a\nb"]`, "unknown"},
		message(`"id":""`):                                 {"$.id", "1 to 128"},
		message(`"id":7`):                                  {"$.id", "text"},
		message(`"id":"a{b}"`):                             {"$.id", "1 to 128"},
		message(`"id":"a.b"`):                              {"$.id", "1 to 128"},
		message(`"id":"e\u0301"`):                          {"$.id", "1 to 128"},
		message(`"id":"a\u0000"`):                          {"$.id", "1 to 128"},
		message(`"tenant":""`):                             {"$.tenant", "empty"},
		message(`"delay":31536001`):                        {"$.delay", "365 days"},
		message(`"delay":"31536001s"`):                     {"$.delay", "365 days"},
		message(`"delay":"366d"`):                          {"$.delay", "365 days"},
		message(`"tenant":"a b"`):                          {"$.tenant", "spaces"},
		message(`"endpoint":"ep_1"`):                       {"$.endpoint", "not both"},
		`{"topic":"t","endpoint":"","body":1}`:             {"$.endpoint", "empty"},
		`{"topic":"t","endpoint":"u_1","body":1}`:          {"$.endpoint", "id or the uid"},
		`{"topic":"t","endpoint":7,"body":1}`:              {"$.endpoint", "text"},
		message(`"queue":"q"`):                             {"$.queue", "give one of url, endpoint and queue"},
		`{"topic":"t","queue":"","body":1}`:                {"$.queue", "empty"},
		`{"topic":"t","queue":7,"body":1}`:                 {"$.queue", "text"},
		`{"topic":"t","queue":"q_a","body":1}`:             {"$.queue", "1 to 64"},
		`{"topic":"t","queue":"ep_1","body":1}`:            {"$.queue", "give endpoint"},
		message(`"ordering_key":""`):                       {"$.ordering_key", "empty"},
		message(`"ordering_key":"a b"`):                    {"$.ordering_key", "spaces"},
		`{"topic":"t","url":"","body":1}`:                  {"$.url", "empty"},
		`{"url":"http://a","body":1}`:                      {"$.topic", "needed"},
		`{"topic":7,"url":"http://a","body":1}`:            {"$.topic", "text"},
		`{"topic":"a..b","url":"http://a","body":1}`:       {"$.topic", "dots"},
		`{"topic":"t","url":"ftp://a","body":1}`:           {"$.url", "http"},
		`{"topic":"t","url":["http://a"],"body":1}`:        {"$.url", "text"},
		`{"topic":"t","url":"http://10.1.2.3","body":1}`:   {"$.url", "ALLOW_NETS=10.1.2.3/32"},
		`{"topic":"t","url":"http://u:p@a","body":1}`:      {"$.url", "user"},
		`{"topic":"t","url":"http://a"}`:                   {"$.body", "one of"},
		message(`"body":1,"raw_body":"x"`):                 {"$.body", "not several"},
		message(`"raw_body":"x","raw_body_base64":"eA=="`): {"$.body", "not several"},
		message(`"raw_body":{}`):                           {"$.raw_body", "text"},
		message(`"raw_body_base64":"e-_"`):                 {"$.raw_body_base64", "base64"},
		message(`"raw_body_base64":"eA"`):                  {"$.raw_body_base64", "padding"},
		message(`"raw_body_base64":"eA==\n"`):              {"$.raw_body_base64", "base64"},
		message(`"raw_body_base64":"eB=="`):                {"$.raw_body_base64", "base64"},
		message(`"body":` + strings.Repeat(`{"a":`, 65) + `1` + strings.Repeat("}", 65)): {"$.body", "deeper than 64"},
		message(`"content_type":""`):                                    {"$.content_type", "needed"},
		message(`"content_type":"text/plain\r\nx: y"`):                  {"$.content_type", "printable"},
		message(`"content_type":"json"`):                                {"$.content_type", "media type"},
		message(`"delay":-1`):                                           {"$.delay", "negative"},
		message(`"delay":"-1s"`):                                        {"$.delay", "negative"},
		message(`"delay":1e300`):                                        {"$.delay", "range"},
		message(`"delay":1e999`):                                        {"$.delay", ""},
		message(`"delay":"400d"`):                                       {"$.delay", ""},
		message(`"delay":31708800`):                                     {"$.delay", "year"},
		message(`"delay":"99999999999999h"`):                            {"$.delay", ""},
		message(`"delay":"NaN"`):                                        {"$.delay", ""},
		message(`"delay":"soon"`):                                       {"$.delay", ""},
		message(`"delay":true`):                                         {"$.delay", "seconds"},
		message(`"delay":0,"deliver_at":"2026-02-01T00:00:00Z"`):        {"$.delay", "not both"},
		message(`"deliver_at":"2027-03-01T00:00:00Z"`):                  {"$.deliver_at", "year"},
		message(`"deliver_at":"10000-01-01T00:00:00Z"`):                 {"$.deliver_at", "time"},
		message(`"deliver_at":"2026-02-01"`):                            {"$.deliver_at", "time"},
		message(`"deliver_at":1770000000`):                              {"$.deliver_at", "time"},
		message(`"expires_at":"2026-01-31T11:00:00Z"`):                  {"$.expires_at", "after"},
		message(`"expires_at":"0001-01-01T00:00:00Z"`):                  {"$.expires_at", "after"},
		message(`"delay":60,"expires_at":"2026-01-31T11:01:00Z"`):       {"$.expires_at", "after"},
		message(`"headers":[]`):                                         {"$.headers", "object"},
		message(`"headers":{"x":1}`):                                    {"$.headers.x", "text"},
		message(`"headers":{"a b":1}`):                                  {`$.headers["a b"]`, "text"},
		message(`"headers":{"Host":"a"}`):                               {"$.headers.Host", "can't be set"},
		message(`"headers":{"WEBHOOK-ID":"a"}`):                         {"$.headers.WEBHOOK-ID", "reserved"},
		message(`"headers":{"x":"a\r\nb: c"}`):                          {"$.headers.x", "control"},
		message(`"headers":{"x":"1","X":"2"}`):                          {"$.headers.X", "twice"},
		message(`"headers":{"a b":"1"}`):                                {"$.headers", "name"},
		message(`"headers":{` + manyHeaders(21) + `}`):                  {"$.headers", "20"},
		message(`"headers":{"x":"` + strings.Repeat("v", 8<<10) + `"}`): {"$.headers", "8192"},
		message(`"ladder":["1s","-1s"]`):                                {"$.ladder", "negative"},
		message(`"ladder":"1s,,2s"`):                                    {"$.ladder", ""},
		message(`"ladder":7`):                                           {"$.ladder", ""},
		message(`"ladder":"` + strings.Repeat("1 ", 101) + `"`):         {"$.ladder", "100"},
		message(`"max_attempts":0`):                                     {"$.max_attempts", "1 to 101"},
		message(`"max_attempts":102`):                                   {"$.max_attempts", "1 to 101"},
		message(`"max_attempts":1.5`):                                   {"$.max_attempts", "1 to 101"},
		message(`"max_attempts":"3"`):                                   {"$.max_attempts", "1 to 101"},
		message(`"timeout":0`):                                          {"$.timeout", "1s to 60s"},
		message(`"timeout":"61s"`):                                      {"$.timeout", "1s to 60s"},
		message(`"timeout":"999ms"`):                                    {"$.timeout", "1s to 60s"},
		message(`"success":"2xx"`):                                      {"$.success", ""},
		message(`"success":{"status":["9yy"]}`):                         {"$.success.status[0]", "write 2xx"},
		message(`"success":{"status":["2xx","9xx"]}`):                   {"$.success.status[1]", "599"},
		message(`"success":{"status":["600"]}`):                         {"$.success.status[0]", "599"},
		message(`"success":{"status":"2xx"}`):                           {"$.success.status", "list"},
		message(`"success":{"stats":["2xx"]}`):                          {"$.success.stats", "is unknown; known are body, status"},
		message(`"success":{"body":7}`):                                 {"$.success.body", "word"},
		message(`"success":{"body":{"paht":"a","equals":1}}`):           {"$.success.body.paht", "is unknown; known are equals, matches, path"},
		message(`"success":{"body":{"path":["a"],"equals":1}}`):         {"$.success.body.path", "text"},
		message(`"success":{"body":{"path":"$","equals":1}}`):           {"$.success.body.path", "data.0.code"},
		message(`"success":{"body":{"path":"$.a[*]","equals":1}}`):      {"$.success.body.path", "data.0.code"},
		message(`"success":{"body":{"path":"a","equals":{}}}`):          {"$.success.body.equals", "text"},
		message(`"success":{"body":{"path":"a"}}`):                      {"$.success.body", "path and equals"},
		message(`"success":{"body":{"matches":"("}}`):                   {"$.success.body.matches", ""},
		message(`"success":{"a b":1}`):                                  {`$.success["a b"]`, "unknown"},
	} {
		f := &fakeService{}
		w := post(newTestAPI(t, f), "/v1/messages", body)
		t.Run(clipName(body), func(t *testing.T) { requireField(t, w, want[0], want[1]) })
		require.Empty(t, f.calls, body)
	}
}

func manyHeaders(n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf(`"x-%d":"v"`, i)
	}
	return strings.Join(all, ",")
}

func clipName(s string) string { return s[:min(len(s), 120)] }

func TestMalformedJSONIs400(t *testing.T) {
	for body, says := range map[string]string{
		"": "empty", " \n": "empty", "{": "not JSON", message("") + "x": "not JSON", message("") + message(""): "not JSON",
		message("") + "null": "not JSON", "\ufeff" + message(""): "not JSON", "nonsense": "not JSON", `{"topic":"a",}`: "not JSON",
		"{'topic':1}": "not JSON", `{"topic":"a" "url":1}`: "not JSON", `{topic:"a"}`: "not JSON", `{"topic":01}`: "not JSON",
		`{"topic":"a`: "not JSON", "{\"topic\":\"a\n\"}": "not JSON", `[1,`: "not JSON",
		message(`"topic":"b"`): `topic" stands twice`, message(`"to\u0070ic":"b"`): `topic" stands twice`,
		message(`"body":{"a":1,"a":2}`):                         `a" stands twice`,
		message(`"body":{"x":[{"a":1,"\u0061":2}]}`):            "/body/x/0/a",
		message(`"headers":{"x":"1","x":"2"}`):                  `x" stands twice`,
		message("\"raw_body\":\"\xff\""):                        "UTF-8",
		message("\"body\":{\"a\":\"\xc3\x28\"}"):                "UTF-8",
		message("\"body\":{\"\xff\":1}"):                        "UTF-8",
		message(`"body":"\ud800"`):                              "surrogate",
		message(`"body":` + strings.Repeat("[", 10001)):         "not JSON",
		message(`"unknown":{"a":1,"a":2}`):                      `a" stands twice`,
		`{"messages":[` + message(`"body":{"a":1,"a":2}`) + `]`: `a" stands twice`,
	} {
		f := &fakeService{}
		w := post(newTestAPI(t, f), "/v1/messages", body)
		if body == "" || strings.TrimSpace(body) == "" {
			r := newRequest("POST", "/v1/messages", body)
			r.Header.Set("Content-Type", "application/json")
			w = serve(newTestAPI(t, f), r)
		}
		t.Run(clipName(body), func(t *testing.T) {
			p := requireProblem(t, w, 400, "malformed")
			require.Contains(t, p.Detail, says)
		})
		require.Empty(t, f.calls)
	}
}

func TestAllMistakesOfAMessageAreToldAtOnce(t *testing.T) {
	w := post(newTestAPI(t, &fakeService{}), "/v1/messages", `{"topic":7,"url":"ftp://a","delay":"soon","x":1,"queue":"q"}`)
	var paths []string
	for _, e := range requireProblem(t, w, 422, "invalid").Errors {
		paths = append(paths, e.Path)
	}
	require.ElementsMatch(t, []string{"$.topic", "$.url", "$.delay", "$.x", "$.queue", "$.body"}, paths)

	many := make([]string, 1000)
	for i := range many {
		many[i] = fmt.Sprintf(`"x%d":1`, i)
	}
	p := requireProblem(t, post(newTestAPI(t, &fakeService{}), "/v1/messages", message(strings.Join(many, ","))), 422, "invalid")
	require.Len(t, p.Errors, 32)
	require.Contains(t, p.Detail, "1000")
}
