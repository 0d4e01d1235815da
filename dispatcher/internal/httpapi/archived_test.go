package httpapi_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

func TestWhatOnlyTheArchiveHasIsNotChanged(t *testing.T) {
	f := &fakeService{err: fmt.Errorf("message a: %w", dispatcher.ErrArchived)}
	h := newTestAPI(t, f)
	for _, w := range []string{"POST /v1/messages/a/retry", "DELETE /v1/messages/a"} {
		var method, target string
		_, err := fmt.Sscan(w, &method, &target)
		require.NoError(t, err)
		p := requireProblem(t, serve(h, newRequest(method, target, "")), 409, "archived")
		require.Contains(t, p.Detail, "publish it under another id")
	}
	f.err = fmt.Errorf("message a: %w", dispatcher.ErrArchiveAway)
	w := get(h, "/v1/messages/a")
	require.Contains(t, requireProblem(t, w, 503, "unavailable").Detail, "the archive")
	require.Equal(t, "3", w.Header().Get("Retry-After"))
}

func TestABodyThatIsNotKeptIsToldByItsSize(t *testing.T) {
	f := &fakeService{record: testRecord(t)}
	f.record.Message.Body, f.record.Message.Apart = nil, &dispatcher.Apart{Size: 17}
	w := get(newTestAPI(t, f), "/v1/messages/a")
	got := decodeAnswer[wire.MessageView](t, w, 200)
	require.Equal(t, 17, got.BodyBytes)
	require.NotContains(t, w.Body.String(), "sha256")
	require.NotContains(t, w.Body.String(), "raw_body")
	require.Equal(t, map[string]string{"x-b": "***"}, got.Headers)

	f.record.Message.Body = []byte(`{"large":true}`)
	require.Contains(t, get(newTestAPI(t, f), "/v1/messages/a").Body.String(), `"body":{"large":true}`)
}

func TestAListSaysFromWhenItIsWholeIfSomethingWasForgotten(t *testing.T) {
	f := &fakeService{}
	h := newTestAPI(t, f)
	require.NotContains(t, get(h, "/v1/deliveries").Body.String(), "complete_since")
	f.page.CompleteSince = testNow
	require.Equal(t, testNow.UnixMilli(), decodeAnswer[wire.Page](t, get(h, "/v1/deliveries"), 200).CompleteSince.UnixMilli())
	require.Contains(t, get(h, "/v1/deliveries").Body.String(), `"complete_since":"2026-01-31T11:00:00.123Z"`)
}
