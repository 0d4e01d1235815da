package console_test

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// failingCall is how the console asks for the destinations that fail.
const failingCall = "GET /v1/lanes?failing=true&limit=500"

// outageLanes are 92 endpoints that fail in three ways, each with 10 deliveries that wait, and one that a
// person paused meanwhile.
func outageLanes() string {
	var list []string
	for i := range 93 {
		last, state := `"status_code":503,"class":"status","error":"status 503","response_excerpt":"\n  <b>upstream</b> is away  \nsecond line"`, "open"
		switch {
		case i == 92:
			state = "paused"
		case i >= 90:
			last, state = `"status_code":401,"class":"status","error":"status 401"`, "active"
		case i >= 60:
			last = `"class":"timeout","error":"no answer within 15s"`
		}
		list = append(list, fmt.Sprintf(`{"lane":"ep_%d","endpoint":"ep_%[1]d","uid":"shop-%[1]d","state":"%s","waiting":10,"failing_since":"2026-11-22T12:0%d:00Z","last_failure":{"message_id":"m%[1]d","at":"2026-11-22T12:10:00Z",%[4]s}}`, i, state, i%10, last))
	}
	return `{"data":[` + strings.Join(list, ",") + `],"next_cursor":null}`
}

func outageAnswers() map[string]string {
	return map[string]string{
		failingCall: outageLanes(), "GET /v1/stats": statsOf("1"), "GET /v1/endpoints": `{"data":[],"next_cursor":null}`,
		"GET /v1/instances": `{"data":[],"next_cursor":null}`, "GET /v1/jobs": `{"data":[],"next_cursor":null}`,
	}
}

func TestNowSaysFirstWhatFailsAndWhy(t *testing.T) {
	_, pages := newTestPages(t, outageAnswers())
	page := pages(get("/console/")).Body.String()
	lead := regexp.MustCompile(`(?s)id="lead">.*?</p>`).FindString(page)
	require.Contains(t, lead, "<b>92 endpoints fail</b>, with 3 different errors.")
	require.Contains(t, lead, "920 deliveries wait for them.")
	require.Contains(t, lead, `datetime="2026-11-22T12:00:00Z"`)
	require.Equal(t, 3, strings.Count(page, `class="card cause"`))
	for _, text := range []string{
		"60 endpoints: answered 503", "30 endpoints: no response in time", "2 endpoints: answered 401", `<q>&lt;b&gt;upstream&lt;/b&gt; is away</q>`, "and 54 more",
		"no answer within 15s", "600 wait.", `href="/console/failing?cause=status-503"`, "See the 60", "Try all again now", "Pause them",
	} {
		require.Contains(t, page, text)
	}
	require.NotContains(t, page, "second line")
	require.NotContains(t, page, "Nothing needs you")
	require.Regexp(t, `(?s)id="causes".*class="figures"`, page, "causes come before figures")
	require.Equal(t, 1, strings.Count(page, "button primary"))
}

func TestEachCauseListsItsDestinations(t *testing.T) {
	_, pages := newTestPages(t, outageAnswers())
	older := regexp.MustCompile(`href="(/console/failing[^"]*cursor=ep_[^"]*)"`)
	for path, want := range map[string]int{"?cause=status-503": 60, "?cause=timeout": 30, "?cause=status-401": 2, "": 92, "?cause=tls": 0, "?cause=": 0} {
		seen := map[string]bool{}
		for next := "/console/failing" + path; next != ""; {
			w := pages(get(next))
			require.Equal(t, http.StatusOK, w.Code)
			rows := regexp.MustCompile(`<tr id="lane-([^"]+)`).FindAllStringSubmatch(w.Body.String(), -1)
			require.LessOrEqual(t, len(rows), 50)
			for _, row := range rows {
				require.False(t, seen[row[1]], "%s comes twice", row[1])
				seen[row[1]] = true
			}
			require.NotContains(t, w.Body.String(), "s-active")
			if want == 0 {
				require.Contains(t, w.Body.String(), "No destination fails so now.")
			}
			next = ""
			if m := older.FindStringSubmatch(w.Body.String()); m != nil {
				next = strings.ReplaceAll(m[1], "&amp;", "&")
			}
		}
		require.Len(t, seen, want, path)
	}
	page := pages(get("/console/failing?cursor=ep_gone")).Body.String()
	require.Equal(t, 50, strings.Count(page, `<tr id="lane-`), "where a page began works again, so the list begins anew")
}

