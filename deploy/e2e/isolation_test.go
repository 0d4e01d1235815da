package e2e_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// opened counts how many callbacks are open at each path, and the most there were.
type opened struct {
	mu   sync.Mutex
	open map[string]int
	most map[string]int
}

func newOpened() *opened { return &opened{open: map[string]int{}, most: map[string]int{}} }

func (o *opened) enter(path string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.open[path]++
	o.most[path] = max(o.most[path], o.open[path])
}

func (o *opened) leave(path string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.open[path]--
}

func (o *opened) now(path string) (open, most int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.open[path], o.most[path]
}

func TestThreeInstancesTogetherKeepALanesLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	instances := []*instance{w.serve(), w.serve(), w.serve()}
	crowd, pass := newOpened(), make(chan struct{})
	w.receiver.answers(func(_ http.ResponseWriter, req *http.Request, _ string, _ int) {
		crowd.enter(req.URL.Path)
		defer crowd.leave(req.URL.Path)
		select {
		case <-pass:
		case <-req.Context().Done():
		}
	})
	limits := map[string]int{"/one": 1, "/three": 3, "/five": 5} // each begins with 2, or less
	for path, most := range limits {
		instances[0].endpoint(path, wire.Endpoint{MaxInFlight: most})
	}
	const messages = 40
	for n := range messages {
		instances[n%3].publish(wire.Message{ID: fmt.Sprint("m", n)})
	}
	eventually(t, "two are open", func() bool { open, _ := crowd.now("/five"); return open == 2 })
	for range messages * len(limits) {
		select {
		case pass <- struct{}{}:
		case <-time.After(kit.Patience):
			require.FailNow(t, "nothing more comes")
		}
	}
	for path, most := range limits {
		w.receiver.until("all of "+path, func() bool { return len(w.receiver.at(path)) == messages })
		_, met := crowd.now(path)
		require.LessOrEqual(t, met, most, path)
	}
}
