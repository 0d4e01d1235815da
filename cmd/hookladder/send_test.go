package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

func TestASendThatFailsTellsTheIDToRepeatItWith(t *testing.T) {
	var mu sync.Mutex
	var ids []string
	said := regexp.MustCompile(`--id (msg_[0-9A-Z]{26}) is a duplicate`)
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var m struct{ ID string }
		_ = json.NewDecoder(r.Body).Decode(&m)
		mu.Lock()
		ids = append(ids, m.ID)
		mu.Unlock()
		panic(http.ErrAbortHandler) // the message may be taken, its answer is lost
	}))
	defer srv.Close()
	got := command(t, nil, "", "send", "--server", srv.URL, "--topic", "t", "--body", "1")
	require.Equal(t, exitUnreachable, got.code)
	reported := said.FindStringSubmatch(got.err)
	require.Len(t, reported, 2, got.err)
	mu.Lock()
	require.Equal(t, []string{reported[1], reported[1], reported[1]}, ids, "each try has the same id")
	mu.Unlock()

	got = command(t, nil, "", "send", "--server", srv.URL, "--topic", "t", "--body", "1", "--id", "order_17")
	require.Contains(t, got.err, "--id order_17 is a duplicate")

	environ, _ := newTestAPI(t, http.StatusUnprocessableEntity, `{"type":"/problems/invalid","title":"Some fields are wrong"}`)
	require.NotContains(t, command(t, environ, "", "send", "--topic", "t", "--body", "1").err, "--id", "it was refused")
}

// publishAPI takes messages, and answers which; the one with this number is refused.
func publishAPI(t *testing.T, refused int) (environ []string, took *[]wire.Message) {
	t.Helper()
	took = &[]wire.Message{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m wire.Message
		assert.Equal(t, "POST /v1/messages", r.Method+" "+r.URL.Path)
		assert.NoError(t, json.NewDecoder(r.Body).Decode(&m))
		*took = append(*took, m)
		if len(*took) == refused {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, `{"id":"`+m.ID+`","topic":"`+m.Topic+`","matched":1,"created_at":"2026-01-31T12:00:00Z"}`)
	}))
	t.Cleanup(server.Close)
	return []string{"HOOKLADDER_URL=" + server.URL}, took
}

func TestSendPublishesASampleAsItIsAndAsTheFlagsSay(t *testing.T) {
	environ, took := publishAPI(t, 0)
	file := mustKeep(t, `{
		"payment.paid": {"url": "https://shop.example/", "tenant": "m7", "subject": "a", "deliver_at": "2027-01-31T09:00:00Z", "success": {"status": ["*"]}, "body": {"id": "{{id}}", "n": [1, 2]}},
		"bill": {"topic": "bill.due", "endpoint": "shop-1", "raw_body": "x"}}`)
	got := command(t, environ, "", "send", "--sample", "payment.paid", "--samples", file)
	require.Equal(t, exitOK, got.code, got.err)
	m := (*took)[0]
	require.Contains(t, got.out, m.ID+" accepted")
	require.Equal(t, "payment.paid https://shop.example/ m7 a", strings.Join([]string{m.Topic, m.URL, m.Tenant, m.Subject}, " "))
	require.Equal(t, []string{"*"}, m.Success.Status)
	require.False(t, m.DeliverAt.IsZero())
	require.Equal(t, `{"id": "`+m.ID+`", "n": [1, 2]}`, string(m.Body))

	got = command(t, environ, "", "send", "--sample", "payment.paid", "--samples", file, "--endpoint", "shop-2", "--tenant", "m8", "--subject", "b", "--delay", "10s", "--set", "n.1=7")
	require.Equal(t, exitOK, got.code, got.err)
	m = (*took)[1]
	require.Equal(t, " shop-2 m8 b", strings.Join([]string{m.URL, m.Endpoint, m.Tenant, m.Subject}, " "))
	require.EqualValues(t, 10*time.Second, m.Delay)
	require.True(t, m.DeliverAt.IsZero())
	require.Equal(t, `{"id":"`+m.ID+`","n":[1,7]}`, string(m.Body))

	got = command(t, environ, "", "send", "--sample", "bill", "--samples", file, "--url", "https://other.example/")
	require.Equal(t, exitOK, got.code, got.err)
	require.Equal(t, "bill.due https://other.example/ ", strings.Join([]string{(*took)[2].Topic, (*took)[2].URL, (*took)[2].Endpoint}, " "))
}

