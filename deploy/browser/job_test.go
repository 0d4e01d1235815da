package browser_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/browser/browsertest"
	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// When a job is done, what it sent still fails, dies and is delivered. Its page says at each time what the API says, in both
// windows, until all has ended.
func TestTheOutcomesOfAJobAreThoseOfTheAPI(t *testing.T) {
	t.Parallel()
	ladder := "LADDER=2s,3s,4s"
	if *nightWaiting > 0 {
		ladder = "LADDER=10s,20s,35s" // a minute
	}
	w := newWorld(t, "BREAKER=off", "QUICK_RETRIES=0", ladder)
	var mu sync.Mutex
	attempts := map[string]int{} // guarded by mu
	begin := make(chan struct{}) // closed when the page was looked at once
	answer := sync.OnceFunc(func() { close(begin) })
	t.Cleanup(answer)
	w.answers(func(rw http.ResponseWriter, path string) bool {
		<-begin
		mu.Lock()
		defer mu.Unlock()
		attempts[path]++
		var failures, of int
		_, _ = fmt.Sscanf(path, "after-%d-%d", &failures, &of)
		if attempts[path] <= failures {
			rw.WriteHeader(http.StatusServiceUnavailable)
			return true
		}
		_, _ = io.WriteString(rw, "taken")
		return true
	})
	for n, id := range named("late_", 10) { // after four failures a delivery is dead
		w.publish(wire.Message{ID: id, URL: w.at(fmt.Sprintf("after-%d-%d", n%5, n)), Delay: hour})
		_, err := w.Cancel(t.Context(), id, "")
		require.NoError(t, err)
	}
	j, err := w.StartJob(t.Context(), client.JobRetry, wire.JobRequest{Status: []string{"cancelled"}}) // their ladders begin anew
	require.NoError(t, err)
	var tabs []*browsertest.Tab
	for _, s := range screens {
		b := w.tab(t)
		s.on(b)
		b.Open(w.page("/console/jobs/" + j.ID))
		tabs = append(tabs, b)
	}
	state := func() (outcomes string, retrying int) {
		j, err := w.Job(t.Context(), j.ID)
		if err != nil || j.State != "done" || j.Outcomes == nil || j.Retrying == nil {
			return "", 1
		}
		return fmt.Sprintf("%d delivered, %d dead again, %d cancelled, %d still retrying", j.Outcomes.Delivered, j.Outcomes.Dead, j.Outcomes.Cancelled, *j.Retrying), *j.Retrying
	}
	last, states := "", 0
	for retrying := 1; retrying > 0; states++ {
		require.NoError(t, kit.Until(t.Context(), "the outcomes change", func() error {
			now, _ := state()
			if now == "" || now == last {
				return fmt.Errorf("they are: %s", now)
			}
			return nil
		}))
		for n, b := range tabs {
			b.Until(screens[n].name+" has the outcomes of the API", func() bool {
				last, retrying = state()
				return last != "" && strings.Contains(b.Text(), last)
			})
		}
		answer()
	}
	require.Greater(t, states, 1, "they changed after its end")
	require.Equal(t, "8 delivered, 2 dead again, 0 cancelled, 0 still retrying", last)
	for n, b := range tabs {
		b.WaitFor("done", last)
		b.Shot("job-outcomes-" + screens[n].name)
	}
}