func TestAllDestinationsOfACauseAreTriedAgainOrPaused(t *testing.T) {
	answers := outageAnswers()
	answers["POST /v1/deliveries/retry"] = `202{"id":"job_7","kind":"retry","filter":{},"state":"running"}`
	for i := range 93 {
		answers[fmt.Sprintf("POST /v1/lanes/ep_%d/pause", i)] = `{"lane":"ep_1"}`
	}
	api, pages := newTestPages(t, answers)
	w := pages(post("/console/failing/try", url.Values{"cause": {"status-401"}}))
	require.Equal(t, http.StatusSeeOther, w.Code)
	require.Equal(t, "/console/jobs/job_7?told=tried", w.Header().Get("Location"))
	require.NotContains(t, strings.Join(api.calls, "\n"), "/resume", "one is tried before the breakers close")
	job := ""
	for _, call := range api.calls {
		if strings.Contains(call, "job") || strings.Contains(call, "ep_90\"") {
			job = call
		}
	}
	for _, want := range []string{`"destination":["ep_90","ep_91"]`, `"status":["retrying"]`, `"probe":true`} {
		require.Contains(t, job, want)
	}
	w = pages(post("/console/failing/pause", url.Values{"cause": {"timeout"}}))
	require.Equal(t, "/console/?told=paused", w.Header().Get("Location"))
	require.True(t, api.called("POST /v1/lanes/ep_60/pause"))
	require.False(t, api.called("POST /v1/lanes/ep_59/pause"))
	w = pages(post("/console/failing/try", url.Values{"cause": {"tls"}}))
	require.Equal(t, "/console/?told=unchanged", w.Header().Get("Location"))
}

func TestNowSaysThatNothingNeedsAPersonOnlyWhereAllWasRead(t *testing.T) {
	answers := outageAnswers()
	answers["GET /v1/stats"] = `{"counts":{"retrying":7,"ready":12},"store":{"durable":"yes"}}`
	answers[failingCall] = `{"data":[],"next_cursor":null}`
	_, pages := newTestPages(t, answers)
	page := pages(get("/console/")).Body.String()
	require.Contains(t, page, "<b>Nothing needs you.</b> No destination fails, none is paused, no replay runs.")
	require.Contains(t, page, "12 are held")
	require.NotContains(t, page, "nothing is late")
}

func TestTheCauseComesFirstOnAnEndpointsPage(t *testing.T) {
	answers := map[string]string{
		"GET /v1/endpoints/ep_1": `{"id":"ep_1","url":"https://api.shop.example/hooks","state":"open","waiting":1500,"failing_since":"2026-11-22T12:00:00Z",
			"last_failure":{"message_id":"m9","at":"2026-11-22T12:10:00Z","status_code":503,"class":"status","error":"status 503","response_excerpt":"busy <now>"}}`,
		"GET /v1/lanes":      `{"data":[{"lane":"ep_1","endpoint":"ep_1","state":"open","opened":1,"fails":20,"waiting":1503,"ready":1479,"failing_since":"2026-11-22T12:00:00Z"}],"next_cursor":null}`,
		"GET /v1/deliveries": `{"data":[],"next_cursor":null}`,

		"POST /v1/endpoints/ep_1/retry": `202{"id":"job_7","kind":"retry","filter":{},"state":"running"}`,
	}
	api, pages := newTestPages(t, answers)
	page := pages(get("/console/endpoints/ep_1")).Body.String()
	for _, text := range []string{
		"Attempts fail: answered 503", "<q>busy &lt;now&gt;</q>", `href="/console/messages/m9"`, `<span class="n">1,479</span> <span>held by its breaker`,
		`<span class="n">24</span> <span>wait for their next attempt`, "1,503</a>", "Try again now",
	} {
		require.Contains(t, page, text)
	}
	require.Regexp(t, `(?s)id="cause".*class="figures"`, page)
	require.Equal(t, 1, strings.Count(page, "button primary"))
	require.NotContains(t, page, "<details open", "settings are folded")
	w := pages(post("/console/endpoints/ep_1/retry", nil))
	require.Equal(t, "/console/jobs/job_7?told=tried", w.Header().Get("Location"))
	require.True(t, api.called("POST /v1/endpoints/ep_1/retry"))

	answers["GET /v1/endpoints/ep_1"] = `{"id":"ep_1","url":"https://api.shop.example/hooks","state":"active"}`
	answers["GET /v1/lanes"] = `{"data":[{"lane":"ep_1","endpoint":"ep_1","state":"active","waiting":3,"ready":3}],"next_cursor":null}`
	page = pages(get("/console/endpoints/ep_1")).Body.String()
	require.NotContains(t, page, `id="cause"`)
	require.NotContains(t, page, "Try again now")
}

