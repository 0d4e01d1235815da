package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hookladder/hookladder/deploy/kit"
)

const (
	isolationRate                             = 50 // per second, to the healthy one
	isolationMessages, isolationMessagesQuick = 8 * isolationRate, 2 * isolationRate
	isolationHung, isolationHungQuick         = 200, 50
	isolationBacklog                          = 60 // messages for each hung receiver: enough even on a busy machine
	isolationTimeout, isolationTimeoutQuick   = 2 * time.Second, time.Second
	isolationSlack                            = 500 * time.Millisecond // until all timeouts are settled
)

// isolationPart measures how hung destinations affect a healthy one. A hung
// destination accepts connections and never responds. Each run has a store and an
// instance of its own, because the hung attempts would disturb other parts.
func isolationPart() part {
	return part{
		name:  "isolation",
		about: "from publish to arrival at a healthy destination at 50/s, beside 0 and 200 that hang",
		measure: func(ctx context.Context, l *lab, s *sample) (err error) {
			timeout := isolationTimeout
			if l.o.Quick {
				timeout = isolationTimeoutQuick
			}
			w, err := newSite(ctx, l, "ATTEMPT_TIMEOUT="+timeout.String(), "SHUTDOWN_GRACE=0s", "BREAKER=off")
			if err != nil {
				return err
			}
			defer stopping(&err, w.stop)
			if err := w.warm(ctx, 1); err != nil {
				return err
			}
			n := l.size(isolationMessages, isolationMessagesQuick)
			alone, err := w.paced(ctx, isolationRate, n)
			if err != nil {
				return err
			}
			hung, err := hang(l.size(isolationHung, isolationHungQuick))
			if err != nil {
				return err
			}
			defer hung.stop()
			if err := w.pour(ctx, hung, timeout); err != nil {
				return err
			}
			beside, err := w.paced(ctx, isolationRate, n)
			if err != nil {
				return err
			}
			if hung.now() == 0 {
				return errors.New("none of those that hang was being called any more")
			}
			s.addSpread("isolation, none hung", alone)
			s.addSpread("isolation, some hung", beside)
			s.add("isolation, some hung: how many", "", float64(len(hung.ports)))
			return nil
		},
	}
}

const (
	newcomersTimeout                = 30 * time.Second // of an attempt: longer than the measurement
	newcomersGrown, newcomersHung   = 8, 100
	newcomersGrowth, newcomersPours = 200, 150 // messages for each grown receiver while it responds, and when it hangs
	newcomersBacklog                = 3        // messages for each hung receiver
	newcomersPermits                = 1024
)

// newcomersPart measures how soon a destination without any attempt until now gets its
// messages while nearly all permits are used by others. Quick destinations, which may
// have many attempts at once, begin to hang. Then new destinations hang, too. No
// attempt times out during the measurement.
func newcomersPart() part {
	return part{
		name:  "newcomers",
		about: "from publish to arrival at a new destination at 50/s, beside 8 quick ones that begin to hang and 100 new ones that hang",
		measure: func(ctx context.Context, l *lab, s *sample) (err error) {
			w, err := newSite(ctx, l, "ATTEMPT_TIMEOUT="+newcomersTimeout.String(), "SHUTDOWN_GRACE=0s", "LADDER=1h",
				fmt.Sprint("MAX_IN_FLIGHT=", newcomersPermits))
			if err != nil {
				return err
			}
			defer stopping(&err, w.stop)
			grown, err := newTurncoats(newcomersGrown)
			if err != nil {
				return err
			}
			defer grown.stop()
			hung, err := hang(newcomersHung)
			if err != nil {
				return err
			}
			defer hung.stop()
			if err := w.turn(ctx, grown); err != nil {
				return err
			}
			run := l.newRun("hung")
			err = w.fill(ctx, newcomersHung*newcomersBacklog, dueBatch, func(i int) string {
				return message(messageID(run, i), hung.url(i%newcomersHung), "")
			})
			if err != nil {
				return err
			}
			took, err := w.paced(ctx, isolationRate, l.size(isolationMessages, isolationMessagesQuick))
			if err != nil {
				return err
			}
			s.addSpread("newcomers", took)
			s.add("newcomers: hung ones called", "", float64(hung.tried()))
			s.add("newcomers: attempts that hang", "", float64(hung.now()+grown.now()))
			return nil
		},
	}
}

