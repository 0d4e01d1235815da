package httpapi_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

var testLogPage = dispatcher.LogPage{
	Lines: []dispatcher.Logged{
		{
			ID: dispatcher.DeliveryID{Lane: "u_1", Message: "m1"}, Topic: "a.b", Tenant: "acme", Subject: "order 7", Happening: dispatcher.HappenedDelivered,
			Attempt: dispatcher.Attempt{
				Number: 2, At: testNow, Duration: 12345 * time.Microsecond, Status: 200, Verdict: dispatcher.Delivered,
				URL: "https://a.example/hook", Address: "192.0.2.1:443", Resend: true, Excerpt: []byte("ok\xff"),
			}, Job: 7,
		},
		{
			ID: dispatcher.DeliveryID{Lane: "u_1", Message: "m2"}, Happening: dispatcher.HappenedDead, Reason: dispatcher.ReasonDisabled,
			Attempt: dispatcher.Attempt{Number: 1, At: testNow},
		},
	},
	Next: "1-0-0-0", LookedAt: 7, CompleteSince: testNow,
}

func TestAttemptsAreListed(t *testing.T) {
	f := &fakeService{logPage: testLogPage}
	h := newTestAPI(t, f)
	got := decodeAnswer[wire.LoggedPage](t, get(h, "/v1/attempts?destination=u_1&tenant=acme&message=m1&message=m2&outcome=dead&outcome=cancelled"+
		"&topic=payment.*&topic=a.b&subject=order+7&status_code=503&status_code=404&job=job_7&job=job_8"+
		"&since=2026-01-02T03:04:05Z&until=2026-01-02T03:04:06Z&limit=7&cursor=c"), 200)
	require.Len(t, got.Data, 2)
	at := got.Data[0].At
	require.True(t, at.Equal(testNow.Truncate(time.Millisecond)))
	require.Equal(t, wire.LoggedAttempt{
		ID: "u_1:m1", MessageID: "m1", Destination: "u_1", URL: "https://a.example/hook", Address: "192.0.2.1:443", Topic: "a.b", Tenant: "acme", Subject: "order 7",
		Attempt: 2, At: at, DurationMS: 12, StatusCode: 200, Outcome: "delivered", ResponseExcerpt: "ok\ufffd", Resend: true, Job: "job_7",
	}, got.Data[0])
	require.Equal(t, "dead", got.Data[1].Outcome)
	require.Equal(t, "disabled", got.Data[1].Error)
	require.Equal(t, "1-0-0-0", *got.NextCursor)
	require.Equal(t, 7, got.LookedAt)
	require.Equal(t, at, got.CompleteSince)

	require.Equal(t, []string{"acme"}, f.logFilter.Tenants)
	require.Equal(t, []string{"m1", "m2"}, f.logFilter.Messages)
	require.Equal(t, []dispatcher.Happening{"dead", "cancelled"}, f.logFilter.Happenings)
	require.Equal(t, []string{"payment.*", "a.b"}, f.logFilter.Topics)
	require.Equal(t, []string{"order 7"}, f.logFilter.Subjects)
	require.Equal(t, []int{503, 404}, f.logFilter.Statuses)
	require.Equal(t, []int64{7, 8}, f.logFilter.Jobs)
	require.Len(t, f.logFilter.Lanes, 1)
	require.Equal(t, time.Second, f.logFilter.Until.Sub(f.logFilter.Since))
	require.Equal(t, 7, f.filter.Limit)
	require.Equal(t, "c", f.filter.Cursor)

	f.logPage = dispatcher.LogPage{}
	require.Equal(t, `{"data":[],"next_cursor":null,"looked_at":0,"complete_since":null}`, get(h, "/v1/attempts").Body.String())
}

func TestTheClientListsAttempts(t *testing.T) {
	f := &fakeService{logPage: testLogPage}
	page, err := newTestClient(t, f).Attempts(t.Context(), client.AttemptFilter{
		Destinations: []string{"u_1"}, Tenants: []string{"acme"}, Messages: []string{"m1"}, Outcomes: []string{"dead"},
		Topics: []string{"a.*"}, Subjects: []string{"order 7"}, StatusCodes: []int{503}, Jobs: []string{"job_7"},
		Since: testNow, Until: testNow.Add(1), Limit: 7, Cursor: "c",
	})
	require.NoError(t, err)
	require.Len(t, page.Data, 2)
	require.Equal(t, dispatcher.LogFilter{
		Lanes: []dispatcher.Lane{"u_1"}, Tenants: []string{"acme"}, Messages: []string{"m1"}, Happenings: []dispatcher.Happening{"dead"},
		Topics: []string{"a.*"}, Subjects: []string{"order 7"}, Statuses: []int{503}, Jobs: []int64{7},
		Since: testNow.UTC(), Until: testNow.Add(1).UTC(),
	}, f.logFilter)
	require.Equal(t, "c", f.filter.Cursor)
}

func TestABadFilterOfAttemptsIs422(t *testing.T) {
	f := &fakeService{}
	h := newTestAPI(t, f)
	for query, path := range map[string]string{
		"outcome=lost": "query.outcome", "message=a.b": "query.message", "status=dead": "query.status", "since=now": "query.since",
		"limit=501": "query.limit", "destination=a:b": "query.destination", "tenant=": "query.tenant",
		"topic=a.*.b": "query.topic", "subject=": "query.subject", "status_code=99": "query.status_code", "status_code=5xx": "query.status_code",
		"job=7": "query.job", "job=": "query.job", "job=job_07": "query.job",
	} {
		requireField(t, get(h, "/v1/attempts?"+query), path, "")
	}
	require.NotContains(t, f.calls, "attempts")
	f.err = dispatcher.ErrCursor
	requireField(t, get(h, "/v1/attempts?cursor=x"), "query.cursor", "leave it out")
}
