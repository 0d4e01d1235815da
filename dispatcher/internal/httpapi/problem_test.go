package httpapi_test

import (
	"errors"
	"fmt"
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
