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
