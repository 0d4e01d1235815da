package httpapi_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

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
