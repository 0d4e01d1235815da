package console_test

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

func listed(id, status, more string) string {
	return fmt.Sprintf(`{"id":"ep_1:%s","destination":"ep_1","url":"https://api.shop.example/hooks","status":"%s","topic":"payment.paid","tenant":"lumen","attempts":2,"rung":1,"ladder":["15s"]%s}`, id, status, more)
}

func pageOf(cursor string, looked int, rows ...string) string {
	if cursor != "null" {
		cursor = `"` + cursor + `"`
	}
	return fmt.Sprintf(`{"data":[%s],"next_cursor":%s,"looked_at":%d}`, strings.Join(rows, ","), cursor, looked)
}

func TestDeliveriesAreListedWithTheirFilters(t *testing.T) {
	api, ask := newTestPages(t, map[string]string{"GET /v1/deliveries": pageOf("c2", 2,
		listed("a", "dead", `,"dead_reason":"exhausted","last_status_code":500,"ended_at":"2026-01-31T11:00:00.000Z"`), listed("b", "retrying", `,"waiting_for":"breaker","subject":"<b>x"`))})
	w := ask(get("/console/deliveries?status=dead&status=retrying&tenant=lu%26men&topic=&since=2026-01-31T10:00&cursor=c1"))
	require.Equal(t, http.StatusOK, w.Code)
	require.True(t, api.called("GET /v1/deliveries?cursor=c1&limit=50&since=2026-01-31T10%3A00%3A00Z&status=dead&status=retrying&tenant=lu%26men"), api.calls)
	page := w.Body.String()
	for _, want := range []string{
		`href="/console/messages/a?to=ep_1"`, "2 failed, exhausted <time", "waits for the breaker<", "&lt;b&gt;x", `class="code c-dead">500<`, `class="code c-retry">none<`,
		`aria-label="Drop the filter tenant lu&amp;men"`, `cursor=c2`, ">Newest<", ">Go on<", "2 of the 2 that this page looked at",
		`href="/console/deliveries?since=2026-01-31T10%3A00&amp;status=dead&amp;status=retrying"`,                         // without the tenant
		`href="/console/deliveries?since=2026-01-31T10%3A00&amp;status=retrying&amp;tenant=lu%26men" aria-current="true"`, // without one of two statuses
		"retrying</",
	} {
		require.Contains(t, page, want)
	}
	require.NotContains(t, page, `retrying <span class="n">`, "the counts are of all, and the list is of one tenant")
	require.NotContains(t, page, "all that match", "neither a replay nor a cancel can take both statuses")
	require.NotContains(t, page, `id="live"`, "a search is not repeated by itself")
	page = ask(get("/console/deliveries?status=dead")).Body.String()
	require.Contains(t, page, `/console/jobs/new?kind=retry&amp;status=dead`)
	require.NotContains(t, page, "Cancel all that match")
	require.Contains(t, page, `retrying <span class="n">7</span>`)
}

func TestTheRowsOfAListAreCSVToo(t *testing.T) {
	api, ask := newTestPages(t, map[string]string{"GET /v1/deliveries": pageOf("c2", 2,
		listed("a", "dead", `,"message_id":"a","subject":"=1+1","dead_reason":"exhausted","last_status_code":500`))})
	page := ask(get("/console/deliveries?status=dead&tenant=lu%26men&cursor=c1")).Body.String()
	const link = "/console/deliveries/rows.csv?cursor=c1&status=dead&tenant=lu%26men"
	require.Contains(t, page, `href="`+strings.ReplaceAll(link, "&", "&amp;")+`"`)
	api.calls = nil
	w := ask(get(link))
	require.Equal(t, http.StatusOK, w.Code)
	require.True(t, api.called("GET /v1/deliveries?cursor=c1&limit=50&status=dead&tenant=lu%26men"), api.calls)
	require.Contains(t, w.Header().Get("Content-Disposition"), "attachment")
	lines := strings.Split(strings.TrimSpace(w.Body.String()), "\r\n")
	require.Equal(t, strings.Join(wire.DeliveryColumns(), ","), lines[0])
	require.Equal(t, "ep_1:a,a,lumen,'=1+1,payment.paid,ep_1,https://api.shop.example/hooks,dead,,,2,500,exhausted,", lines[1])
	require.Len(t, lines, 2)

	w = ask(get("/console/deliveries/rows.csv?since=yesterday"))
	require.Equal(t, http.StatusSeeOther, w.Code, "the page says what is wrong")
	require.Equal(t, "/console/deliveries?since=yesterday", w.Header().Get("Location"))
}

