package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/deploy/kit/pgtest"
	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/app"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// absenceRow is a call, and the status that it answers after home, one partition or both
// were emptied: first without an archive, then with one. In "kept" and "lost" are names of
// what lies in the partition that is sound, and in the one that is emptied.
type absenceRow struct {
	call, body string
	without    string
	with       string
}

var absenceRows = []absenceRow{
	// Publishing.
	{"POST /v1/messages", `{"topic":"order.paid","queue":"KEPT","body":1}`, "202 202 202", "503 202 503"},
	{"POST /v1/messages", `{"topic":"order.paid","queue":"LOST","body":1}`, "202 503 503", "503 503 503"},
	{"POST /v1/messages", `{"topic":"order.paid","endpoint":"kept","body":1}`, "503 202 503", "503 202 503"},
	{"POST /v1/messages", `{"topic":"order.paid","endpoint":"lost","body":1}`, "503 503 503", "503 503 503"},
	{"POST /v1/messages", `{"topic":"order.paid","tenant":"shop","body":1}`, "503 503 503", "503 503 503"},
	{"POST /v1/messages", `{"topic":"order.paid","tenant":"none","body":1}`, "503 503 503", "503 503 503"},
	{"POST /v1/messages/batch", `{"messages":[{"topic":"order.paid","queue":"LOST","body":1}]}`, "202 503 503", "503 503 503"},

	// Messages. The archive has what was lost of them.
	{"GET /v1/messages/kept-waits", "", "200 200 200", "200 200 200"},
	{"GET /v1/messages/lost-waits", "", "200 503 503", "200 200 200"},
	{"GET /v1/messages/kept-ended", "", "200 200 200", "200 200 200"},
	{"GET /v1/messages/lost-ended", "", "200 503 503", "200 200 200"},
	{"GET /v1/messages/fan", "", "200 503 503", "200 200 200"},
	{"GET /v1/messages/never", "", "503 503 503", "503 503 503"},
	{"POST /v1/messages/kept-again/retry", "", "202 202 202", "202 202 202"},
	{"POST /v1/messages/lost-again/retry", "", "202 503 503", "202 503 503"},
	{"DELETE /v1/messages/kept-cancel", "", "200 200 200", "200 200 200"},
	{"DELETE /v1/messages/lost-cancel", "", "200 503 503", "200 503 503"},
	{"DELETE /v1/messages/never", "", "503 503 503", "503 503 503"},
	{"POST /v1/messages/fan/retry?all=true&destination=kept", "", "503 202 503", "503 202 503"},
	{"POST /v1/messages/fan/retry?all=true&destination=lost", "", "503 503 503", "503 503 503"},
	{"POST /v1/messages/fan/retry?all=true", "", "202 503 503", "202 503 503"},
	{"DELETE /v1/messages/fan?destination=kept", "", "503 200 503", "503 200 503"},
	{"DELETE /v1/messages/fan?destination=lost", "", "503 503 503", "503 503 503"},

	// Lists.
	{"GET /v1/deliveries", "", "200 503 503", "200 503 503"},
	{"GET /v1/deliveries?status=delivered", "", "200 503 503", "200 503 503"},
	{"GET /v1/deliveries?tenant=shop", "", "200 503 503", "200 503 503"},
	{"GET /v1/deliveries?tenant=shop&status=delivered", "", "200 503 503", "200 200 200"},
	{"GET /v1/deliveries?destination=q_KEPT", "", "200 200 200", "200 200 200"},
	{"GET /v1/deliveries?destination=q_LOST", "", "200 503 503", "200 503 503"},
	{"GET /v1/deliveries?destination=q_LOST&status=delivered", "", "200 503 503", "200 200 200"},
	{"GET /v1/deliveries?destination=q_KEPT2", "", "200 200 200", "200 200 200"},
	{"GET /v1/dead", "", "200 503 503", "200 503 503"},
	{"GET /v1/dead?destination=q_KEPT", "", "200 200 200", "200 200 200"},
	{"GET /v1/dead?destination=q_LOST", "", "200 503 503", "200 503 503"},
	{"GET /v1/dead?destination=q_KEPT2", "", "200 200 200", "200 200 200"},
	{"GET /v1/attempts", "", "200 503 503", "200 503 503"},
	{"GET /v1/attempts?destination=q_KEPT", "", "200 200 200", "200 200 200"},
	{"GET /v1/attempts?destination=q_LOST", "", "200 503 503", "200 503 503"},
	{"GET /v1/lanes", "", "200 503 503", "200 503 503"},
	{"GET /v1/lanes?destination=q_KEPT", "", "200 200 200", "200 200 200"},
	{"GET /v1/lanes?destination=q_LOST", "", "200 503 503", "200 503 503"},
	{"GET /v1/audit?target=never", "", "503 200 503", "503 200 503"},
	{"GET /v1/instances", "", "200 200 200", "200 200 200"},

	// Endpoints, links and jobs belong to home.
	{"GET /v1/endpoints", "", "503 200 503", "503 200 503"},
	{"GET /v1/endpoints/kept", "", "503 200 503", "503 200 503"},
	{"GET /v1/endpoints/never", "", "503 404 503", "503 404 503"},
	{"GET /v1/endpoints/kept/secret", "", "503 200 503", "503 200 503"},
	{"GET /v1/endpoints/kept/deliveries", "", "503 200 503", "503 200 503"},
	{"GET /v1/endpoints/lost/deliveries", "", "503 503 503", "503 200 503"},
	{"POST /v1/endpoints", `{"uid":"new","url":"URL"}`, "503 201 503", "503 201 503"},
	{"PATCH /v1/endpoints/kept", `{"description":"x"}`, "503 200 503", "503 200 503"},
	{"POST /v1/endpoints/kept/rotate-secret", "", "503 200 503", "503 200 503"},
	{"POST /v1/endpoints/kept/test", "", "503 200 503", "503 200 503"},
	{"POST /v1/endpoints/kept/pause", "", "503 200 503", "503 200 503"},
	{"POST /v1/endpoints/kept/confirm", `{"url":"URL"}`, "503 200 503", "503 200 503"},
	{"POST /v1/endpoints/kept/resume", "", "503 200 503", "503 200 503"},
	{"DELETE /v1/endpoints/never", "", "503 404 503", "503 404 503"},
	{"GET /.well-known/webhook-keys", "", "503 200 503", "503 200 503"},
	{"POST /v1/links", `{"tenant":"shop"}`, "503 201 503", "503 201 503"},
	{"GET /v1/links", "", "503 200 503", "503 200 503"},
	{"GET /v1/jobs", "", "503 200 503", "503 200 503"},
	{"GET /v1/jobs/job_1", "", "503 200 503", "503 200 503"},
	{"POST /v1/deliveries/retry", `{"tenant":["shop"]}`, "503 503 503", "503 503 503"},
	{"POST /v1/deliveries/cancel", `{"tenant":["shop"],"dry_run":true}`, "200 503 503", "200 503 503"},
	{"POST /v1/deliveries/purge", `{"destination":["q_LOST"]}`, "503 503 503", "503 503 503"},

	// Taking.
	{"POST /v1/queues/KEPT2/take", "", "200 200 200", "200 200 200"},
	{"POST /v1/queues/LOST2/take", "", "200 503 503", "200 503 503"},
	{"POST /v1/queues/PULL/take", "", "503 200 503", "503 200 503"},
	{"POST /v1/queues/KEPT2/settle", `{"results":[{"id":"q_KEPT2:never","outcome":"delivered"}]}`, "200 200 200", "200 200 200"},
	{"POST /v1/queues/LOST2/settle", `{"results":[{"id":"q_LOST2:never","outcome":"delivered"}]}`, "200 503 503", "200 503 503"},
	{"POST /v1/tick?for=1s", "", "200 503 503", "200 503 503"},

	// All that says how the process is.
	{"GET /v1/stats", "", "200 200 200", "200 200 200"},
	{"GET /metrics", "", "200 200 200", "200 200 200"},
	{"GET /healthz", "", "200 200 200", "200 200 200"},
	{"GET /readyz", "", "200 200 200", "503 503 503"},
}

