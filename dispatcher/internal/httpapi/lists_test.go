package httpapi_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

const endedPath = "/v1/endpoints/ep_123456789/deliveries"

func testEnded(t testing.TB) *Fake {
	t.Helper()
	f := &Fake{EndedPage: dispatcher.EndedPage{
		Deliveries: []dispatcher.Delivery{
			{
				ID: dispatcher.DeliveryID{Lane: "ep_123456789", Message: "m1"}, Topic: "payment.paid", Subject: "=cmd|' /C calc'!A0",
				Status: dispatcher.StatusDelivered, Ended: Now, Delivered: Now, Created: Now, Attempts: 1, LastStatus: 200,
			},
			{
				ID: dispatcher.DeliveryID{Lane: "ep_123456789", Message: "-m2"}, Topic: "payment.paid", Status: dispatcher.StatusDead, Ended: Now,
				Reason: dispatcher.ReasonExhausted, Attempts: 10, LastError: "no, \"it\" did\nnot",
			},
		},
		Resume: "cursor2", LookedAt: 2000, CompleteSince: Now,
	}}
	f.There = Endpoint(t)
	return f
}

func getCSV(h http.Handler, target, accept string) *httptest.ResponseRecorder {
	r := newTestRequest("GET", target, "")
	r.Header.Set("Accept", accept)
	return Serve(h, r)
}

func TestWhatEndedOfAnEndpointIsListed(t *testing.T) {
	f := testEnded(t)
	h := newTestAPI(t, f)
	w := Get(h, "/v1/endpoints/merchant:7/deliveries?status=dead&status=delivered&since=2026-01-31T00:00:00Z&until=2026-02-01T00:00:00Z&limit=7&cursor=c")
	got := DecodeAnswer[wire.EndedPage](t, w, 200)
	require.Equal(t, []dispatcher.EndedFilter{{
		Statuses: []dispatcher.Status{"dead", "delivered"}, Since: Now.UTC().Truncate(24 * 3600e9), Until: Now.UTC().Truncate(24*3600e9).AddDate(0, 0, 1),
		Limit: 7, Cursor: "c",
	}}, f.EndedOf)
	require.Nil(t, got.NextCursor)
	require.Equal(t, "cursor2", got.ResumeCursor)
	require.Equal(t, Now.UTC().Truncate(time.Millisecond), got.CompleteSince.UTC())
	require.Equal(t, 2000, got.LookedAt)
	require.Contains(t, w.Body.String(), `"message_id":"m1","created_at":"2026-01-31T11:00:00.123Z","topic"`)
	require.Contains(t, w.Body.String(), `"message_id":"-m2","topic"`, "created_at is left out if it is not known")

	f.EndedPage.More, f.EndedPage.CompleteSince = true, dispatcher.EndedPage{}.CompleteSince
	got = DecodeAnswer[wire.EndedPage](t, Get(h, endedPath), 200)
	require.Equal(t, "cursor2", *got.NextCursor)
	require.NotContains(t, Get(h, endedPath).Body.String(), "complete_since")

	for query, path := range map[string]string{
		"status=ready": "query.status", "since=now": "query.since", "limit=0": "query.limit", "topic=a": "query.topic",
	} {
		RequireField(t, Get(h, endedPath+"?"+query), path, "")
	}
	RequireProblem(t, Get(h, "/v1/endpoints/other/deliveries"), 404, "not-found")
	f.Err = dispatcher.ErrCursor
	RequireField(t, Get(h, endedPath+"?cursor=x"), "query.cursor", "leave it out")
}