// turn lets quick receivers grow, then lets them hang, and waits until they use the
// permits that they may have.
func (w *site) turn(ctx context.Context, grown *turncoats) error {
	run := w.lab.newRun("grow")
	pour := func(from, each int) error {
		return w.fill(ctx, each*len(grown.urls), dueBatch, func(i int) string {
			return message(messageID(run, from+i), grown.urls[i%len(grown.urls)], "")
		})
	}
	if err := pour(0, newcomersGrowth); err != nil {
		return err
	}
	n := newcomersGrowth * len(grown.urls)
	err := kit.Until(ctx, "the quick receivers have all messages", func() error {
		if have := int(grown.answered.Load()); have < n {
			return fmt.Errorf("%d of %d", have, n)
		}
		return nil
	})
	if err != nil {
		return err
	}
	grown.hang.Store(true)
	if err := pour(n, newcomersPours); err != nil {
		return err
	}
	return kit.Until(ctx, "the quick receivers hang", func() error {
		if now := grown.now(); now < newcomersPermits/2 {
			return fmt.Errorf("%d attempts hang", now)
		}
		return nil
	})
}

// turncoats are receivers that respond at once until hang is set.
type turncoats struct {
	urls     []string
	server   *http.Server // of all of them
	serving  sync.WaitGroup
	hang     atomic.Bool
	answered atomic.Int64
	attempts atomic.Int64 // that hang now
}

func newTurncoats(n int) (*turncoats, error) {
	t := &turncoats{}
	t.server = &http.Server{Handler: t, ReadHeaderTimeout: kit.Patience}
	for range n {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.stop()
			return nil, err
		}
		t.urls = append(t.urls, "http://"+ln.Addr().String()+"/")
		t.serving.Go(func() { _ = t.server.Serve(ln) })
	}
	return t, nil
}

func (t *turncoats) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	if !t.hang.Load() {
		t.answered.Add(1)
		return
	}
	t.attempts.Add(1)
	defer t.attempts.Add(-1)
	<-r.Context().Done()
}

// now returns the number of calls that hang.
func (t *turncoats) now() int { return int(t.attempts.Load()) }

func (t *turncoats) stop() {
	_ = t.server.Close() // ends the context of each call
	t.serving.Wait()
}

// pour publishes the backlogs of the hung receivers. It waits until each receiver has
// had one call and one timeout. Before that the dispatcher does not know that their
// lanes hang.
func (w *site) pour(ctx context.Context, hung *hung, timeout time.Duration) error {
	run := w.lab.newRun("hung")
	err := w.fill(ctx, len(hung.ports)*isolationBacklog, dueBatch, func(i int) string {
		return message(messageID(run, i), hung.url(i%len(hung.ports)), "")
	})
	if err != nil {
		return err
	}
	called, cancel := context.WithTimeout(ctx, kit.Patience)
	defer cancel()
	select {
	case <-hung.all:
	case <-called.Done():
		return fmt.Errorf("only %d of the %d that hang were called: %w", hung.tried(), len(hung.ports), context.Cause(called))
	}
	if !kit.Rest(ctx, timeout+isolationSlack) {
		return context.Cause(ctx)
	}
	return nil
}

// hung has ports that accept connections, read requests and never respond.
type hung struct {
	ports []net.Listener
	all   chan struct{} // closed when each port was called
	loops sync.WaitGroup

	mu     sync.Mutex // guards the fields below
	conns  map[net.Conn]bool
	called map[int]bool
	ended  bool
}

// hang starts n hung ports.
func hang(n int) (*hung, error) {
	h := &hung{all: make(chan struct{}), conns: map[net.Conn]bool{}, called: map[int]bool{}}
	for i := range n {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			h.stop()
			return nil, err
		}
		h.ports = append(h.ports, ln)
		h.loops.Go(func() { h.accept(i, ln, n) })
	}
	return h, nil
}

func (h *hung) url(i int) string { return "http://" + h.ports[i].Addr().String() + "/" }

func (h *hung) accept(i int, ln net.Listener, n int) {
	for {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		h.mu.Lock()
		if h.ended {
			h.mu.Unlock()
			_ = conn.Close()
			return
		}
		h.conns[conn] = true
		if !h.called[i] {
			if h.called[i] = true; len(h.called) == n {
				close(h.all)
			}
		}
		h.loops.Go(func() { h.swallow(conn) })
		h.mu.Unlock()
	}
}

// swallow reads until the caller gives up.
func (h *hung) swallow(conn net.Conn) {
	_, _ = io.Copy(io.Discard, conn)
	_ = conn.Close()
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.conns, conn)
}

// tried returns the number of ports that were called.
func (h *hung) tried() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.called)
}

// now returns the number of calls that hang.
func (h *hung) now() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.conns)
}

func (h *hung) stop() {
	for _, ln := range h.ports {
		_ = ln.Close()
	}
	h.mu.Lock()
	h.ended = true
	for conn := range h.conns {
		_ = conn.Close()
	}
	h.mu.Unlock()
	h.loops.Wait()
}
