package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hookladder/hookladder/dispatcher/client"
)

// serve is a dispatcher, hookladder serve, as a process.
type serve struct {
	api   string    // its URL
	began time.Time // right before its start
	calls *client.Client
	stop  func() error // in order; the lab does it too

	process *process
}

// stats is what a dispatcher has used.
type stats struct {
	cpu        float64 // microseconds, from its start
	allocs     float64 // objects, from its start
	rss        float64 // bytes
	peak       float64 // bytes, the most since its start
	goroutines float64
}

// serve starts a dispatcher on a store, with more settings, and waits until it
// is ready. It lasts until its stop, or the lab's.
func (l *lab) serve(ctx context.Context, st *store, env ...string) (*serve, error) {
	// Of settings given twice the last one counts.
	settings := append(append(l.environ(),
		"REDIS_URL="+st.url, "LISTEN=127.0.0.1:0", "LOG_FORMAT=json", "SIGNING_SECRET="+l.secret.Reveal(),
		"ALLOW_NETS=127.0.0.0/8", "RETENTION_MAX=1000000"), env...)
	p, err := l.spawn(ctx, "hookladder serve", l.o.Self, []string{"serve"}, settings)
	if err != nil {
		return nil, err
	}
	sv := &serve{process: p, began: p.began, stop: sync.OnceValue(func() error {
		l.callers.close() // a connection that was opened and never used would be waited for
		return p.stop()
	})}
	l.own(sv.stop)
	line, err := p.line(ctx, `"msg":"started"`)
	if err != nil {
		return nil, err
	}
	var started struct {
		Listen string `json:"listen"`
	}
	if err := json.Unmarshal(line, &started); err != nil || started.Listen == "" {
		return nil, fmt.Errorf("hookladder serve does not tell where it listens: %s", line)
	}
	sv.api = "http://" + started.Listen
	if sv.calls, err = client.New(sv.api, ""); err != nil {
		return nil, fmt.Errorf("call hookladder serve: %w", err)
	}
	p.guard(l.fault)
	return sv, until(ctx, "hookladder serve is ready", func() error {
		_, err := sv.calls.Ready(ctx)
		return err
	})
}

// cpu is what it has used so far, in microseconds.
func (sv *serve) cpu(ctx context.Context) (float64, error) {
	if micros, known := cpuOf(sv.process.cmd.Process.Pid); known {
		return micros, nil
	}
	s, err := sv.stats(ctx)
	return s.cpu, err
}

// stats asks for all of it, by a scrape of its metrics.
func (sv *serve) stats(ctx context.Context) (s stats, err error) {
	values := map[string]float64{}
	wanted := map[string]*float64{
		"process_cpu_seconds_total": &s.cpu, "go_memstats_mallocs_total": &s.allocs,
		"process_resident_memory_bytes": &s.rss, "go_goroutines": &s.goroutines,
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, sv.api+"/metrics", nil)
	if err != nil {
		return s, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return s, fmt.Errorf("read the metrics of hookladder serve: %w", err)
	}
	defer func() { err = errors.Join(err, res.Body.Close()) }()
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if wanted[name] == nil {
			continue
		}
		if values[name], err = strconv.ParseFloat(value, 64); err != nil {
			return s, fmt.Errorf("read the metrics of hookladder serve: %w", err)
		}
	}
	if err := lines.Err(); err != nil {
		return s, fmt.Errorf("read the metrics of hookladder serve: %w", err)
	}
	for name, value := range maps.All(values) {
		*wanted[name] = value
	}
	s.cpu *= 1e6
	pid := sv.process.cmd.Process.Pid
	if micros, known := cpuOf(pid); known {
		s.cpu = micros
	}
	s.peak = s.rss
	if peak, known := peakOf(pid); known {
		s.peak = peak
	}
	return s, nil
}

// settled waits until it has recorded n deliveries as delivered, and fails if
// there is anything else.
func (sv *serve) settled(ctx context.Context, n int) error {
	return sv.holds(ctx, "delivered", n)
}

// holds waits until all there is are n deliveries with that status.
func (sv *serve) holds(ctx context.Context, status string, n int) error {
	return until(ctx, fmt.Sprintf("all %d are %s", n, status), func() error {
		s, err := sv.calls.Stats(ctx)
		if err != nil {
			return err
		}
		maps.DeleteFunc(s.Counts, func(_ string, count int64) bool { return count == 0 })
		if len(s.Counts) != 1 || s.Counts[status] != int64(n) {
			return fmt.Errorf("there are %v", s.Counts)
		}
		return nil
	})
}
