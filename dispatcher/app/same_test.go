package app_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/pgtest"
	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/app"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/ladder"
)

// object is a delivery as JSON, without the fields that only some answers have.
type object = map[string]any

// objects are the deliveries of an answer, by their ids.
func objects(t testing.TB, text string) map[string]object {
	t.Helper()
	var lists map[string]json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(text), &lists))
	found := map[string]object{}
	for _, name := range []string{"data", "deliveries", "sample"} {
		var list []object
		if lists[name] != nil {
			require.NoError(t, json.Unmarshal(lists[name], &list))
		}
		for _, d := range list {
			found[d["id"].(string)] = d
		}
	}
	return found
}

// own is the object of a delivery that GET /v1/messages/{id} returns, without its history.
func (p *process) own(message string) object {
	p.t.Helper()
	status, text := p.ask("GET", "/v1/messages/"+message, nil)
	require.Equal(p.t, http.StatusOK, status, text)
	list := objects(p.t, text)
	require.Len(p.t, list, 1)
	for _, d := range list {
		delete(d, "history")
		return d
	}
	return nil
}

// requireSame has a list show a delivery as GET /v1/messages/{id} does.
func (p *process) requireSame(own object, list string, q url.Values) {
	p.t.Helper()
	q.Set("limit", "500")
	status, text := p.ask("GET", list, q)
	require.Equal(p.t, http.StatusOK, status, text)
	require.Equal(p.t, own, objects(p.t, text)[own["id"].(string)], "%s?%s", list, q.Encode())
}

// listsOf are the queries of GET /v1/deliveries that find a delivery.
func listsOf(own object) []url.Values {
	status := own["status"].(string)
	all := []url.Values{
		{}, {"status": {status}}, {"topic": {"payment.paid"}}, {"destination": {own["destination"].(string)}}, {"tenant": {"shop"}},
		{"subject": {"order 104711"}}, {"subject_ends": {"4711"}}, {"tenant": {"shop"}, "status": {status}}, {"tenant": {"shop"}, "order": {"accepted"}},
	}
	if own["ended_at"] != nil {
		all = append(all, url.Values{"order": {"ended"}, "status": {status}}, url.Values{"order": {"ended"}, "status": {status}, "tenant": {"shop"}})
	}
	return all
}

// fillWithStates publishes a message for each state that lasts, to one endpoint and to one queue.
func (p *process) fillWithStates(at string) (endpoint string) {
	p.t.Helper()
	ctx, c := p.t.Context(), p.boss()
	e, _, err := c.CreateEndpoint(ctx, &wire.Endpoint{Tenant: "shop", URL: at})
	require.NoError(p.t, err)
	publish := func(id string, change func(*wire.Message)) {
		m := &wire.Message{ID: id, Topic: "payment.paid", Tenant: "shop", Subject: "order 104711", Endpoint: e.ID, Body: json.RawMessage(`1`)}
		if change != nil {
			change(m)
		}
		_, err := c.Publish(ctx, m)
		require.NoError(p.t, err)
	}
	publish("scheduled", func(m *wire.Message) { m.Delay = wire.Duration(time.Hour) })
	publish("ready", func(m *wire.Message) { m.Endpoint, m.Queue = "", "work" })
	publish("retrying", nil)
	publish("delivered", nil)
	publish("dead", func(m *wire.Message) { m.MaxAttempts = 1 })
	publish("cancelled", func(m *wire.Message) { m.Delay = wire.Duration(time.Hour) })
	_, err = c.Cancel(ctx, "cancelled", "")
	require.NoError(p.t, err)
	for _, id := range []string{"retrying", "delivered", "dead"} {
		require.Eventually(p.t, func() bool { return p.own(id)["status"] == id }, patience, time.Millisecond, id)
	}
	return e.ID
}

