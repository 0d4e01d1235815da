package httpapi_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

const retryPath = "/v1/messages/a/retry"

func TestARetryTellsWhichWereLeftAndWhy(t *testing.T) {
	f := &fakeService{record: testRecord(t), left: []dispatcher.Left{dispatcher.LeftInFlight, dispatcher.LeftDelivered}}
	got := decodeAnswer[wire.Retried](t, post(newTestAPI(t, f), retryPath, ""), 202)
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
		f := &fakeService{record: testRecord(t), left: []dispatcher.Left{left, "delivered", "expired"}}
		word := map[dispatcher.Left]string{"in_flight": "in-flight"}[left]
		if word == "" {
			word = string(left)
		}
		p := requireProblem(t, post(newTestAPI(t, f), retryPath, ""), 409, word)
		require.Contains(t, p.Detail, says)
		require.Len(t, p.Deliveries, 3)
		require.Equal(t, string(left), p.Deliveries[0].Why)
		require.Equal(t, "expired", p.Deliveries[2].Why)
		require.Equal(t, "u_1:a", p.Deliveries[0].ID)
		require.False(t, p.Deliveries[0].Retried)
	}
}

func TestWhatWasDeliveredIsMeantOnlyWhereItIsSaid(t *testing.T) {
	f := &fakeService{record: testRecord(t)}
	h := newTestAPI(t, f)
	for query, want := range map[string]bool{
		"": false, "?all=false": false, "?all=true": true, "?destination=u_2": true, "?destination=u_2&all=false": true,
	} {
		require.Equal(t, 202, post(h, retryPath+query, "").Code)
		require.Equal(t, want, f.delivered, query)
	}
	f.calls = nil
	for _, query := range []string{"?all=1", "?all=", "?all=true&all=true"} {
		requireField(t, post(h, retryPath+query, ""), "query.all", "")
	}
	requireField(t, serve(h, newRequest("DELETE", "/v1/messages/a?all=true", "")), "query.all", "")
	require.Empty(t, f.calls)
}

func TestAKeyThatMayNotReadGetsTheStatusOfEachDeliveryAndWhatTheRetryDid(t *testing.T) {
	f := &fakeService{record: testRecord(t), left: []dispatcher.Left{"in_flight", "expired", "delivered"}}
	h := newTestAPI(t, f, withKeys(t, testKeys()))
	r := newRequest("POST", retryPath, "")
	r.Header.Set("Authorization", "Bearer "+publishKey)
	w := serve(h, r)
	requireProblem(t, w, 409, "in-flight")
	require.Contains(t, w.Body.String(), `"deliveries":[{"id":"u_1:a","destination":"u_1","status":"retrying","retried":false,"why":"in_flight"},`)
	require.NotContains(t, w.Body.String(), "http://")

	var told []string
	for _, err := range []error{dispatcher.ErrNoDelivery, dispatcher.ErrNotFound, dispatcher.ErrNoEndpoint} {
		f.err = fmt.Errorf("message a: %w", err)
		r := newRequest("POST", retryPath+"?destination=u_9", "")
		r.Header.Set("Authorization", "Bearer "+publishKey)
		told = append(told, requireProblem(t, serve(h, r), 404, "not-found").Detail)
	}
	require.Equal(t, told[0], told[1], "which of them there are is not told")
	require.Equal(t, told[0], told[2])
}

func TestAReadThatFailsDoesNotWonderWhetherItChangedAnything(t *testing.T) {
	f := &fakeService{err: fmt.Errorf("message a: %w", dispatcher.ErrUnavailable)}
	h := newTestAPI(t, f)
	for _, path := range []string{"/v1/messages/a", "/v1/deliveries", "/v1/stats", "/v1/endpoints"} {
		w := get(h, path)
		p := requireProblem(t, w, 503, "unavailable")
		require.Equal(t, "nothing could be read; ask again in a moment", p.Detail, path)
		require.Equal(t, "1", w.Header().Get("Retry-After"))
	}
	p := requireProblem(t, post(h, retryPath, ""), 503, "unavailable")
	require.Contains(t, p.Detail, "it is not known whether the change was made")
}

// requireClientRetries asks for attempts by the client.
func requireClientRetries(t *testing.T, c *client.Client, f *fakeService) {
	t.Helper()
	f.left = []dispatcher.Left{"in_flight"}
	got, err := c.Retry(t.Context(), "a", "")
	require.NoError(t, err)
	require.Len(t, got, 3)
	require.Equal(t, "in_flight", got[0].Why)
	require.True(t, got[1].Retried)
	require.False(t, f.delivered)
	_, err = c.Retry(t.Context(), "a", "u_1")
	require.NoError(t, err)
	require.EqualValues(t, "u_1", f.lane)
	f.lane = ""
	_, err = c.Resend(t.Context(), "a")
	require.NoError(t, err)
	require.True(t, f.delivered)
	require.Empty(t, f.lane)

	f.left = []dispatcher.Left{"order", "expired", "delivered"}
	_, err = c.Retry(t.Context(), "a", "")
	var p *client.Problem
	require.True(t, errors.As(err, &p))
	require.Len(t, p.Deliveries, 3)
	require.Equal(t, "order", p.Deliveries[0].Why)
}
