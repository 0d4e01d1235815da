package httpapi_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

func TestWhatOnlyTheArchiveHasIsNotChanged(t *testing.T) {
	f := &Fake{Err: fmt.Errorf("message a: %w", dispatcher.ErrArchived)}
	h := newTestAPI(t, f)
	for _, w := range []string{"POST /v1/messages/a/retry", "DELETE /v1/messages/a"} {
		var method, target string
		_, err := fmt.Sscan(w, &method, &target)
		require.NoError(t, err)
		p := RequireProblem(t, Serve(h, newTestRequest(method, target, "")), 409, "archived")
		require.Contains(t, p.Detail, "publish it under another id")
	}
	f.Err = fmt.Errorf("message a: %w", dispatcher.ErrArchiveAway)
	w := Get(h, "/v1/messages/a")
	require.Contains(t, RequireProblem(t, w, 503, "unavailable").Detail, "the archive")
	require.Equal(t, "3", w.Header().Get("Retry-After"))
}

func TestABodyThatIsNotKeptIsToldByItsSize(t *testing.T) {
	f := &Fake{View: Record(t)}
	f.View.Message.Body, f.View.Message.Apart = nil, &dispatcher.Apart{Size: 17}
	w := Get(newTestAPI(t, f), "/v1/messages/a")
	got := DecodeAnswer[wire.MessageView](t, w, 200)
	require.Equal(t, 17, got.BodyBytes)
	require.NotContains(t, w.Body.String(), "sha256")
	require.NotContains(t, w.Body.String(), "raw_body")
	require.Equal(t, map[string]string{"x-b": "***"}, got.Headers)

	f.View.Message.Body = []byte(`{"large":true}`)
	require.Contains(t, Get(newTestAPI(t, f), "/v1/messages/a").Body.String(), `"body":{"large":true}`)
}

func TestAListSaysFromWhenItIsWholeIfSomethingWasForgotten(t *testing.T) {
	f := &Fake{}
	h := newTestAPI(t, f)
	require.NotContains(t, Get(h, "/v1/deliveries").Body.String(), "complete_since")
	f.Page.CompleteSince = Now
	require.Equal(t, Now.UnixMilli(), DecodeAnswer[wire.Page](t, Get(h, "/v1/deliveries"), 200).CompleteSince.UnixMilli())
	require.Contains(t, Get(h, "/v1/deliveries").Body.String(), `"complete_since":"2026-01-31T11:00:00.123Z"`)
}

const retryPath = "/v1/messages/a/retry"

func TestARetryTellsWhichWereLeftAndWhy(t *testing.T) {
	f := &Fake{View: Record(t), Left: []dispatcher.Left{dispatcher.LeftInFlight, dispatcher.LeftDelivered}}
	got := DecodeAnswer[wire.Retried](t, Post(newTestAPI(t, f), retryPath, ""), 202)
	require.Equal(t, "a", got.ID)
	require.Len(t, got.Deliveries, 3)
	for i, why := range []string{"in_flight", "delivered", ""} {
		require.Equal(t, why, got.Deliveries[i].Why)
		require.Equal(t, why == "", got.Deliveries[i].Retried)
	}
	require.Equal(t, "dead", got.Deliveries[2].Status)
}

func TestARetryThatAttemptsNothingIs409WithEachReason(t *testing.T) {
	for left, says := range map[dispatcher.Left]string{
		"ready": "waiting_for", "in_flight": "wait for its end", "order": "others of its ordering key", "delivered": "all=true",
		"expired": "publish it anew under another id", "disabled": "resume its lane first", "deleted": "nothing is sent to it",
	} {
		f := &Fake{View: Record(t), Left: []dispatcher.Left{left, "delivered", "expired"}}
		word := map[dispatcher.Left]string{"in_flight": "in-flight"}[left]
		if word == "" {
			word = string(left)
		}
		p := RequireProblem(t, Post(newTestAPI(t, f), retryPath, ""), 409, word)
		require.Contains(t, p.Detail, says)
		require.Len(t, p.Deliveries, 3)
		require.Equal(t, string(left), p.Deliveries[0].Why)
		require.Equal(t, "expired", p.Deliveries[2].Why)
		require.Equal(t, "u_1:a", p.Deliveries[0].ID)
		require.False(t, p.Deliveries[0].Retried)
	}
}

func TestWhatWasDeliveredIsMeantOnlyWhereItIsSaid(t *testing.T) {
	f := &Fake{View: Record(t)}
	h := newTestAPI(t, f)
	for query, want := range map[string]bool{
		"": false, "?all=false": false, "?all=true": true, "?destination=u_2": true, "?destination=u_2&all=false": true,
	} {
		require.Equal(t, 202, Post(h, retryPath+query, "").Code)
		require.Equal(t, want, f.Delivered, query)
	}
	f.Calls = nil
	for _, query := range []string{"?all=1", "?all=", "?all=true&all=true"} {
		RequireField(t, Post(h, retryPath+query, ""), "query.all", "")
	}
	RequireField(t, Serve(h, newTestRequest("DELETE", "/v1/messages/a?all=true", "")), "query.all", "")
	require.Empty(t, f.Calls)
}

func TestAKeyThatMayNotReadGetsTheStatusOfEachDeliveryAndWhatTheRetryDid(t *testing.T) {
	f := &Fake{View: Record(t), Left: []dispatcher.Left{"in_flight", "expired", "delivered"}}
	h := newTestAPI(t, f, WithKeys(t, Keys()))
	r := newTestRequest("POST", retryPath, "")
	r.Header.Set("Authorization", "Bearer "+PublishKey)
	w := Serve(h, r)
	RequireProblem(t, w, 409, "in-flight")
	require.Contains(t, w.Body.String(), `"deliveries":[{"id":"u_1:a","destination":"u_1","status":"retrying","retried":false,"why":"in_flight"},`)
	require.NotContains(t, w.Body.String(), "http://")

	var reported []string
	for _, err := range []error{dispatcher.ErrNoDelivery, dispatcher.ErrNotFound, dispatcher.ErrNoEndpoint} {
		f.Err = fmt.Errorf("message a: %w", err)
		r := newTestRequest("POST", retryPath+"?destination=u_9", "")
		r.Header.Set("Authorization", "Bearer "+PublishKey)
		reported = append(reported, RequireProblem(t, Serve(h, r), 404, "not-found").Detail)
	}
	require.Equal(t, reported[0], reported[1], "which of them there are is not told")
	require.Equal(t, reported[0], reported[2])
}

func TestAReadThatFailsDoesNotWonderWhetherItChangedAnything(t *testing.T) {
	f := &Fake{Err: fmt.Errorf("message a: %w", dispatcher.ErrUnavailable)}
	h := newTestAPI(t, f)
	for _, path := range []string{"/v1/messages/a", "/v1/deliveries", "/v1/stats", "/v1/endpoints"} {
		w := Get(h, path)
		p := RequireProblem(t, w, 503, "unavailable")
		require.Equal(t, "nothing could be read; ask again in a moment", p.Detail, path)
		require.Equal(t, "1", w.Header().Get("Retry-After"))
	}
	p := RequireProblem(t, Post(h, retryPath, ""), 503, "unavailable")
	require.Contains(t, p.Detail, "it is not known whether the change was made")
}