// What a page did not find may be behind its cursor.
func TestNothingIsSaidToMatchOnlyAtTheEnd(t *testing.T) {
	api, ask := newTestPages(t, map[string]string{"GET /v1/deliveries": pageOf("c2", 5000)})
	page := ask(get("/console/deliveries?tenant=a")).Body.String()
	require.Contains(t, page, "Not found yet. The list goes on.")
	require.Contains(t, page, "of the 100,000 that this page looked at", "it went on by itself for a while")
	require.Contains(t, page, ">Go on<")
	require.NotContains(t, page, "No delivery matches")
	api.answers["GET /v1/deliveries"] = pageOf("null", 5000)
	require.Contains(t, ask(get("/console/deliveries?tenant=a")).Body.String(), "No delivery matches")
	require.Contains(t, ask(get("/console/deliveries")).Body.String(), "Nothing was published yet")
}

// A page goes on by itself until it has found something.
func TestASearchGoesOnUntilItFindsSomething(t *testing.T) {
	_, ask := newTestPages(t, map[string]string{
		"GET /v1/deliveries": pageOf("c2", 5000), "GET /v1/deliveries?cursor=c2&limit=50&tenant=a": pageOf("c3", 70, listed("late", "dead", "")),
	})
	page := ask(get("/console/deliveries?tenant=a")).Body.String()
	require.Contains(t, page, "late")
	require.Contains(t, page, "1 of the 5,070 that this page looked at")
	require.Contains(t, page, "cursor=c3")
}

func TestAWrongFilterSaysSoWithTheWayBack(t *testing.T) {
	api, ask := newTestPages(t, map[string]string{"GET /v1/deliveries": `422{"type":"/problems/invalid","title":"Invalid","status":422,"detail":"query.status: must be <one>"}`})
	w := ask(get("/console/deliveries?status=nonsense"))
	require.Equal(t, http.StatusUnprocessableEntity, w.Code)
	require.Contains(t, w.Body.String(), "must be &lt;one&gt;")
	require.Contains(t, w.Body.String(), "Drop all filters")
	require.NotContains(t, w.Body.String(), "No delivery matches")
	api.calls = nil
	w = ask(get("/console/deliveries?since=yesterday"))
	require.Equal(t, http.StatusUnprocessableEntity, w.Code)
	require.Contains(t, w.Body.String(), "&#34;yesterday&#34; is not a time")
	require.False(t, api.called("GET /v1/deliveries"))
	ask(get("/console/deliveries?since=24h"))
	require.True(t, api.called("GET /v1/deliveries?limit=50&since="))
}

// hits returns the messages of a list, in its order.
func hits(page string) (ids []string) {
	for _, m := range regexp.MustCompile(`row-link clip order" href="/console/messages/(\w+)`).FindAllStringSubmatch(page, -1) {
		ids = append(ids, m[1])
	}
	return ids
}

