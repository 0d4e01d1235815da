package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hookladder/hookladder/deploy/kit"
)

const (
	abuseStrangers, abuseStrangersQuick   = 1000, 100 // connections that send nothing
	abuseAnnouncers, abuseAnnouncersQuick = 500, 50   // callers that announce 4 MiB and send one byte
	abuseTiny, abuseTinyQuick             = 960, 96   // receivers that send many small headers
	abuseHung, abuseHungQuick             = 128, 16   // receivers that never respond
	abuseRate                             = 100       // publishes per second during the attack
	abuseMessages, abuseMessagesQuick     = 10 * abuseRate, 2 * abuseRate
	abuseSpread                           = 3 * time.Second  // time over which the silent connections start
	abuseTimeout                          = 20 * time.Second // timeout of an attempt: longer than the whole abuse
)

// abusePart measures the memory of a dispatcher and the time of a publish during
// abuse by strangers, callers and receivers at once. Each run has a store and an
// instance of its own.
func abusePart() part {
	return part{
		name:  "abuse",
		about: "memory and publishes beside 1,000 silent connections, 500 announced bodies, 960 receivers with tiny headers and 128 hung ones",
		measure: func(ctx context.Context, l *lab, s *sample) (err error) {
			w, err := newSite(ctx, l, storeOptions{}, "ATTEMPT_TIMEOUT="+abuseTimeout.String(), "LADDER=1h", "SHUTDOWN_GRACE=0s")
			if err != nil {
				return err
			}
			defer stopping(&err, w.stop)
			if err := w.warm(ctx, 1); err != nil {
				return err
			}
			a, err := w.abuse(ctx)
			if err != nil {
				return err
			}
			defer a.stop()
			took, err := w.publishes(ctx, l.size(abuseMessages, abuseMessagesQuick))
			if err != nil {
				return err
			}
			lost, err := w.missing(ctx, a.published)
			if err != nil {
				return err
			}
			st, err := w.serve.stats(ctx)
			if err != nil {
				return err
			}
			s.addSpread("abuse, publish", took)
			s.add("abuse: peak memory", "MiB", st.peak/(1<<20))
			s.add("abuse: lost", "", float64(lost))
			if lost != 0 {
				return fmt.Errorf("%d messages were accepted and are nowhere", lost)
			}
			return nil
		},
	}
}

// publishes makes n publishes to a healthy destination and waits until all have
// arrived. It returns how long each publish took, sorted.
func (w *site) publishes(ctx context.Context, n int) ([]time.Duration, error) {
	run := w.lab.newRun("beside")
	took := make([]time.Duration, n)
	_, err := pace(ctx, abuseRate, n, func(i int) error {
		began := time.Now()
		defer func() { took[i] = time.Since(began) }()
		return w.lab.callers.publish(w.serve.URL, w.message(run, i, 1, ""))
	})
	if err != nil {
		return nil, err
	}
	if err := w.await(ctx, run, n); err != nil {
		return nil, err
	}
	slices.Sort(took)
	return took, w.receiver.forget(ctx, run)
}

// missing returns how many of all messages the store does not have. Delivered
// messages do not count as missing.
func (w *site) missing(ctx context.Context, published int) (int, error) {
	st, err := w.serve.Stats(ctx)
	if err != nil {
		return 0, err
	}
	known := 0
	for _, n := range st.Counts {
		known += int(n)
	}
	return w.ended + published - known, nil
}

// abuse is the abuse of a dispatcher by all misbehaving clients and receivers at
// once.
type abuse struct {
	published int // messages to the receivers that misbehave
	tiny      *hung
	hung      *hung
	end       context.CancelFunc
	callers   sync.WaitGroup
}

// abuse starts the abuse, and waits until the dispatcher has called each receiver.
func (w *site) abuse(ctx context.Context) (a *abuse, err error) {
	l := w.lab
	a = &abuse{}
	var life context.Context
	life, a.end = context.WithCancel(ctx)
	defer func() {
		if err != nil {
			a.stop()
		}
	}()
	if a.hung, err = hang(l.size(abuseHung, abuseHungQuick)); err != nil {
		return nil, err
	}
	if a.tiny, err = hangWith(l.size(abuseTiny, abuseTinyQuick), tinyHeaders); err != nil {
		return nil, err
	}
	addr := strings.TrimPrefix(w.serve.URL, "http://")
	for range l.size(abuseStrangers, abuseStrangersQuick) {
		a.callers.Go(func() {
			// The dispatcher closes each connection after some seconds.
			// The starts are spread, because otherwise all connections
			// would return at once again and again. This process would
			// then use as much CPU as the dispatcher.
			if kit.Rest(life, rand.N(abuseSpread)) {
				stay(life, addr, "")
			}
		})
	}
	const announcing = "POST /v1/messages/batch HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 4194304\r\n\r\n{"
	for range l.size(abuseAnnouncers, abuseAnnouncersQuick) {
		a.callers.Go(func() { stay(life, addr, announcing) })
	}
	run := l.newRun("abuse")
	all := slices.Concat(a.hung.ports, a.tiny.ports)
	a.published = len(all)
	err = w.fill(ctx, len(all), dueBatch, func(i int) string {
		return message(messageID(run, i), "http://"+all[i].Addr().String()+"/", "")
	})
	if err != nil {
		return nil, err
	}
	called, cancel := context.WithTimeout(ctx, kit.Patience)
	defer cancel()
	select {
	case <-a.tiny.all: // receivers that hang may use all permits before the last of them is called
		kit.Rest(ctx, abuseSpread)
		return a, context.Cause(ctx)
	case <-called.Done():
		return nil, fmt.Errorf("only %d of %d receivers with tiny headers were called: %w", a.tiny.tried(), len(a.tiny.ports), context.Cause(called))
	}
}

func (a *abuse) stop() {
	a.end()
	a.callers.Wait()
	if a.hung != nil {
		a.hung.stop()
	}
	if a.tiny != nil {
		a.tiny.stop()
	}
}

// stay opens a connection, sends a text and then nothing. It opens a new connection
// when the old one is closed.
func stay(ctx context.Context, addr, text string) {
	var d net.Dialer
	for ctx.Err() == nil {
		conn, err := d.DialContext(ctx, "tcp", addr)
		if err != nil {
			kit.Rest(ctx, 100*time.Millisecond)
			continue
		}
		stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
		_, err = io.WriteString(conn, text)
		if err == nil {
			_, _ = io.Copy(io.Discard, conn)
		}
		stop()
		_ = conn.Close()
		kit.Rest(ctx, 10*time.Millisecond) // a pause, in case all are closed at once
	}
}

// tinyHeaders sends a response with small headers. Every second receiver sends far too many of
// them. The others send the maximum that the dispatcher accepts, and a body that never ends.
func tinyHeaders(i int, conn net.Conn) {
	b := make([]byte, 4096)
	if _, err := conn.Read(b); errors.Is(err, io.EOF) {
		return
	}
	var text strings.Builder
	text.WriteString("HTTP/1.1 200 OK\r\nContent-Length: 65536\r\n")
	if i%2 == 0 {
		for n := range 10_000 {
			fmt.Fprintf(&text, "%d:\r\n", n)
		}
	} else {
		for n := range 95 {
			fmt.Fprintf(&text, "h%d: %s\r\n", n, strings.Repeat("x", 150))
		}
	}
	text.WriteString("\r\nx")
	_, _ = io.WriteString(conn, text.String())
}
