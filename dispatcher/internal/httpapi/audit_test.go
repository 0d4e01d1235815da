package httpapi_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/signer"
)

// auditedCalls makes one call of each operation that changes something, or shows a
// secret: a new operation belongs here.
var auditedCalls = map[string]struct {
	path, body string
	want       dispatcher.AuditEntry
}{
	"create-endpoint": {"/v1/endpoints", `{"uid":"s7","tenant":"m7","url":"https://shop.example/hooks?token=hunter2"}`,
		dispatcher.AuditEntry{What: "endpoint.create", Tenant: "m7", Detail: "url https://shop.example s7"}},
	"patch-endpoint": {"/v1/endpoints/merchant:7", `{"url":"https://new.example/?token=hunter2","headers":{"x-b":"hunter2"}}`,
		dispatcher.AuditEntry{What: "endpoint.update", Target: "ep_123456789", Tenant: "m7", Detail: "url, headers"}},
	"delete-endpoint": {"/v1/endpoints/merchant:7", "", dispatcher.AuditEntry{What: "endpoint.delete", Target: "ep_123456789", Tenant: "m7"}},
	"pause-endpoint":  {"/v1/endpoints/merchant:7/pause", "", dispatcher.AuditEntry{What: "endpoint.pause", Target: "ep_123456789", Tenant: "m7"}},
	"resume-endpoint": {"/v1/endpoints/merchant:7/resume", "", dispatcher.AuditEntry{What: "endpoint.resume", Target: "ep_123456789", Tenant: "m7"}},
	"retry-endpoint":  {"/v1/endpoints/merchant:7/retry", "", dispatcher.AuditEntry{What: "endpoint.retry", Target: "ep_123456789", Tenant: "m7"}},
	"confirm-endpoint": {"/v1/endpoints/merchant:7/confirm", `{"url":"https://shop.example/hooks?k=1&l=2"}`,
		dispatcher.AuditEntry{What: "endpoint.confirm", Target: "ep_123456789", Tenant: "m7", Detail: "url https://shop.example"}},
	"test-endpoint": {"/v1/endpoints/merchant:7/test", "", dispatcher.AuditEntry{What: "endpoint.test", Target: "ep_123456789", Tenant: "m7"}},
	"get-secret":    {"/v1/endpoints/merchant:7/secret", "", dispatcher.AuditEntry{What: "secret.read", Target: "ep_123456789", Tenant: "m7"}},
	"rotate-secret": {"/v1/endpoints/merchant:7/rotate-secret", `{"secret":"` + SecretNew + `","overlap":"1h"}`,
		dispatcher.AuditEntry{What: "secret.rotate", Target: "ep_123456789", Tenant: "m7", Detail: "overlap 1h"}},
	"pause-lane": {"/v1/lanes/" + url.PathEscape("https://user.example/a?token=hunter2") + "/pause?tenant=m7", "",
		dispatcher.AuditEntry{What: "lane.pause", Target: "https://user.example", Tenant: "m7"}},
	"resume-lane":    {"/v1/lanes/*/resume", "", dispatcher.AuditEntry{What: "lane.resume", Target: "*"}},
	"cancel-message": {"/v1/messages/m1?destination=u_1", "", dispatcher.AuditEntry{What: "message.cancel", Target: "m1", Tenant: "of m1", Detail: "destination=u_1"}},
	"retry-deliveries": {"/v1/deliveries/retry", `{"destination":"https://shop.example/hooks?token=hunter2","tenant":"m7","subject":"7","rate":200}`,
		dispatcher.AuditEntry{What: "deliveries.retry", Tenant: "m7", Detail: "destination=https://shop.example subject=7 tenant=m7 rate=200/s"}},
	"cancel-deliveries": {"/v1/deliveries/cancel", `{"all":true}`, dispatcher.AuditEntry{What: "deliveries.cancel", Detail: "all"}},
	"purge-deliveries":  {"/v1/deliveries/purge", `{"dead_reason":["gone"]}`, dispatcher.AuditEntry{What: "deliveries.purge", Detail: "dead_reason=gone"}},
	"stop-job":          {"/v1/jobs/job_7", "", dispatcher.AuditEntry{What: "job.stop", Target: "job_7"}},
	"resume-job":        {"/v1/jobs/job_7/resume", "", dispatcher.AuditEntry{What: "job.resume", Target: "job_7"}},
	"create-link": {"/v1/links", `{"tenant":"m7","for":"2h","manage":true,"endpoint":"merchant:7","name":"Anna"}`,
		dispatcher.AuditEntry{What: "link.create", Tenant: "m7", Detail: "for 2h manage ep_123456789 Anna"}},
	"revoke-link":   {"/v1/links/" + Link().ID, "", dispatcher.AuditEntry{What: "link.revoke", Target: Link().ID, Tenant: "m7"}},
	"retry-message": {"/v1/messages/m1/retry?all=true", "", dispatcher.AuditEntry{What: "message.retry", Target: "m1", Tenant: "of m1", Detail: "all=true"}},
}