func TestAListIsTheSameCSV(t *testing.T) {
	f := testEnded(t)
	f.Page = dispatcher.Page{Deliveries: f.EndedPage.Deliveries, Next: "cursor3", CompleteSince: Now}
	h := newTestAPI(t, f)
	w := getCSV(h, "/v1/deliveries", "text/csv")
	require.Equal(t, getCSV(h, endedPath, "text/csv").Body.String(), w.Body.String())
	require.Equal(t, "text/csv; charset=utf-8", w.Header().Get("Content-Type"))
	require.Equal(t, "cursor3", w.Header().Get("next-cursor"))
	require.Equal(t, "2026-01-31T11:00:00.123Z", w.Header().Get("complete-since"))
	require.Empty(t, w.Header()["Resume-Cursor"])
}

func TestWhatEndedIsCSVForThoseWhoAskForIt(t *testing.T) {
	f := testEnded(t)
	h := newTestAPI(t, f)
	w := getCSV(h, endedPath, "text/csv")
	require.Equal(t, "text/csv; charset=utf-8", w.Header().Get("Content-Type"))
	require.Equal(t, "cursor2", w.Header().Get("resume-cursor"))
	require.Empty(t, w.Header()["Next-Cursor"])
	require.Equal(t, "2026-01-31T11:00:00.123Z", w.Header().Get("complete-since"))
	require.Equal(t, "id,message_id,tenant,subject,topic,destination,url,status,created_at,ended_at,attempts,status_code,dead_reason,error\r\n"+
		"ep_123456789:m1,m1,,'=cmd|' /C calc'!A0,payment.paid,ep_123456789,,delivered,2026-01-31T11:00:00.123Z,2026-01-31T11:00:00.123Z,1,200,,\r\n"+
		"ep_123456789:-m2,'-m2,,,payment.paid,ep_123456789,,dead,,2026-01-31T11:00:00.123Z,10,,exhausted,\"no, \"\"it\"\" did\r\nnot\"\r\n", w.Body.String())
	f.EndedPage.More = true
	require.Equal(t, "cursor2", getCSV(h, endedPath, "text/csv").Header().Get("next-cursor"))

	for accept, isCSV := range map[string]bool{
		"": false, "*/*": false, "application/json": false, "text/html": false, "application/json, text/csv": false, "text/csv;q=0.5, application/json": false,
		"text/csv;q=0": false, "text/csv, application/json": true, "text/*": true, "TEXT/CSV; header=present": true, "application/json;q=0.5, text/csv;q=0.6, */*;q=0.1": true,
	} {
		got := getCSV(h, endedPath, accept).Header().Get("Content-Type")
		require.Equal(t, isCSV, strings.HasPrefix(got, "text/csv"), "%q: %s", accept, got)
	}
	RequireProblem(t, getCSV(h, endedPath+"?status=x", "text/csv"), 422, "invalid")
}

func TestTheClientListsWhatEnded(t *testing.T) {
	f := testEnded(t)
	page, err := newTestClient(t, f).EndpointDeliveries(t.Context(), "merchant:7", client.EndedFilter{Statuses: []string{"dead"}, Since: Now, Limit: 1, Cursor: "c"})
	require.NoError(t, err)
	require.Len(t, page.Data, 1)
	require.Equal(t, []dispatcher.EndedFilter{{Statuses: []dispatcher.Status{"dead"}, Since: Now.UTC(), Limit: 1, Cursor: "c"}}, f.EndedOf)
}

// Whatever the entries of a page, its answer has a MiB at most.
func TestNoPageHasMoreThanAMiB(t *testing.T) {
	f := testEnded(t)
	one := f.EndedPage.Deliveries[0]
	one.URL, one.LastError = "https://shop.example/"+strings.Repeat("u", 2000), strings.Repeat("\"", 500)
	f.EndedPage.Deliveries = nil
	for i := range 500 {
		one.ID.Message = fmt.Sprintf("m%d", i)
		f.EndedPage.Deliveries = append(f.EndedPage.Deliveries, one)
		f.Page.Deliveries = append(f.Page.Deliveries, one)
		f.LogPage.Lines = append(f.LogPage.Lines, dispatcher.Logged{ID: one.ID, Attempt: dispatcher.Attempt{URL: one.URL, Error: one.LastError}})
	}
	h := newTestAPI(t, f)
	for _, path := range []string{endedPath, "/v1/deliveries", "/v1/attempts"} {
		w := Get(h, path+"?limit=500")
		require.Equal(t, 200, w.Code)
		require.Less(t, w.Body.Len(), 1<<20, path)
		require.Greater(t, w.Body.Len(), 1<<19, path)
	}
	require.Len(t, f.EndedOf, 2)
	require.Equal(t, 500, f.EndedOf[0].Limit)
	rows := getCSV(h, endedPath+"?limit=500", "text/csv").Body
	require.Less(t, rows.Len(), 1<<20)
	require.Greater(t, rows.Len(), 1<<19)
}