func TestASearchFindsAMessageAnEndpointOrASubject(t *testing.T) {
	api, ask := newTestPages(t, map[string]string{
		"GET /v1/messages/order_17": oneMessage, "GET /v1/endpoints/ep_1": `{"id":"ep_1","state":"active"}`, "GET /v1/deliveries": pageOf("null", 0),
	})
	to := func(q string) string {
		w := ask(get("/console/deliveries?q=" + url.QueryEscape(q)))
		return w.Header().Get("Location") + w.Body.String()
	}
	require.Contains(t, to(" order_17 "), "/console/messages/order_17")
	require.Contains(t, to("/order_17"), "/console/messages/order_17", "the key that leads here may be typed too")
	require.Contains(t, to("ep_1:order_17"), "/console/messages/order_17?to=ep_1")
	require.Contains(t, to("ep_1"), "/console/endpoints/ep_1")

	page := to("order 4711")
	require.Contains(t, page, "was looked for as a subject, since no message has this id")
	require.True(t, api.called("GET /v1/deliveries?limit=50&subject_like=order+4711"), api.calls)
	require.True(t, api.called("GET /v1/deliveries?limit=50&subject_ends=4711"), api.calls)
	require.Contains(t, page, "and as the last digits of an order number")
	to("...94711")
	require.True(t, api.called("GET /v1/deliveries?limit=50&subject_ends=94711"), api.calls)
	api.calls = nil
	to("order 471")
	require.False(t, api.called("GET /v1/deliveries?limit=50&subject_ends="), "too few digits")
	page = to("https://shop.example/x")
	require.True(t, api.called("GET /v1/deliveries?destination=https%3A%2F%2Fshop.example%2Fx&limit=50"), api.calls)
	require.Contains(t, page, "was looked for as a URL")

	api.answers["GET /v1/lanes?destination=lilac-orders"] = `{"data":[{"lane":"ep_7","endpoint":"ep_7","uid":"lilac-orders","state":"open"}],"next_cursor":null}`
	api.answers["GET /v1/lanes?destination=other"] = `{"data":[{"lane":"u_x","state":"active"}],"next_cursor":null}`
	api.answers["GET /v1/endpoints?limit=1&tenant=lilac"] = `{"data":[{"id":"ep_7"}],"next_cursor":null}`
	require.Contains(t, to("lilac-orders"), "/console/endpoints/ep_7", "its uid")
	api.answers["GET /v1/lanes?destination=lilac%3Aorders"] = strings.Replace(api.answers["GET /v1/lanes?destination=lilac-orders"], "lilac-orders", "lilac:orders", 1)
	require.Contains(t, to("lilac:orders"), "/console/endpoints/ep_7", "a uid with a colon is no delivery's id")
	require.Contains(t, to("lilac"), "/console/endpoints?tenant=lilac")
	page = to("other")
	require.Contains(t, page, "no endpoint this uid, tenant or host")
	require.NotContains(t, page, "then forgotten", "nobody knows whether there ever was one")

	const shop = `{"data":[{"id":"ep_8","url":"https://api.shop.example/hooks/payments"}],"next_cursor":null}`
	api.answers["GET /v1/endpoints?like=api.shop.example&limit=100"] = shop
	api.answers["GET /v1/endpoints?like=shop.example&limit=100"] = strings.Replace(shop, `"}]`, `"},{"id":"ep_9","url":"https://pos.shop.example/"}]`, 1)
	for q, want := range map[string]string{
		"https://api.shop.example/hooks/payments": "/console/endpoints/ep_8", "https://api.shop.example": "/console/endpoints/ep_8", "API.shop.example": "/console/endpoints/ep_8",
		"shop.example": "/console/endpoints?like=shop.example", "https://api.shop.example/other": "was looked for as a URL, since no endpoint has it.",
		"order":        `href="/console/deliveries?topic=order"`,
		"payment.paid": "this uid, tenant or host; and then as a topic.",
	} {
		require.Contains(t, to(q), want, q)
	}
	api.answers["GET /v1/deliveries?limit=50&topic=payment.paid"] = pageOf("null", 2, listed("a", "dead", ""), listed("b", "dead", ""))
	require.Contains(t, to("payment.paid"), "/console/messages/a?to=ep_1")
	api.answers["GET /v1/endpoints?like=far.example&limit=100"] = `{"data":[],"next_cursor":"c2"}`
	require.Contains(t, to("far.example"), "or host among the newest", "the search is bounded, and says so")

	const number = "GET /v1/deliveries?limit=50&subject_like=order+4711"
	api.answers[number] = pageOf("null", 1, listed("only", "dead", ""))
	require.Equal(t, "/console/messages/only?to=ep_1", ask(get("/console/deliveries?q=order+4711")).Header().Get("Location"), "one hit")
	api.answers[number] = pageOf("null", 2, listed("only", "dead", ""), strings.ReplaceAll(listed("only", "delivered", ""), "ep_1", "ep_2"))
	require.Equal(t, "/console/messages/only", ask(get("/console/deliveries?q=order+4711")).Header().Get("Location"), "one message")
	api.answers[number] = pageOf("c2", 1, listed("only", "dead", ""))
	require.Contains(t, to("order 4711"), `<a class="row-link clip order" href="/console/messages/only?to=ep_1"`, "there may be more")
	const ends = "GET /v1/deliveries?limit=50&subject_ends=4711"
	api.answers[number] = pageOf("null", 1, listed("only", "dead", ""))
	api.answers[ends] = pageOf("null", 2, listed("newer", "dead", ""), listed("only", "dead", ""))
	require.Equal(t, []string{"only", "newer"}, hits(to("order 4711")), "the whole number comes first, and each once")
	api.answers[ends] = pageOf("c3", 1, listed("only", "dead", ""))
	page = to("order 4711")
	require.Equal(t, []string{"only"}, hits(page))
	require.Contains(t, page, "cursor=c3", "others may end so")
	api.answers[ends] = `422{"type":"/problems/invalid","title":"Invalid","status":422,"detail":"too many end so"}`
	page = to("order 4711")
	require.Equal(t, []string{"only"}, hits(page), "what is found is shown")
	require.Contains(t, page, "Look for numbers that end so")

	for _, q := range []string{"msg_01K", "ep_2", "u_x:msg_2"} {
		page = to(q)
		require.Contains(t, page, "There is no", q)
		require.Contains(t, page, `/console/deliveries?subject_like=`+strings.ReplaceAll(url.QueryEscape(q), "%", "%"), q)
	}
	api.answers["GET /v1/messages/order_18"] = `503{"type":"/problems/unavailable","title":"Away","status":503}`
	require.Equal(t, http.StatusServiceUnavailable, ask(get("/console/deliveries?q=order_18")).Code, "it is not known whether there is one")
	api.answers["GET /v1/lanes?destination=order_19"] = api.answers["GET /v1/messages/order_18"]
	require.Equal(t, http.StatusServiceUnavailable, ask(get("/console/deliveries?q=order_19")).Code, "nor whether an endpoint has this uid")
}

