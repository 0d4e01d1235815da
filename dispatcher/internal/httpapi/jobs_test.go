package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

const replayPath = "/v1/deliveries/retry"

func TestAJobIsBegunWithItsFilter(t *testing.T) {
	f := &Fake{OneJob: dispatcher.Job{Number: 7, State: dispatcher.JobRunning, JobCounts: dispatcher.JobCounts{Matched: 3, Done: 1}}}
	h := newTestAPI(t, f)
	got := DecodeAnswer[wire.Job](t, Post(h, replayPath,
		`{"tenant":"shop","topic":["a.b","c"],"destination":["u_1"],"dead_reason":"gone","since":"2026-01-31T12:00:00Z","rate":200}`), 202)
	require.Equal(t, "job_7", got.ID)
	require.Equal(t, "retry", got.Kind)
	require.Equal(t, "200/s", got.Rate)
	require.Equal(t, []int{3, 1, 0}, []int{got.Matched, got.Done, got.Failed})
	require.Equal(t, wire.JobFilter{
		Topic: []string{"a.b", "c"}, Tenant: []string{"shop"}, Destination: []string{string(f.OneJob.Filter.Lanes[0])}, DeadReason: []string{"gone"},
		Since: wire.Time{Time: time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)},
	}, got.Filter)
	require.Equal(t, 202, Post(h, "/v1/deliveries/purge", `{"all":true,"rate":"600/m"}`).Code)
	require.Equal(t, dispatcher.JobPurge, f.OneJob.Kind)
	require.Equal(t, dispatcher.Rate{Count: 600, Per: time.Minute}, f.OneJob.Rate)
	require.Equal(t, 202, Post(h, "/v1/deliveries/cancel", `{"status":["ready","in_flight"]}`).Code)
	require.Equal(t, []dispatcher.Status{"ready", "in_flight"}, f.OneJob.Filter.Statuses)
}

func TestADryRunChangesNothing(t *testing.T) {
	f := &Fake{Survey: dispatcher.Survey{Matched: 2, Complete: true, ByReason: map[dispatcher.DeadReason]int{"gone": 2}, Sample: Record(t).Deliveries}}
	got := DecodeAnswer[wire.Survey](t, Post(newTestAPI(t, f), replayPath, `{"all":true,"dry_run":true}`), 200)
	require.Equal(t, 2, got.Matched)
	require.True(t, got.Complete)
	require.Equal(t, map[string]int{"gone": 2}, got.ByReason)
	require.NotEmpty(t, got.Sample)
	require.Equal(t, []string{"survey job"}, f.Calls)
	require.Empty(t, f.Recorded, "nor is it in the audit")
	require.Equal(t, 200, Post(newTestAPI(t, f), replayPath, `{"all":true,"dry_run":true,"count_all":true}`).Code)
	require.Equal(t, []string{"survey job", "survey job", "for longer"}, f.Calls)
}

func TestABadRequestForAJobBeginsNone(t *testing.T) {
	f := &Fake{}
	h := newTestAPI(t, f)
	for body, path := range map[string]string{
		`{}`:                                 "$",
		`{"all":false}`:                      "$",
		`{"all":null}`:                       "$.all",
		`{"rate":"1/s"}`:                     "$",
		`{"failed":false}`:                   "$", // it asks for nothing
		`{"tenant":null}`:                    "$.tenant",
		`{"tenant":[]}`:                      "$.tenant",
		`{"tenant":["a",1]}`:                 "$.tenant",
		`{"tenant":""}`:                      "$.tenant",
		`{"topic":"a b"}`:                    "$.topic",
		`{"status":"ready"}`:                 "$.status",
		`{"status":["dead","unknown"]}`:      "$.status",
		`{"all":true,"rate":"fast"}`:         "$.rate",
		`{"all":true,"rate":0}`:              "$.rate",
		`{"all":true,"unknown":1}`:           "$.unknown",
		`{"since":"today"}`:                  "$.since",
		`{"since":["2026-01-31T12:00:00Z"]}`: "$.since",
		`{"destination":"a:b"}`:              "$.destination",
	} {
		RequireField(t, Post(h, replayPath, body), path, "")
	}
	RequireField(t, Post(h, "/v1/deliveries/purge", `{"status":"ready"}`), "$.status", "a purge takes only deliveries that are dead")
	RequireField(t, Post(h, "/v1/deliveries/cancel", `{"status":"dead"}`), "$.status", "")
	require.Empty(t, f.Calls)
}

func TestJobsAreReadStoppedAndResumed(t *testing.T) {
	f := &Fake{OneJob: dispatcher.Job{Kind: dispatcher.JobRetry, State: dispatcher.JobFailed, Failures: []dispatcher.JobFailure{{ID: dispatcher.DeliveryID{Lane: "u_1", Message: "a"}, Why: dispatcher.LeftGone}}}}
	h := newTestAPI(t, f)
	ask := func(method, path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, "http://localhost"+path, http.NoBody))
		return w
	}
	for method, path := range map[string]string{"GET": "/v1/jobs/job_7", "DELETE": "/v1/jobs/job_7", "POST": "/v1/jobs/job_7/resume"} {
		got := DecodeAnswer[wire.Job](t, ask(method, path), 200)
		require.Equal(t, "job_7", got.ID)
		require.Equal(t, []wire.JobFailure{{ID: "u_1:a", Why: "gone"}}, got.Failures)
	}
	for _, id := range []string{"7", "job_", "job_07", "job_-7", "job_x"} {
		RequireProblem(t, ask("GET", "/v1/jobs/"+id), 404, "not-found")
	}
	f.Next = "c2"
	page := DecodeAnswer[wire.JobPage](t, ask("GET", "/v1/jobs?limit=2&cursor=c1"), 200)
	require.Equal(t, "c2", *page.NextCursor)
	require.Equal(t, []any{2, "c1"}, []any{f.Filter.Limit, f.Filter.Cursor})
	for err, word := range map[error]string{dispatcher.ErrJobState: "not-stopped", dispatcher.ErrJobForgotten: "not-stopped", dispatcher.ErrNoJob: "not-found", dispatcher.ErrJobs: "too-many-jobs"} {
		f.Err = err
		RequireProblem(t, ask("POST", "/v1/jobs/job_7/resume"), map[string]int{"not-stopped": 409, "not-found": 404, "too-many-jobs": 429}[word], word)
	}
}