// absence is a process whose store loses data.
type absence struct {
	*testing.T
	api   string
	rdb   *redis.Client
	names *strings.Replacer // of queues and lanes
}

const lostPartition = 1

func newAbsence(t *testing.T, archived bool) *absence {
	o := newTestOptions(redistest.Start(t).URL())
	o.Partitions = 2
	o.Console.PublicURL, _ = url.Parse("https://localhost")
	pg := ""
	if archived {
		pg = pgtest.New(t)
		o.Archive = app.ArchiveOptions{URL: pg, Bodies: "all", Backlog: 64 << 20, QueryTimeout: 20 * time.Second}
	}
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(receiver.Close)
	at, err := redis.ParseURL(o.RedisURL)
	require.NoError(t, err)
	a := &absence{T: t, api: start(t, o).api, rdb: redis.NewClient(at)}
	t.Cleanup(func() { _ = a.rdb.Close() })

	var queues [2][]string // by their partitions
	for i := 0; len(queues[0]) < 2 || len(queues[1]) < 2; i++ {
		name := fmt.Sprint("work", i)
		n := keys.Partition(string(dispatcher.QueueLane(name)), 2)
		queues[n] = append(queues[n], name)
	}
	names := []string{"KEPT2", queues[0][1], "LOST2", queues[1][1], "KEPT", queues[0][0], "LOST", queues[1][0], "URL", receiver.URL}
	a.names = strings.NewReplacer(names...)
	a.names = strings.NewReplacer(append(names, "PULL", a.register())...)
	for _, name := range []string{"kept", "lost"} {
		queue := strings.ToUpper(name)
		for _, id := range []string{"-waits", "-again", "-cancel"} {
			a.must(202, "POST /v1/messages", `{"id":"`+name+id+`","topic":"order.paid","tenant":"shop","queue":"`+queue+`","delay":"1h","body":1}`)
		}
		for outcome, id := range map[string]string{"delivered": "-ended", "dead": "-dead"} {
			a.must(202, "POST /v1/messages", `{"id":"`+name+id+`","topic":"order.paid","tenant":"shop","queue":"`+queue+`","body":1}`)
			a.must(200, "POST /v1/queues/"+queue+"/take", "")
			a.must(200, "POST /v1/queues/"+queue+"/settle", `{"results":[{"id":"q_`+queue+":"+name+id+`","outcome":"`+outcome+`"}]}`)
		}
	}
	a.must(202, "POST /v1/messages", `{"id":"fan","topic":"order.paid","tenant":"shop","body":1}`)
	a.must(202, "POST /v1/deliveries/retry", `{"tenant":["nobody"]}`)
	a.must(201, "POST /v1/links", `{"tenant":"shop"}`)
	if archived {
		a.archived(pg)
		return a
	}
	a.until(func() error { // both are delivered
		if n := strings.Count(a.must(200, "GET /v1/messages/fan", ""), `"status":"delivered"`); n != 2 {
			return fmt.Errorf("%d deliveries of the fan-out ended", n)
		}
		return nil
	})
	return a
}

