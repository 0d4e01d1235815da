package httpapi_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

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