func TestSelectedRowsAreChangedOneByOne(t *testing.T) {
	api, ask := newTestPages(t, map[string]string{
		"POST /v1/messages/a/retry": `{"id":"a","deliveries":[{"id":"ep_1:a","destination":"ep_1","status":"ready","retried":true}]}`,
		"POST /v1/messages/b/retry": `409{"type":"/problems/disabled","title":"Disabled","status":409,"deliveries":[{"id":"ep_1:b","destination":"ep_1","status":"dead","why":"disabled"}]}`,
		"DELETE /v1/messages/a":     `{"id":"a","deliveries":[{"id":"ep_1:a","destination":"ep_1","status":"cancelled"}]}`,
		"DELETE /v1/messages/b":     `{"id":"b","deliveries":[{"id":"ep_1:b","destination":"ep_1","status":"delivered"}]}`,
	})
	pick := url.Values{"pick": {"ep_1:a", "ep_1:b", "ep_1:gone"}, "do": {"retry"}, "back": {"/console/deliveries?status=dead"}}
	page := ask(post("/console/deliveries/picked", pick)).Body.String()
	require.Contains(t, page, "1 of 3 is due now")
	require.Contains(t, page, "Its endpoint is disabled: resume that first.")
	require.Contains(t, page, "Not found")
	require.Contains(t, page, `href="/console/deliveries?status=dead"`)
	require.True(t, api.called("POST /v1/messages/a/retry?destination=ep_1"))

	pick.Set("do", "cancel")
	pick.Set("back", "https://elsewhere.example/")
	page = ask(post("/console/deliveries/picked", pick)).Body.String()
	require.Contains(t, page, "1 of 3 is cancelled")
	require.Contains(t, page, "It is delivered already.")
	require.NotContains(t, page, "elsewhere")
	require.True(t, api.called("DELETE /v1/messages/a?destination=ep_1"))

	w := ask(post("/console/deliveries/picked", url.Values{"do": {"retry"}}))
	require.Equal(t, "/console/deliveries?told=picked-none", w.Header().Get("Location"))
	api.answers["POST /v1/messages/b/retry"] = `503{"type":"/problems/unavailable","title":"Away","status":503}`
	pick.Set("do", "retry")
	w = ask(post("/console/deliveries/picked", pick))
	require.Equal(t, http.StatusSeeOther, w.Code)
	require.Contains(t, w.Header().Get("Location"), "told=unknown")
}

