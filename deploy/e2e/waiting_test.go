package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"

	"github.com/dustin/go-humanize"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// outage has destinations that fail until it is over. It answers the first callback of each when
// the first callbacks of all others have come too, which proves that the probes run in parallel.
type outage struct {
	sick         string // the path of the one that fails on
	destinations int

	mu       sync.Mutex // guards what follows
	over     bool
	first    map[string]bool // the destinations that were called since; true: the first was answered
	early    int             // callbacks that came before the first of their destination was answered
	complete chan struct{}   // closed when all were called
}

func (o *outage) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.over = true
}

func (o *outage) tooEarly() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.early
}

func (o *outage) answer(w http.ResponseWriter, r *http.Request, _ string, _ int) {
	o.mu.Lock()
	over := o.over
	answered, called := o.first[r.URL.Path]
	switch {
	case !over:
	case !called:
		o.first[r.URL.Path] = false
		if len(o.first) == o.destinations {
			close(o.complete)
		}
	case !answered:
		o.early++
	}
	o.mu.Unlock()
	if over && !called {
		select {
		case <-o.complete:
		case <-r.Context().Done():
		}
		o.mu.Lock()
		o.first[r.URL.Path] = true
		o.mu.Unlock()
	}
	if !over || r.URL.Path == o.sick {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

// One command retries the waiting deliveries after an outage that opened all breakers. It probes
// each destination, and sends the rest at the rate, except to the one that still fails.
func TestOneCommandSendsWhatWaitsAfterAnOutage(t *testing.T) {
	t.Parallel()
	const destinations, batch, rate = 10, 500, "3000/s"
	n := 1_000
	if other, err := strconv.Atoi(os.Getenv("JOBS_TEST_DELIVERIES")); err == nil {
		n = other
	}
	w := newWorld(t)
	o := &outage{sick: "/3", destinations: destinations, first: map[string]bool{}, complete: make(chan struct{})}
	w.receiver.answers(o.answer)
	// A breaker opens at the last failure of its destination, so that all of them wait for a rung.
	i := w.serve(fmt.Sprintf("BREAKER=%d/10m", n/destinations), "LADDER=5h,5h,5h", "QUICK_RETRIES=0", "LOG_LEVEL=info")
	for from := 0; from < n; from += batch {
		messages := make([]wire.Message, batch)
		for m := range messages {
			d := m % destinations
			messages[m] = wire.Message{ID: fmt.Sprintf("m-%06d", from+m), Topic: "t", Tenant: fmt.Sprint("shop_", d), URL: w.receiver.URL(0) + fmt.Sprint("/", d), Body: []byte("1")}
		}
		_, err := i.PublishBatch(t.Context(), messages)
		require.NoError(t, err)
	}
	i.counts("all wait", func(s wire.Stats) bool { return s.Counts["retrying"] == int64(n) })
	lanes, err := i.Lanes(t.Context(), 2*destinations, "")
	require.NoError(t, err)
	require.Len(t, lanes.Data, destinations)
	for _, l := range lanes.Data {
		require.Equal(t, "open", l.State)
	}
	o.end()
	_, failed := w.receiver.ids()

	healthy, left := n-n/destinations, n/destinations-1
	reported := onTerminal(t, i, "retry", "--status", "retrying", "--probe", "--resume", "--all", "--rate", rate, "--yes")
	require.Contains(t, reported, "of those done: ")
	require.Contains(t, reported, fmt.Sprintf("  %s left: probe_failed\n", humanize.Comma(int64(left))))
	require.Contains(t, reported, rate)

	jobs, err := i.Jobs(t.Context(), 1, "")
	require.NoError(t, err)
	job := jobs.Data[0]
	eventually(t, "what the job sent has ended", func() bool {
		job, err = i.Job(t.Context(), job.ID)
		return err == nil && job.State == "done" && job.Outcomes.Delivered == healthy && *job.Retrying == 1
	})
	require.Equal(t, []int{n, healthy + 1, 0, left}, []int{*job.Expected, job.Done, job.Failed, job.Left})
	require.Equal(t, wire.LeftReasons{"probe_failed": left}, job.Reasons)
	require.Equal(t, wire.JobOutcomes{Delivered: healthy}, *job.Outcomes)
	require.Equal(t, []any{rate, true}, []any{job.Rate, job.Probe})
	require.Zero(t, o.tooEarly(), "one of each destination goes first, and alone")
	_, all := w.receiver.ids()
	require.Equal(t, healthy+1, all-failed, "each once, and one of the destination that fails")
	t.Log("the job took", job.EndedAt.Sub(job.StartedAt.Time), "for", job.Done, "of", n)
	i.counts("the others wait on", func(s wire.Stats) bool {
		return s.Counts["retrying"] == int64(n/destinations) && s.Counts["delivered"] == int64(healthy)
	})
	shown := mustRun(t, []string{"HOOKLADDER_URL=" + i.URL}, "", "jobs", "show", job.ID)
	require.Contains(t, shown.out, fmt.Sprintf("of those done: %s delivered, 0 dead again, 0 cancelled, 1 not ended, 0 taken over", humanize.Comma(int64(healthy))))

	outcomes := map[string]int{}
	for a, err := range i.EachAttempt(t.Context(), client.AttemptFilter{Jobs: []string{job.ID}}) {
		require.NoError(t, err)
		require.Equal(t, job.ID, a.Job)
		outcomes[a.Outcome]++
	}
	require.Equal(t, map[string]int{"delivered": healthy, "retry": 1}, outcomes, "the attempts that the job sent")
}

// onTerminal runs a command of which a person sees the progress, and answers what it wrote at the
// end. Any character device but the null device is a terminal to it.
func onTerminal(t *testing.T, i *instance, args ...string) string {
	t.Helper()
	screen, err := os.OpenFile("/dev/zero", os.O_WRONLY, 0)
	require.NoError(t, err)
	defer func() { require.NoError(t, screen.Close()) }()
	ctx, stop := context.WithTimeout(context.Background(), kit.Patience)
	defer stop()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, mustBinary(t), args...)
	cmd.Env, cmd.Dir = []string{kit.NoExitSleep, "HOOKLADDER_URL=" + i.URL}, t.TempDir()
	cmd.Stdout, cmd.Stderr = &out, screen
	require.NoError(t, cmd.Run(), out.String())
	return out.String()
}
