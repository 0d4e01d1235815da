package httpapi_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/ladder"
)

func TestTheClientSendsWhatTheServerReads(t *testing.T) {
	f := &Fake{}
	c := newTestClient(t, f)
	l, err := ladder.Parse("1s/2s")
	require.NoError(t, err)
	text := "a=1"
	messages := []wire.Message{
		{
			ID: "a", Topic: "t", Tenant: "m", URL: "http://a/?<&>", Body: json.RawMessage("{ \"n\":12345678901234567890,\n\"h\":\"<&>\u2028\" }"),
			Delay: wire.Duration(90 * time.Second), ExpiresAt: wire.Time{Time: Now.Add(time.Hour)}, Headers: map[string]string{"x": "<y>"},
			Ladder: &l, MaxAttempts: 3, Timeout: wire.Duration(2 * time.Second),
			Success: &wire.Success{Status: []string{"*"}, Body: json.RawMessage(`"success"`)},
		},
		{ID: "b", Topic: "t", URL: "http://a", RawBody: &text, DeliverAt: wire.Time{Time: Now.Add(time.Minute)}},
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
	require.Len(t, f.Published, 10)
	for i := range 5 {
		require.Equal(t, *f.Published[i], *f.Published[i+5], "one by one and in a batch is the same")
	}
	m := f.Published[0]
	require.Equal(t, string(messages[0].Body), string(m.Body))
	require.Equal(t, "http://a/?<&>", m.URL)
	require.Equal(t, 90*time.Second, m.Delay)
	require.Equal(t, 2, m.Ladder.Len())
	require.Equal(t, []dispatcher.Header{{Name: "x", Value: "<y>"}}, m.Headers)
	require.True(t, m.Success.Status(404))
	require.False(t, m.Success.Body([]byte("no")))
	require.Equal(t, "a=1", string(f.Published[1].Body))
	require.Equal(t, []byte{0, 255}, f.Published[2].Body)
	require.Empty(t, f.Published[3].Body)
	require.NotNil(t, f.Published[3].Ladder)
	require.Equal(t, "null", string(f.Published[4].Body))
}

func TestTheClientReadsWhatTheServerWrites(t *testing.T) {
	f := &Fake{View: Record(t), Page: dispatcher.Page{Deliveries: Record(t).Deliveries, Next: "next"}}
	c := newTestClient(t, f)
	rec, err := c.Message(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, string(Record(t).Message.Body), string(rec.Body))
	require.Equal(t, wire.Duration(90*time.Second), rec.Delay)
	require.Len(t, rec.Deliveries, 3)
	require.Equal(t, "retry", rec.Deliveries[0].History[0].Outcome)
	cancelled, err := c.Cancel(t.Context(), "a", "u_1")
	require.NoError(t, err)
	require.Len(t, cancelled, 3)
	require.EqualValues(t, "u_1", f.InLane)
	requireClientRetries(t, c, f)
	page, err := c.Deliveries(t.Context(), client.Filter{
		Statuses: []string{"dead", "delivered"}, Topics: []string{"a.b"}, Tenants: []string{"m"}, Destinations: []string{"http://a/?x=1"},
		Reasons: []string{"gone"}, Since: Now, Until: Now.Add(1), Limit: 7, Cursor: "c",
	})
	require.NoError(t, err)
	require.Equal(t, "next", *page.NextCursor)
	require.True(t, f.Filter.Since.Equal(Now))
	require.True(t, f.Filter.Until.Equal(Now.Add(1)))
	require.Len(t, f.Filter.Statuses, 2)
	require.Equal(t, 7, f.Filter.Limit)
	dead, err := c.Dead(t.Context(), client.DeadFilter{
		Tenants: []string{"m"}, Destinations: []string{"http://a/?x=1", "u_1"}, Reasons: []string{"gone"}, Limit: 7, Cursor: "c",
	})
	require.NoError(t, err)
	require.Empty(t, dead.Data)
	require.Len(t, f.DeadOf.Lanes, 2)
	require.Equal(t, "c", f.DeadOf.Cursor)
	stats, err := c.Stats(t.Context())
	require.NoError(t, err)
	require.Contains(t, stats.Counts, "dead")
	ready, err := c.Ready(t.Context())
	require.NoError(t, err)
	require.Equal(t, "ready", ready.Status)
}

func TestTheClientTellsProblems(t *testing.T) {
	f := &Fake{Err: dispatcher.ErrNotFound}
	c := newTestClient(t, f)
	_, err := c.Message(t.Context(), "a")
	var p *client.Problem
	require.True(t, errors.As(err, &p))
	require.Equal(t, http.StatusNotFound, p.Status)
	require.NotErrorIs(t, err, client.ErrUnreachable)
	_, err = c.Message(t.Context(), "../stats")
	require.True(t, errors.As(err, &p))
	require.Equal(t, http.StatusNotFound, p.Status)

	f.Err = dispatcher.ErrFull
	_, err = c.Stats(t.Context())
	require.True(t, errors.As(err, &p))
	require.Equal(t, "/problems/full", p.Type)
	require.Positive(t, p.RetryAfter)

	_, err = c.Publish(t.Context(), &wire.Message{Topic: "t", URL: "ftp://a", Body: json.RawMessage("1")})
	require.ErrorContains(t, err, "$.url")
	_, err = c.Publish(t.Context(), &wire.Message{Topic: "t", URL: "http://a", Body: json.RawMessage("{")})
	require.ErrorContains(t, err, "not JSON")
}