// changes are the calls of the service that change something, as the fake names them,
// but for a change of fields, which is made behind the call.
var changes = []string{"create", "delete", "pause", "resume", "test", "rotate", "cancel", "retry", "start job", "stop job", "resume job", "create link", "revoke link"}

func TestEveryChangeIsInTheAuditBeforeItIsMadeAndWhatIsMadeAfterIt(t *testing.T) {
	var doc struct {
		Paths map[string]map[string]struct{ OperationID string }
	}
	require.NoError(t, json.Unmarshal(Get(newTestAPI(t, &Fake{}), "/openapi.json").Body.Bytes(), &doc))
	seen := 0
	for path, methods := range doc.Paths {
		for method, o := range methods {
			id := o.OperationID
			if id == "publish" || id == "publish-batch" || id == "take" || id == "settle" || id == "tick" || method == "get" && id != "get-secret" {
				continue
			}
			c, ok := auditedCalls[id]
			require.True(t, ok, "%s (%s %s) changes something: say in auditedCalls what the audit has of it", id, method, path)
			seen++
			f := &Fake{View: Record(t), FakeEndpoints: FakeEndpoints{There: Endpoint(t), Secret: MustSecret(t, signer.Standard, SecretNew)}}
			w := Serve(newTestAPI(t, f, WithLinks), newTestRequest(strings.ToUpper(method), c.path, c.body))
			require.Less(t, w.Code, 300, "%s: %s", id, w.Body)
			require.NotEmpty(t, f.Recorded, id)
			got := f.Recorded[0]
			made := strings.HasPrefix(id, "create-") || strings.HasSuffix(id, "-deliveries")
			if made {
				require.Regexp(t, "^(ep_[a-z2-7]{9}|lnk_[a-z2-7]{20}|ep_123456789|job_7)$", got.Target, "what was made")
				got.Target = ""
			}
			c.want.By = "local"
			require.Equal(t, c.want, got, id)
			require.Contains(t, dispatcher.AuditWords(), got.What)
			if made {
				continue
			}
			require.Equal(t, Endpoint(t).URL, f.FirstURL, "%s was recorded after its change", id)
			for _, call := range f.Before[0] {
				require.NotContains(t, changes, call, "%s was recorded after its change", id)
			}
		}
	}
	require.Len(t, auditedCalls, seen, "these calls are no longer there")
}

// An endpoint's lane is called as the endpoint, so that one filter finds all of it.
func TestThePauseOfAnEndpointsLaneIsTheEndpointsInTheAudit(t *testing.T) {
	for _, name := range []string{"merchant:7", "ep_123456789"} {
		f := &Fake{FakeEndpoints: FakeEndpoints{There: Endpoint(t)}}
		Serve(newTestAPI(t, f), newTestRequest("POST", "/v1/lanes/"+name+"/pause", ""))
		require.NotEmpty(t, f.Recorded)
		require.Equal(t, dispatcher.AuditEntry{By: "local", What: "lane.pause", Target: "ep_123456789", Tenant: "m7"}, f.Recorded[0])
	}
}