const survey = `{"matched":1234,"complete":false,"by_reason":{"exhausted":1200,"gone":34},"oldest":"2026-01-30T11:00:00.000Z","newest":"2026-01-31T11:00:00.000Z","sample":[`

func TestAPreviewLeadsToAJob(t *testing.T) {
	api, ask := newTestPages(t, map[string]string{
		"POST /v1/deliveries/retry": survey + listed("a", "dead", "") + `]}`, "POST /v1/deliveries/purge": survey + `]}`,
	})
	page := ask(get("/console/jobs/new?kind=retry&tenant=lumen&dead_reason=gone")).Body.String()
	for _, want := range []string{
		"Replay at least 1,234", `href="/console/messages/a?to=ep_1"`, `name="rate" value="50"`, `About <span data-takes="1234">25 s</span> or more.`,
		`<a class="text-link" href="/console/jobs/new?count=all&amp;dead_reason=gone&amp;kind=retry&amp;tenant=lumen" data-count-on>`,
		`<input type="hidden" name="tenant" value="lumen">`, `<input type="hidden" name="dead_reason" value="gone">`, `<input type="hidden" name="kind" value="retry">`,
	} {
		require.Contains(t, page, want)
	}
	require.True(t, api.called(`POST /v1/deliveries/retry {"tenant":["lumen"],"dead_reason":["gone"],"dry_run":true}`), api.calls)
	require.NotContains(t, page, "1,200 exhausted", "it is of a part")
	page = ask(get("/console/jobs/new?kind=retry&tenant=lumen&dead_reason=gone&count=all")).Body.String()
	require.True(t, api.called(`POST /v1/deliveries/retry {"tenant":["lumen"],"dead_reason":["gone"],"dry_run":true,"count_all":true}`), api.calls)
	require.Contains(t, page, "There are more than can be counted in ten seconds.")
	require.NotContains(t, page, "data-count-on", "it ends")
	api.answers["POST /v1/deliveries/retry"] = strings.Replace(survey, "false", "true", 1) + `]}`
	page = ask(get("/console/jobs/new?kind=retry&tenant=lumen&dead_reason=gone")).Body.String()
	require.Contains(t, page, "1,200 exhausted, 34 gone")
	require.NotContains(t, page, "at least")

	api.answers["POST /v1/deliveries/retry"] = `202{"id":"job_1","kind":"retry","filter":{},"state":"running"}`
	w := ask(post("/console/jobs", url.Values{"kind": {"retry"}, "tenant": {"lumen"}, "rate": {"20"}}))
	require.Equal(t, "/console/jobs/job_1?told=job-started", w.Header().Get("Location"))
	require.True(t, api.called(`POST /v1/deliveries/retry {"tenant":["lumen"],"rate":"20/s"}`), api.calls)

	w = ask(post("/console/jobs", url.Values{"kind": {"purge"}, "tenant": {"lumen"}}))
	require.Equal(t, http.StatusUnprocessableEntity, w.Code, "it is asked twice")
	require.Contains(t, w.Body.String(), "Say that you are sure")
	require.False(t, api.called(`POST /v1/deliveries/purge {"tenant":["lumen"]}`))

	api.answers["POST /v1/deliveries/retry"] = `422{"type":"/problems/invalid","title":"Invalid","status":422,"errors":[{"path":"$.rate","detail":"must be a rate"}]}`
	w = ask(post("/console/jobs", url.Values{"kind": {"retry"}, "tenant": {"lumen"}, "rate": {"<x>"}}))
	require.Equal(t, http.StatusUnprocessableEntity, w.Code)
	require.Contains(t, w.Body.String(), "must be a rate")
	require.Contains(t, w.Body.String(), `value="&lt;x&gt;"`, "the form keeps what was typed")
}

