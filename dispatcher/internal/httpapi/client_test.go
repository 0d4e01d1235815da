package httpapi_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/ladder"
)

// newTestClient is the public client on the real server. It repeats nothing, since each
// answer is looked at.
func newTestClient(t testing.TB, f *fakeService, change ...func(*httpapi.Options)) *client.Client {
	t.Helper()
	srv := httptest.NewServer(newTestAPI(t, f, append(change, withKeys(t, testKeys()))...))
	t.Cleanup(srv.Close)
	c, err := client.New(srv.URL+"/", adminKey, client.WithRepeats(client.Repeats{Tries: 1}))
	require.NoError(t, err)
	return c
}

func TestTheClientSendsWhatTheServerReads(t *testing.T) {
	f := &fakeService{}
	c := newTestClient(t, f)
	l, err := ladder.Parse("1s/2s")
	require.NoError(t, err)
	text := "a=1"
	messages := []wire.Message{
		{
			ID: "a", Topic: "t", Tenant: "m", URL: "http://a/?<&>", Body: json.RawMessage("{ \"n\":12345678901234567890,\n\"h\":\"<&>\u2028\" }"),
			Delay: wire.Duration(90 * time.Second), ExpiresAt: wire.Time{Time: testNow.Add(time.Hour)}, Headers: map[string]string{"x": "<y>"},
			Ladder: &l, MaxAttempts: 3, Timeout: wire.Duration(2 * time.Second),
			Success: &wire.Success{Status: []string{"*"}, Body: json.RawMessage(`"success"`)},
		},
		{ID: "b", Topic: "t", URL: "http://a", RawBody: &text, DeliverAt: wire.Time{Time: testNow.Add(time.Minute)}},
		{ID: "c", Topic: "t", URL: "http://a", RawBodyBase64: []byte{0, 255}, ContentType: "text/xml; charset=GBK"},
		{ID: "d", Topic: "t", URL: "http://a", RawBodyBase64: []byte{}, Ladder: &ladder.Ladder{}},
		{ID: "e", Topic: "t", URL: "http://a", Body: json.RawMessage(`null`)},
	}
	for i := range messages {
		got, err := c.Publish(t.Context(), &messages[i])
		require.NoError(t, err)
		require.Equal(t, messages[i].ID, got.ID)
		require.Equal(t, 1, got.Matched)
	}
	results, err := c.PublishBatch(t.Context(), append(messages, wire.Message{Topic: "bad topic"}))
	require.NoError(t, err)
	require.Len(t, results, 6)
	require.Equal(t, 422, results[5].Status)
	require.Len(t, f.published, 10)
	for i := range 5 {
		require.Equal(t, *f.published[i], *f.published[i+5], "one by one and in a batch is the same")
	}
	m := f.published[0]
	require.Equal(t, string(messages[0].Body), string(m.Body))
	require.Equal(t, "http://a/?<&>", m.URL)
	require.Equal(t, 90*time.Second, m.Delay)
	require.Equal(t, 2, m.Ladder.Len())
	require.Equal(t, []dispatcher.Header{{Name: "x", Value: "<y>"}}, m.Headers)
	require.True(t, m.Success.Status(404))
	require.False(t, m.Success.Body([]byte("no")))
	require.Equal(t, "a=1", string(f.published[1].Body))
	require.Equal(t, []byte{0, 255}, f.published[2].Body)
	require.Empty(t, f.published[3].Body)
	require.NotNil(t, f.published[3].Ladder)
	require.Equal(t, "null", string(f.published[4].Body))
}

func TestTheClientReadsWhatTheServerWrites(t *testing.T) {
	f := &fakeService{record: testRecord(t), page: dispatcher.Page{Deliveries: testRecord(t).Deliveries, Next: "next"}}
	c := newTestClient(t, f)
	rec, err := c.Message(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, string(testRecord(t).Message.Body), string(rec.Body))
	require.Equal(t, wire.Duration(90*time.Second), rec.Delay)
	require.Len(t, rec.Deliveries, 3)
	require.Equal(t, "retry", rec.Deliveries[0].History[0].Outcome)
	cancelled, err := c.Cancel(t.Context(), "a", "u_1")
	require.NoError(t, err)
	require.Len(t, cancelled, 3)
	require.EqualValues(t, "u_1", f.lane)
	requireClientRetries(t, c, f)
	page, err := c.Deliveries(t.Context(), client.Filter{
		Statuses: []string{"dead", "delivered"}, Topics: []string{"a.b"}, Tenants: []string{"m"}, Destinations: []string{"http://a/?x=1"},
		Reasons: []string{"gone"}, Since: testNow, Until: testNow.Add(1), Limit: 7, Cursor: "c",
	})
	require.NoError(t, err)
	require.Equal(t, "next", *page.NextCursor)
	require.True(t, f.filter.Since.Equal(testNow))
	require.True(t, f.filter.Until.Equal(testNow.Add(1)))
	require.Len(t, f.filter.Statuses, 2)
	require.Equal(t, 7, f.filter.Limit)
	dead, err := c.Dead(t.Context(), client.DeadFilter{
		Tenants: []string{"m"}, Destinations: []string{"http://a/?x=1", "u_1"}, Reasons: []string{"gone"}, Limit: 7, Cursor: "c",
	})
	require.NoError(t, err)
	require.Empty(t, dead.Data)
	require.Len(t, f.dead.Lanes, 2)
	require.Equal(t, "c", f.dead.Cursor)
	stats, err := c.Stats(t.Context())
	require.NoError(t, err)
	require.Contains(t, stats.Counts, "dead")
	ready, err := c.Ready(t.Context())
	require.NoError(t, err)
	require.Equal(t, "ready", ready.Status)
}

func TestTheClientTellsProblems(t *testing.T) {
	f := &fakeService{err: dispatcher.ErrNotFound}
	c := newTestClient(t, f)
	_, err := c.Message(t.Context(), "a")
	var p *client.Problem
	require.True(t, errors.As(err, &p))
	require.Equal(t, http.StatusNotFound, p.Status)
	require.NotErrorIs(t, err, client.ErrUnreachable)
	_, err = c.Message(t.Context(), "../stats")
	require.True(t, errors.As(err, &p))
	require.Equal(t, http.StatusNotFound, p.Status)

	f.err = dispatcher.ErrFull
	_, err = c.Stats(t.Context())
	require.True(t, errors.As(err, &p))
	require.Equal(t, "/problems/full", p.Type)
	require.Positive(t, p.RetryAfter)

	_, err = c.Publish(t.Context(), &wire.Message{Topic: "t", URL: "ftp://a", Body: json.RawMessage("1")})
	require.ErrorContains(t, err, "$.url")
	_, err = c.Publish(t.Context(), &wire.Message{Topic: "t", URL: "http://a", Body: json.RawMessage("{")})
	require.ErrorContains(t, err, "not JSON")
}