// register makes an endpoint for each partition, and answers the id of one that is taken from.
func (a *absence) register() (pull string) {
	create := func(partition int, uid, more string) string {
		for {
			var made wire.EndpointView
			require.NoError(a, json.Unmarshal([]byte(a.must(201, "POST /v1/endpoints", `{"uid":"`+uid+`",`+more+`}`)), &made))
			if keys.Partition(made.ID, 2) == partition {
				return made.ID
			}
			a.must(200, "DELETE /v1/endpoints/"+uid, "")
		}
	}
	create(0, "kept", `"url":"URL","tenant":"shop","topics":["order.*"]`)
	create(lostPartition, "lost", `"url":"URL","tenant":"shop","topics":["order.*"]`)
	return create(0, "pull", `"kind":"pull","tenant":"other","topics":["never"]`)
}

// archived waits until the archive has all that was published.
func (a *absence) archived(pg string) {
	a.until(func() error {
		db, err := pgx.Connect(a.Context(), pg)
		if err != nil {
			return err
		}
		defer db.Close(context.Background()) //nolint:errcheck // all was read
		var waits, events, endpoints int
		err = db.QueryRow(a.Context(), `select (select count(*) from hookladder_test.open), (select count(*) from hookladder_test.event),
			(select count(*) from hookladder_test.endpoint)`).Scan(&waits, &events, &endpoints)
		if err == nil && (waits != 6 || events < 6 || endpoints < 3) {
			err = fmt.Errorf("%d wait, %d events, %d endpoints", waits, events, endpoints)
		}
		return err
	})
}