// Where a counter knows the number, a preview shows it, although not all was read.
func TestAPreviewIsExactWhereACounterKnowsTheNumber(t *testing.T) {
	_, ask := newTestPages(t, map[string]string{
		"GET /v1/stats":              `{"counts":{"retrying":10378,"ready":200000,"dead":2000,"delivered":5,"scheduled":1,"in_flight":2},"dead":{"exhausted":1990,"gone":10}}`,
		"GET /v1/dead":               `{"data":[{"destination":"ep_1","reason":"exhausted","count":1900},{"destination":"ep_1","reason":"gone","count":10}],"next_cursor":null}`,
		"POST /v1/deliveries/retry":  survey + `]}`,
		"POST /v1/deliveries/cancel": survey + `]}`,
		"POST /v1/deliveries/purge":  survey + `]}`,
	})
	for q, want := range map[string]string{
		"kind=retry&status=retrying": "Send now 10,378<",
		"kind=retry":                 "Replay 2,000<",
		"kind=retry&status=dead&dead_reason=exhausted":    "Replay 1,990<",
		"kind=retry&status=dead&destination=ep_1":         "Replay 1,910<",
		"kind=retry&group=ep_1+exhausted&group=ep_1+gone": "Replay 1,910<",
		"kind=cancel":                             "Cancel 210,381<",
		"kind=cancel&status=ready":                "Cancel 200,000<",
		"kind=purge&dead_reason=gone":             "Forget at least 1,234<", // more were found than the counter has
		"kind=retry&status=retrying&tenant=lumen": "Send now at least 1,234<",
		"kind=retry&status=delivered&status=dead&dead_reason=exhausted": "Replay at least 1,234<",
	} {
		page := ask(get("/console/jobs/new?" + q)).Body.String()
		require.Contains(t, page, want, q)
		require.Equal(t, strings.Contains(want, "at least"), strings.Contains(page, "data-count-on"), q)
	}
}

// Groups of one destination are one job, so that nothing is changed that was not selected.
func TestSelectedGroupsAreAJobForEachDestination(t *testing.T) {
	api, ask := newTestPages(t, map[string]string{"POST /v1/deliveries/retry": survey + `]}`})
	q := url.Values{"kind": {"retry"}, "group": {"ep_1 gone", "ep_2 gone", "ep_1 exhausted"}}
	page := ask(get("/console/jobs/new?" + q.Encode())).Body.String()
	require.Contains(t, page, "Replay at least 2,468")
	require.True(t, api.called(`POST /v1/deliveries/retry {"status":["dead"],"destination":["ep_1"],"dead_reason":["gone","exhausted"],"dry_run":true}`), api.calls)
	require.True(t, api.called(`POST /v1/deliveries/retry {"status":["dead"],"destination":["ep_2"],"dead_reason":["gone"],"dry_run":true}`), api.calls)
	require.Equal(t, 3, strings.Count(page, `name="group"`))
	api.answers["POST /v1/deliveries/retry"] = `202{"id":"job_1","kind":"retry","filter":{},"state":"running"}`
	q.Set("rate", "50")
	w := ask(post("/console/jobs", q))
	require.Equal(t, "/console/jobs?told=jobs-started", w.Header().Get("Location"))
	require.True(t, api.called(`POST /v1/deliveries/retry {"status":["dead"],"destination":["ep_2"],"dead_reason":["gone"],"rate":"50/s"}`), api.calls)
}

const oneJob = `{"id":"job_1","kind":"retry","filter":{"tenant":["lumen"]},"state":"%s","expected":400,"matched":200,"done":90,"failed":10,"left":100,"left_by_reason":{"probe_failed":100},"outcomes":{"delivered":3,"dead":80,"cancelled":0},"retrying":5,"taken_over":2,"rate":"50/s","started_at":"2026-01-31T11:00:00.000Z","by":"<i>olga"%s}`

