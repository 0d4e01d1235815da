package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/signer"
)

// testReceiver is one that runs in this process.
type testReceiver struct {
	t            testing.TB
	sign         *signer.Signer
	control      string
	destinations []string
	parent       io.Closer // closing it is the parent's death
	ended        chan error
}

func newTestReceiver(t testing.TB) *testReceiver {
	t.Helper()
	secret := signer.NewSecret()
	sign, err := signer.NewSigner(secret)
	require.NoError(t, err)
	in, parent := io.Pipe()
	output, out := io.Pipe()
	r := &testReceiver{t: t, sign: sign, parent: parent, ended: make(chan error, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		r.ended <- receive(ctx, &signer.Verifier{Secrets: []signer.Secret{secret}}, in, out)
		close(r.ended)
	}()
	t.Cleanup(func() {
		cancel()
		for range r.ended { // until it is gone
		}
	})
	line, err := bufio.NewReader(output).ReadBytes('\n')
	require.NoError(t, err)
	var open struct {
		Control      string
		Destinations []string
	}
	require.NoError(t, json.Unmarshal(line, &open))
	r.control, r.destinations = open.Control, open.Destinations
	return r
}

// ask asks what has come of a run, with more fields of the question.
func (r *testReceiver) ask(run, more string) (status int, answer string) {
	r.t.Helper()
	res, err := http.Post("http://"+r.control, "application/json", strings.NewReader(`{"run":"`+run+`"`+more+`}`))
	require.NoError(r.t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(r.t, err)
	return res.StatusCode, string(text)
}

// post sends what a dispatcher would, and then a change to it.
func (r *testReceiver) post(to int, run, id string, change func(*http.Request)) {
	r.t.Helper()
	req, err := http.NewRequest(http.MethodPost, "http://"+r.destinations[to]+"/"+run, strings.NewReader(payload))
	require.NoError(r.t, err)
	now := time.Now()
	req.Header.Set(signer.HeaderID, id)
	req.Header.Set(signer.HeaderTimestamp, strconv.FormatInt(now.Unix(), 10))
	req.Header.Set(signer.HeaderSignature, r.sign.Sign(id, now, []byte(payload)))
	if change != nil {
		change(req)
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(r.t, err)
	require.NoError(r.t, res.Body.Close())
}

func (r *testReceiver) came(run string) (came struct {
	Distinct, All, Bad int
	Why                string
	First, Last        int64
	Arrivals           map[string]int64
}) {
	r.t.Helper()
	status, text := r.ask(run, `,"arrivals":true`)
	require.Equal(r.t, http.StatusOK, status, text)
	require.NoError(r.t, json.Unmarshal([]byte(text), &came))
	return came
}

func TestTheReceiverChecksWhatComes(t *testing.T) {
	t.Parallel()
	r := newTestReceiver(t)
	require.Len(t, r.destinations, 101)
	for _, c := range []struct {
		name   string
		id     string
		change func(*http.Request)
		why    string
	}{
		{"as it should be", "run_1", nil, ""},
		{"unsigned", "run_1", func(req *http.Request) { req.Header.Del(signer.HeaderSignature) }, "no webhook-signature"},
		{"signed for another id", "run_1", func(req *http.Request) { req.Header.Set(signer.HeaderID, "run_2") }, "does not match"},
		{"changed", "run_1", func(req *http.Request) {
			changed := strings.Replace(payload, "x", "y", 1)
			req.Body = io.NopCloser(strings.NewReader(changed))
		}, "does not match"},
		{"signed, but never published", "run_1", func(req *http.Request) {
			now := time.Now()
			req.Body, req.ContentLength = io.NopCloser(strings.NewReader("{}")), 2
			req.Header.Set(signer.HeaderSignature, r.sign.Sign("run_1", now, []byte("{}")))
		}, "not one that was published"},
		{"of another run", "other_1", nil, "another run"},
		{"of a run whose name begins alike", "run2_1", nil, "another run"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r.post(0, "run", c.id, c.change)
			came := r.came("run")
			require.Equal(t, 1, came.All)
			require.Contains(t, came.Why, c.why)
			require.Equal(t, c.why != "", came.Bad == 1, came.Why)
			r.ask("run", `,"forget":true`)
			require.Zero(t, r.came("run").All)
		})
	}
}

func TestTheReceiverCountsOverAllDestinations(t *testing.T) {
	t.Parallel()
	r := newTestReceiver(t)
	before := time.Now().UnixNano()
	for i := range r.destinations {
		r.post(i, "run", "run_"+strconv.Itoa(i), nil)
	}
	r.post(0, "run", "run_7", nil)
	came := r.came("run")
	require.Equal(t, []int{101, 102, 0}, []int{came.Distinct, came.All, came.Bad}, came.Why)
	require.Less(t, before, came.First)
	require.Less(t, came.First, came.Last)
	require.Less(t, came.Last, time.Now().UnixNano())
}

func TestTheReceiverDoesAsItIsTold(t *testing.T) {
	t.Parallel()
	r := newTestReceiver(t)
	status, text := r.ask("run", `,"begin":{"delay":50000000,"times":true}`)
	require.Equal(t, http.StatusOK, status, text)
	begin := time.Now()
	r.post(1, "run", "run_1", nil)
	require.GreaterOrEqual(t, time.Since(begin), 50*time.Millisecond, "it answers late")
	came := r.came("run")
	require.WithinRange(t, time.Unix(0, came.Arrivals["run_1"]), begin, time.Now())
	require.Zero(t, came.Bad)
	status, _ = r.ask("run", `,"want":"x"`)
	require.Equal(t, http.StatusBadRequest, status)
}

func TestTheReceiverAnswersOnceAllHasCome(t *testing.T) {
	t.Parallel()
	r := newTestReceiver(t)
	answer := make(chan string)
	go func() {
		_, text := r.ask("run", `,"want":3,"most":3600000000000`)
		answer <- text
	}()
	for i := range 3 {
		r.post(0, "run", "run_"+strconv.Itoa(i), nil)
	}
	require.Contains(t, <-answer, `"distinct":3`)
}

func TestTheReceiverEndsWithItsParent(t *testing.T) {
	t.Parallel()
	r := newTestReceiver(t)
	require.NoError(t, r.parent.Close())
	require.NoError(t, <-r.ended)
}
