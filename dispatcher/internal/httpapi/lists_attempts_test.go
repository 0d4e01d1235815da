package httpapi_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

func TestAttemptsAreListed(t *testing.T) {
	f := &Fake{LogPage: LogPage}
	h := newTestAPI(t, f)
	got := DecodeAnswer[wire.LoggedPage](t, Get(h, "/v1/attempts?destination=u_1&tenant=acme&message=m1&message=m2&outcome=dead&outcome=cancelled"+
		"&topic=payment.*&topic=a.b&subject=order+7&status_code=503&status_code=404&job=job_7&job=job_8"+
		"&since=2026-01-02T03:04:05Z&until=2026-01-02T03:04:06Z&limit=7&cursor=c"), 200)
	require.Len(t, got.Data, 2)
	at := got.Data[0].At
	require.True(t, at.Equal(Now.Truncate(time.Millisecond)))
	require.Equal(t, wire.LoggedAttempt{
		ID: "u_1:m1", MessageID: "m1", Destination: "u_1", URL: "https://a.example/hook", Address: "192.0.2.1:443", Topic: "a.b", Tenant: "acme", Subject: "order 7",
		Attempt: 2, At: at, DurationMS: 12, StatusCode: 200, Outcome: "delivered", ResponseExcerpt: "ok\ufffd", Resend: true, ShortHello: true, Job: "job_7",
	}, got.Data[0])
	require.Equal(t, "dead", got.Data[1].Outcome)
	require.Equal(t, "disabled", got.Data[1].Error)
	require.Equal(t, "1-0-0-0", *got.NextCursor)
	require.Equal(t, 7, got.LookedAt)
	require.Equal(t, at, got.CompleteSince)

	require.Equal(t, []string{"acme"}, f.LogFilter.Tenants)
	require.Equal(t, []string{"m1", "m2"}, f.LogFilter.Messages)
	require.Equal(t, []dispatcher.Happening{"dead", "cancelled"}, f.LogFilter.Happenings)
	require.Equal(t, []string{"payment.*", "a.b"}, f.LogFilter.Topics)
	require.Equal(t, []string{"order 7"}, f.LogFilter.Subjects)
	require.Equal(t, []int{503, 404}, f.LogFilter.Statuses)
	require.Equal(t, []int64{7, 8}, f.LogFilter.Jobs)
	require.Len(t, f.LogFilter.Lanes, 1)
	require.Equal(t, time.Second, f.LogFilter.Until.Sub(f.LogFilter.Since))
	require.Equal(t, 7, f.Filter.Limit)
	require.Equal(t, "c", f.Filter.Cursor)

	f.LogPage = dispatcher.LogPage{}
	require.Equal(t, `{"data":[],"next_cursor":null,"looked_at":0,"complete_since":null}`, Get(h, "/v1/attempts").Body.String())
}

func TestTheClientListsAttempts(t *testing.T) {
	f := &Fake{LogPage: LogPage}
	page, err := newTestClient(t, f).Attempts(t.Context(), client.AttemptFilter{
		Destinations: []string{"u_1"}, Tenants: []string{"acme"}, Messages: []string{"m1"}, Outcomes: []string{"dead"},
		Topics: []string{"a.*"}, Subjects: []string{"order 7"}, StatusCodes: []int{503}, Jobs: []string{"job_7"},
		Since: Now, Until: Now.Add(1), Limit: 7, Cursor: "c",
	})
	require.NoError(t, err)
	require.Len(t, page.Data, 2)
	require.Equal(t, dispatcher.LogFilter{
		Lanes: []dispatcher.Lane{"u_1"}, Tenants: []string{"acme"}, Messages: []string{"m1"}, Happenings: []dispatcher.Happening{"dead"},
		Topics: []string{"a.*"}, Subjects: []string{"order 7"}, Statuses: []int{503}, Jobs: []int64{7},
		Since: Now.UTC(), Until: Now.Add(1).UTC(),
	}, f.LogFilter)
	require.Equal(t, "c", f.Filter.Cursor)
}

func TestABadFilterOfAttemptsIs422(t *testing.T) {
	f := &Fake{}
	h := newTestAPI(t, f)
	for query, path := range map[string]string{
		"outcome=lost": "query.outcome", "message=a.b": "query.message", "status=dead": "query.status", "since=now": "query.since",
		"limit=501": "query.limit", "destination=a:b": "query.destination", "tenant=": "query.tenant",
		"topic=a.*.b": "query.topic", "subject=": "query.subject", "status_code=99": "query.status_code", "status_code=5xx": "query.status_code",
		"job=7": "query.job", "job=": "query.job", "job=job_07": "query.job",
	} {
		RequireField(t, Get(h, "/v1/attempts?"+query), path, "")
	}
	require.NotContains(t, f.Calls, "attempts")
	f.Err = dispatcher.ErrCursor
	RequireField(t, Get(h, "/v1/attempts?cursor=x"), "query.cursor", "leave it out")
}