func TestAJobIsFollowedStoppedAndResumed(t *testing.T) {
	var failures []string
	for i := range 150 {
		failures = append(failures, fmt.Sprintf(`{"id":"ep_1:m%d","why":"in_flight"}`, i))
	}
	job := func(state string) string {
		return fmt.Sprintf(oneJob, state, `,"failures":[`+strings.Join(failures, ",")+`]`)
	}
	api, ask := newTestPages(t, map[string]string{
		"GET /v1/jobs/job_1": job("running"), "DELETE /v1/jobs/job_1": job("stopped"), "POST /v1/jobs/job_1/resume": job("running"),
		"GET /v1/attempts": pageOf("null", 0),
		"GET /v1/jobs":     `{"data":[` + fmt.Sprintf(oneJob, "waiting", "") + `],"next_cursor":"c2"}`,
	})
	page := ask(get("/console/jobs/job_1")).Body.String()
	for _, want := range []string{
		"90 of about 400", "3 delivered, 80 dead again, 0 cancelled, 5 still retrying, 2 sent by others since", "100 probe failed", `href="/console/tail?job=job_1"`, "Stop", "&lt;i&gt;olga", `href="/console/deliveries?status=dead&amp;tenant=lumen"`, `href="/console/messages/m0?to=ep_1"`, "And 50 more",
	} {
		require.Contains(t, page, want)
	}
	require.NotContains(t, page, "/resume")
	api.answers["GET /v1/jobs/job_1"] = job("stopped")
	page = ask(get("/console/jobs/job_1")).Body.String()
	require.Contains(t, page, `action="/console/jobs/job_1/resume"`)
	require.NotContains(t, page, `action="/console/jobs/job_1/stop"`)

	require.Equal(t, "/console/jobs/job_1?told=job-stopped", ask(post("/console/jobs/job_1/stop", nil)).Header().Get("Location"))
	require.Equal(t, "/console/jobs/job_1?told=job-resumed", ask(post("/console/jobs/job_1/resume", nil)).Header().Get("Location"))
	page = ask(get("/console/jobs")).Body.String()
	require.Contains(t, page, `href="/console/jobs/job_1"`)
	require.Contains(t, page, `href="/console/jobs?cursor=c2"`)
	require.Equal(t, http.StatusNotFound, ask(get("/console/jobs/job_2")).Code)
}

// The deliveries that a job sent may end after it, so its page goes on.
func TestAJobsPageGoesOnUntilItsOutcomesAreFinal(t *testing.T) {
	api, ask := newTestPages(t, map[string]string{"GET /v1/attempts": pageOf("null", 0)})
	for name, c := range map[string]struct {
		state    string
		retrying int
		ended    time.Duration // ago
		goesOn   bool
	}{
		"it runs":                           {"running", 0, 0, true},
		"it is done, and some are retried":  {"done", 5, 23 * time.Hour, true},
		"nothing is retried any more":       {"done", 0, time.Minute, false},
		"outcomes are counted for a day":    {"done", 5, 25 * time.Hour, false},
		"it was stopped, and some go on":    {"stopped", 1, time.Minute, true},
		"it was stopped, and nothing is on": {"stopped", 0, time.Minute, false},
	} {
		ended := ""
		if c.ended > 0 {
			ended = `,"ended_at":"` + time.Now().Add(-c.ended).UTC().Format(time.RFC3339) + `"`
		}
		api.answers["GET /v1/jobs/job_1"] = fmt.Sprintf(`{"id":"job_1","kind":"retry","filter":{},"state":"%s","expected":9,"matched":9,"done":9,"outcomes":{"delivered":4},"retrying":%d,"taken_over":0%s}`, c.state, c.retrying, ended)
		require.Equal(t, c.goesOn, strings.Contains(ask(get("/console/jobs/job_1")).Body.String(), `id="live"`), name)
	}
}

// A job that was not counted yet is not at a hundred per cent of what it found.
func TestAJobThatIsNotCountedHasNoPercent(t *testing.T) {
	_, ask := newTestPages(t, map[string]string{"GET /v1/jobs/job_1": `{"id":"job_1","kind":"purge","filter":{},"state":"running","expected":null,"matched":1,"done":1}`})
	page := ask(get("/console/jobs/job_1")).Body.String()
	require.Contains(t, page, "1 of 1 found by now")
	require.NotContains(t, page, "100 %")
	require.NotContains(t, page, "Its attempts", "it sends none")
}