func (a *absence) until(done func() error) {
	a.Helper()
	ctx, cancel := context.WithTimeout(a.Context(), patience)
	defer cancel()
	require.NoError(a, kit.Until(ctx, "it is as it should be", done))
}

// ask makes a call.
func (a *absence) ask(call, body string) (status int, answer string) {
	a.Helper()
	method, path, _ := strings.Cut(a.names.Replace(call), " ")
	q, err := http.NewRequestWithContext(a.Context(), method, a.api+path, bytes.NewReader([]byte(a.names.Replace(body))))
	require.NoError(a, err)
	q.Header.Set("Content-Type", "application/json")
	r, err := http.DefaultClient.Do(q)
	require.NoError(a, err)
	defer r.Body.Close() //nolint:errcheck // it was read
	text, err := io.ReadAll(r.Body)
	require.NoError(a, err)
	return r.StatusCode, string(text)
}

// askAlive makes a call, again while the answer is only that the process was held up: a machine
// with other work may be late with a heartbeat.
func (a *absence) askAlive(call, body string) (status int, answer string) {
	a.Helper()
	a.until(func() error {
		status, answer = a.ask(call, body)
		if strings.Contains(answer, "its heartbeat is late") {
			return fmt.Errorf("%s", answer)
		}
		return nil
	})
	return status, answer
}

func (a *absence) must(status int, call, body string) string {
	a.Helper()
	got, answer := a.ask(call, body)
	require.Equal(a, status, got, "%s %s: %s", call, body, answer)
	return answer
}

// empty removes all keys of a tag.
func (a *absence) empty(tag string) {
	found := a.rdb.Keys(a.Context(), tag+"*").Val()
	require.NotEmpty(a, found)
	require.NoError(a, a.rdb.Del(a.Context(), found...).Err())
}

// What a store lost is refused with the cure, and all else continues: one row a call.
func TestWhatIsRefusedAndWhatContinuesAfterALoss(t *testing.T) {
	for column, lost := range []string{"home", "partition", "both"} {
		for _, archived := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s lost, archive %v", lost, archived), func(t *testing.T) {
				t.Parallel()
				a := newAbsence(t, archived)
				if lost != "home" {
					a.empty(keys.Tag("test", lostPartition))
				}
				if lost != "partition" {
					a.empty(keys.Home("test"))
				}
				_, _ = a.ask("GET /v1/messages/never", "")
				for _, row := range absenceRows {
					want := row.without
					if archived {
						want = row.with
					}
					want = strings.Fields(want)[column]
					status, answer := a.askAlive(row.call, row.body)
					if fmt.Sprint(status) != want {
						t.Errorf("%s %s: %d, not %s: %.300s", row.call, row.body, status, want, answer)
					}
					if status == 503 && !strings.Contains(answer, "the store lost") {
						t.Errorf("%s %s: it does not say why: %.300s", row.call, row.body, answer)
					}
				}
			})
		}
	}
}