// What waits for its next attempt after a receiver works again has the button too.
func TestAnEndpointThatWorksAgainOffersWhatWaits(t *testing.T) {
	_, pages := newTestPages(t, map[string]string{
		"GET /v1/endpoints/ep_1": `{"id":"ep_1","url":"https://api.shop.example/hooks","state":"active","waiting":53}`,
		"GET /v1/lanes":          `{"data":[{"lane":"ep_1","endpoint":"ep_1","state":"active","waiting":53,"ready":0}],"next_cursor":null}`,
		"GET /v1/deliveries":     pageOf("null", 0, listed("a", "retrying", "")),
	})
	page := pages(get("/console/endpoints/ep_1")).Body.String()
	require.Contains(t, page, `action="/console/endpoints/ep_1/retry"`)
	require.Contains(t, page, `<span class="n">53</span> <span>wait for their next attempt`)
	require.NotContains(t, page, "Attempts fail")
}

// The page of a job says what came of the first attempt at each destination.
func TestAJobsPageSaysWhatCameOfTheFirstAttempts(t *testing.T) {
	lane := func(id, more string) string {
		return `{"lane":"` + id + `","endpoint":"` + id + `","uid":"uid-` + id + `","waiting":7,"ready":5,` + more + `}`
	}
	answers := map[string]string{
		"GET /v1/jobs/job_7": `{"id":"job_7","kind":"retry","filter":{"status":["retrying"],"destination":["ep_1","ep_2","ep_3"]},"state":"waiting","expected":4,"matched":2,"done":1,"probe":true,"started_at":"2026-11-22T12:00:00Z"}`,
		"GET /v1/lanes": `{"data":[` + lane("ep_1", `"state":"active"`) + "," +
			lane("ep_2", `"state":"open","failing_since":"2026-11-22T11:00:00Z","last_failure":{"at":"2026-11-22T12:00:01Z","status_code":503,"class":"status","error":"status 503"}`) + "," +
			lane("ep_3", `"state":"open","failing_since":"2026-11-22T11:00:00Z","last_failure":{"at":"2026-11-22T11:59:59Z","status_code":401,"class":"status","error":"status 401"}`) + `],"next_cursor":null}`,
		"GET /v1/attempts": `{"data":[{"id":"ep_1:m1","message_id":"m1","destination":"ep_1","attempt":3,"at":"2026-11-22T12:00:01Z","status_code":200,"outcome":"delivered"}],"next_cursor":null}`,
	}
	_, pages := newTestPages(t, answers)
	page := pages(get("/console/jobs/job_7")).Body.String()
	for _, text := range []string{
		"1 of 3 destinations work", "It works.", "The attempt failed", "status 503", "One delivery is being attempted first.",
		`href="/console/messages/m1"`, "What it sent", "1 of about 4", "Send now 4",
	} {
		require.Contains(t, page, text)
	}
	require.NotContains(t, page, "status 401", "it failed before the job began")
	require.NotContains(t, page, " %")
	require.Regexp(t, "(?s)first-ep_2.*first-ep_1", page, "what fails is first")
	require.NotContains(t, page, "try again to send them now")
	answers["GET /v1/jobs/job_7"] = strings.Replace(answers["GET /v1/jobs/job_7"], `"state":"waiting"`, `"state":"done"`, 1)
	require.Contains(t, pages(get("/console/jobs/job_7")).Body.String(), "try again to send them now", "the job sends none of the two that wait for their time")
}
