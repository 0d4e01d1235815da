package httpapi_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

func TestWithoutASigningSecretAURLIsRefused(t *testing.T) {
	l := Policy()
	l.Unsigned = true
	h := newTestAPI(t, &Fake{}, WithLimits(l))
	RequireField(t, Post(h, "/v1/messages", Message("")), "$.url", "SIGNING_SECRET")
	require.Equal(t, 202, Post(h, "/v1/messages", Bare+`}`).Code, "endpoints have secrets of their own")
}

func TestWhatTheStoreAnswersBecomesAStatus(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
		word   string
		retry  bool
	}{
		{fmt.Errorf("schedule: %w", dispatcher.ErrUnavailable), 503, "unavailable", true},
		{fmt.Errorf("schedule: %w: 0 of 1 replicas have it", dispatcher.ErrNotDurable), 503, "not-durable", true},
		{fmt.Errorf("schedule: %w", dispatcher.ErrFull), 503, "full", true},
		{fmt.Errorf("schedule: %w: secret detail", &dispatcher.NoRight{Right: "+eval"}), 503, "unavailable", true},
		{errors.New("secret detail"), 500, "internal", false},
	} {
		whole := &Fake{Err: c.err}
		each := &Fake{OnPublish: func([]*dispatcher.Message) ([]dispatcher.Published, error) {
			return []dispatcher.Published{{Err: c.err}}, nil
		}}
		for _, f := range []*Fake{whole, each} {
			w := Post(newTestAPI(t, f), "/v1/messages", Message(""))
			RequireProblem(t, w, c.status, c.word)
			require.Equal(t, c.retry, w.Header().Get("Retry-After") != "")
			require.NotContains(t, w.Body.String(), "secret detail")
		}
	}
}

// Each mistake of a first request gets an answer that names what there is instead.
func TestAMistakeInARequestIsAnsweredWithItsCure(t *testing.T) {
	h := newTestAPI(t, &Fake{})
	for line, want := range map[string]string{
		`POST /v1/messages {"topic":"a","data":1}`:                      "$.data\",\"detail\":\"is unknown; known are topic, url, body, ",
		`POST /v1/messages [{"topic":"a","body":1}]`:                    "POST /v1/messages/batch accepts several, as {\\\"messages\\\":[…]}",
		`POST /v1/messages "a"`:                                         "must be an object with fields; known are topic, url, body, ",
		`POST /v1/messages/batch [{"topic":"a","body":1}]`:              "must be an object with the list in a field: {\\\"messages\\\":[…]}",
		`POST /v1/messages/batch {"topic":"a"}`:                         "is unknown; known is messages, the list of them",
		`GET /v1/messages `:                                             "GET /v1/deliveries lists the published messages",
		`POST /v1/endpoints {"url":"https://x.example","topic":"a"}`:    "is unknown; known are ",
		`POST /v1/endpoints {"url":"https://x.example","rate":100}`:     `must be a text such as \"100/s\"`,
		`POST /v1/deliveries/retry {"tenant":"x","state":"dead"}`:       "$.state\",\"detail\":\"is unknown; known are ",
		`POST /v1/deliveries/retry {"tenant":"x","rate":0}`:             "must be 1 to 100000 a second, a minute or an hour, such as 100/s",
		`POST /v1/queues/orders/take {"count":5}`:                       "is unknown; known are max, lease, wait",
		`POST /v1/queues/orders/settle []`:                              "must be an object with fields; known are results",
		`POST /v1/queues/orders/settle {"results":[{"id":"x"}]}`:        "must be the id of a delivery, as take answered it",
		`POST /v1/links {"ttl":"60d"}`:                                  "$.ttl\",\"detail\":\"is unknown; known are tenant, for",
		`GET /v1/stats?x=1 `:                                            "is unknown: this call has no parameters",
		`POST /v1/messages {"topic":"a","endpoint":"e","endpoint":"f"}`: "is there twice in one object",
	} {
		method, rest, _ := strings.Cut(line, " ")
		path, body, _ := strings.Cut(rest, " ")
		w := Serve(h, newTestRequest(method, path, body))
		require.GreaterOrEqual(t, w.Code, 400, line)
		require.Contains(t, w.Body.String(), want, line)
	}

	keyed := newTestAPI(t, &Fake{}, WithKeys(t, Keys()))
	r := newTestRequest("POST", "/v1/queues/orders/take", "{}")
	r.Header.Set("Authorization", "Bearer "+PublishKey)
	w := Serve(keyed, r)
	require.Equal(t, 403, w.Code)
	require.Contains(t, w.Body.String(), "lacks the scope consume, or consume@orders for this one alone")
}
