package httpapi_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/apitest"
)

func TestWithoutASigningSecretAURLIsRefused(t *testing.T) {
	l := apitest.Policy()
	l.Unsigned = true
	h := apitest.New(t, &apitest.Fake{}, apitest.WithLimits(l))
	apitest.RequireField(t, apitest.Post(h, "/v1/messages", apitest.Message("")), "$.url", "SIGNING_SECRET")
	require.Equal(t, 202, apitest.Post(h, "/v1/messages", apitest.Bare+`}`).Code, "endpoints have secrets of their own")
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
		whole := &apitest.Fake{Err: c.err}
		each := &apitest.Fake{OnPublish: func([]*dispatcher.Message) ([]dispatcher.Published, error) {
			return []dispatcher.Published{{Err: c.err}}, nil
		}}
		for _, f := range []*apitest.Fake{whole, each} {
			w := apitest.Post(apitest.New(t, f), "/v1/messages", apitest.Message(""))
			apitest.RequireProblem(t, w, c.status, c.word)
			require.Equal(t, c.retry, w.Header().Get("Retry-After") != "")
			require.NotContains(t, w.Body.String(), "secret detail")
		}
	}
}