func TestACallThatChangesNothingIsNotInTheAudit(t *testing.T) {
	f := &Fake{FakeEndpoints: FakeEndpoints{There: Endpoint(t)}}
	h := newTestAPI(t, f)
	for _, r := range []struct{ method, path, body string }{
		{"GET", "/v1/endpoints/merchant:7", ""}, {"GET", "/v1/lanes", ""}, {"GET", "/v1/audit", ""}, {"POST", "/v1/messages", `{"topic":"a","url":"https://a.example","body":1}`},
		{"PATCH", "/v1/endpoints/merchant:7", `{"rate":"fast"}`}, {"POST", "/v1/endpoints/nobody/pause", ""}, {"POST", "/v1/lanes/u_1/pause?x=1", ""},
	} {
		Serve(h, newTestRequest(r.method, r.path, r.body))
		require.Empty(t, f.Recorded, "%s %s", r.method, r.path)
	}
}

func TestAFailedChangeIsInTheAuditTwice(t *testing.T) {
	f := &Fake{Err: dispatcher.ErrUnavailable}
	require.Equal(t, 503, Serve(newTestAPI(t, f), newTestRequest("POST", "/v1/messages/m1/retry", "")).Code)
	require.Len(t, f.Recorded, 2)
	require.Equal(t, dispatcher.AuditEntry{By: "local", What: "message.retry", Target: "m1", Tenant: "of m1", Detail: "failed: 503 unavailable", Failed: true}, f.Recorded[1])
}

func TestNoEntryNamesWhatNeverWas(t *testing.T) {
	for _, c := range []struct {
		method, path, body string
		err                error
	}{
		{"POST", "/v1/lanes/u_1/pause", "", dispatcher.ErrNoLane}, {"POST", "/v1/lanes/q_1/resume", "", dispatcher.ErrNoLane},
		{"POST", "/v1/messages/none/retry", "", dispatcher.ErrNotFound}, {"DELETE", "/v1/messages/none", "", dispatcher.ErrNotFound},
		{"DELETE", "/v1/jobs/job_9", "", dispatcher.ErrNoJob}, {"POST", "/v1/jobs/job_9/resume", "", dispatcher.ErrNoJob},
		{"DELETE", "/v1/links/" + dispatcher.LinkID("none"), "", dispatcher.ErrNoLink},
	} {
		f := &Fake{Err: c.err, Missing: true, FakeEndpoints: FakeEndpoints{There: Endpoint(t)}}
		require.Equal(t, 404, Serve(newTestAPI(t, f), newTestRequest(c.method, c.path, c.body)).Code, c.path)
		require.Empty(t, f.Recorded, c.path)
	}
	for path, body := range map[string]string{
		"/v1/endpoints": `{"uid":"s7","tenant":"m7","url":"https://shop.example/"}`, "/v1/links": `{"tenant":"m7"}`, "/v1/deliveries/retry": `{"all":true}`,
	} {
		f := &Fake{Err: dispatcher.ErrUnavailable}
		require.Equal(t, 503, Serve(newTestAPI(t, f, WithLinks), newTestRequest("POST", path, body)).Code, path)
		require.Len(t, f.Recorded, 1, path)
		require.Empty(t, f.Recorded[0].Target, path)
		require.Contains(t, f.Recorded[0].Detail, "failed: 503 unavailable", path)
		require.True(t, f.Recorded[0].Failed)
	}
	// An equal endpoint is there: nothing was made.
	f := &Fake{FakeEndpoints: FakeEndpoints{Equal: true}}
	require.Equal(t, 200, Serve(newTestAPI(t, f), newTestRequest("POST", "/v1/endpoints", `{"url":"https://shop.example/"}`)).Code)
	require.Len(t, f.Recorded, 1)
	require.Equal(t, "ep_123456789", f.Recorded[0].Target)
	require.Contains(t, f.Recorded[0].Detail, "an equal one was there")
	// A dry run changes nothing, also when it fails.
	f = &Fake{Err: dispatcher.ErrUnavailable}
	require.Equal(t, 503, Serve(newTestAPI(t, f), newTestRequest("POST", "/v1/deliveries/retry", `{"all":true,"dry_run":true}`)).Code)
	require.Empty(t, f.Recorded)
}