// What waits for its next attempt is sent with a preview, one of each destination first.
func TestWhatWaitsIsSentFromItsList(t *testing.T) {
	api, ask := newTestPages(t, map[string]string{
		"POST /v1/deliveries/retry": survey + `]}`, "GET /v1/deliveries": `{"data":[],"next_cursor":null}`,
	})
	page := ask(get("/console/deliveries?status=retrying&destination=ep_1")).Body.String()
	require.Contains(t, page, "Send all that match now")
	require.NotContains(t, ask(get("/console/deliveries?status=dead&destination=ep_1")).Body.String(), "Send all that match now")
	q := url.Values{"kind": {"retry"}, "status": {"retrying"}, "destination": {"ep_1"}, "rate": {"20"}}
	page = ask(get("/console/jobs/new?" + q.Encode())).Body.String()
	require.Contains(t, page, "Each gets one attempt now beside its ladder.")
	require.Contains(t, page, `name="probe" value="yes" checked`)
	api.answers["POST /v1/deliveries/retry"] = `202{"id":"job_1","kind":"retry","filter":{},"state":"running"}`
	q.Set("probe", "yes")
	require.Equal(t, "/console/jobs/job_1?told=job-started", ask(post("/console/jobs", q)).Header().Get("Location"))
	require.True(t, api.called(`POST /v1/deliveries/retry {"status":["retrying"],"destination":["ep_1"],"rate":"20/s","probe":true}`), api.calls)
}

func TestTheDeadAreListedByDestinationAndReason(t *testing.T) {
	api, ask := newTestPages(t, map[string]string{"GET /v1/dead": `{"data":[{"destination":"ep_1","url":"https://api.shop.example","endpoint":"ep_1","uid":"<u>","reason":"exhausted",
		"count":1234,"newest":"2026-01-31T11:00:00.000Z","last_status_code":503,"last_error":"<b>no"}],"next_cursor":"c2"}`})
	page := ask(get("/console/dead?dead_reason=exhausted&tenant=a")).Body.String()
	for _, want := range []string{
		"1,234", "&lt;u&gt;", "Service Unavailable", `value="ep_1 exhausted"`, `href="/console/deliveries?dead_reason=exhausted&amp;destination=ep_1&amp;status=dead"`,
		`/console/jobs/new?kind=retry&amp;group=ep_1%20exhausted`, `cursor=c2`,
	} {
		require.Contains(t, page, want)
	}
	require.True(t, api.called("GET /v1/dead?dead_reason=exhausted&limit=50&tenant=a"), api.calls)
	api.answers["GET /v1/dead"] = `{"data":[],"next_cursor":null}`
	require.Contains(t, ask(get("/console/dead")).Body.String(), "Nothing is dead.")
	require.Contains(t, ask(get("/console/dead?tenant=a")).Body.String(), "Nothing dead matches.")
}

// In an outage those that fail are older than many that wait behind them.
func TestAnEndpointsPageLooksOnForWhatFails(t *testing.T) {
	const failing = "GET /v1/deliveries?destination=ep_1&failed=true&limit=50"
	api, ask := newTestPages(t, map[string]string{
		"GET /v1/endpoints/ep_1": `{"id":"ep_1","state":"active"}`, "GET /v1/lanes": `{"data":[],"next_cursor":null}`, "GET /v1/deliveries": pageOf("null", 0),
		failing: pageOf("c1", 1024), "GET /v1/deliveries?cursor=c1&destination=ep_1&failed=true&limit=50": pageOf("c2", 1024, listed("a", "retrying", "")),
	})
	page := ask(get("/console/endpoints/ep_1")).Body.String()
	require.Contains(t, page, "Still trying")
	require.Contains(t, page, "All that fail")
	api.answers[failing] = pageOf("null", 0)
	require.NotContains(t, ask(get("/console/endpoints/ep_1")).Body.String(), "Still trying")
	for _, cursor := range []string{"", "cursor=c1&"} {
		api.answers["GET /v1/deliveries?"+cursor+"destination=ep_1&failed=true&limit=50"] = pageOf("c1", 1024)
	}
	page = ask(get("/console/endpoints/ep_1")).Body.String()
	require.Contains(t, page, "None was found among the newest.")
	require.Contains(t, page, "Look further")
}
