package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/hookladder/hookladder/deploy/kit"
)

// serve is a dispatcher process, hookladder serve.
type serve struct {
	*kit.Instance
	stop func() error // ends it in order; the lab calls it too
}

// stats has the resources that a dispatcher has used.
type stats struct {
	cpu    float64 // microseconds from its start
	allocs float64 // objects from its start
	rss    float64 // bytes
	peak   float64 // bytes, the maximum from its start
}

// serve starts a dispatcher on a store, with more settings, and waits until it is
// ready. It runs until its stop, or until the end of the lab.
func (l *lab) serve(ctx context.Context, st *store, env ...string) (*serve, error) {
	environ := kit.Environ(st.url, l.secret, append(append(l.environ(), "RETENTION_MAX=1000000"), env...)...)
	p, err := l.start(ctx, kit.Command{Name: "hookladder serve", Path: l.o.Program, Args: []string{"serve"}, Env: environ})
	if err != nil {
		return nil, err
	}
	sv := &serve{stop: sync.OnceValue(func() error {
		l.callers.close() // otherwise the exit would wait for a connection that was opened and never used
		return stop(p)
	})}
	l.own(sv.stop)
	if sv.Instance, err = kit.Serve(ctx, p); err != nil {
		return nil, err
	}
	p.Guard(l.fault)
	return sv, sv.WaitReady(ctx)
}

// stop ends a child in order. If it was killed before, it has already exited.
func stop(p *kit.Process) error {
	if p.Killed() {
		return nil
	}
	return p.Interrupt()
}

// cpu returns its CPU time so far, in microseconds.
func (sv *serve) cpu(ctx context.Context) (float64, error) {
	if micros, known := kit.CPU(sv.Pid()); known {
		return micros, nil
	}
	s, err := sv.stats(ctx)
	return s.cpu, err
}

// stats queries the dispatcher's metrics.
func (sv *serve) stats(ctx context.Context) (s stats, err error) {
	wanted := map[string]*float64{
		"process_cpu_seconds_total": &s.cpu, "go_memstats_mallocs_total": &s.allocs,
		"process_resident_memory_bytes": &s.rss,
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, sv.URL+"/metrics", nil)
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
		if field := wanted[name]; field != nil {
			if *field, err = strconv.ParseFloat(value, 64); err != nil {
				return s, fmt.Errorf("read the metrics of hookladder serve: %w", err)
			}
		}
	}
	if err := lines.Err(); err != nil {
		return s, fmt.Errorf("read the metrics of hookladder serve: %w", err)
	}
	s.cpu *= 1e6
	if micros, known := kit.CPU(sv.Pid()); known {
		s.cpu = micros
	}
	s.peak = s.rss
	if peak, known := kit.PeakMemory(sv.Pid()); known {
		s.peak = peak
	}
	return s, nil
}

// holds polls until the dispatcher reports exactly n deliveries, all with that
// status.
func (sv *serve) holds(ctx context.Context, status string, n int) error {
	return kit.Until(ctx, fmt.Sprintf("all %d are %s", n, status), func() error {
		s, err := sv.Stats(ctx)
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
