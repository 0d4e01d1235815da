package httpapi_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/apitest"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

func TestWhatOnlyTheArchiveHasIsNotChanged(t *testing.T) {
	f := &apitest.Fake{Err: fmt.Errorf("message a: %w", dispatcher.ErrArchived)}
	h := apitest.New(t, f)
	for _, w := range []string{"POST /v1/messages/a/retry", "DELETE /v1/messages/a"} {
		var method, target string
		_, err := fmt.Sscan(w, &method, &target)
		require.NoError(t, err)
		p := apitest.RequireProblem(t, apitest.Serve(h, apitest.NewRequest(method, target, "")), 409, "archived")
		require.Contains(t, p.Detail, "publish it under another id")
	}
	f.Err = fmt.Errorf("message a: %w", dispatcher.ErrArchiveAway)
	w := apitest.Get(h, "/v1/messages/a")
	require.Contains(t, apitest.RequireProblem(t, w, 503, "unavailable").Detail, "the archive")
	require.Equal(t, "3", w.Header().Get("Retry-After"))
}

func TestABodyThatIsNotKeptIsToldByItsSize(t *testing.T) {
	f := &apitest.Fake{View: apitest.Record(t)}
	f.View.Message.Body, f.View.Message.Apart = nil, &dispatcher.Apart{Size: 17}
	w := apitest.Get(apitest.New(t, f), "/v1/messages/a")
	got := apitest.DecodeAnswer[wire.MessageView](t, w, 200)
	require.Equal(t, 17, got.BodyBytes)
	require.NotContains(t, w.Body.String(), "sha256")
	require.NotContains(t, w.Body.String(), "raw_body")
	require.Equal(t, map[string]string{"x-b": "***"}, got.Headers)

	f.View.Message.Body = []byte(`{"large":true}`)
	require.Contains(t, apitest.Get(apitest.New(t, f), "/v1/messages/a").Body.String(), `"body":{"large":true}`)
}

func TestAListSaysFromWhenItIsWholeIfSomethingWasForgotten(t *testing.T) {
	f := &apitest.Fake{}
	h := apitest.New(t, f)
	require.NotContains(t, apitest.Get(h, "/v1/deliveries").Body.String(), "complete_since")
	f.Page.CompleteSince = apitest.Now
	require.Equal(t, apitest.Now.UnixMilli(), apitest.DecodeAnswer[wire.Page](t, apitest.Get(h, "/v1/deliveries"), 200).CompleteSince.UnixMilli())
	require.Contains(t, apitest.Get(h, "/v1/deliveries").Body.String(), `"complete_since":"2026-01-31T11:00:00.123Z"`)
}