// What a person does in the console or by a link is never counted with others.
func TestAnActOfAPersonSaysSo(t *testing.T) {
	for _, c := range []dispatcher.Browser{{Name: "ops", Key: "local", Admin: true}, {Name: "lnk_1", View: dispatcher.View{Tenant: "of m1"}, Manage: true}} {
		f := &Fake{View: Record(t)}
		r := newTestRequest("POST", "/v1/messages/m1/retry?destination=u_1", "")
		Serve(newTestAPI(t, f), r.WithContext(dispatcher.WithBrowser(r.Context(), c)))
		require.NotEmpty(t, f.Recorded)
		require.Len(t, f.Recorded, 1)
		require.True(t, f.Recorded[0].Person)
	}
	// A link's that is refused costs it nothing, so a loop of them is counted as calls are.
	link := dispatcher.Browser{Name: "lnk_1", View: dispatcher.View{Tenant: "of m1"}, Manage: true}
	r := newTestRequest("POST", "/v1/messages/m1/retry?destination=u_1", "")
	f := &Fake{Err: dispatcher.ErrUnavailable}
	Serve(newTestAPI(t, f), r.WithContext(dispatcher.WithBrowser(r.Context(), link)))
	require.Equal(t, []dispatcher.AuditEntry{
		{By: "link:lnk_1", What: "message.retry", Target: "m1", Tenant: "of m1", Detail: "destination=u_1, failed: 503 unavailable", Failed: true},
	}, f.Recorded)
	ops := dispatcher.Browser{Name: "ops", Key: "local", Admin: true}
	f = &Fake{}
	dry := newTestRequest("POST", "/v1/deliveries/retry", `{"all":true,"dry_run":true}`)
	require.Equal(t, 200, Serve(newTestAPI(t, f), dry.WithContext(dispatcher.WithBrowser(dry.Context(), ops))).Code)
	require.Empty(t, f.Recorded, "a page that shows what a job would do changes nothing")
	f = &Fake{Err: dispatcher.ErrUnavailable}
	Serve(newTestAPI(t, f), r.WithContext(dispatcher.WithBrowser(r.Context(), ops)))
	require.Len(t, f.Recorded, 1, "an act that failed has one entry too")
	require.True(t, f.Recorded[0].Person && f.Recorded[0].Failed)
	f = &Fake{}
	Serve(newTestAPI(t, f), newTestRequest("POST", "/v1/messages/m1/retry", ""))
	require.False(t, f.Recorded[0].Person)
}

func TestTheAuditIsListed(t *testing.T) {
	f := &Fake{AuditPage: dispatcher.AuditPage{Next: "c2", Entries: []dispatcher.AuditEntry{
		{At: Now, By: "key:ops", What: "endpoint.update", Target: "ep_1", Tenant: "m7", Detail: "url"}, {At: Now, By: "system", What: "repartition"},
	}}}
	h := newTestAPI(t, f)
	w := Get(h, "/v1/audit?by=key:ops&by=system&what=endpoint.update&target=ep_1&target=*&tenant=m7&since=2026-01-01T00:00:00Z&until=2026-02-01T00:00:00Z&limit=7&cursor=c1")
	require.Equal(t, `{"data":[{"at":"2026-01-31T11:00:00.123Z","by":"key:ops","what":"endpoint.update","target":"ep_1","tenant":"m7","detail":"url"},`+
		`{"at":"2026-01-31T11:00:00.123Z","by":"system","what":"repartition","target":""}],"next_cursor":"c2"}`, w.Body.String())
	require.Equal(t, dispatcher.AuditFilter{
		By: []string{"key:ops", "system"}, What: []string{"endpoint.update"}, Targets: []string{"ep_1", "*"}, Tenants: []string{"m7"},
		Since: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Until: time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC), Limit: 7, Cursor: "c1",
	}, f.AuditOf)
	RequireField(t, Get(h, "/v1/audit?what=endpoint.eaten"), "query.what", "endpoint.update")
	RequireField(t, Get(h, "/v1/audit?who=me"), "query.who", "unknown")
	f.AuditPage = dispatcher.AuditPage{}
	require.Empty(t, DecodeAnswer[wire.AuditPage](t, Get(h, "/v1/audit"), 200).Data)
}