func TestSendPublishesSeveralSamplesEachWithItsId(t *testing.T) {
	environ, took := publishAPI(t, 0)
	file := mustKeep(t, `{"a": {"body": 1}}`)
	got := command(t, environ, "", "send", "--sample", "a", "--samples", file, "-n", "3", "--json")
	require.Equal(t, exitOK, got.code, got.err)
	ids := regexp.MustCompile(`"id": "(msg_[^"]+)"`).FindAllStringSubmatch(got.out, -1)
	require.Len(t, ids, 3)
	for i, m := range *took {
		require.Equal(t, ids[i][1], m.ID)
		require.NotEqual(t, ids[(i+1)%3][1], m.ID)
	}

	environ, took = publishAPI(t, 2)
	got = command(t, environ, "", "send", "--sample", "a", "--samples", file, "-n", "3")
	require.Equal(t, exitFailed, got.code)
	require.Len(t, *took, 2, "what fails ends it")
	require.Contains(t, got.out, (*took)[0].ID+" accepted")
	require.Contains(t, got.err, "message 2 of 3")
	require.Contains(t, got.err, "hookladder get "+(*took)[1].ID)
}

func TestSendTeachesWhatASampleIs(t *testing.T) {
	t.Chdir(t.TempDir())
	environ, took := publishAPI(t, 0)
	got := command(t, environ, "", "send", "--sample", "payment.paid")
	require.Equal(t, exitUsage, got.code)
	require.Contains(t, got.err, `there is no file hookladder.samples.json: it has messages by name, such as {"payment.paid": {"body"`)
	mustWrite(t, samplesFile, `{"payment.paid": {"body": 1}, "payment.failed": {"body": 1}}`)
	got = command(t, environ, "", "send", "--sample", "payment.pad")
	require.Equal(t, exitUsage, got.code)
	require.Contains(t, got.err, "payment.paid, payment.failed")
	require.Empty(t, *took)
	require.Equal(t, exitOK, command(t, environ, "", "send", "--sample", "payment.paid", "--id", "mine").code)
	require.Equal(t, "mine", (*took)[0].ID)

	require.Equal(t, []string{"payment.paid", "payment.failed"}, offered(t, environ, "send --sample "))
	require.Equal(t, []string{"payment.failed"}, offered(t, environ, "send --sample payment.f"))
	mustWrite(t, "other.json", `{"order.new": {"body": 1}}`)
	require.Equal(t, []string{"order.new"}, offered(t, environ, "send --samples other.json --sample "))
	require.Empty(t, offered(t, environ, "send --samples nowhere.json --sample "))
	require.Len(t, *took, 1)
}

func TestAMistakeInASamplePublishesNothing(t *testing.T) {
	environ, took := publishAPI(t, 0)
	file := mustKeep(t, `{"a": {"body": {"n": 1}}, "odd": {"bdy": 1}}`)
	for line, want := range map[string]string{
		"a b":                         "takes no arguments",
		"a --body 1":                  "--sample has a body",
		"a -n 2 --id x":               "--id is the id of one",
		"a -n 0":                      "--count must be 1 to 1000",
		"a -n 1001":                   "--count must be 1 to 1000",
		"a --delay x":                 "--delay",
		"a --set n.m=1":               `there is no "m"`,
		"a --set n":                   "path=value",
		"odd":                         `unknown field "bdy"`,
		"a --samples " + file + "/no": "read the samples",
	} {
		got := command(t, environ, "", append([]string{"send", "--samples", file, "--sample"}, strings.Fields(line)...)...)
		require.Equal(t, exitUsage, got.code, line)
		require.Contains(t, got.err, want, line)
	}
	got := command(t, environ, "", "send", "--topic", "a", "--body", "1", "--set", "n=1")
	require.Equal(t, exitUsage, got.code)
	require.Contains(t, got.err, "need --sample")
	require.Empty(t, *took)
}