func TestAListHasTheOrderOfItsFilter(t *testing.T) {
	f := &Fake{}
	h := newTestAPI(t, f)
	for query, want := range map[string]dispatcher.Filter{
		"status=dead&status=delivered":            {Order: dispatcher.OrderEnded, Statuses: []dispatcher.Status{"dead", "delivered"}},
		"status=dead&status=ready":                {Statuses: []dispatcher.Status{"dead", "ready"}},
		"order=ended":                             {Order: dispatcher.OrderEnded, Statuses: dispatcher.EndStatuses()},
		"order=due":                               {Order: dispatcher.OrderDue, Statuses: []dispatcher.Status{"scheduled", "retrying"}},
		"order=due&status=retrying":               {Order: dispatcher.OrderDue, Statuses: []dispatcher.Status{"retrying"}},
		"destination=u_1":                         {Order: dispatcher.OrderAccepted, Lanes: []dispatcher.Lane{"u_1"}},
		"destination=u_1&status=ready":            {Order: dispatcher.OrderAccepted, Lanes: []dispatcher.Lane{"u_1"}, Statuses: []dispatcher.Status{"ready"}},
		"destination=u_1&status=dead":             {Order: dispatcher.OrderEnded, Lanes: []dispatcher.Lane{"u_1"}, Statuses: []dispatcher.Status{"dead"}},
		"destination=u_1&status=dead&failed=true": {Order: dispatcher.OrderAccepted, Lanes: []dispatcher.Lane{"u_1"}, Statuses: []dispatcher.Status{"dead"}, Failed: true},
		"tenant=t":                                {Order: dispatcher.OrderAccepted, Tenants: []string{"t"}},
		"dead_reason=gone":                        {Order: dispatcher.OrderEnded, Statuses: []dispatcher.Status{"dead"}, Reasons: []dispatcher.DeadReason{"gone"}},
	} {
		DecodeAnswer[wire.Page](t, Get(h, "/v1/deliveries?"+query), 200)
		f.Filter.Limit = 0
		require.Equal(t, want, f.Filter, query)
	}
	for query, cure := range map[string]string{
		"order=ended&status=ready": "no other status than delivered", "order=ended&failed=true": "leave failed out",
		"order=accepted": "destination", "order=oldest": "accepted",
		"order=due&status=ready": "scheduled and retrying", "order=due&dead_reason=gone": "leave dead_reason out",
	} {
		RequireField(t, Get(h, "/v1/deliveries?"+query), "query.order", cure)
	}
}

func TestAShortPageSaysHowFarItLooked(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	f := &Fake{Page: dispatcher.Page{LookedAt: 7, Next: "c", Reached: &dispatcher.EndPlace{At: at, ID: "u_1:m"}}}
	h := newTestAPI(t, f)
	got := DecodeAnswer[wire.Page](t, Get(h, "/v1/deliveries?tenant=t"), 200)
	require.Equal(t, 7, got.LookedAt)
	require.True(t, at.Equal(got.LookedUntil.Time))
	f.Page.Next, f.Page.Reached = "", nil
	require.Zero(t, DecodeAnswer[wire.Page](t, Get(h, "/v1/deliveries?tenant=t"), 200).LookedUntil)
}