// newTestJudge answers a message by its id.
func newTestJudge(t testing.TB) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if id := r.Header.Get("webhook-id"); id == "retrying" || id == "dead" {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// slowly are options with a ladder whose first wait outlasts the test.
func slowly(t testing.TB, o app.Options) app.Options {
	t.Helper()
	l, err := ladder.Parse("1h/1h")
	require.NoError(t, err)
	o.Engine.Ladder = l
	return o
}

func TestEveryListShowsADeliveryAsItsMessageDoes(t *testing.T) {
	p := start(t, slowly(t, peoplesOptions(t, redistest.Start(t).URL())))
	endpoint := p.fillWithStates(newTestJudge(t))
	for _, id := range []string{"scheduled", "ready", "retrying", "delivered", "dead", "cancelled"} {
		own := p.own(id)
		require.Equal(t, id, own["status"])
		for name, want := range map[string]string{"message_id": id, "topic": "payment.paid", "tenant": "shop", "subject": "order 104711"} {
			require.Equal(t, want, own[name], name)
		}
		require.NotEmpty(t, own["created_at"])
		require.Contains(t, own, "next_attempt_at", "it is null if no attempt is coming")
		for name, value := range own {
			require.True(t, value != nil || name == "next_attempt_at", "%s is null", name)
		}
		for _, q := range listsOf(own) {
			p.requireSame(own, "/v1/deliveries", q)
		}
		if own["ended_at"] != nil {
			p.requireSame(own, "/v1/endpoints/"+endpoint+"/deliveries", url.Values{})
		}
	}
	for id, kind := range map[string]string{"dead": "retry", "scheduled": "cancel"} {
		survey := p.survey(kind, `{"tenant":"shop","status":"`+id+`","dry_run":true}`)
		own := p.own(id)
		require.Equal(t, own, objects(t, survey)[own["id"].(string)], "the sample of a dry run")
	}
	own := p.own("scheduled")
	_, text := p.ask("POST", "/v1/messages/scheduled/retry", nil)
	require.Equal(t, own["message_id"], objects(t, text)[own["id"].(string)]["message_id"], "of a retry")
	require.NoError(t, p.end())
}

// survey asks what a job would change.
func (p *process) survey(kind, body string) string {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), "POST", p.api+"/v1/deliveries/"+kind, strings.NewReader(body))
	require.NoError(p.t, err)
	r.Header.Set("Authorization", "Bearer "+peoplesKeys["boss"])
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	require.NoError(p.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(p.t, err)
	require.Equal(p.t, http.StatusOK, resp.StatusCode, string(text))
	return string(text)
}

func TestAListShowsWhatOnlyTheArchiveHasAsItsMessageDoes(t *testing.T) {
	o := slowly(t, peoplesOptions(t, redistest.Start(t).URL()))
	var err error
	o.Seal, err = app.ParseEncryptionKeys("MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=")
	require.NoError(t, err)
	o.Archive = app.ArchiveOptions{URL: pgtest.New(t), Bodies: "all", Backlog: 64 << 20, QueryTimeout: 20 * time.Second}
	o.Engine.Keep = dispatcher.Keep{Finished: time.Second, FinishedMax: 1, SeenMax: 1000, Dead: time.Second, DeadMax: 1}
	p := start(t, o)
	endpoint := p.fillWithStates(newTestJudge(t))
	for _, id := range []string{"delivered", "dead", "cancelled"} {
		require.Eventually(t, func() bool { // Redis forgets where others end
			_, err := p.boss().Publish(t.Context(), &wire.Message{Topic: "other", Endpoint: endpoint, Body: json.RawMessage(`1`), MaxAttempts: 1})
			require.NoError(t, err)
			_, err = p.boss().Cancel(t.Context(), id, "")
			return errors.Is(err, client.ErrConflict)
		}, patience, 20*time.Millisecond)
		own := p.own(id)
		require.Equal(t, id, own["status"])
		require.Equal(t, id, own["message_id"])
		require.NotEmpty(t, own["created_at"])
		for _, q := range []url.Values{{"subject": {"order 104711"}}, {"subject": {"order 104711"}, "status": {id}}, {"tenant": {"shop"}, "order": {"accepted"}}} {
			p.requireSame(own, "/v1/deliveries", q)
		}
		p.requireSame(own, "/v1/endpoints/"+endpoint+"/deliveries", url.Values{})
	}
	require.NoError(t, p.end())
}
